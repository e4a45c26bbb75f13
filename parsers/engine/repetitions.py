"""Passes over exceptions of a retry loop: of each the first and the last are read, the others counted.

A line is one of them where it and the text around it are as before, whatever its digits are, and it said the same each time.
Numbers of a message decide nothing; those of another event may (an Xid, an exit code), so others are always read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from nccldoctor.events import Event, ExceptionRaised
from nccldoctor.parsers.engine.forms import form_of
from nccldoctor.parsers.engine.retention import Shares, shares_of
from nccldoctor.parsers.engine.window import LABELLED, HitLines
from nccldoctor.patterns import lazy

READ = 64
"""Lines of a form that are read at the beginning of a file, and at the end of each block."""

_MOST, _LONGEST, _AROUND = 1_000, 8 << 10, 3
"""Forms that are remembered, bytes of one, and such lines before and behind a line that belong to its form."""

_NAMING = lazy(rb"Traceback|Error|Exception|Interrupt|Expired")

Form = tuple[bytes, bytes]
"""The label of a line, and what stands around it with 0 for each digit."""


class _Told(Struct):
    """How often lines of a form were read, and what each gave; None where that differed."""

    count: int
    gave: tuple[Shares, ...] | None


class Repetitions:
    """The forms of lines that were read in one source, and how many of each are left in its block."""

    def __init__(self) -> None:
        self._told: dict[Form, _Told] = {}
        self._left: Counter[Form] = Counter()

    def forms_in(self, data: bytearray, lines: HitLines, low: int, high: int) -> dict[int, Form]:
        """The forms of lines of the block ``[low, high)`` that may name an exception, by place."""
        starts = [start - low for start, text in zip(lines.starts, lines.pieces, strict=True) if _NAMING.search(text)]
        self._left.clear()
        if len(starts) < 2 * READ:
            return {}
        block, out = bytes(data[low:high]), dict[int, Form]()
        folded = form_of(block)
        for place, start in enumerate(starts):
            first, end = (
                starts[max(0, place - _AROUND)],
                folded.find(b"\n", starts[min(place + _AROUND, len(starts) - 1)]),
            )
            if 0 < end - first < _LONGEST:
                label = LABELLED.match(block, start)
                out[start + low] = (label[0] if label else b"", folded[first:end])
        self._left.update(out.values())
        return out

    def passed_over(self, form: Form | None) -> int | None:
        """The number of events that a line gives unread; None where it has to be read."""
        if form is None:
            return None
        self._left[form] -= 1
        told = self._told.get(form)
        if told is None or told.gave is None or told.count < READ or (told.gave and self._left[form] < READ):
            return None
        return len(told.gave)

    def note_outcome(self, form: Form | None, events: Sequence[Event]) -> None:
        """Note what a line gave."""
        if form is None or (form not in self._told and len(self._told) >= _MOST):
            return
        can_repeat = all(isinstance(e, ExceptionRaised) and (form[0] or e.rank is None) for e in events)
        gave = tuple(map(shares_of, events)) if can_repeat else None
        told = self._told.setdefault(form, _Told(0, gave))
        told.count += 1
        told.gave = gave if told.gave == gave else None
