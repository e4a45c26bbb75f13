"""Memory and other resources of a process that ran out, as the process says it (the kernel's own lines are elsewhere).

Sources: pytorch ``c10/cuda/CUDACachingAllocator.cpp`` (1.8 to 2.13), ``c10/core/impl/alloc_cpu.cpp``,
``torch/utils/data/_utils`` and ``torch/multiprocessing``; CPython and numpy exceptions; glibc ``strerror``; NCCL
``misc/shmutils.cc``; Ray's memory monitor.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccldoctor.events import Event, Note, OutOfMemory
from nccldoctor.parsers.base import Line, LineParser, common, line_parser
from nccldoctor.patterns import lazy

_DEVICE = lazy(
    r"\b(?:CUDA|HIP|XPU|NPU|MUSA) out of memory|CUDA error: out of memory|[Cc]uda failure (?:2 )?'out of memory'"
    r"|CUDA_ERROR_OUT_OF_MEMORY|CUBLAS_STATUS_ALLOC_FAILED|cudaErrorMemoryAllocation"
)
_GPU = lazy(r"\bGPU (\d{1,3})\b")
_HOST = lazy(
    r"DataLoader worker \(pid (?P<worker>\d{1,10})\) is killed by signal: Killed"
    r"|DefaultCPUAllocator: (?:can't allocate memory|not enough memory)|std::bad_alloc"
    r"|\[Errno 12\] Cannot allocate memory|(?:^|[\s.])MemoryError\b|_ArrayMemoryError\b|Unable to allocate "
    r".{1,60} for an array"
    r"|(?:killed|failed) due to (?:memory pressure|the node running low on memory)|fork: (?:retry: )?Cannot "
    r"allocate memory"
)

_RESOURCES = (
    (
        "shm-exhausted",
        r"DataLoader worker \(pid \d{1,10}\) is killed by signal: Bus error|insufficient shared "
        r"memory|/dev/shm.{0,200}No space left"
        r"|No space left on device.{0,200}/dev/shm|unable to open shared memory object|failed to extend /dev/shm/"
        r"|[Ee]rror while creating shared memory segment|unable to (?:allocate|resize) shared memory",
    ),
    ("fd-exhausted", r"[Tt]oo many open files|received 0 items of ancdata|VFS: file-max limit \d{1,12} reached"),
    ("disk-full", r"[Nn]o space left on device|[Dd]isk quota exceeded|\[Errno 28\]|\[Errno 122\]"),
    ("process-limit", r"can't start new thread|[Rr]esource temporarily unavailable|pthread_create failed"),
    (
        "worker-crashed",
        r"DataLoader worker \(pid \d{1,10}\) is killed by signal: (?:Segmentation fault|Aborted|Illegal|Floating)",
    ),
    (
        "worker-gone",
        r"DataLoader worker \(pid\(s\) [\d, ]{1,400}\) exited unexpectedly|Pin memory thread exited unexpectedly",
    ),
    ("loader-timeout", r"DataLoader timed out after \d{1,9} seconds"),
)


_RESOURCE_PATTERNS = tuple((what, lazy(pattern)) for what, pattern in _RESOURCES)


@line_parser
class Memory(LineParser):
    """*out-of-memory* of a device or of the host; *note* for shared memory, file descriptors, disks and processes. A
    data-loader worker that was killed by SIGKILL is taken for a victim of the host's memory: nothing else kills it so.
    """

    literals = (
        "out of memory",
        "CUDA_ERROR_OUT_OF_MEMORY",
        "CUBLAS_STATUS_ALLOC_FAILED",
        "cudaErrorMemoryAllocation",
        "DataLoader worker (pid",
        "DefaultCPUAllocator",
        "std::bad_alloc",
        "annot allocate memory",
        "MemoryError",
        "Unable to allocate ",
        " due to memory pressure",
        "node running low on memory",
        "insufficient shared memory",
        "shared memory object",
        "shared memory segment",
        "failed to extend /dev/shm",
        "o space left on device",
        "quota exceeded",
        "oo many open files",
        "items of ancdata",
        "file-max limit",
        "can't start new thread",
        "esource temporarily unavailable",
        "pthread_create failed",
        "Pin memory thread exited",
        "DataLoader timed out after",
    )

    def parse(self, line: Line) -> Iterator[Event]:
        """See :class:`LineParser`."""
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
        else:
            what = next((name for name, pattern in _RESOURCE_PATTERNS if pattern.search(body)), None)
            if what is not None:
                yield Note(**common(line), what=what, detail=body.strip()[:300])
