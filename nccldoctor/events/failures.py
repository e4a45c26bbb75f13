"""What broke: processes and their exceptions, memory, NCCL, the network, GPUs, the store, the scheduler, the kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nccldoctor.events.base import Event, kind


@kind
@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessExit(Event):
    """A process ended, as its launcher saw it. ``exitcode`` is negative or 128+n for a signal; ``signal`` its name.
    ``first`` marks the launcher's first observed failure on that node; ``reporter`` is torchrun, srun, shell, kubernetes, spawn,
    mpirun, deepspeed, lightning, ray, vllm, or ``process`` where the process itself says so. ``task`` is Slurm's task id: the
    global rank only where each task is one rank.
    """

    kind: ClassVar[str] = "process-exit"
    exitcode: int | None = None
    signal: str | None = None
    local_rank: int | None = None
    first: bool = False
    reporter: str = ""
    task: int | None = None


@kind
@dataclass(frozen=True, slots=True, kw_only=True)
class ExceptionRaised(Event):
    """A Python exception that was printed. ``origin`` is ``own`` for an error of this rank's own work, ``echo`` where it only reports
    that a collective, store or connection failed, empty where the text is cut before the exception. ``frame`` is the innermost user
    frame, ``code`` its line as the traceback quotes it, ``frames`` the stack, innermost first. ``logged`` means that the process caught
    it, or lost just a thread. ``local_rank`` is the index a launcher gave; ``worker`` the data-loader worker it happened in.
    """

    kind: ClassVar[str] = "exception"
    type: str = ""
    message: str = ""
    frame: str | None = None
    code: str = ""
    frames: tuple[str, ...] = ()
    origin: str = ""
    logged: bool = False
    local_rank: int | None = None
    worker: int | None = None


@kind
@dataclass(frozen=True, slots=True, kw_only=True)
class OutOfMemory(Event):
    """Memory ran out: ``scope`` is ``device`` or ``host``; ``process`` the command that was killed; ``device`` the index of the GPU
    inside the process.
    """

    kind: ClassVar[str] = "out-of-memory"
    scope: str = ""
    process: str | None = None
    device: int | None = None


@kind
@dataclass(frozen=True, slots=True, kw_only=True)
class NcclError(Event):
    """An NCCL call failed, as PyTorch prints it; ``last_error`` is NCCL's own last warning and may be older."""

    kind: ClassVar[str] = "nccl-error"
    code: str | None = None
    message: str = ""
    last_error: str | None = None


@kind
@dataclass(frozen=True, slots=True, kw_only=True)
class NcclWarn(Event):
    """A warning in NCCL's own log."""

    kind: ClassVar[str] = "nccl-warn"
    message: str = ""
    file: str | None = None
    device: int | None = None


@kind
@dataclass(frozen=True, slots=True, kw_only=True)
class IbError(Event):
    """An InfiniBand, RoCE or EFA error. Status 12 is a peer that does not answer; 5 only follows another error. ``what`` is ``completion``,
    ``port`` (the port or adapter of *this* host failed), ``async`` (an event after which a queue is dead), ``notice``
    (another event, part of
    healthy life), ``stall`` (work that did not complete, yet no error), ``speed`` (the link became slower), ``setup``
    (a queue or a registration could not be made), ``fabric`` (an error of a libfabric
    plug-in). ``local_gid`` and ``remote_gid`` name the two ends of the connection, ``port`` the port of ``hca``.
    """

    kind: ClassVar[str] = "ib-error"
    peer: str | None = None
    status: int | None = None
    vendor_err: int | None = None
    hca: str | None = None
    what: str = ""
    port: int | None = None
    local_gid: str | None = None
    remote_gid: str | None = None
    message: str = ""


@kind
@dataclass(frozen=True, slots=True, kw_only=True)
class SocketError(Event):
    """A connection between ranks broke; ``echo`` is true for *closed by remote peer*, which follows another rank's end.
    ``how`` is ``closed``, ``reset`` (reset by peer, broken pipe: an echo too where the peer is known to have ended), ``timed-out``,
    ``unreachable`` (no route, network down), ``refused``, ``stranger`` (something else answered), ``setup`` (no interface, no device),
    ``other``. Gloo's are always echoes: it tells that a peer is gone, not why. ``peer`` is an address, or ``localRank 2`` of the same node.
    """

    kind: ClassVar[str] = "socket-error"
    peer: str | None = None
    message: str = ""
    echo: bool = False
    how: str = ""


@kind
@dataclass(frozen=True, slots=True, kw_only=True)
class GpuError(Event):
    """The driver, or CUDA, reports a fault of a GPU. ``xid`` (or ``sxid``) is NVIDIA's number; ``device`` the PCI address; ``software`` is
    true for what a faulty program causes (Xid 13, 31, 43, illegal access, device assert). ``weight`` is ``fault`` (of
    the board, its link or its slot), ``software``, ``consequence`` (follows another error or the end of the process: Xid 45, 154) or
    ``notice`` (no reason to stop). ``pid`` is that of the process the driver names.
    """

    kind: ClassVar[str] = "gpu-error"
    xid: int | None = None
    sxid: int | None = None
    device: str | None = None
    message: str = ""
    software: bool = False
    weight: str = "fault"


@kind
@dataclass(frozen=True, slots=True, kw_only=True)
class CudaError(Event):
    """A CUDA call failed in this process."""

    kind: ClassVar[str] = "cuda-error"
    message: str = ""
    software: bool = False


@kind
@dataclass(frozen=True, slots=True, kw_only=True)
class StoreError(Event):
    """The TCP store failed: ``operation`` is wait, unique-id (waits for ``peer``, a rank of the group, to enter its first call),
    barrier, connect, clients-missing, crowded (more came than belong), recv, send, set-up; ``key`` the key waited for; ``missing`` how
    many did not join. *recv* and *send* only say that the process that hosts the store is gone.
    """

    kind: ClassVar[str] = "store-error"
    operation: str = ""
    key: str | None = None
    missing: int | None = None
    peer: int | None = None


@kind
@dataclass(frozen=True, slots=True, kw_only=True)
class RendezvousError(Event):
    """The launcher's rendezvous failed or lost a node."""

    kind: ClassVar[str] = "rendezvous-error"
    message: str = ""
    node: str | None = None


@kind
@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerEvent(Event):
    """The scheduler acted: ``what`` is preempted, node-failure, time-limit, cancelled, oom, evicted, task-exit, requeue;
    ``job`` is the id without that of a step.
    """

    kind: ClassVar[str] = "scheduler"
    what: str = ""
    job: str | None = None
    detail: str = ""


@kind
@dataclass(frozen=True, slots=True, kw_only=True)
class KernelEvent(Event):
    """Other kernel lines that matter: ``what`` is blocked-task, soft-lockup, nfs, lustre, link-down, link-up, nic (a network adapter in
    trouble), pcie (an uncorrected error), memory (an uncorrected error of host memory), disk, segfault, panic,
    reboot, oom-invoked (the killer was called; who died is *out-of-memory*), peermem.
    """

    kind: ClassVar[str] = "kernel"
    what: str = ""
    detail: str = ""
