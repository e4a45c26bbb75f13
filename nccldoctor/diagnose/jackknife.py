"""Judges a case again without each damaged or odd source: a high confidence must not rest on one of them.

Example: a cut dump of rank 5 makes rank 5 the culprit. Without that dump nobody can be named, so the confidence is medium.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from nccldoctor.diagnose.phrases.say import doubt_of
from nccldoctor.identify.case import Case
from nccldoctor.identify.runs.separate_jobs import without_sources
from nccldoctor.ingest.ingest import Ingested
from nccldoctor.model import Confidence, ConfidenceIn, Doubt, Finding, Source

MOST = 6
"""Sources that are left out one by one; more of them are left out together."""


def doubted_by_damage(
    finding: Finding, case: Case, read: Ingested, judge: Callable[[Ingested], Finding | None]
) -> Finding:
    """The finding, with a doubt where it falls without one of the damaged or odd sources.

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
