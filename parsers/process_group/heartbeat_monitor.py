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
from nccldoctor.parsers.rows import Row, RowParser


@line_parser
class StuckWatchdog(RowParser):
    """The monitor thread saw no heartbeat of the watchdog.

    The group may stand on the line before a wrap.
    """

    event = HeartbeatStuck
    rows = (
        Row("watchdog got stuck", r"watchdog got stuck for (?P<seconds>\d{1,9}) seconds"),
        Row("Heartbeat monitor timed out", r"Heartbeat monitor timed out!"),
        Row("monitor thread timeout", r"NCCL monitor thread timeout"),
        Row("thread detects no heartbeat", r"monitoring thread detects no heartbeat"),
    )

    def fields(self, line: Line, hit: re.Match[str]) -> dict[str, Any]:
        """With the group that stands before the words."""
        return grouped(line, line.body[: hit.start()])


_OBSERVED = "observed-from-another-rank"


@line_parser
class DumpSignals(RowParser):
    """The default group of a rank was told to dump, by its own watchdog or through the store by another rank's."""

    literals = (" ProcessGroupNCCL.cpp:",)
    event = DumpSignal
    rows = (
        Row(("Received a dump signal", "Received a global dump signal", "Received a timeout signal"),
            r"Received a (?:global )?(?:dump|timeout) signal[^.]{0,200}?\bfrom\s{1,3}"
            r"(?:this local rank|rank (?:-\d{1,7}|(?P<from_rank>\d{1,7})))"),  # -1: the store did not tell
    )  # fmt: skip

    def fields(self, line: Line, hit: re.Match[str]) -> dict[str, Any]:
        """With the counters of the default group."""
        told = counters(line.body.replace("Last enqueued", "last enqueued"))
        last = {name: told[name] for name in ("last_enqueued", "last_completed")}
        return grouped(line, line.body[: hit.start()], **last)


@line_parser
class DumpNotes(RowParser):
    """The rest of the talk around a dump."""

    event = DumpNote
    rows = (
        Row("signal dumping", r"First PG on this rank to signal dumping", what="first-to-signal"),
        Row("set the dump signal", r"First watchdog to set the dump signal", what="first-to-signal"),
        Row("dump signal from another rank", r"Observed flight recorder dump signal from another rank", what=_OBSERVED),
        Row("detecting the dump signal", r"First PG on this rank detecting the dump signal", what=_OBSERVED),
        Row("detected a dump signal", r"watchdog detected a dump signal from rank", what=_OBSERVED),
        Row("preparing to dump", r"preparing to dump debug info", what="preparing"),
        Row("dumping nccl trace to", r"dumping nccl trace to \S{1,400}", what="writing"),
        Row("Broadcasting signal", r"Broadcasting signal \w{1,60} to other ranks via TCPStore", what="broadcast"),
        Row("detected no heartbeat of", r"First PG on this rank that detected no heartbeat of its watchdog", what="no-heartbeat"),
        Row("detected an exception from the local", r"watchdog detected an exception from the local rank", what="local-exception"),
        Row("Exception thrown when wait", r"Exception thrown when wait\w{2,4} for future [^:\n]{1,120}", what="future-failed"),
        Row("debug info to", r"Finished writing (?:Flight Recorder|NCCLPG) debug info to", what="written"),
        Row("trace successfully dumped", r"Flight Recorder trace successfully dumped", what="written"),
        Row("Finished flight recorder", r"Finished flight recorder successfully", what="written"),
        Row(("for writing Flight", "writing Flight Recorder", "flushing Flight", "debug information to file"),
            r"Error (?:opening file for writing|writing|flushing) (?:Flight Recorder|NCCLPG)[^:]{0,60}", what="write-failed"),
        Row("Could not acquire GIL", r"Could not acquire GIL within \d{1,9} ms", what="gil-not-acquired"),
        Row("Future for ", r"Future for [^\n]{1,120}? timed out after \d{1,12} ?ms", what="future-timed-out"),
        Row("flight recorder dumps", r"timed out after waiting for \d{1,12} ?ms flight recorder dumps", what="future-timed-out"),
        Row("Failed to broadcast signal", r"Failed to broadcast signal \w{1,60} through TCPStore", what="broadcast-failed"),
        Row("timeout rank ID from", r"Failed to get timeout rank ID from TCPStore", what="broadcast-failed"),
        Row("light recorder dump ", r"\b[Ff]light recorder dump (?:was )?written\b", what="by-the-job"),
    )  # fmt: skip

    def fields(self, line: Line, hit: re.Match[str]) -> dict[str, Any]:
        """With the group that stands before the words, and the rest of the line."""
        return grouped(line, line.body[: hit.start()], detail=line.body[hit.start() :][:300])
