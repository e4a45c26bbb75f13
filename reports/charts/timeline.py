"""The timeline as a drawing: bars and symbols by rank, on an axis that leaves quiet times out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from nccldoctor.model.figures import Mark, Timeline, TimeRow
from nccldoctor.model.ranks import Ranks
from nccldoctor.reports.parts import wording
from nccldoctor.reports.parts.sanitize import line

LEFT, TOP, WIDTH, STEP, BAR = 96, 40, 962, 24, 14
"""Room for the ranks and the times, width of the axis, height of a row and of its bar."""

RIGHT = 28
"""Room for symbols after the axis; with it the drawing fills a card of the page."""

BREAK = 76
"""Width of a cut in the axis."""

CUTS = 2
QUIET = 0.3
"""A time in which nothing begins or ends is cut out when it takes this share of the axis."""

SYMBOL = 11
"""Least distance of two symbols."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A stretch of time of one row; ``kind`` as in :class:`~nccldoctor.model.figures.Stretch`."""

    kind: str
    x: float
    y: float
    width: float


@dataclass(frozen=True, slots=True)
class Sign:
    """A symbol, with what it stands for."""

    kind: str
    x: float
    y: float
    text: str


@dataclass(frozen=True, slots=True)
class Word:
    """A text of the drawing: ``kind`` is rank, culprit, tick or cut; ``anchor`` is start, middle or end."""

    x: float
    y: float
    text: str
    kind: str
    anchor: str


@dataclass(frozen=True, slots=True)
class TimeChart:
    """The drawing in numbers.

    ``kinds`` and ``signs`` are the legend of its bars and symbols; ``steps`` tell the first events: time, who, what.
    """

    width: float
    height: float
    bars: tuple[Bar, ...]
    symbols: tuple[Sign, ...]
    words: tuple[Word, ...]
    cuts: tuple[float, ...]
    kinds: tuple[tuple[str, str], ...]
    signs: tuple[tuple[str, str], ...]
    zone: str
    hidden: int
    steps: tuple[tuple[str, str, str], ...]


_KINDS = (
    ("work", "between calls"),
    ("call", "in a call that completed"),
    ("waiting", "in a call, waiting"),
    ("outside", "not in the call that the others wait in"),
)
_SIGNS = (
    ("timeout", "gave up"),
    ("exit", "process ended"),
    ("exception", "exception"),
    ("trouble", "error of device, link, kernel or scheduler"),
    ("dump", "flight-recorder dump"),
    ("stack", "stack taken"),
    ("life", "sign of life"),
)


@dataclass(frozen=True, slots=True)
class _Axis:
    """Pieces of time side by side: (from, to, x of from, x of to)."""

    pieces: tuple[tuple[float, float, float, float], ...]

    def x(self, at: float) -> float:
        """Where a moment stands; inside a cut, at its nearer edge."""
        for begin, end, left, right in self.pieces:
            if at < begin:
                return left
            if at <= end:
                return left + (right - left) * (at - begin) / max(end - begin, 1e-9)
        return self.pieces[-1][3]


def time_chart(time: Timeline | None, culprits: Ranks) -> TimeChart | None:
    """The drawing of a timeline; None where there is none."""
    if time is None or not time.rows:
        return None
    axis = _axis(time)
    placed = [(row, TOP + n * STEP) for n, row in enumerate(time.rows)]
    bars = tuple(bar for row, y in placed for bar in _bars(row, axis, y))
    symbols = tuple(sign for row, y in placed for sign in _symbols(row.marks, axis, y))
    used = {bar.kind for bar in bars} | {sign.kind for sign in symbols}
    return TimeChart(
        width=LEFT + WIDTH + RIGHT,
        height=TOP + len(time.rows) * STEP + 6,
        bars=bars,
        symbols=symbols,
        words=(*(_row_label(row, y, culprits) for row, y in placed), *_ticks(axis)),
        cuts=tuple((a[3] + b[2]) / 2 for a, b in pairwise(axis.pieces)),
        kinds=tuple(kind for kind in _KINDS if kind[0] in used),
        signs=tuple(sign for sign in _SIGNS if sign[0] in used),
        zone=time.zone,
        hidden=time.hidden,
        steps=tuple(_steps(time)),
    )


def _axis(time: Timeline) -> _Axis:
    moments = {time.start, time.end}
    for row in time.rows:
        moments |= {m.at for m in row.marks} | {at for s in row.stretches for at in (s.start, s.end)}
    times = sorted(at for at in moments if time.start <= at <= time.end)
    pieces = [(times[0], times[-1])]
    for _ in range(CUTS):
        shown = sum(end - begin for begin, end in pieces)
        gaps = [(b - a, a, b) for a, b in pairwise(times) if any(p[0] <= a and b <= p[1] for p in pieces)]
        longest = max(gaps, default=(0.0, 0.0, 0.0))
        if longest[0] < QUIET * shown or longest[0] < 1.0:
            break
        pieces = list(_cut(pieces, longest[1], longest[2]))
    return _placed(pieces)


