"""The numbered quotes of a report: ``E1`` is the first thing that the verdict rests on."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nccldoctor.model import Diagnosis, Evidence, Finding
from nccldoctor.model.ranks import Ranks
from nccldoctor.reports.parts.listed import Listed
from nccldoctor.words import names
from nccldoctor.words.sanitize import line, sanitize

SHOWN = 12
"""Quotes in a report; the JSON has them all."""

CONTRADICTING = 4
"""Quotes kept for what contradicts the verdict, if anything does."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a quote; ``key`` where it names the rank, the call or its number."""

    text: str
    key: bool


@dataclass(frozen=True, slots=True)
class Quote:
    """One numbered quote. ``stance`` is ``agrees`` or ``contradicts``; ``finding`` the id of what it belongs to."""

    id: str
    says: str
    where: str
    quote: tuple[Piece, ...]
    stance: str
    finding: str


@dataclass(frozen=True, slots=True)
class Reason:
    """A row of *why this verdict*: what one or more quotes say, and their ids."""

    stance: str
    says: str
    ids: tuple[str, ...]


_COMMON = 99
"""Numbers up to this are marked as a call's only after ``#`` or ``SeqNum=``: lines hold many small numbers."""

_DID = re.compile(r"rank (\d{1,7})((?: of \d{1,7})? (?:[a-z]{2,20}ed|gave|wrote)\b(?!.{0,240} its ).{1,240})")
"""An act that ranks may share: in the past tense, which has one form for one rank and for many."""

_OF = re.compile(r"(the (?:newest call|last line) of )rank (\d{1,7})((?:: .{1,200})?)")
"""A record that several ranks may share."""


def reasons(shown: tuple[Quote, ...]) -> tuple[Reason, ...]:
    """One row for quotes that say the same of one rank or several, in the order of the first.

    ``rank 0 gave up on #7`` and ``rank 2 gave up on #7`` become ``ranks 0, 2 gave up on #7``.
    """
    alike: dict[tuple[str, str, str], list[tuple[Quote, int | None]]] = {}
    for quote in shown:
        before, rank, after = _around_rank(quote.says)
        alike.setdefault((quote.stance, before, after), []).append((quote, rank))
    rows = []
    for (stance, before, after), members in alike.items():
        ranks = Ranks(rank for _, rank in members if rank is not None)
        says = before + (names.ranks_phrase(ranks) if ranks else "") + after
        rows.append(Reason(stance, says, tuple(quote.id for quote, _ in members)))
    return tuple(rows)


def _around_rank(says: str) -> tuple[str, int | None, str]:
    """A sentence before and after its rank; all of it is before where other ranks cannot take that one's place."""
    if match := _DID.fullmatch(says):
        return "", int(match[1]), match[2]
    if match := _OF.fullmatch(says):
        return match[1], int(match[2]), match[3]
    return says, None, ""


def quotes(diagnosis: Diagnosis) -> Listed[Quote]:
    """The evidence of the verdict first, then that of other findings, each piece once."""
    chosen: dict[tuple[str, str, str], tuple[Finding, Evidence]] = {}
    for finding in diagnosis.findings:
        for item in finding.evidence:
            chosen.setdefault((str(item.where), item.quote, item.says), (finding, item))
    items = _picked(list(chosen.values()))
    shown = tuple(
        Quote(
            id=f"E{number}",
            says=line(item.says or "Quoted as found.", 240),
            where=line(str(item.where), 200) if item.where else "",
            quote=pieces(sanitize(item.quote), finding),
            stance="agrees" if item.supports else "contradicts",
            finding=finding.id,
        )
        for number, (finding, item) in enumerate(items, start=1)
    )
    return Listed(shown, len(chosen) - len(shown))


def _picked(items: list[tuple[Finding, Evidence]]) -> list[tuple[Finding, Evidence]]:
    against = [n for n, (_, item) in enumerate(items) if not item.supports][:CONTRADICTING]
    rest = [n for n in range(len(items)) if n not in against][: SHOWN - len(against)]
    return [items[n] for n in sorted(against + rest)]


def pieces(text: str, finding: Finding) -> tuple[Piece, ...]:
    """``text`` cut at what a reader looks for: the operation, its number, the culprits."""
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
