"""When each launcher saw a first failure, and when it saw processes end that it had closed.

Example: torchrun's table dates rank 1's exit at 13:02:58 as the first failure, and an end by SIGTERM at 13:03:29.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime

from msgspec import Struct

from nccldoctor.events import ProcessExit

Reporter = tuple[int, str]
"""The source that holds a table, and the kind of launcher."""


class LauncherTable(Struct):
    """The ends that one launcher lists with a time, in seconds: its ``first`` failure, and in order those it ``closed``."""

    first: float = math.inf
    closed: list[float] = []

    def has_closed_near(self, second: float, slack: float) -> bool:
        """True where a closed process ended within ``slack`` seconds."""
        at = bisect_left(self.closed, second - slack)
        return at < len(self.closed) and self.closed[at] <= second + slack


def launcher_tables(exits: Iterable[ProcessExit]) -> dict[Reporter, LauncherTable]:
    """The table of each launcher."""
    tables: dict[Reporter, LauncherTable] = defaultdict(LauncherTable)
    for end in exits:
        if end.time is None:
            continue
        table, second = tables[end.place.source, end.reporter], seconds(end.time)
        if end.first:
            table.first = min(table.first, second)
        if end.was_closed:
            table.closed.append(second)
    for table in tables.values():
        table.closed.sort()
    return dict(tables)


def seconds(time: datetime) -> float:
    """Seconds that compare within one table, whose times all have a zone or none."""
    return (time if time.tzinfo is not None else time.replace(tzinfo=UTC)).timestamp()
