"""The heartbeat monitor of ProcessGroupNCCL, and how the ranks agree to dump their flight recorders.

Wordings: pytorch ``ProcessGroupNCCL.cpp`` v2.2 to v2.13.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from nccldoctor.events import DumpNote, DumpSignal, Event, GroupRef, HeartbeatStuck
from nccldoctor.parsers.base import Line, LineParser, Sample, common, line_parser
from nccldoctor.parsers.broken_lines.wrapped import begins, continued, joined, mended
from nccldoctor.parsers.process_group.prefix import member
from nccldoctor.parsers.process_group.work_status import counters

_STUCK = re.compile(
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
    samples = (
        Sample(
            "[rank0]:[E129 15:44:20.108980764 ProcessGroupNCCL.cpp:1870] [PG ID 14 PG GUID 117(EXPERT) Rank 0] "
            "ProcessGroupNCCL's watchdog got "
            "stuck for 480 seconds without making progress in monitoring enqueued collectives. This typically "
            "indicates\n",
            (
                {
                    "kind": "heartbeat-stuck",
                    "rank": 0,
                    "seconds": 480,
                    "group": GroupRef(pg_id=14, uid="117", desc="EXPERT"),
                },
            ),
            "pytorch/pytorch v2.9",
        ),
        Sample(
            "[rank1]:[E ProcessGroupNCCL.cpp:1316] [PG 0 Rank 1] Heartbeat monitor timed out! Process will be "
            "terminated after dumping debug info. "
            "workMetaList_.size()=97\n",
            ({"kind": "heartbeat-stuck", "rank": 1, "seconds": None},),
            "pytorch/pytorch v2.3",
        ),
        Sample(
            "[rank2]:[E ProcessGroupNCCL.cpp:1010] [Rank 2] NCCL monitor thread timeout. Basically, this could be due "
            "to CUDA or NCCL calls being "
            "unexpectedly blocking\n",
            ({"kind": "heartbeat-stuck", "rank": 2, "group_rank": 2},),
            "pytorch/pytorch v2.2.2",
        ),
    )

    def parse(self, line: Line) -> Iterable[Event]:
        """One record; who it is about may stand on the line before a wrap."""
        m = _STUCK.search(line.body)
        if m:
            group, group_rank = member(line.body[: m.start()])
            yield HeartbeatStuck(
                **common(line, group=group, group_rank=group_rank), seconds=int(m["s"]) if m["s"] else None
            )


_SIGNAL = re.compile(
    r"Received a (?:global )?(?:dump|timeout) signal(?P<why>[^.]{0,200}?)\bfrom\s{1,3}(?:this local rank"
    r"|rank (?P<from>-?\d{1,7}))"
)


_PHRASES = ("Received a dump signal", "Received a global dump signal", "Received a timeout signal")


@line_parser
class Signal(LineParser):
    """The default group of a rank was told to dump: by its own watchdog, or by another rank's through the store."""

    literals = (
        "Received a dump signal",
        "Received a global dump signal",
        "Received a timeout signal",
        " ProcessGroupNCCL.cpp:",
    )
    samples = (
        Sample(
            "[rank5]:[E716 02:36:19.604989174 ProcessGroupNCCL.cpp:1743] [PG ID 0 PG GUID 0(default_pg) Rank 5] "
            "Received a dump signal due to a "
            "collective timeout from  rank 2 and we will try our best to dump the debug info. Last enqueued NCCL "
            "work: 121, last completed NCCL "
            "work: 120.This is most likely caused by incorrect usages of collectives\n",
            ({"kind": "dump-signal", "rank": 5, "from_rank": 2, "last_enqueued": 121, "last_completed": 120},),
            "pytorch/pytorch v2.7",
        ),
        Sample(
            "[rank0]:[E402 11:31:08.493540501 ProcessGroupNCCL.cpp:1346] [PG 0 Rank 0] Received a timeout signal from "
            "this local rank and will start "
            "to dump the debug info. Last enqueued NCCL work: 4, last completed NCCL work: 3.\n",
            ({"kind": "dump-signal", "rank": 0, "from_rank": None, "last_enqueued": 4, "last_completed": 3},),
            "pytorch/pytorch v2.3",
        ),
    )

    def parse(self, line: Line) -> Iterable[Event]:
        """The signal with the counters of the default group, over wraps."""
        line = mended(line)
        if not begins(line.body, *_PHRASES) or continued(line, *_PHRASES):
            return
        found: tuple[str, re.Match[str], dict[str, Any]] | None = None
        for text in joined(line):
            m = _SIGNAL.search(text)
            told = counters(text.replace("Last enqueued", "last enqueued"))
            whole = m is not None and told["last_completed"] is not None
            if m and (whole or found is None):
                found = text, m, told
            if whole:
                break
        if found is None:
            return
        text, m, told = found
        group, group_rank = member(text[: m.start()])
        source = int(m["from"]) if m["from"] and int(m["from"]) >= 0 else None  # -1: the store did not tell
        yield DumpSignal(
            **common(line, text=text[:500], group=group, group_rank=group_rank),
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
_NOTED = tuple((what, re.compile(pattern)) for what, pattern in _NOTES)


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
    samples = (
        Sample(
            "[rank3]:[E911 18:45:03.178691064 ProcessGroupNCCL.cpp:2106] [PG ID 4 PG GUID 67 Rank 3] First PG on this "
            "rank to signal dumping.\n"
            "[rank0]:[E ProcessGroupNCCL.cpp:1025] [PG 0 Rank 0] Future for ProcessGroup abort timed out after 600000 "
            "ms\n",
            (
                {"kind": "dump-note", "rank": 3, "what": "first-to-signal"},
                {"kind": "dump-note", "rank": 0, "what": "future-timed-out"},
            ),
            "pytorch/pytorch v2.7, v2.3",
        ),
        Sample(
            "[rank3]:[I ProcessGroupNCCL.cpp:1300] [PG 0 Rank 3] ProcessGroupNCCL dumping nccl trace to "
            "/home/user/nccl_trace_rank_3\n"
            "[rank3]:[I417 03:28:14.050510987 ProcessGroupNCCL.cpp:2573] [PG ID 0 PG GUID 0(default_pg) Rank 3] "
            "Broadcasting "
            "signal exception_dump to other ranks via TCPStore.\n"
            "[rank3]:[E ProcessGroupNCCL.cpp:1300] [PG 0 Rank 3] First PG on this rank that detected no "
            "heartbeat of its watchdog.\n"
            "[rank3]:[F ProcessGroupNCCL.cpp:1300] [PG 0 Rank 3] ProcessGroupNCCL's watchdog detected an "
            "exception from the local rank.\n"
            "[rank3]:[E ProcessGroupNCCL.cpp:1300] [PG 0 Rank 3] Exception thrown when waitng for future "
            "ProcessGroup abort: boom\n",
            (
                {"kind": "dump-note", "rank": 3, "what": "writing"},
                {"kind": "dump-note", "rank": 3, "what": "broadcast"},
                {"kind": "dump-note", "rank": 3, "what": "no-heartbeat"},
                {"kind": "dump-note", "rank": 3, "what": "local-exception"},
                {"kind": "dump-note", "rank": 3, "what": "future-failed"},
            ),
            "pytorch/pytorch v2.4, v2.7",
        ),
        Sample(
            "[rank6]: 2026-05-02 10:11:12,013 INFO train: flight recorder dump written (no progress, 5606 bytes)\n",
            ({"kind": "dump-note", "rank": 6, "what": "by-the-job"},),
            "a training script that calls torch._C._distributed_c10d._dump_fr_trace when it stands still",
        ),
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
