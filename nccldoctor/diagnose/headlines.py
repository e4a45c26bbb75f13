"""Headlines of answers that no single rule can word: several independent stalls, nothing readable, nothing known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nccldoctor.identify.case import Case
from nccldoctor.model import CauseClass, Finding, Gap, SourceKind


def with_headline(findings: tuple[Finding, ...], case: Case) -> tuple[Finding, ...]:
    """The findings, the verdict's headline replaced where the answer as a whole says more than its rule knew."""
    verdict = findings[0]
    if verdict.cause is CauseClass.UNDETERMINED and not case.events and not len(case.calls) and not case.dumps:
        return (replace(verdict, headline=describe_no_data([s.kind for s in case.sources], case.gaps)), *findings[1:])
    return findings


def describe_no_data(kinds: Sequence[SourceKind], gaps: Sequence[Gap] = ()) -> str:
    """Says why files hold nothing to judge: there are none, they are empty, of unknown format, or about something else."""
    count = f"{len(kinds):,} file{'' if len(kinds) == 1 else 's'}"
    lost = [gap for gap in gaps if gap.lost]
    if not kinds and lost:
        more = f" (and {len(lost) - 1} more)" if len(lost) > 1 else ""
        return f"Nothing could be read: {lost[0].what}{more} is damaged, cut off or out of reach"
    if not kinds:
        return "No file was found: there is nothing to judge"
    if all(kind is SourceKind.EMPTY for kind in kinds):
        return f"Empty: the {count} read {'holds' if len(kinds) == 1 else 'hold'} nothing"
    names = dict.fromkeys(gap.looks_like for gap in gaps if gap.looks_like)
    if names:
        which = "the file" if len(kinds) == 1 else f"one of the {count}"
        return (
            f"Not enough data: {which} looks like {' or '.join(list(names)[:3])}; no line in it shows a known failure"
        )
    if all(kind in (SourceKind.EMPTY, SourceKind.UNKNOWN, SourceKind.UNREADABLE, SourceKind.JSON) for kind in kinds):
        return f"Unknown format: nothing in the {count} read is a log or a dump that is known here"
    return f"Not enough data: no line of the {count} looks like a distributed job"
