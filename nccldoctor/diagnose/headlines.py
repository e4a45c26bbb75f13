"""What a headline says beside its rule: that nothing is readable, and what the last lines of the logs tell.

The line that only a blamed rank printed says why and never who: a verdict names the same ranks at the same confidence with it and without.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from nccldoctor.align.facts import Facts
from nccldoctor.diagnose.phrases.headline import with_sentence
from nccldoctor.diagnose.phrases.say import say
from nccldoctor.events import Note, Phase
from nccldoctor.identify.case import Case
from nccldoctor.model import CauseClass, Evidence, Family, Finding, Gap, OnlyHere, SourceKind
from nccldoctor.words.sanitize import line

LONGEST = 90
"""Characters of a line that a claim repeats."""


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


def with_lone_lines(facts: Facts, finding: Finding, found: tuple[OnlyHere, ...]) -> Finding:
    """The finding with the lines that only its ranks printed: as evidence, and what fits in the headline."""
    cited = {item.where for item in finding.evidence}
    new = [one for one in found if one.where not in cited]
    told = replace(finding, only_here=found, evidence=(*finding.evidence, *map(_evidence, new)))
    if not found or finding.family is Family.SLOW:
        return told
    notes = facts.case.events.of_kind(Note, Phase)
    worded = {(e.rank, e.what) for e in notes if e.place in cited}  # a rule that cites them says it in its own words
    if any((e.rank, e.what) in worded for e in notes if e.place == found[0].where):
        return told
    one, some = found[0], len(found[0].compared) if facts.case.world - found[0].compared else None
    part = say("absent.only-here", rank=one.rank, token=line(one.word, 40) or None, text=one.quote, some=some)
    heads = {name: getattr(finding, name) for name in ("headline", "if_unsure", "if_class_unsure")}
    return replace(told, **{name: with_sentence(head, part) for name, head in heads.items() if head})


def _evidence(one: OnlyHere) -> Evidence:
    """What is told of a line: by the value that deviates, where peers print such lines too."""
    others, peer = one.compared - {one.rank}, line(one.peers[0].quote, LONGEST) if one.peers else None
    token = line(one.token, 40) or None
    says = say("absent.only-here-evidence", rank=one.rank, token=token, peer=peer, others=others)
    return Evidence(one.where, one.quote, says, True, f"log:{one.rank}")
