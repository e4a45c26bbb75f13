"""Memory and other resources that ran out, as the process says it; lines of the kernel are read elsewhere.

Sources: pytorch ``c10/cuda/CUDACachingAllocator.cpp`` (1.8 to 2.13), ``c10/core/impl/alloc_cpu.cpp``,
``torch/utils/data/_utils`` and ``torch/multiprocessing``; CPython and numpy exceptions; glibc ``strerror``; NCCL
``misc/shmutils.cc``; Ray's memory monitor.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccldoctor.events import Event, Note, OutOfMemory
from nccldoctor.parsers.base import Line, common, reads
from nccldoctor.parsers.rows import Table, needs_of
from nccldoctor.patterns import lazy

_DEVICE = lazy(
    r"\b(?:CUDA|HIP|XPU|NPU|MUSA) out of memory|CUDA error: out of memory|[Cc]uda failure (?:2 )?'out of memory'"
    r"|CUDA_ERROR_OUT_OF_MEMORY|CUBLAS_STATUS_ALLOC_FAILED|cudaErrorMemoryAllocation"
)
_GPU = lazy(r"\bGPU (\d{1,3})\b")
_HOST = lazy(
    r"DataLoader worker \(pid (?P<worker>\d{1,10})\) is killed by signal: Killed"
    r"|DefaultCPUAllocator: (?:can't allocate memory|not enough memory)|std::bad_alloc"
    r"|\[Errno 12\] Cannot allocate memory|(?:^|[\s.])MemoryError(?=:|\s*$)|_ArrayMemoryError\b|Unable to allocate "
    r".{1,60} for an array"
    r"|(?:killed|failed) due to (?:memory pressure|the node running low on memory)|fork: (?:retry: )?Cannot "
    r"allocate memory"
)

_TABLE = Table(__file__)


@reads(*_TABLE.literals, needs=(_DEVICE, _HOST, *needs_of(_TABLE.rows)))
def memory(line: Line) -> Iterator[Event]:
    """*out-of-memory* of a device or of the host; *note* for shared memory, file descriptors, disks and processes. A
    data-loader worker that was killed by SIGKILL is taken for a victim of the host's memory: nothing else kills it so.
    """
    body = line.body
    if "ibv_" in body:
        return  # a limit on locked memory: the transport's business
    if _DEVICE.search(body):
        gpu = _GPU.search(body)
        yield OutOfMemory(**common(line), scope="device", device=int(gpu[1]) if gpu else None)
    elif (match := _HOST.search(body)) and "oom-kill" not in body:
        worker = match["worker"]
        pid = int(worker) if worker else line.mark.pid
        yield OutOfMemory(**common(line, pid=pid), scope="host", process="DataLoader worker" if worker else None)
    elif what := _TABLE.first(body):
        yield Note(**common(line), what=what, detail=body.strip()[:300])
