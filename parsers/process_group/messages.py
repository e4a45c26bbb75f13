"""What PyTorch's process groups say of themselves while nothing is wrong yet: guessed devices, modes, readiness.

None of it is an error, but a device that was guessed, or a send that is serialised with collectives, explains later
hangs; with blocking wait, and with TorchComms, none of the watchdog's lines can be expected.
Wordings: pytorch ``ProcessGroupNCCL.cpp`` and ``NCCLUtils.cpp``, 1.9 to 2.13.
"""

from __future__ import annotations

from collections.abc import Iterable

from nccldoctor.events import Event, Note
from nccldoctor.parsers.base import Line, LineParser, common, line_parser
from nccldoctor.parsers.process_group.prefix import member
from nccldoctor.patterns import lazy

_ROWS: tuple[tuple[str, str, str], ...] = (
    ("device-guessed", "currently unknown", r"using (?:best-guess )?GPU \d{1,5} .{0,120}?(?:is|are) currently unknown"),
    ("device-guessed", "Guessing device ID", r"Guessing device ID based on global rank"),
    ("unbatched-p2p", "An unbatched P2P op", r"An unbatched P2P op \(send/recv\) was called .{0,400}"),
    ("communicator-ready", ": NCCL communicator ", r"Rank \d{1,7}: NCCL communicator \S{1,200} is initialized"),
    ("store-unreachable", "Failed to check the", r"Failed to check the \W{0,2}should dump\W{0,2} flag .{0,200}"),
    ("dump-by-pipe", "Dump signal received through pipe", r"Dump signal received through pipe"),
    ("dump-pipe", "to trigger NCCL Debug Dump", r"Pipe file \S{1,300} has been opened, write to it to trigger"),
    ("monitor-disabled", "hread is disabled, but would", r"\w{1,20} [Mm]onitor [Tt]hread is disabled, but would .{0,200}"),
    ("no-watchdog", "NO watchdog thread is created", r"TORCH_NCCL_BLOCKING_WAIT is enabled, NO watchdog thread is created"),
    ("torchcomms", "Using TorchComms backend", r"Using TorchComms backend .{1,300}"),
    ("error-file", "to copy child error file", r"no error file defined for parent, to copy child error file.{0,300}"),
)  # fmt: skip
"""Name of the note, the literal that offers the line, and the words that make it so."""


_COMPILED = tuple((what, literal, lazy(pattern)) for what, literal, pattern in _ROWS)


@line_parser
class Hints(LineParser):
    """*note* for each of these lines."""

    literals = tuple(literal for _, literal, _ in _ROWS)

    def parse(self, line: Line) -> Iterable[Event]:
        """The first row that fits."""
        body = line.body[:4_000]
        for what, literal, pattern in _COMPILED:
            if literal in body and (hit := pattern.search(body)):
                group, group_rank = member(body[: hit.start()])
                detail = hit[0].strip()[:300]
                yield Note(**common(line, group=group, group_rank=group_rank), what=what, detail=detail)
                return
