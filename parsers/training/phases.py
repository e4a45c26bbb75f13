"""Work of a rank outside the step: saving, evaluating, preparing data, compiling, starting, ending.

A rank that is late is often late because only it does one of these (rank 0 saves while the others wait).
"""

from __future__ import annotations

from collections.abc import Iterable

from nccldoctor.events import Event, Phase
from nccldoctor.parsers.base import Line, common, reads
from nccldoctor.parsers.rows import Table, first_fit
from nccldoctor.parsers.training.write_ups import is_of_person
from nccldoctor.patterns import lazy

_TABLE = Table(__file__)
_DONE, _DOING = _TABLE.list_of("done"), _TABLE.list_of("doing")

_CODE = lazy(r"\w{0,30}Warning: |was not called|has NOT been|\bdef \w+\(|^\s*(?:#|Thread |File \"|>>>|import |from )")
"""Warnings and source lines speak of these things without doing them."""


_PATTERNS = _TABLE.patterns()
_NO_GOOD_END = _PATTERNS["no_good_end"]
"""What makes *training finished* the end of a failure, or of one step of many (Ray Train)."""

_UNITS = (("h", 3600.0), ("m", 60.0), ("s", 1.0))


def seconds_taken(text: str) -> float | None:
    """The time that work took, where a sentence says it: *saved in 72.4 s*, *took 12 min 3 s*."""
    for found in _PATTERNS["took"].finditer(text):
        parts = [float(found[name]) * unit for name, unit in _UNITS if found[name] is not None]
        if parts:
            return sum(parts)
    return None


_AT_BARRIER = lazy(r"\b(?:waiting (?:at|in|for)|reached|entering) (?:the |a )?(?:\w+ )?barrier\b")


@reads(*tuple(dict.fromkeys(literal for row in _DONE + _DOING for literal in row.literals)), sampled=True)
def phases(line: Line) -> Iterable[Event]:
    """A sentence about what the rank does now, or has just done (``detail`` then begins ``done: ``).

    Where it waits for others at a barrier, ``detail`` begins ``waits: ``. Of a large file only its ends and the
    surroundings of trouble matter here. The first phase that the line speaks of.
    """
    body = line.body[:4_000]
    if line.mark.is_native or _CODE.search(body) or is_of_person(body):
        return
    for front, rows in (("done: ", _DONE), ("", _DOING)):
        if fit := first_fit(rows, body):
            row, hit = fit
            if row.values["what"] == "finished" and _NO_GOOD_END.search(body, hit.start()):
                return
            front = front or ("waits: " if _AT_BARRIER.search(body) else "")
            detail = front + body[hit.start() :].strip()[:300]
            took = seconds_taken(detail) if front == "done: " else None
            yield Phase(**common(line), what=row.values["what"], detail=detail, seconds=took)
            return


@reads("poch ", "poch=", "poch:", sampled=True)
def epoch_over(line: Line) -> Iterable[Event]:
    """The end of an epoch. The word is common in healthy logs, so it is looked for in parts of a large file only."""
    m = _PATTERNS["epoch"].search(line.body[:2_000])
    if m:
        detail = line.body[m.start() :].strip()[:300]
        yield Phase(**common(line), what="epoch-end", detail=detail, seconds=seconds_taken(detail))
