"""Signs that one rank's numbers or modules take another course than its peers': NaN, overflow, another module order.

A loop that skips a batch where the loss is NaN skips its collectives too; ZeRO-3 gathers parameters in the order in
which
modules run, so another order means other collectives. Alone they prove nothing.
Wordings: apex and DeepSpeed loss scalers, DeepSpeed ``runtime/zero/partitioned_param_coordinator.py``, common
training loops.
"""

from __future__ import annotations

from collections.abc import Iterable

from nccldoctor.events import Event, Note
from nccldoctor.parsers.base import Line, LineParser, common, line_parser
from nccldoctor.patterns import lazy

_ROWS: tuple[tuple[str, str, str], ...] = (
    ("loss-nan", "oss is nan", r"\b[Ll]oss is (?:nan|NaN)\b.{0,200}"),
    ("loss-nan", "oss is NaN", r"\b[Ll]oss is NaN\b.{0,200}"),
    ("loss-nan", "NaN detected", r"\bNaN detected\b.{0,200}"),
    ("loss-nan", "non-finite loss", r"\bnon-finite loss\b.{0,200}"),
    ("loss-nan", "number of nan iterations", r"number of nan iterations:\s{1,8}[1-9]\d{0,11}"),
    ("gradient-overflow", "Gradient overflow", r"Gradient overflow\..{0,200}"),
    ("gradient-overflow", "OVERFLOW! Rank", r"OVERFLOW! Rank (?P<rank>\d{1,7}) .{0,200}"),
    ("zero3-trace", "Invalidate trace cache", r"Invalidate trace cache @ step \d{1,12}.{0,200}"),
)  # fmt: skip
"""Name of the note, the literal that offers the line, and the words that make it so."""


_COMPILED = tuple((what, literal, lazy(pattern)) for what, literal, pattern in _ROWS)


@line_parser
class Numerics(LineParser):
    """*note* for each of these lines."""

    literals = tuple(literal for _, literal, _ in _ROWS)

    def parse(self, line: Line) -> Iterable[Event]:
        """The first row that fits."""
        body = line.body[:8_000]
        for what, literal, pattern in _COMPILED:
            if literal in body and (hit := pattern.search(body)):
                told = hit.groupdict().get("rank")
                rank = line.mark.rank if line.mark.rank is not None or told is None else int(told)
                yield Note(**common(line, rank=rank), what=what, detail=hit[0].strip()[:300])
                return
