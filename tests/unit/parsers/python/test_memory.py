"""Memory, shared memory, descriptors and disks that ran out."""

from __future__ import annotations

import pytest
from builders.logs.log_reading import events_of, parser_named
from hypothesis import given, settings
from hypothesis import strategies as st

from nccldoctor.events import Note, OutOfMemory

MEMORY = parser_named("memory")


@pytest.mark.parametrize(
    ("text", "scope", "device"),
    [
        (
            "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB. GPU 1 has a total",
            "device",
            1,
        ),
        (
            "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 10.76 GiB total capacity)",
            "device",
            0,
        ),
        ("RuntimeError: CUDA error: out of memory", "device", None),
        ("n1:1:2 [3] include/alloc.h:9 NCCL WARN Cuda failure 'out of memory'", "device", None),
        ("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", "device", None),
        ("MemoryError", "host", None),
        (
            "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 3.0 GiB for an array with shape (1,)",
            "host",
            None,
        ),
        ("  what():  std::bad_alloc", "host", None),
        ("OSError: [Errno 12] Cannot allocate memory", "host", None),
        (
            "RuntimeError: [enforce fail at alloc_cpu.cpp:114] DefaultCPUAllocator: can't allocate memory: you tried",
            "host",
            None,
        ),
        ("ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.", "host", None),
    ],
)
def test_scopes(text: str, scope: str, device: int | None) -> None:
    (event,) = events_of(MEMORY, text)
    assert isinstance(event, OutOfMemory)
    assert (event.scope, event.device) == (scope, device)


def test_killed_worker_is_named_by_its_own_pid() -> None:
    (event,) = events_of(MEMORY, "[rank2]: RuntimeError: DataLoader worker (pid 5123) is killed by signal: Killed. ")
    assert isinstance(event, OutOfMemory)
    assert (event.rank, event.pid, event.process) == (2, 5123, "DataLoader worker")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (
            "RuntimeError: DataLoader worker (pid 5) is killed by signal: Bus error. It is possible that",
            "shm-exhausted",
        ),
        ("RuntimeError: unable to open shared memory object </torch_1_2> in read-write mode", "shm-exhausted"),
        ("NCCL WARN Call to ftruncate failed: failed to extend /dev/shm/nccl-x to 9 bytes", "shm-exhausted"),
        ("RuntimeError: Too many open files. Communication with the workers is no longer possible.", "fd-exhausted"),
        ("RuntimeError: received 0 items of ancdata", "fd-exhausted"),
        ("OSError: [Errno 28] No space left on device", "disk-full"),
        ("OSError: [Errno 122] Disk quota exceeded", "disk-full"),
        ("RuntimeError: can't start new thread", "process-limit"),
        ("bash: fork: retry: Resource temporarily unavailable", "process-limit"),
        ("RuntimeError: DataLoader worker (pid 5) is killed by signal: Segmentation fault.", "worker-crashed"),
        ("RuntimeError: DataLoader worker (pid(s) 5, 6) exited unexpectedly", "worker-gone"),
        ("RuntimeError: DataLoader timed out after 120 seconds", "loader-timeout"),
    ],
)
def test_other_resources(text: str, what: str) -> None:
    (event,) = events_of(MEMORY, text)
    assert isinstance(event, Note)
    assert event.what == what


@pytest.mark.parametrize(
    "text",
    [
        "NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory",
        "RuntimeError: DataLoader worker (pid 5) is killed by signal: Terminated.",
        "the loader never runs out of memory",
    ],
)
def test_no_sign_of_a_shortage(text: str) -> None:
    assert events_of(MEMORY, text) == []


@given(st.lists(st.one_of(st.sampled_from(MEMORY.literals), st.text(max_size=30)), max_size=8))
@settings(max_examples=30, deadline=None)
def test_never_raises(pieces: list[str]) -> None:
    events_of(MEMORY, "".join(pieces))


def test_code_in_a_traceback_is_no_event_of_its_own() -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "/srv/load.py", line 7, in fill\n'
        '    raise MemoryError("CUDA out of memory")\n'
        "MemoryError: CUDA out of memory\n"
    )
    assert [e.place.line for e in events_of(MEMORY, text) if isinstance(e, OutOfMemory)] == [4]


def test_an_indented_line_that_no_frame_stands_above_is_read() -> None:
    assert len(events_of(MEMORY, "report:\n    MemoryError: no room\n")) == 1
