"""What tools for stacks say beside stacks: py-spy that could not stop a process, kernels that cuda-gdb sees running.

py-spy cannot suspend a process in uninterruptible sleep: that error says more than most stacks.
Wordings: py-spy 0.4, cuda-gdb ``info cuda kernels``; kernel names of NVIDIA/nccl ``src/device``.
"""

from __future__ import annotations

from collections.abc import Iterable

from nccldoctor.events import Event, Note
from nccldoctor.parsers.base import Line, LineParser, common, line_parser
from nccldoctor.patterns import lazy

_REFUSED = lazy(
    r"Error: (?P<text>Permission Denied: Try running again with elevated.{0,120}|Failed to suspend process.{0,200})"
)
_KERNEL = lazy(r"\b(?P<name>nccl(?:Dev)?Kernel_\w{1,160})")


@line_parser
class StackTools(LineParser):
    """*note*: ``stack-tool-failed`` and ``device-kernel``."""

    literals = ("Error: Permission Denied: Try", "Error: Failed to suspend process", "ncclDevKernel_", "ncclKernel_")

    def parse(self, line: Line) -> Iterable[Event]:
        """One note for a line."""
        body = line.body[:8_000]
        if hit := _REFUSED.search(body):
            yield Note(**common(line), what="stack-tool-failed", detail=hit["text"].strip()[:300])
        elif hit := _KERNEL.search(body):
            yield Note(**common(line), what="device-kernel", detail=hit["name"])
