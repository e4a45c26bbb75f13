"""Headlines of answers that no single rule can word: several independent stalls, nothing readable, nothing known."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from nccldoctor.identify.case import Case
from nccldoctor.model import CauseClass, Finding, Gap, SourceKind
from nccldoctor.model.findings import parts_of_verdict, stalls_of
from nccldoctor.model.ranks import Ranks
from nccldoctor.words.names import ranks_phrase

LONGEST = 400
"""Characters of a headline that names several stalls."""

READABLE = 160
"""Characters up to which each of them stands in full; beyond, its details are left to the findings."""

_MAIN = re.compile(r"(?::|;|,) ")
_WHO = re.compile(
    r"(.{0,40}?)\b([Rr]anks? \d[\d,-]{0,80})( (?:never|stopped|skipped|issued|ended|left|died|ran)\b.{0,400})"
)


def with_headline(findings: tuple[Finding, ...], case: Case) -> tuple[Finding, ...]:
    """The findings, the verdict's headline replaced where the answer as a whole says more than its rule knew."""
    verdict = findings[0]
    if verdict.cause is CauseClass.UNDETERMINED and not case.events and not len(case.calls) and not case.dumps:
        return (replace(verdict, headline=describe_no_data([s.kind for s in case.sources], case.gaps)), *findings[1:])
    parts = parts_of_verdict(findings)
    if len(parts) > 1:
        words = [part.headline.rstrip(".") for part in parts]
        if sum(map(len, words)) > READABLE:
            words = [_MAIN.split(text, maxsplit=1)[0] for text in words]
        count = f"{len(parts)} independent stalls: " if stalls_of(findings) else ""
        headline = count + (_joint_sentence(words, verdict.ranks) or "; ".join(words))
        call = verdict.stalled
        if call is not None and call.op and call.seq is not None and call.entered and f"#{call.seq}" not in headline:
            headline += f"; {call.op} #{call.seq}" + (f" of {call.group}" if call.group else "") + " waits for them"
        short = headline if len(headline) <= LONGEST else headline[: LONGEST - 1].rstrip() + "…"
        return (replace(verdict, headline=short), *findings[1:])
    return findings


def _joint_sentence(words: Sequence[str], ranks: Ranks) -> str:
    """One sentence in the past tense for several ranks that did the same; "" where they did not."""
    found = [_WHO.fullmatch(text) for text in words]
    rest = {(m[1], m[3]) for m in found if m is not None}
    if None in found or len(rest) != 1:
        return ""
    before, after = rest.pop()
    before = before.replace("GPU ", "GPUs ")
    return f"{before}{'r' if before else 'R'}{ranks_phrase(ranks)[1:]}{after}"


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
