"""The heartbeat monitor of ProcessGroupNCCL, and how the ranks agree to dump their flight recorders.

Wordings: pytorch ``ProcessGroupNCCL.cpp`` v2.2 to v2.13.
"""

from __future__ import annotations

from collections.abc import Iterable

from nccldoctor.events import DumpNote, DumpSignal, Event, HeartbeatStuck
from nccldoctor.parsers.base import Line, LineParser, common, line_parser
from nccldoctor.parsers.process_group.prefix import member
from nccldoctor.parsers.process_group.work_status import counters
from nccldoctor.patterns import lazy

_STUCK = lazy(
    r"watchdog got stuck for (?P<s>\d{1,9}) seconds|Heartbeat monitor timed out!|NCCL monitor thread timeout"
    r"|monitoring thread detects no heartbeat"
)


@line_parser
class Stuck(LineParser):
    """The monitor thread saw no heartbeat of the watchdog."""

    literals = (
        "watchdog got stuck",
        "Heartbeat monitor timed out",
        "monitor thread timeout",
        "thread detects no heartbeat",
    )

    def parse(self, line: Line) -> Iterable[Event]:
        """One record; who it is about may stand on the line before a wrap."""
        m = _STUCK.search(line.body)
        if m:
            group, group_rank = member(line.body[: m.start()])
            yield HeartbeatStuck(
                **common(line, group=group, group_rank=group_rank), seconds=int(m["s"]) if m["s"] else None
            )


_SIGNAL = lazy(
    r"Received a (?:global )?(?:dump|timeout) signal(?P<why>[^.]{0,200}?)\bfrom\s{1,3}(?:this local rank"
    r"|rank (?P<from>-?\d{1,7}))"
)


@line_parser
class Signal(LineParser):
    """The default group of a rank was told to dump: by its own watchdog, or by another rank's through the store."""

    literals = (
        "Received a dump signal",
        "Received a global dump signal",
        "Received a timeout signal",
        " ProcessGroupNCCL.cpp:",
    )

    def parse(self, line: Line) -> Iterable[Event]:
        """The signal with the counters of the default group."""
        m = _SIGNAL.search(line.body)
        if m is None:
            return
        told = counters(line.body.replace("Last enqueued", "last enqueued"))
        group, group_rank = member(line.body[: m.start()])
        source = int(m["from"]) if m["from"] and int(m["from"]) >= 0 else None  # -1: the store did not tell
        yield DumpSignal(
            **common(line, group=group, group_rank=group_rank),
            from_rank=source,
            last_enqueued=told["last_enqueued"],
            last_completed=told["last_completed"],
        )


_NOTES: tuple[tuple[str, str], ...] = (
    ("first-to-signal", r"First (?:PG on this rank to signal dumping|watchdog to set the dump signal)"),
    (
        "observed-from-another-rank",
        r"Observed flight recorder dump signal from another rank|First PG on this rank detecting the dump signal"
        r"|watchdog detected a dump signal from rank",
    ),
    ("preparing", r"preparing to dump debug info"),
    ("writing", r"dumping nccl trace to \S{1,400}"),
    ("broadcast", r"Broadcasting signal \w{1,60} to other ranks via TCPStore"),
    ("no-heartbeat", r"First PG on this rank that detected no heartbeat of its watchdog"),
    ("local-exception", r"watchdog detected an exception from the local rank"),
    ("future-failed", r"Exception thrown when wait\w{2,4} for future [^:\n]{1,120}"),
    (
        "written",
        r"Finished writing (?:Flight Recorder|NCCLPG) debug info to|Flight Recorder trace successfully dumped"
        r"|Finished flight recorder successfully",
    ),
    ("write-failed", r"Error (?:opening file for writing|writing|flushing) (?:Flight Recorder|NCCLPG)[^:]{0,60}"),
    ("gil-not-acquired", r"Could not acquire GIL within \d{1,9} ms"),
    (
        "future-timed-out",
        r"Future for [^\n]{1,120}? timed out after \d{1,12} ?ms"
        r"|timed out after waiting for \d{1,12} ?ms flight recorder dumps",
    ),
    (
        "broadcast-failed",
        r"Failed to broadcast signal \w{1,60} through TCPStore|Failed to get timeout rank ID from TCPStore",
    ),
    ("by-the-job", r"\b[Ff]light recorder dump (?:was )?written\b"),
)
_NOTED = tuple((what, lazy(pattern)) for what, pattern in _NOTES)


@line_parser
class Notes(LineParser):
    """The rest of the talk around a dump."""

    literals = (
        "signal dumping",
        "set the dump signal",
        "dump signal from another rank",
        "detecting the dump signal",
        "detected a dump signal",
        "preparing to dump",
        "dumping nccl trace to",
        "Broadcasting signal",
        "detected no heartbeat of",
        "detected an exception from the local",
        "Exception thrown when wait",
        "debug info to",
        "trace successfully dumped",
        "Finished flight recorder",
        "for writing Flight",
        "writing Flight Recorder",
        "flushing Flight",
        "debug information to file",
        "light recorder dump ",
        "Could not acquire GIL",
        "Future for ",
        "flight recorder dumps",
        "Failed to broadcast signal",
        "timeout rank ID from",
    )

    def parse(self, line: Line) -> Iterable[Event]:
        """The first note that the line holds."""
        for what, pattern in _NOTED:
            m = pattern.search(line.body)
            if m:
                group, group_rank = member(line.body[: m.start()])
                yield DumpNote(
                    **common(line, group=group, group_rank=group_rank), what=what, detail=line.body[m.start() :][:300]
                )
                return
