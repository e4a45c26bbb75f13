"""How NCCL connects: the network it chose, the links between ranks, and how long the bootstrap took.

INFO lines of a healthy start, and of one that never ended: a rank whose rings are not connected waits in its first
call.
Wordings: NVIDIA/nccl ``src/init.cc``, ``src/bootstrap.cc``, ``src/transport/*.cc``, ``src/misc/socket.cc``, v2.3.5
to v2.32.3.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from nccldoctor.events import Event, Note
from nccldoctor.parsers.base import Line, LineParser, Sample, line_parser
from nccldoctor.parsers.nccl.prefix import fields, messages

_ROWS: tuple[tuple[str, str, str], ...] = (
    ("bootstrap-timings", "Bootstrap timings total", r"Bootstrap timings total [\d.]{1,20} \(.{1,300}?\)"),
    ("node-layout", " nNodes ", r"comm 0x[0-9a-f]{1,16} rank (?P<rank>\d{1,7}) nRanks \d{1,7} nNodes .{0,120}"),
    ("network", "Using [0]", r"NET/\w{1,20} ?: Using \[0\].{1,400}"),
    ("network", "Using network", r"Using network \S{1,60}.{0,40}"),
    ("network", "Loaded net plugin", r"NET/Plugin: Loaded net plugin .{1,120}"),
    ("connected", "Connected all", r"Connected all (?:rings|trees).{0,60}"),
    ("connected", "Connected binomial", r"Connected binomial trees"),
    ("connect-retry", ", retrying", r"(?:\w+: )?(?:Call to )?connect\b.{0,140} returned .{1,120}, retrying.{0,60}"),
    ("channel", "Channel ", r"Channel \d{1,4}\S{0,6} ?: \d{1,7}\[\w{1,12}\] -> \d{1,7}\[.{1,160}? via .{1,120}"),
)  # fmt: skip
"""Name of the note, the literal that offers the line, and the words that make it so."""


@cache
def _compiled() -> tuple[tuple[str, str, re.Pattern[str]], ...]:
    return tuple((what, literal, re.compile(pattern)) for what, literal, pattern in _ROWS)


@cache
def _call() -> re.Pattern[str]:
    return re.compile(r"(?P<api>nccl\w{1,60})\(")


@line_parser
class Transport(LineParser):
    """*note* for each of these lines. A job prints thousands of them, so they are looked for in parts of a large
    file only.
    """

    sampled = True
    literals = (*dict.fromkeys(literal for _, literal, _ in _ROWS), "NCCL CALL ", "NCCL TRACE ")
    samples = (
        Sample(
            "w1:7:9 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.5<0>\n"
            "w1:7:9 [0] NCCL INFO Using network IB\n"
            "w1:7:9 [0] NCCL INFO NET/Plugin: Loaded net plugin AWS Libfabric (v8)\n"
            "w1:7:9 [0] NCCL INFO comm 0x55aa rank 3 nRanks 8 nNodes 2 localRanks 4 localRank 3 MNNVL 0\n"
            "w1:7:9 [0] NCCL INFO Channel 00/0 : 3[3] -> 4[0] [send] via NET/IB/0/GDRDMA\n"
            "w1:7:9 [0] NCCL INFO Connected all rings\n"
            "w1:7:9 [0] NCCL INFO Bootstrap timings total 61.2 (create 0.01, send 0.02, recv 60.9, ring 0.1, "
            "delay 0.0)\n",
            (
                {"kind": "note", "what": "network", "host": "w1", "pid": 7},
                {"kind": "note", "what": "network", "detail": "Using network IB"},
                {"kind": "note", "what": "network"},
                {"kind": "note", "what": "node-layout", "group_rank": 3, "rank": None},
                {"kind": "note", "what": "channel", "detail": "Channel 00/0 : 3[3] -> 4[0] [send] via NET/IB/0/GDRDMA"},
                {"kind": "note", "what": "connected"},
                {"kind": "note", "what": "bootstrap-timings"},
            ),
            "NVIDIA/nccl v2.23.4 to v2.28.3",
        ),
        Sample(
            "w1:7:9 [0] NCCL INFO Call to connect returned Connection refused, retrying\n"
            "w1:7:9 [0] NCCL INFO socketPollConnect: connect to 10.0.0.3<4771> returned Connection refused, "
            "retrying (3/34) "
            "after sleep for 300 msec\n",
            (
                {"kind": "note", "what": "connect-retry"},
                {"kind": "note", "what": "connect-retry"},
            ),
            "NVIDIA/nccl src/misc/socket.cc, up to v2.23.4 and from v2.24.3",
        ),
        Sample(
            "w1:7:9 NCCL CALL ncclAllReduce(0x7f,0x7f,4096,7,0,0x55,0x66)\n"
            "w1:7:9 [0] 12.345678 ncclCommInitRank:33 NCCL TRACE nranks 8\n",
            (
                {"kind": "note", "what": "nccl-call", "detail": "ncclAllReduce(0x7f,0x7f,4096,7,0,0x55,0x66)"},
                {"kind": "note", "what": "nccl-trace"},
            ),
            "NVIDIA/nccl src/debug.cc, v2.14.3 and later, debug builds",
        ),
    )

    def parse(self, line: Line) -> Iterator[Event]:
        """One note for each message that a row fits."""
        for message in messages(line.body):
            text = message.message[:1_000]
            if message.level == "CALL" and _call().match(text):
                yield Note(**fields(line, message), what="nccl-call", detail=text[:300])
            elif message.level == "TRACE" and text:
                yield Note(**fields(line, message), what="nccl-trace", detail=text[:300])
            elif message.level == "INFO":
                for what, literal, pattern in _compiled():
                    if literal in text and (hit := pattern.search(text)):
                        rank = hit.groupdict().get("rank")
                        own = fields(line, message, group_rank=int(rank) if rank else None)
                        yield Note(**own, what=what, detail=hit[0].strip()[:300])
                        break
