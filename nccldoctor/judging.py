"""Judges what was read: identify, align, diagnose. A source that breaks one of these stages is left out, and the rest is judged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from nccldoctor.align.facts import Facts, align
from nccldoctor.attempts import Broken, attempt
from nccldoctor.diagnose.decide import Judgement
from nccldoctor.diagnose.diagnose import diagnose, with_settled
from nccldoctor.diagnose.headlines import with_headline
from nccldoctor.diagnose.missing_input import doubted_by_damage
from nccldoctor.events import Note
from nccldoctor.identify.case import Case
from nccldoctor.identify.flaws.swallowed_timeouts import without_later_calls
from nccldoctor.identify.identify import identify
from nccldoctor.identify.runs.separate_jobs import one_job, without_sources
from nccldoctor.identify.runs.separate_worlds import one_world
from nccldoctor.identify.runs.stale_dumps import newest_case
from nccldoctor.ingest.ingest import Ingested
from nccldoctor.model import Finding, Gap, Proposal, Source

MOST_LEFT_OUT = 8
"""Sources that are left out one by one; then all of their kinds are."""

_T = TypeVar("_T")


class Judged(Struct, frozen=True):
    """The facts of one job, and what was judged of them; ``broken`` are the rules that failed."""

    facts: Facts
    findings: tuple[Finding, ...]
    proposals: tuple[Proposal, ...]
    broken: tuple[Broken, ...]


def judge(read: Ingested) -> Judged:
    """The newest run of one job in what was read, judged; no high confidence rests on a damaged source alone."""
    job, facts, judgement = _without_breaking_sources(read, _judge)
    verdict = doubted_by_damage(judgement.findings[0], facts.case, job, _verdict_again)
    findings = with_headline((verdict, *judgement.findings[1:]), facts.case)
    return Judged(facts, (with_settled(findings[0], facts.case), *findings[1:]), judgement.proposals, judgement.broken)


def identify_all(read: Ingested) -> Case:
    """Everything that was read, nothing judged and no run left out."""
    return _without_breaking_sources(read, identify)


def _judge(read: Ingested) -> tuple[Ingested, Facts, Judgement]:
    job = one_world(one_job(_without_strangers_marks(read)))
    facts = align(without_later_calls(newest_case(job)))
    return job, facts, diagnose(facts)


def _without_strangers_marks(read: Ingested) -> Ingested:
    """What was read, without the marked errors of other programs: of files beside a job that name no rank."""
    known = [any(not (isinstance(e, Note) and e.what == "marked") for e in one.events) for one in read.parsed]
    if not any(known) and not read.batch.dumps:
        return read
    told = zip(read.parsed, known, strict=True)
    kept = (one if is_known or one.source.rank is not None else replace(one, events=()) for one, is_known in told)
    return replace(read, parsed=tuple(kept))


def _verdict_again(read: Ingested) -> Finding | None:
    """The verdict about a part of what was read; None where that breaks."""
    answer = attempt(
        "judging without a damaged source", lambda: diagnose(align(without_later_calls(newest_case(read)))).findings[0]
    )
    return None if isinstance(answer, Broken) else answer


def _without_breaking_sources(read: Ingested, work: Callable[[Ingested], _T]) -> _T:
    """The result of ``work`` on what was read, without the sources at which it breaks.

    Such a source is found by halving: the shortest beginning of the input at which ``work`` breaks ends with it. After
    :data:`MOST_LEFT_OUT` of them, all files of their kinds are left out.
    """
    left_out: list[Source] = []
    for _ in range(min(MOST_LEFT_OUT, len(read.parsed))):
        answer = attempt("judging the input", partial(work, read))
        if not isinstance(answer, Broken):
            return answer
        sources: Sequence[Source] = [parsed.source for parsed in read.parsed]
        works, breaks = 0, len(sources)
        while breaks - works > 1:
            middle = (works + breaks) // 2
            part = without_sources(read, frozenset(source.id for source in sources[middle:]), ())
            if isinstance(attempt("judging a part of the input", partial(work, part)), Broken):
                breaks = middle
            else:
                works = middle
        left_out.append(sources[breaks - 1])
        read = _without(read, left_out[-1:], f"the analysis broke on it ({answer.why}), so it was left out")
    kinds = {source.kind for source in left_out}
    alike = [parsed.source for parsed in read.parsed if parsed.source.kind in kinds]
    return work(_without(read, alike, "the analysis broke on several files like it, so it was left out"))


def _without(read: Ingested, sources: Sequence[Source], why: str) -> Ingested:
    """Leave out some sources; each becomes a Gap that says why."""
    gaps = [Gap(source.path, why, source=source.id, lost=True) for source in sources]
    return without_sources(read, frozenset(source.id for source in sources), gaps)
