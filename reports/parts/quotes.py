"""The numbered quotes of a report: ``E1`` is the first thing that the verdict rests on."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nccldoctor.model import Diagnosis, Evidence, Finding
from nccldoctor.model.ranks import Ranks
from nccldoctor.reports.parts import wording
from nccldoctor.reports.parts.sanitize import line, visible

SHOWN = 12
"""Quotes in a report; the JSON has them all."""

CONTRADICTING = 4
"""So many of them are kept for what speaks against the verdict, if anything does."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a quote; ``key`` where it names the rank, the call or its number."""

    text: str
    key: bool


@dataclass(frozen=True, slots=True)
class Exhibit:
    """One numbered quote. ``stance`` is ``agrees`` or ``contradicts``; ``finding`` the id of what it belongs to."""

    id: str
    says: str
    where: str
    quote: tuple[Piece, ...]
    stance: str
    finding: str


@dataclass(frozen=True, slots=True)
class Exhibits:
    """The quotes shown, and how many more there are."""

    shown: tuple[Exhibit, ...]
    more: int


@dataclass(frozen=True, slots=True)
class Reason:
    """A row of *why this verdict*: what one or more quotes say, and which they are."""

    stance: str
    says: str
    ids: tuple[str, ...]


_COMMON = 99
"""Numbers up to this stand for many things in a line: they are marked as a call's only where they are called so."""

_DID = re.compile(r"rank (\d{1,7})((?: of \d{1,7})? (?:[a-z]{2,20}ed|gave|wrote)\b(?!.{0,240} its ).{1,240})")
"""What several ranks may have done alike; in the past tense, which is the same of one and of many."""


_OF = re.compile(r"(the (?:newest call|last line) of )rank (\d{1,7})((?:: .{1,200})?)")
"""What was seen of several ranks alike."""


def reasons(shown: tuple[Exhibit, ...]) -> tuple[Reason, ...]:
    """Quotes that say the same, of one rank or of several, are one row; each stands where the first of them does."""
    alike: dict[tuple[str, str, str], list[Exhibit]] = {}
    ranks: dict[tuple[str, str, str], set[int]] = {}
    for item in shown:
        before, rank, after = _about(item.says)
        key = (item.stance, before, after)
        alike.setdefault(key, []).append(item)
        if rank is not None:
            ranks.setdefault(key, set()).add(rank)
    return tuple(
        Reason(
            stance=key[0],
            says=key[1] + (wording.ranks_phrase(Ranks(ranks[key])) if key in ranks else "") + key[2],
            ids=tuple(item.id for item in items),
        )
        for key, items in alike.items()
    )


def _about(says: str) -> tuple[str, int | None, str]:
    """A sentence around the rank that others may stand beside; without a rank where there is none such."""
    if found := _DID.fullmatch(says):
        return "", int(found[1]), found[2]
    if found := _OF.fullmatch(says):
        return found[1], int(found[2]), found[3]
    return says, None, ""


def exhibits(diagnosis: Diagnosis) -> Exhibits:
    """The verdict's evidence first, then that of other findings; what stands there twice is shown once."""
    chosen: dict[tuple[str, str, str], tuple[Finding, Evidence]] = {}
    for finding in diagnosis.findings:
        for item in finding.evidence:
            chosen.setdefault((str(item.where), item.quote, item.says), (finding, item))
    items = _picked(list(chosen.values()))
    shown = tuple(
        Exhibit(
            id=f"E{number}",
            says=line(item.says or "Quoted as found.", 240),
            where=line(str(item.where), 200) if item.where else "",
            quote=pieces(visible(item.quote), finding),
            stance="agrees" if item.supports else "contradicts",
            finding=finding.id,
        )
        for number, (finding, item) in enumerate(items, start=1)
    )
    return Exhibits(shown, len(chosen) - len(shown))


def _picked(items: list[tuple[Finding, Evidence]]) -> list[tuple[Finding, Evidence]]:
    against = [n for n, (_, item) in enumerate(items) if not item.supports][:CONTRADICTING]
    rest = [n for n in range(len(items)) if n not in against][: SHOWN - len(against)]
    return [items[n] for n in sorted(against + rest)]


def pieces(text: str, finding: Finding) -> tuple[Piece, ...]:
    """``text`` cut at what a reader looks for: the op, its number, the culprits."""
    words = [rf"[Rr]ank[ :=\]]{{0,2}}{rank}\b" for rank in list(finding.ranks)[:SHOWN]]
    if finding.stalled is not None:
        if finding.stalled.op:
            words.append(re.escape(finding.stalled.op[:80]))
        if finding.stalled.seq is not None:
            seq = finding.stalled.seq
            words.append(rf"#?\b{seq}\b" if seq > _COMMON else rf"#{seq}\b|(?<=SeqNum=){seq}\b")
    if not text:
        return ()
    if not words:
        return (Piece(text, key=False),)
    parts = re.split(f"({'|'.join(words)})", text)
    return tuple(Piece(part, key=number % 2 == 1) for number, part in enumerate(parts) if part)
