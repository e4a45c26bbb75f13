"""Reads the errors that CUDA reports to a process, as PyTorch, NCCL, Triton and CuPy print them.

PyTorch: ``CUDA error: …`` (before 1.5 ``cuda runtime error (39) : …``); NCCL: ``Cuda failure …``; the driver's
``CUDA_ERROR_…: …``. Texts are those of ``cudaGetErrorString`` (CUDA 11 to 13). Sources of the forms: pytorch
``c10/cuda/CUDAException.cpp``, NVIDIA/nccl ``src/include/checks.h`` (v2.3.5 to v2.30.7). Kernels run later than the
call that reports their error, and one error makes all later calls of the process fail the same way: the first line
counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from nccldoctor.events import CudaError, Event
from nccldoctor.parsers.base import Line, reads
from nccldoctor.parsers.nccl.prefix import NcclMessage, message_fields, messages
from nccldoctor.parsers.nccl.topics import topic_of_cuda_error
from nccldoctor.parsers.process_group.prefix import member
from nccldoctor.parsers.rows import Table
from nccldoctor.patterns import lazy

_TABLE = Table(__file__)

_TORCH = lazy(
    r"CUDA (?:driver )?error: (?P<text>[^\n]{1,300})"
    r"|cuda runtime error \(\d{1,4}\) ?: (?P<old>[^\n]{1,200}?)(?: at \S{1,300}:\d{1,6})?$"
    r"|CUDA_ERROR_[A-Z_]{3,60}: (?P<driver>[^\n]{1,200})",
    re.M,
)
_NCCL = lazy(
    r"(?:Cuda failure|CUDA failure|CUDA error)(?: [\w./+\-]{1,120}:\d{1,6})?:? ?(?P<code>\d{1,4})?"
    r" ?'(?P<text>[^'\n]{1,300})'"
)


def is_software(text: str) -> bool:
    """True when a program can cause the error: all but the few that speak of the board or the fabric."""
    low = text.lower()
    return not any(part in low for part in _TABLE.data["hardware"])


@reads(*_TABLE.literals, needs=(_NCCL, _TORCH))
def cuda_error(line: Line) -> Iterator[Event]:
    """The first CUDA error that a line quotes. What a process says while it ends is none."""
    hit = _NCCL.search(line.body) or _TORCH.search(line.body)
    if hit is None:
        return
    groups = hit.groupdict()
    text = (groups["text"] or groups.get("old") or groups.get("driver") or "").strip().rstrip(".")
    if not text or any(part in text.lower() for part in _TABLE.data["clean_up"]):
        return
    candidates = messages(line.body)
    message = next((m for m in candidates if hit[0][:40] in m.message), NcclMessage("", line.body))
    group, rank = member(line.body[: hit.start()])
    yield CudaError(
        **message_fields(line, message, group=group, group_rank=rank),
        message=text,
        software=is_software(text),
        topic=topic_of_cuda_error(text, message.file),
    )
