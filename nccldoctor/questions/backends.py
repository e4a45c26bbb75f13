"""Which library carried the collectives, and what follows from it about GPUs."""

from __future__ import annotations

from itertools import islice
from typing import Literal

from nccldoctor.events import KINDS, CudaError, GpuError, Note, Stack
from nccldoctor.identify.case import Case

BACKENDS = {"horovod": "horovod", "hccl": "hccl", "oneccl": "ccl_error|", "jax": "jax", "gloo": "gloo", "nccl": "nccl"}
"""Libraries that carry collectives, each with what its lines hold, in lower case; the first that fits a line is meant."""

_IN_STACKS = {"gloo": "gloo", "nccl": "nccl", "mpi": "mpi_", "cuda": "cuda"}
"""What native frames and names of threads hold, in lower case. Functions of Python may be called anything."""

ON_CPU = frozenset({"gloo", "mpi"})
"""Libraries that carry data between CPUs: no call of theirs waits for a device."""
WITHOUT_GPU = ON_CPU | {"oneccl", "hccl"}
"""Those, and libraries between other devices than GPUs."""

_WRITERS = (
    *("nccl-warn", "nccl-error", "comm-init", "collective-timeout", "work-status", "peer-timeout", "absence-report"),
    *("absence-warning", "exception", "store-error"),
)
"""Kinds of events whose lines come from such a library, or quote it."""
_LINES = 2_000
"""Lines of each kind that are looked at: a library that is in use says so early."""

Needs = Literal["gpu", "no-gpu", "nccl"]
"""What a remedy or one of its steps may be for."""


def backends_of(case: Case) -> frozenset[str]:
    """The libraries of :data:`BACKENDS` that the input shows at work, and others that recorded calls name.

    Empty where none is shown. Where only the build of PyTorch tells, it is gloo.
    """
    seen = {dump.backend.lower() for dump in case.dumps if dump.entries and dump.backend}
    for kind in _WRITERS:
        for event in islice(case.of(KINDS[kind]), _LINES):
            text = f"{event.text} {getattr(event, 'by', '')}|".lower().replace(" xla|", " jax")
            seen |= {next((name for name, sign in BACKENDS.items() if sign in text), "")}
    for note in islice(case.of(Note), _LINES):
        if note.what == "backend":
            seen |= {name for name in BACKENDS if name in note.detail}
    seen |= _in_stacks(case)
    is_without_gpus = (case.torch or "").endswith("+cpu")  # such a build of PyTorch has no NCCL
    return frozenset(seen - {"", "cuda"} or ({"gloo"} if is_without_gpus else ()))


def met_needs(case: Case, backends: frozenset[str]) -> frozenset[Needs]:
    """What remedies need that this job may have, by the libraries at work. Where none is known: all but *no-gpu*."""
    is_on_gpu = not backends or bool(backends - WITHOUT_GPU) or "cuda" in _in_stacks(case)
    is_on_gpu = is_on_gpu or any(True for kind in (CudaError, GpuError) for _ in case.of(kind))
    met: set[Needs] = {"gpu" if is_on_gpu else "no-gpu"}
    return frozenset(met | ({"nccl"} if not backends or "nccl" in backends else set()))


def _in_stacks(case: Case) -> set[str]:
    """The words of :data:`_IN_STACKS` in the stacks of the job."""
    stacks = islice(case.of(Stack), _LINES)
    names = {frame for stack in stacks for frame in (stack.thread or "", *stack.frames) if ".py:" not in frame}
    return {what for what, sign in _IN_STACKS.items() if any(sign in name.lower() for name in names)}
