"""The headline of an answer that no rule can word: nothing is readable, or nothing in it is known."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from nccldoctor.diagnose.phrases.say import say
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
    lost = [gap for gap in gaps if gap.lost]
    if not kinds:
        if not lost:
            return say("trouble.no-files-found")
        return say("trouble.nothing-readable", what=lost[0].what, more=(len(lost) - 1) or None)
    if all(kind is SourceKind.EMPTY for kind in kinds):
        return say("trouble.all-empty", count=len(kinds))
    names = dict.fromkeys(gap.looks_like for gap in gaps if gap.looks_like)
    if names:
        return say("trouble.looks-foreign", count=len(kinds), names=list(names)[:3])
    if all(kind in (SourceKind.EMPTY, SourceKind.UNKNOWN, SourceKind.UNREADABLE, SourceKind.JSON) for kind in kinds):
        return say("trouble.unknown-format", count=len(kinds))
    return say("trouble.no-job", count=len(kinds))
