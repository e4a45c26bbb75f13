"""Finds lost input that would have refuted a verdict, and judges again without damaged and odd sources.

A file that is cut off, torn or unreadable may hold anything. It lowers the confidence where a refutation would have been in it: a record
of the named ranks, of ranks that are not shown to wait, of members whose calls are compared. It changes nothing where the lines that
were read go on past the first complaint, where the file is of a rank that waits by other records, or where the counters of a cut dump
survived and say how far its rank came.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from nccldoctor.align.facts import Facts
from nccldoctor.diagnose.hypothesis import Conclusion
from nccldoctor.diagnose.phrases.say import doubt_of
from nccldoctor.discover.filename_hints import hints
from nccldoctor.identify.case import Case
from nccldoctor.identify.runs.separate_jobs import without_sources
from nccldoctor.ingest.ingest import Ingested
from nccldoctor.model import CauseClass, Confidence, ConfidenceIn, Doubt, Family, Finding, Gap, Source, SourceKind
from nccldoctor.model.ranks import Ranks

OF_MACHINES = frozenset(
    {CauseClass.DIED, CauseClass.FROZEN, CauseClass.HARDWARE, CauseClass.UNFINISHED, CauseClass.NETWORK}
)
"""Classes that a kernel log may refute."""

MEMBERS_KNOWN = frozenset({"config", "world", "nccl", "seats"})
"""Ways to know a group's members even where records of theirs are lost."""

NAMED = 2
"""Lost files that are named."""


def relevant_losses(facts: Facts, draft: Conclusion) -> tuple[Gap, ...]:
    """The losses that may hide what refutes a conclusion."""
    if draft.cause in (CauseClass.NONE, CauseClass.UNDETERMINED):  # the one says so itself, the other claims nothing
        return ()
    lost = [gap for gap in facts.case.gaps if gap.lost]
    asked = _ranks_that_could_refute(facts, draft) if lost else Ranks()
    sources = {source.id: source for source in facts.case.sources}
    quoted = {e.where.source for e in draft.evidence if e.where is not None and e.supports}
    return tuple(
        gap
        for gap in lost
        if _is_relevant(facts, draft, asked, gap, sources.get(-1 if gap.source is None else gap.source), quoted)
    )


def has_skipped_calls(facts: Facts, lost: Sequence[Gap]) -> bool:
    """True where a lost part of a dump lies between calls that are left. Those of peers cannot be laid beside them."""
    dumps = {source.id for source in facts.case.sources if source.kind is SourceKind.RECORDER}
    return any(gap.holes and gap.source in dumps for gap in lost)


def loss_words(lost: Sequence[Gap]) -> str:
    """The lost files by name and reason: ``rank_7.log (cut off) and 2 more``."""
    files = list(dict.fromkeys(f"{gap.what} ({gap.why.split(':')[0].split(' (')[0]})" for gap in lost))
    more = f" and {len(files) - NAMED} more" if len(files) > NAMED else ""
    return f"{', '.join(files[:NAMED])}{more}"


def _ranks_that_could_refute(facts: Facts, draft: Conclusion) -> Ranks:
    """The ranks whose records could refute a conclusion.

    Example: rank 7 never issued ALLREDUCE #18: a record of rank 7 could; ranks that are shown inside the call could not.
    """
    call, case = draft.call, facts.case
    ranks = draft.ranks | draft.suspects
    if call is None:
        return ranks | (r for r in case.world if not facts.liveness.activity(r).alarms)
    ranks = ranks | call.missing | call.unknown
    if draft.cause.family is Family.DISAGREE or draft.cause is CauseClass.UNFINISHED:
        group = case.groups[call.group]
        ranks = ranks | group.members
        if group.learned not in MEMBERS_KNOWN or group.desc == "default_pg":
            return ranks | case.world  # whatever a damaged list of its members says
    return ranks


def _is_relevant(
    facts: Facts, draft: Conclusion, asked: Ranks, gap: Gap, source: Source | None, quoted: set[int]
) -> bool:
    """True when the lost part of a file may hold a record of a rank asked about.

    In a kernel log it may hold an event of the machine: that matters only for causes in hardware or the operating
    system.
    """
    ranks = gap.ranks or _owner_of(gap, source)
    if source is None:
        return not ranks or bool(ranks & asked)
    if source.kind is SourceKind.KERNEL_LOG:
        return draft.cause in OF_MACHINES
    if source.kind is SourceKind.RECORDER and draft.cause.family is Family.ABSENT:
        return bool((ranks - _ranks_with_counters(facts, draft)) & asked) if ranks else True
    if source.kind is not SourceKind.RECORDER and not gap.holes and _has_lines_after_alarm(facts, source):
        return source.id in quoted and not ranks
    return bool(ranks & asked) if ranks else True


