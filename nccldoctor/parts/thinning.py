"""Chooses how many calls of each dump to load where all parts together hold more than fit in memory.

The newest calls of each dump are loaded, as if its ring buffer had been smaller. A dump reaches further back where that can matter:
to the lowest number at which a member of one of its groups stopped, and to the oldest call that is unfinished in one of them.
Example: rank 3 stopped at ALLREDUCE #900 and its peers at #960: of the peers everything from #892 on is loaded.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from nccldoctor.model.recorded_calls import COMPLETED
from nccldoctor.parts.dump_slices import Columns, StoredDump

MOST_CALLS = 2_500_000
"""Calls that are loaded: with the diagnosis they take some 800 MB, 320 bytes each."""

LEAST = 64
"""Newest calls that are loaded of any dump."""

MARGIN = 8
"""Calls that are loaded before those that matter."""

Group = tuple[str, str]
Mask = npt.NDArray[np.bool_]
_D = TypeVar("_D", bound=Hashable)


class GroupFronts(Struct):
    """Where the members of each group stopped, by its name.

    ``low`` and ``high`` are the lowest and the highest number at which one did; ``since`` is when the oldest unfinished call was made.
    """

    low: dict[Group, int] = {}
    high: dict[Group, int] = {}
    since: dict[Group, int] = {}

    def note_dump(self, dump: StoredDump, created: npt.NDArray[np.int64]) -> None:
        """Add a dump whose calls were made at these times, in nanoseconds."""
        names = dump.words.groups
        if dump.head.form != "list":  # its numbers count in each process for itself
            counted = _is_counted(dump.columns)
            last = np.full(len(names), -1, dtype=np.int64)
            np.maximum.at(last, dump.columns["group"][counted], dump.columns["seq"][counted])
            for name, number in zip(names, last.tolist(), strict=True):
                if number >= 0:
                    self.low[name] = min(self.low.get(name, number), number)
                    self.high[name] = max(self.high.get(name, number), number)
        pending = _is_unfinished(dump.columns) & (created > 0)
        for code in np.unique(dump.columns["group"][pending]).tolist():
            first = int(created[pending & (dump.columns["group"] == code)].min())
            self.since[names[code]] = min(self.since.get(names[code], first), first)

    def wanted_rows(self, dump: StoredDump, created: npt.NDArray[np.int64]) -> int:
        """How many of the newest calls of a dump reach back far enough."""
        names, group = dump.words.groups, dump.columns["group"]
        apart = [code for code, name in enumerate(names) if self.low.get(name, 0) < self.high.get(name, 0)]
        wanted = created >= min((self.since[name] for name in names if name in self.since), default=1 << 62)
        if apart and dump.head.form != "list":
            low = np.array([max(self.low.get(name, 0) - MARGIN, 0) for name in names])
            wanted |= _is_counted(dump.columns) & np.isin(group, apart) & (dump.columns["seq"] >= low[group])
        first = np.flatnonzero(wanted)
        return min(dump.size - int(first[0]) + MARGIN, dump.size) if len(first) else 0


def _is_counted(columns: Columns) -> Mask:
    """The entries that count in their group: not those between two ranks."""
    own: Mask = ~columns["is_p2p"] & (columns["group"] >= 0) & (columns["seq"] >= 0)
    return own


def _is_unfinished(columns: Columns) -> Mask:
    """The entries that did not end, without those inside a batch of sends and receives, whose state never changes."""
    ended = (columns["state"] == COMPLETED) | columns["retired"]
    kind = columns["group"].astype(np.int64) << 32 | columns["op"]
    own: Mask = ~ended & (columns["group"] >= 0) & (~columns["is_p2p"] | np.isin(kind, kind[ended]))
    return own


def rows_to_load(rows: Mapping[_D, int], wanted: Mapping[_D, int], most: int) -> dict[_D, int]:
    """How many of the newest calls of each dump to load, about ``most`` in all.

    Where there is room for all that is wanted, the rest of it is shared evenly; else each dump gets what it wants up to one limit for
    all.
    """
    needs = {dump: min(rows[dump], max(wanted[dump], LEAST)) for dump in rows}
    limit = max(rows.values(), default=0)
    if sum(needs.values()) <= most:
        share = _largest(limit, lambda share: sum(max(needs[d], min(rows[d], share)) for d in rows) <= most)
        return {dump: max(needs[dump], min(rows[dump], share)) for dump in rows}
    cap = max(LEAST, _largest(limit, lambda cap: sum(min(need, cap) for need in needs.values()) <= most))
    return {dump: min(need, cap) for dump, need in needs.items()}


def _largest(most: int, fits: Callable[[int], bool]) -> int:
    """The largest number up to ``most`` that fits; smaller ones fit too."""
    return bisect_left(range(most + 1), True, key=lambda number: not fits(number)) - 1
