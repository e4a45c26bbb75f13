"""When each launcher saw a first failure, and when it saw processes end that it had closed.

Example: torchrun's table dates rank 1's exit at 13:02:58 as the first failure, and an end by SIGTERM at 13:03:29.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from msgspec import Struct

from nccldoctor.events import Events, ProcessExit, TearDown

Reporter = tuple[int, str]
"""The source that holds a table, and the kind of launcher."""


class LauncherTable(Struct):
    """What one launcher dates, in seconds: its ``first`` failure, and the first process that it ``closed``."""

    first: float = math.inf
    closed: float = math.inf


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
            table.closed = min(table.closed, second)
    return dict(tables)


def ranks_off_table(events: Events, hosts: Mapping[int, str], size: int | None) -> dict[int, list[ProcessExit]]:
    """The ranks that torchrun's table of their node leaves out, each with the rows of that table.

    Torchrun lists all ranks of a node but those that ended with 0: of a node whose ranks begin at 4 it lists 4, 5 and 7, and 6 is left
    out. What was still there when it closed the node may end with 0, too: then a process was told to stop that is in no row.
    """
    tables: dict[tuple[int, str | None], list[ProcessExit]] = defaultdict(list)
    for end in events.of_kind(ProcessExit):
        if end.reporter == "torchrun" and end.rank is not None and end.local_rank is not None:
            tables[end.place.source, end.host].append(end)
    found: dict[int, list[ProcessExit]] = {}
    for (source, host), rows in tables.items():
        ranks = {end.rank or 0 for end in rows}
        bases = {(end.rank or 0) - (end.local_rank or 0) for end in rows}
        told = {e.pid for e in events.of_kind(TearDown) if e.what == "closing-signal" and e.place.source == source}
        if len(rows) < 2 or len(bases) > 1 or told - {end.pid for end in rows}:
            continue
        gone = {*range(min(bases), max(ranks)), *(r for r, name in hosts.items() if name == host)} - ranks
        last = {size - 1} - ranks if size is not None and len(tables) == 1 and ranks == set(range(size - 1)) else set()
        found |= dict.fromkeys(gone | last if len(gone | last) < len(rows) else (), rows)
    return found


def seconds(time: datetime) -> float:
    """Seconds that compare within one table, whose times all have a zone or none."""
    return (time if time.tzinfo is not None else time.replace(tzinfo=UTC)).timestamp()
