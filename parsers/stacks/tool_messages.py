"""Reads what stack tools print beside stacks: a process that py-spy could not stop, kernels that cuda-gdb sees.

py-spy cannot suspend a process in uninterruptible sleep: that error says more than most stacks.
Wordings: py-spy 0.4, cuda-gdb ``info cuda kernels``; kernel names of NVIDIA/nccl ``src/device``.
"""

from __future__ import annotations

from nccldoctor.parsers.base import line_parser
from nccldoctor.parsers.rows import Row, RowParser

_FAILED = "stack-tool-failed"


@line_parser
class StackTools(RowParser):
    """*note*: ``stack-tool-failed`` and ``device-kernel``."""

    longest = 8_000
    rows = (
        Row("Error: Permission Denied: Try", r"(?<=Error: )Permission Denied: Try running again with elevated.{0,120}", what=_FAILED),
        Row("Error: Failed to suspend process", r"(?<=Error: )Failed to suspend process.{0,200}", what=_FAILED),
        Row(("ncclDevKernel_", "ncclKernel_"), r"\bnccl(?:Dev)?Kernel_\w{1,160}", what="device-kernel"),
    )  # fmt: skip