def _cut(pieces: list[tuple[float, float]], begin: float, end: float) -> Iterator[tuple[float, float]]:
    margin = (end - begin) * 0.04
    for first, last in pieces:
        if first <= begin and end <= last:
            yield first, begin + min(margin, max((begin - first) * 0.3, margin / 20))
            yield end - min(margin, max((last - end) * 0.3, margin / 20)), last
        else:
            yield first, last


def _placed(pieces: list[tuple[float, float]]) -> _Axis:
    """Widths by duration, but no piece narrower than half of its equal share."""
    room = WIDTH - BREAK * (len(pieces) - 1)
    least = room / len(pieces) / 2
    total = sum(max(end - begin, 1e-9) for begin, end in pieces)
    spare = room - least * len(pieces)
    out, x = [], float(LEFT)
    for begin, end in pieces:
        width = least + spare * max(end - begin, 1e-9) / total
        out.append((begin, end, x, x + width))
        x += width + BREAK
    return _Axis(tuple(out))


def _bars(row: TimeRow, axis: _Axis, y: float) -> Iterator[Bar]:
    """Bars are parted where the axis is cut."""
    for stretch in row.stretches:
        for begin, end, _, _ in axis.pieces:
            first, last = max(stretch.start, begin), min(stretch.end, end)
            if first < last:
                x = axis.x(first)
                yield Bar(stretch.kind, round(x, 1), y, round(max(axis.x(last) - x, 1.5), 1))


def _symbols(marks: Sequence[Mark], axis: _Axis, y: float) -> Iterator[Sign]:
    """In order and apart, to the right of their moments; at the edge they give way to the left."""
    places: list[float] = []
    for mark in marks:
        places.append(max(axis.x(mark.at), places[-1] + SYMBOL if places else 0.0))
    edge = LEFT + WIDTH + RIGHT - SYMBOL
    for n in range(1, len(places) + 1):
        places[-n] = min(places[-n], edge - (n - 1) * SYMBOL)
    for mark, x in zip(marks, places, strict=True):
        text = f"{mark.text} ({mark.where})" if mark.where else mark.text
        yield Sign(mark.kind, round(x, 1), y + BAR / 2, line(text, 160))


def _row_label(row: TimeRow, y: float, culprits: Ranks) -> Word:
    return Word(LEFT - 10, y + 11.5, row_name(row), "culprit" if row.ranks & culprits else "rank", "end")


def row_name(row: TimeRow) -> str:
    """``rank 5``, ``ranks 0-3``; ``hosts`` for a row of no rank."""
    return wording.ranks_phrase(row.ranks, 2) if row.ranks else "hosts"


def _ticks(axis: _Axis) -> Iterator[Word]:
    for n, (begin, end, left, right) in enumerate(axis.pieces):
        fine = end - begin < 5
        yield Word(left, TOP - 10, clock(begin, fine), "tick", "start")
        if right - left > 170:
            yield Word(right, TOP - 10, clock(end, fine), "tick", "end")
        if n + 1 < len(axis.pieces):
            gap = axis.pieces[n + 1][0] - end
            yield Word(right + BREAK / 2, TOP - 24, f"{wording.duration(gap * 1000)} cut out", "cut", "middle")


def clock(seconds: float, fine: bool) -> str:
    """``03:25:02``, or with milliseconds."""
    try:
        at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=round(seconds, 3))
    except OverflowError:
        return "?"
    return at.strftime("%H:%M:%S") + (f".{at.microsecond // 1000:03d}" if fine else "")


def _steps(time: Timeline) -> Iterator[tuple[str, str, str]]:
    """The first events after the calls, in words: time, who, what; at most ten."""
    alike: dict[tuple[str, str], list[tuple[float, Ranks]]] = {}
    for row in time.rows:
        for mark in row.marks:
            if mark.kind not in ("life", "stack"):
                alike.setdefault((mark.kind, mark.text), []).append((mark.at, row.ranks))
    first = {key: min(at for at, _ in marks) for key, marks in alike.items()}
    for kind, text in sorted(alike, key=lambda key: (first[key], key))[:10]:
        ranks = Ranks(rank for _, members in alike[kind, text] for rank in members)
        who = wording.ranks_phrase(ranks, 4) if ranks else "a host"
        yield clock(first[kind, text], fine=False), who, line(text, 120)
