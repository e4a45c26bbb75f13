"""How NCCL connects: the network it chose, the links between ranks, and how long the bootstrap took.

INFO lines of a healthy start, and of one that never ended: a rank whose rings are not connected waits in its first
call.
Wordings: NVIDIA/nccl ``src/init.cc``, ``src/bootstrap.cc``, ``src/transport/*.cc``, ``src/misc/socket.cc``, v2.3.5
to v2.32.3.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccldoctor.events import Event, Note
from nccldoctor.parsers.base import Line, LineParser, line_parser
from nccldoctor.parsers.nccl.prefix import fields, messages
from nccldoctor.patterns import lazy

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


_COMPILED = tuple((what, literal, lazy(pattern)) for what, literal, pattern in _ROWS)


_CALL = lazy(r"(?P<api>nccl\w{1,60})\(")


@line_parser
class Transport(LineParser):
    """*note* for each of these lines. A job prints thousands of them, so they are looked for in parts of a large
    file only.
    """

    sampled = True
    literals = (*dict.fromkeys(literal for _, literal, _ in _ROWS), "NCCL CALL ", "NCCL TRACE ")

    def parse(self, line: Line) -> Iterator[Event]:
        """One note for each message that a row fits."""
        for message in messages(line.body):
            text = message.message[:1_000]
            if message.level == "CALL" and _CALL.match(text):
                yield Note(**fields(line, message), what="nccl-call", detail=text[:300])
            elif message.level == "TRACE" and text:
                yield Note(**fields(line, message), what="nccl-trace", detail=text[:300])
            elif message.level == "INFO":
                for what, literal, pattern in _COMPILED:
                    if literal in text and (hit := pattern.search(text)):
                        rank = hit.groupdict().get("rank")
                        own = fields(line, message, group_rank=int(rank) if rank else None)
                        yield Note(**own, what=what, detail=hit[0].strip()[:300])
                        break
