"""Packs a column of integers in few bytes, and unpacks it.

Values are written as what is left of them beside what is known: nothing where all are equal or count up, the step from the entry
before, the step from the entry before in the same process group, or the time since the call was made. What is left is stored in the
narrowest integer that holds it, all first bytes together, then all second ones: that is what compresses best.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

Ints = npt.NDArray[np.int64]

Packing = tuple[str, int, int, int]
"""How a column is packed: method, two numbers that it needs, and the width of what is left in bytes (0: nothing is)."""

_WIDTHS = {1: "<i1", 2: "<i2", 4: "<i4", 8: "<i8"}


class Turns(Struct, frozen=True):
    """The order in which entries of one process group stand together, and where each group begins in that order."""

    order: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]

    @classmethod
    def by_group(cls, group: npt.NDArray[np.int64], is_p2p: npt.NDArray[np.int64]) -> Turns:
        """The turns of entries with these groups; sends and receives are counted apart."""
        key = group.astype(np.int64) * 2 + is_p2p
        order = np.argsort(key, kind="stable")
        own = key[order]
        return cls(order, np.flatnonzero(np.concatenate(([True], own[1:] != own[:-1]))) if len(own) else order)


def pack_column(values: Ints, turns: Turns | None = None, beside: Ints | None = None) -> tuple[Packing, bytes]:
    """A column, packed; ``turns`` are those of its entries, ``beside`` the column that it is near to."""
    if not len(values):
        return ("same", 0, 0, 0), b""
    first = int(values[0])
    steps = np.diff(values)
    if not steps.any():
        return ("same", first, 0, 0), b""
    if (steps == steps[0]).all():
        return ("steps", first, int(steps[0]), 0), b""
    plain = _narrow(values)
    if turns is not None and (left := _narrow(_turned(values, turns))).itemsize <= plain.itemsize:
        return ("turns", 0, 0, left.itemsize), _shuffled(left)
    if beside is not None and not ((values == beside) & (values != 0)).any():
        left = _narrow(np.where(values == 0, 0, values - beside))
        if left.itemsize <= plain.itemsize:
            return ("beside", 0, 0, left.itemsize), _shuffled(left)
    stepped = _narrow(np.concatenate(([0], steps)))
    if stepped.itemsize < plain.itemsize:
        return ("delta", first, 0, stepped.itemsize), _shuffled(stepped)
    return ("plain", 0, 0, plain.itemsize), _shuffled(plain)


def unpack_column(
    packing: Packing, data: bytes, rows: int, turns: Turns | None = None, beside: Ints | None = None
) -> Ints:
    """The column again. Raises :class:`ValueError` where ``data`` is not what such a column leaves."""
    method, first, step, width = packing
    if method == "same":
        return np.full(rows, first, dtype=np.int64)
    if method == "steps":
        return first + step * np.arange(rows, dtype=np.int64)
    if width not in _WIDTHS or len(data) != rows * width:
        raise ValueError("a column of another length")
    left = np.frombuffer(data, np.uint8).reshape(width, rows).T.copy().view(_WIDTHS[width]).reshape(rows)
    values = left.astype(np.int64)
    if method == "plain":
        return values
    if method == "delta":
        values[0] += first
        return np.cumsum(values)
    if method == "turns" and turns is not None:
        return _returned(values, turns)
    if method == "beside" and beside is not None:
        return np.where(values == 0, 0, values + beside)
    raise ValueError(f"no such packing: {method[:20]}")


def _narrow(values: Ints) -> npt.NDArray[np.signedinteger]:
    low, high = int(values.min()), int(values.max())
    width = next(w for w in _WIDTHS if -(1 << (8 * w - 1)) <= low and high < 1 << (8 * w - 1))
    return values.astype(_WIDTHS[width])


def _shuffled(values: npt.NDArray[np.signedinteger]) -> bytes:
    return values.view(np.uint8).reshape(len(values), values.itemsize).T.tobytes()


def _turned(values: Ints, turns: Turns) -> Ints:
    """The step of each entry from the one before in its group; the first of each group as it is."""
    own = values[turns.order]
    out = np.diff(own, prepend=0)
    out[turns.starts] = own[turns.starts]
    return out


def _returned(left: Ints, turns: Turns) -> Ints:
    sums = np.cumsum(left)
    before = np.where(turns.starts > 0, sums[turns.starts - 1], 0)
    sizes = np.diff(np.append(turns.starts, len(left)))
    out = np.empty_like(left)
    out[turns.order] = sums - np.repeat(before, sizes)
    return out
