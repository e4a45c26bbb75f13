"""The heartbeat monitor of ProcessGroupNCCL, and how the ranks agree to dump their flight recorders.

Wordings: pytorch ``ProcessGroupNCCL.cpp`` v2.2 to v2.13.
"""

from __future__ import annotations

import re
from typing import Any

from nccldoctor.events import DumpNote, DumpSignal, HeartbeatStuck
from nccldoctor.parsers.base import Line, line_parser
from nccldoctor.parsers.process_group.prefix import grouped
from nccldoctor.parsers.process_group.work_status import counters
from nccldoctor.parsers.rows import RowParser, Table

_TABLE = Table(__file__)


@line_parser
class StuckWatchdog(RowParser):
    """The monitor thread saw no heartbeat of the watchdog.

    The group may stand on the line before a wrap.
    """

    event = HeartbeatStuck
    rows = _TABLE.list_of("stuck")

    def row_fields(self, line: Line, hit: re.Match[str]) -> dict[str, Any]:
        """With the group that stands before the words."""
        return grouped(line, line.body[: hit.start()])


@line_parser
class DumpSignals(RowParser):
    """The default group of a rank was told to dump, by its own watchdog or by another rank's."""

    literals = (" ProcessGroupNCCL.cpp:",)
    event = DumpSignal
    rows = _TABLE.list_of("signals")

    def row_fields(self, line: Line, hit: re.Match[str]) -> dict[str, Any]:
        """With the counters of the default group."""
        counts = counters(line.body.replace("Last enqueued", "last enqueued"))
        last = {name: counts[name] for name in ("last_enqueued", "last_completed")}
        return grouped(line, line.body[: hit.start()], **last)


@line_parser
class DumpNotes(RowParser):
    """The rest of the talk around a dump."""

    event = DumpNote
    rows = _TABLE.list_of("notes")

    def row_fields(self, line: Line, hit: re.Match[str]) -> dict[str, Any]:
        """With the group that stands before the words, and the rest of the line."""
        return grouped(line, line.body[: hit.start()], detail=line.body[hit.start() :][:300])
