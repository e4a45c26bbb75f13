"""Sizes, dtypes and stacks of recorder entries: the nested fields, checked as a whole and kept once each.

Runs in the sandboxed child, see :mod:`nccldoctor.parsers.flight_recorder.values`.
"""

from __future__ import annotations

import marshal
from array import array
from collections.abc import Iterable, Sequence
from itertools import chain
from math import prod
from typing import Any

from nccldoctor.parsers.flight_recorder.values import INT64, UNSET, Codes, Entries, TooBig, clean, integer

DEEPEST_STACK = 256
"""Frames kept of one stack, innermost first."""

UNREADABLE = [[-1]]
"""Stands for sizes that are none, so that they are not taken for those of no tensor."""

SIZE_KEYS = ("input_sizes", "output_sizes")
DTYPE_KEYS = ("input_dtypes", "output_dtypes")


def add_shapes(table: dict[str, Sequence[Any]], out: Entries, budget: int) -> None:
    """Add sizes and dtypes, interned together: most calls of a training loop repeat a few shapes.

    Raises :class:`~nccldoctor.parsers.flight_recorder.values.TooBig`, as :func:`add_stacks` does.
    """
    if not any(key in table for key in (*SIZE_KEYS, *DTYPE_KEYS)):
        return
    empty: tuple[Any, ...] = ([],) * out.rows
    columns: list[Sequence[Any]] = []
    for keys, check, leaf in ((SIZE_KEYS, _is_sizes, int), (DTYPE_KEYS, _is_dtypes, str)):
        for key in keys:
            column = table.get(key, empty)
            if not _is_nested(column, leaf, budget):
                odd = sum(value is not None and not check(value) for value in column)
                if odd:
                    out.notes.append(f"{odd} entries with unreadable {key}")
                lost = UNREADABLE if check is _is_sizes else []
                column = [value if check(value) else lost if value is not None else [] for value in column]
            columns.append(column)
    kinds: list[tuple[int, int, int, int]] = []
    codes = Codes(_ShapeTable(out).kind, kinds)
    rows = array("i", [codes[marshal.dumps(row, 0)] for row in zip(*columns, strict=True)])
    for position, name in enumerate(("sizes", "dtypes", "numel_in", "numel_out")):
        of_kind = [kind[position] for kind in kinds]
        out.columns[name] = array("q" if name.startswith("numel") else "i", map(of_kind.__getitem__, rows))


class _ShapeTable:
    """Turns the marshalled (input sizes, output sizes, input dtypes, output dtypes) into codes and element counts."""

    def __init__(self, out: Entries) -> None:
        self.sizes = Codes(lambda value: value, out.sizes)
        self.dtypes = Codes(lambda value: value, out.dtypes)

    def kind(self, key: bytes) -> tuple[int, int, int, int]:
        sizes_in, sizes_out, dtypes_in, dtypes_out = marshal.loads(key)
        sizes = (tuple(map(tuple, sizes_in)), tuple(map(tuple, sizes_out)))
        dtypes = (tuple(map(clean, dtypes_in)), tuple(map(clean, dtypes_out)))
        return self.sizes[sizes], self.dtypes[dtypes], numel(sizes[0]), numel(sizes[1])


def numel(sizes: Sequence[Sequence[int]]) -> int:
    """The elements of all tensors together; a scalar (``[]``) counts 1.

    Returns ``UNSET`` where the number is beyond int64, or a size is negative.
    """
    if any(extent < 0 for dims in sizes for extent in dims):
        return UNSET
    # of more dimensions than ATen allows the product may take minutes
    total = sum(prod(dims) if len(dims) <= 64 else INT64 for dims in sizes)
    return total if 0 <= total < INT64 else UNSET


def _is_nested(column: Sequence[Any], leaf: type, budget: int) -> bool:
    """True when every value is a list of int64 lists (``leaf`` int) or of strings; checked at C speed."""
    if set(map(type, column)) != {list}:
        return False
    if sum(map(len, column)) > budget:
        raise TooBig
    items: Iterable[Any] = chain.from_iterable(column)
    if leaf is str:
        return set(map(type, items)) <= {str}
    inner = list(items)
    if not set(map(type, inner)) <= {list}:
        return False
    if sum(map(len, inner)) > budget:
        raise TooBig
    numbers = list(chain.from_iterable(inner))
    return set(map(type, numbers)) <= {int} and -INT64 <= min(numbers, default=0) <= max(numbers, default=0) < INT64


def _is_sizes(value: Any) -> bool:
    return type(value) is list and all(
        type(dims) is list and all(type(n) is int and -INT64 <= n < INT64 for n in dims) for dims in value
    )


def _is_dtypes(value: Any) -> bool:
    return type(value) is list and all(type(name) is str for name in value)


def add_stacks(table: dict[str, Sequence[Any]], out: Entries, budget: int) -> None:
    """Adds the stacks; frames are told apart by their identity.

    torch writes each distinct frame once and refers to it (torch/csrc/distributed/c10d/TraceUtils.h, pytorch#110960),
    and all frames live as long as ``table``.
    """
    column = table.get("frames")
    if column is None:
        return
    if set(map(type, column)) != {list}:
        column = [value if type(value) is list else [] for value in column]
    if sum(map(len, column)) > budget:
        raise TooBig
    frame_of: dict[int, int] = {}
    frames = Codes(lambda frame: (clean(frame[0]), clean(frame[1]), integer(frame[2]) or 0), out.frames)
    stacks = Codes(lambda value: value, out.stacks)
    seen: dict[tuple[int, ...], int] = {}
    rows = array("i")
    for value in column:
        key = tuple(map(id, value))
        code = seen.get(key)
        if code is None:
            own = key[:DEEPEST_STACK]
            for place, frame in zip(own, value, strict=False):
                if place not in frame_of:
                    frame_of[place] = frames[_frame_parts(frame)]
            code = seen[key] = stacks[tuple(map(frame_of.__getitem__, own))]
        rows.append(code)
    out.columns["stack"] = rows


def _frame_parts(frame: Any) -> tuple[str, str, int]:
    """Function, file and line of a frame as the dump has them: those are looked up before anything is cleaned."""
    if type(frame) is not dict:
        return frame if type(frame) is str else "?", "", 0
    name, file, line = frame.get("name"), frame.get("filename"), frame.get("line")
    if type(line) is not int:
        line = integer(line) or 0
    return name if type(name) is str else "?", file if type(file) is str else "", line