def _ranks_with_counters(facts: Facts, draft: Conclusion) -> Ranks:
    """Ranks whose counters say how far they came: PyTorch writes them before the entries, which a cut dump lost."""
    if draft.call is None:
        return Ranks()
    group = draft.call.group
    return Ranks(
        r for (g, r), front in facts.progress.by_group_rank.items() if g == group and front.known_by == "status"
    )


def _owner_of(gap: Gap, source: Source | None) -> Ranks:
    """Returns the rank that wrote a file, by its contents, else by its name.

    A gap of a dump names its rank itself, and none where the process groups contradict the name of the file.
    """
    if source is not None and source.kind is SourceKind.RECORDER:
        return Ranks()
    rank = source.rank if source is not None else hints([gap.what], [False])[0].rank
    return Ranks([rank] if rank is not None else [])


def _has_lines_after_alarm(facts: Facts, source: Source) -> bool:
    """True when lines of a file that were read go on after the first complaint."""
    if math.isnan(facts.liveness.alarm):
        return False
    times = (facts.liveness.time(e) for e in facts.case.events if e.place.source == source.id)
    return max((at for at in times if not math.isnan(at)), default=-math.inf) >= facts.liveness.alarm


MOST = 6
"""Sources that are left out one by one; more of them are left out together."""


def doubted_by_damage(
    finding: Finding, case: Case, read: Ingested, judge: Callable[[Ingested], Finding | None]
) -> Finding:
    """The finding, with a doubt where it falls without one of the damaged or odd sources.

    Example: a cut dump of rank 5 makes rank 5 the culprit. Without that dump nobody can be named, so the confidence is medium.

    ``judge`` gives the verdict about what is left, None where nothing is left to judge. A *high* confidence is tested, and the ranks of a
    *medium* one: where the whole sources alone point to others, it is *low*.
    """
    levels = (finding.confidence_in.ranks, finding.confidence_in.cause)
    if Confidence.HIGH not in levels and (not finding.ranks or levels[0] is not Confidence.MEDIUM):
        return finding
    for sources in _left_out(case):
        again = judge(without_sources(read, frozenset(source.id for source in sources), ()))
        same_ranks = again is not None and again.ranks == finding.ranks
        if same_ranks and again is not None and again.cause is finding.cause:
            continue
        most = _most_of_ranks(finding, again)
        if Confidence.HIGH not in levels and most is not Confidence.LOW:
            continue
        names = sources[0].path + (f" and {len(sources) - 1} more" if len(sources) > 1 else "")
        return _doubted(finding, replace(doubt_of("answer-without", names=names), ranks=most))
    return finding


def _left_out(case: Case) -> Iterator[tuple[Source, ...]]:
    """The damaged and odd sources one by one, or all together where they are many."""
    marked = {gap.source for gap in case.gaps if gap.source is not None and (gap.lost or gap.odd)}
    sources = tuple(source for source in case.sources if source.id in marked and source.size)
    yield from ((source,) for source in sources) if len(sources) <= MOST else (sources,)


def _most_of_ranks(finding: Finding, again: Finding | None) -> Confidence:
    """What is left of the confidence in the ranks: *low* where the whole sources alone point to others."""
    if again is None or not again.ranks:
        return Confidence.HIGH if again is not None and not finding.ranks else Confidence.MEDIUM
    if again.ranks == finding.ranks:
        return Confidence.HIGH
    is_sure = again.confidence_in.ranks in (Confidence.HIGH, Confidence.MEDIUM)
    return Confidence.LOW if is_sure and not again.ranks & finding.ranks else Confidence.MEDIUM


def _doubted(finding: Finding, doubt: Doubt) -> Finding:
    before = finding.confidence_in
    level = ConfidenceIn(Confidence.lowest((before.ranks, doubt.ranks)), Confidence.lowest((before.cause, doubt.cause)))
    return replace(
        finding,
        confidence_in=level,
        doubts=(doubt, *finding.doubts),
        headline=(finding.if_class_unsure if level.ranks is Confidence.HIGH else finding.if_unsure) or finding.headline,
    )
