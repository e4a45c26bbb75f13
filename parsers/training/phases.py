"""Work of a rank outside the step: saving, evaluating, preparing data, compiling, starting, ending.

A rank that is late is often late because only it does one of these (rank 0 saves while the others wait).
"""

from __future__ import annotations

from collections.abc import Iterable

from nccldoctor.events import Event, Phase
from nccldoctor.parsers.base import Line, LineParser, common, line_parser
from nccldoctor.parsers.rows import Table, first_fit
from nccldoctor.patterns import lazy

_TABLE = Table(__file__)
_DONE, _DOING = _TABLE.list_of("done"), _TABLE.list_of("doing")

_CODE = lazy(r"\w{0,30}Warning: |was not called|has NOT been|\bdef \w+\(|^\s*(?:#|File \"|>>>|import |from )")
"""Warnings and source lines speak of these things without doing them."""


@line_parser
class Phases(LineParser):
    """A sentence about what the rank does now, or has just done (``detail`` then begins ``done: ``).

    Of a large file only its ends and the surroundings of trouble matter here.
    """

    sampled = True
    literals = tuple(dict.fromkeys(literal for row in _DONE + _DOING for literal in row.literals))

    def parse(self, line: Line) -> Iterable[Event]:
        """The first phase that the line speaks of."""
        body = line.body[:4_000]
        if line.mark.is_native or _CODE.search(body):
            return
        for front, rows in (("done: ", _DONE), ("", _DOING)):
            if fit := first_fit(rows, body):
                row, hit = fit
                detail = front + body[hit.start() :].strip()[:300]
                yield Phase(**common(line), what=row.values["what"], detail=detail)
                return


_EPOCH = lazy(
    r"\b[Ee]poch[ =:]{1,2}\d{1,9}(?:/\d{1,9})?:? (?:is |has )?(?:finished|done|complete|completed|ended|over)\b"
    r"|\b[Ee]nd of [Ee]poch\b|\b[Ff]inished [Ee]poch \d{1,9}|\b[Ee]poch \d{1,9} took\b"
)


@line_parser
class EpochOver(LineParser):
    """The end of an epoch. The word is common in healthy logs, so it is looked for in parts of a large file only."""

    sampled = True
    literals = ("poch ", "poch=", "poch:")

    def parse(self, line: Line) -> Iterable[Event]:
        """One sentence that says so."""
        m = _EPOCH.search(line.body[:2_000])
        if m:
            yield Phase(**common(line), what="epoch-end", detail=line.body[m.start() :].strip()[:300])
