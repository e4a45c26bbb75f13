"""Kinds of event about failures: processes, exceptions, memory, NCCL, network, GPUs, store, scheduler, kernel."""

from __future__ import annotations

from nccldoctor.events.base import Event, Writer, kind, wordings
from nccldoctor.model import CauseClass, EventRole
from nccldoctor.model.stack_frames import innermost

C = CauseClass
_STOPPED = frozenset(
    {C.NOT_ARRIVED, C.FROZEN, C.DIED, C.RAISED, C.STRAGGLER, C.INIT, C.DEVICE_STALLED, C.UNFINISHED, C.UNDETERMINED}
)
_DEVICE = frozenset(
    {C.HARDWARE, C.DEVICE_STALLED, C.UNFINISHED, C.FROZEN, C.DIED, C.NOT_ARRIVED, C.RAISED, C.UNDETERMINED}
)
_LINKS = frozenset({C.NETWORK, C.UNFINISHED, C.INIT, C.HARDWARE, C.UNDETERMINED})
_ENDS = frozenset({C.DIED, C.RAISED, C.FROZEN, C.NOT_ARRIVED, C.INIT, C.UNDETERMINED})
_NONE: frozenset[CauseClass] = frozenset()


@kind("process-exit", writer=Writer.LAUNCHER, symbol="exit", is_sign_of_life=False)
class ProcessExit(Event):
    """A process ended, as its launcher saw it.

    ``exitcode`` is negative or 128+n for a signal; ``signal`` its name.
    ``first`` marks the launcher's first observed failure on that node; ``reporter`` is torchrun, srun, shell, kubernetes, spawn, mpirun,
    deepspeed, lightning, ray, vllm, sglang, jax, hccl, mindspore, msrun, container, sagemaker, paddle, sidecar or ``process`` (itself).
    ``task`` is Slurm's task id: the global rank only where each task is one rank;
    ``name`` what a framework calls the process (``WorkerDict_0:6``); ``agent`` the pid of the launcher that wrote the line.
    """

    exitcode: int | None = None
    signal: str | None = None
    local_rank: int | None = None
    first: bool = False
    reporter: str = ""
    task: int | None = None
    name: str | None = None
    agent: int | None = None

    @property
    def written_by(self) -> Writer:
        """The process itself where its own handler of signals tells of its end."""
        return Writer.RANK if self.reporter == "process" else Writer.LAUNCHER

    @property
    def is_heartbeat_loss(self) -> bool:
        """True where a coordinator only misses its heartbeats: a stopped process and a lost link look the same."""
        return self.reporter in ("jax", "hccl", "mindspore")

    @property
    def is_told_afterwards(self) -> bool:
        """True where it happened before the complaint that lists it: HCCL counts missed heartbeats and prints them only then."""
        return self.reporter == "hccl"

    @property
    def is_told_at_once(self) -> bool:
        """True where the daemon of the host printed it at once: Ray's driver tells when it asks for a result."""
        return self.text.startswith("(raylet")

    @property
    def can_be_launchers_kill(self) -> bool:
        """True of a SIGKILL in the list of Intel MPI, which names the processes that it killed itself as well."""
        return self.reporter == "mpirun" and not self.first and self.signal == "SIGKILL"

    @property
    def is_unexplained_abort(self) -> bool:
        """True of an abort that a sidecar saw: the reason stands on stderr, which it does not read."""
        return self.reporter == "sidecar" and self.signal == "SIGABRT"

    @property
    def was_closed(self) -> bool:
        """True of the exit codes with which launchers close siblings: SIGTERM, SIGINT and SIGHUP."""
        return self.exitcode in (-15, 143, -2, 130, -1, 129)

    @property
    def consequence(self) -> EventRole | None:
        """Tear-down where a signal ended it with which launchers close siblings, or the abort of a watchdog."""
        closed = self.was_closed or self.signal in ("SIGTERM", "SIGINT", "SIGHUP", "SIGABRT")
        return EventRole.TEAR_DOWN if closed else None

    @property
    def can_cause(self) -> frozenset[CauseClass]:
        """An exit code of 0 is no trouble, nor is an end of which nothing is known."""
        return _ENDS | {C.NETWORK} if self.exitcode else _NONE

    @property
    def is_trouble(self) -> bool:
        """True unless the process is known to have ended with 0."""
        return self.exitcode != 0

    @property
    def is_end_of_process(self) -> bool:
        """True of every end but that of a program that was done."""
        return self.exitcode != 0

    @property
    def is_stop_by_person(self) -> bool:
        """True of an end by SIGINT."""
        return self.signal == "SIGINT" or self.exitcode in (-2, 130)

    def _phrase(self) -> str:
        if self.signal:
            return f"exited on {self.signal}"
        if self.is_heartbeat_loss:
            return "stopped sending heartbeats"
        return "exited" if self.exitcode is None else f"exited with code {self.exitcode}"


_CARRIERS = ("CheckpointException", "ProcessRaisedException", "ProcessExitedException", "WorkerGroupError")


# whether the process went on after an exception, only later lines show
@kind("exception", symbol="exception", moot_after_end=True, is_trouble=True)
class ExceptionRaised(Event):
    """A Python exception that was printed.

    ``origin`` is ``own`` for an error of this rank's own work, ``echo`` where it only reports that a collective, store or
    connection failed, empty where the text is cut before the exception. ``frame`` is the innermost user
    frame, ``code`` its line as the traceback quotes it, ``frames`` the stack, innermost first. ``logged`` means that the process caught
    it, or lost just a thread. ``local_rank`` is the index a launcher gave; ``worker`` the data-loader worker it happened in.
    ``signal`` is what ended a launcher that tells of it in an exception.
    """

    type: str = ""
    message: str = ""
    frame: str | None = None
    code: str = ""
    frames: tuple[str, ...] = ()
    origin: str = ""
    logged: bool = False
    local_rank: int | None = None
    worker: int | None = None
    signal: str | None = None

    @property
    def is_uncaught(self) -> bool:
        """True where it passed the outermost line of the program; a logger may still have printed it there."""
        return not self.logged or any(frame.startswith("<module> ") for frame in self.frames[-1:])

    @property
    def is_of_thread(self) -> bool:
        """True where it ended a thread of Python, and not the process."""
        return any(frame.startswith("_bootstrap_inner ") for frame in self.frames[-2:])

    @property
    def is_of_mpi(self) -> bool:
        """True of an error that a call of MPI returned, and that ended the process."""
        return self.type.startswith("MPI")

    @property
    def is_complaint(self) -> bool:
        """True of an echo, but for one that carries the error of another process to one that did not wait.

        Such are a CheckpointException, the exceptions of the process that called ``mp.spawn``, and those of Ray Train for its workers.
        """
        return self.origin == "echo" and self.type.rpartition(".")[2] not in _CARRIERS

    @property
    def consequence(self) -> EventRole | None:
        """An echo follows what a peer, the store or a connection did."""
        return EventRole.CASCADE if self.origin == "echo" else None

    @property
    def can_cause(self) -> frozenset[CauseClass]:
        """The rank's own error, unless the process caught it."""
        return _ENDS if self.origin == "own" and not self.logged else _NONE

    @property
    def is_stop_by_person(self) -> bool:
        """True of Python's word for Ctrl-C, and of a launcher that SIGINT ended."""
        return self.type == "KeyboardInterrupt" or self.signal == "SIGINT"

    def _phrase(self) -> str:
        name = self.type.rpartition(".")[2] or "an exception"
        place = f" in {innermost((self.frame,))}" if self.frame else ""
        return f"{name}{place}" + (f": {self.message}" if self.message and not place else "")


# the exception that the rank prints with it is the sign of life, and a kernel speaks of a process that it killed
@kind(
    "out-of-memory",
    symbol="trouble",
    wording="out of memory",
    worded_by="scope",
    causes=_ENDS | {C.NETWORK},
    is_sign_of_life=False,
)
class OutOfMemory(Event):
    """The memory of a GPU or a host ran out.

    ``scope`` is ``device`` or ``host``, ``process`` the command that was killed, ``device`` the index of the GPU in the process.
    """

    scope: str = ""
    process: str | None = None
    device: int | None = None

    @property
    def written_by(self) -> Writer:
        """The rank whose GPU is full, else the kernel that killed a process."""
        return Writer.RANK if self.scope == "device" else Writer.KERNEL

    @property
    def is_end_of_process(self) -> bool:
        """True where the kernel killed a process."""
        return self.scope != "device"


@kind("nccl-error", symbol="trouble", wording="NCCL error", worded_by="code", is_reaction=True, moot_after_end=True)
class NcclError(Event):
    """An NCCL call failed, as PyTorch prints it; ``last_error`` is NCCL's own last warning and may be older.

    ``topic`` is what could not be set up, as in *nccl-warn*, or leftover (a process of the last run still
    holds the device), or oneccl or nvshmem (their own set-up).
    """

    code: str | None = None
    message: str = ""
    last_error: str | None = None
    topic: str = ""


@kind("nccl-warn", wording="NCCL warning", worded_by="message")
class NcclWarn(Event):
    """A warning in NCCL's own log.

    ``topic`` is what could not be set up: shared-memory, interface, multicast (of NVLink), fabric-manager, fabric (of several
    nodes), peer-access, duplicate-gpu, version, driver, plugin, topology, limits (threads or memory), checked-in (a rank that came twice).
    ``whose`` it is (caller, library, host, peer, fabric, ranks) and its ``weight`` (cause, consequence, notice) stand in
    ``parsers/roles.toml``, and so does ``what`` where it has a meaning of its own.
    """

    message: str = ""
    file: str | None = None
    device: int | None = None
    topic: str = ""
    whose: str = ""
    weight: str = ""
    what: str = ""

    @property
    def bearing(self) -> str:
        """Whose it is and what it weighs, in one word: ``host-cause``."""
        return f"{self.whose}-{self.weight}"

    @property
    def consequence(self) -> EventRole | None:
        """By its weight."""
        return EventRole.CASCADE if self.weight == "consequence" else None

    @property
    def is_trouble(self) -> bool:
        """False of a notice: NCCL goes on."""
        return self.weight != "notice"


@kind("ib-error", symbol="trouble", host_matters=True, has_two_ends=True)
class IbError(Event):
    """An InfiniBand, RoCE or EFA error.

    Status 12 is a peer that does not answer; 5 only follows another error. ``what`` is ``completion``,
    ``port`` or ``adapter`` (that of *this* host failed), ``async`` (an event after which a queue of this host is dead),
    ``refused`` (the adapter refused a request of the other end, and either end can be wrong), ``notice`` (another event,
    part of healthy life, or a tear-down that failed), ``stall`` (work that did not complete, yet no error), ``speed`` (the
    link became slower), ``setup`` (a queue or a registration could not be made), ``fabric`` (an error of a libfabric
    plug-in). ``local_gid`` and ``remote_gid`` name the two ends of the connection, ``port`` the port of ``hca``.
    """

    peer: str | None = None
    status: int | None = None
    vendor_err: int | None = None
    hca: str | None = None
    what: str = ""
    port: int | None = None
    local_gid: str | None = None
    remote_gid: str | None = None
    message: str = ""

    @property
    def is_flush(self) -> bool:
        """True of a status that only follows another error of the same queue pair."""
        return self.status == 5  # rdma-core, ibv_wc_status

    @property
    def meaning(self) -> str:
        """The status in words: ``transport retry counter exceeded`` of 12; "" where it is unknown."""
        return wordings()["ib-status"].get(str(self.status), "")

    @property
    def is_of_own_end(self) -> bool:
        """True of an event of the adapter that speaks against this end of the connection."""
        return self.what in ("port", "adapter", "async")

    @property
    def event(self) -> str:
        """What the adapter reported, in the driver's words and without its number: ``port error`` of ``port error(10)``."""
        is_event = self.is_of_own_end or self.what == "refused"
        return self.message.partition("(")[0].strip() if is_event else ""

    @property
    def can_cause(self) -> frozenset[CauseClass]:
        """Notices and flushes are no trouble of their own, and a slower link still works."""
        return _NONE if self.what in ("notice", "speed") or (self.what == "completion" and self.is_flush) else _LINKS

    @property
    def is_trouble(self) -> bool:
        """False of a notice and of a slower link."""
        return self.what not in ("notice", "speed")

    def _phrase(self) -> str:
        where = (f" on {self.hca}" if self.hca else "") + (f", status {self.status}" if self.status is not None else "")
        return f"InfiniBand: {wordings()['ib-error'].get(self.what, 'error')}{where}"


@kind("socket-error", symbol="trouble", has_two_ends=True, causes=_LINKS)
class SocketError(Event):
    """A connection between ranks broke.

    ``echo`` is true for *closed by remote peer*, which follows another rank's end.
    ``how`` is ``closed``, ``reset`` (reset by peer, broken pipe: an echo too where the peer is known to have ended), ``timed-out``,
    ``unreachable`` (no route, network down), ``refused``, ``stranger`` (something else answered), ``setup`` (no interface, no device),
    ``other``. Gloo's are always echoes: it tells that a peer is gone, not why. ``peer`` is an address, or ``localRank 2`` of the same node.
    """

    peer: str | None = None
    message: str = ""
    echo: bool = False
    how: str = ""

    @property
    def consequence(self) -> EventRole | None:
        """An echo follows the end of the peer."""
        return EventRole.CASCADE if self.echo else None

    def _phrase(self) -> str:
        return wordings()["connection"].get(self.how, "a connection failed")


@kind("gpu-error", writer=Writer.KERNEL, symbol="trouble", host_matters=True)
class GpuError(Event):
    """The driver, or CUDA, reports a fault of a GPU.

    ``xid`` (or ``sxid``) is NVIDIA's number; ``device`` the PCI address; ``software`` is
    true for what a faulty program causes (Xid 13, 31, 43, illegal access, device assert). ``weight`` is ``fault`` (of
    the board, its link or its slot), ``hang`` (it stopped answering, and a reset may bring it back), ``software``, ``consequence``
    (follows another error or the end of the process: Xid 45, 154) or ``notice`` (no reason to stop).
    ``pid`` is that of the process the driver names, ``board`` what it is: GPU or TPU.
    """

    xid: int | None = None
    sxid: int | None = None
    device: str | None = None
    message: str = ""
    software: bool = False
    weight: str = "fault"
    board: str = "GPU"

    @property
    def is_of_board(self) -> bool:
        """True of a fault and of a hang that no program is known to have caused."""
        return self.weight in ("fault", "hang") and not self.software

    @property
    def consequence(self) -> EventRole | None:
        """By its weight."""
        return EventRole.CASCADE if self.weight == "consequence" else None

    @property
    def can_cause(self) -> frozenset[CauseClass]:
        """A notice is no reason to stop."""
        return _NONE if self.weight == "notice" else _DEVICE

    def _phrase(self) -> str:
        if self.xid is None:
            return f"device error: {self.message}"
        meaning = self.message.partition(": ")[0]  # behind it come the driver's own words
        number = f"Xid {self.xid}" if "xid" in self.text.lower() or not meaning else ""
        return ", ".join(filter(None, (number, meaning)))


@kind("cuda-error", wording="CUDA error", worded_by="message", causes=_DEVICE)
class CudaError(Event):
    """A CUDA call failed in this process; ``topic`` is what NCCL was setting up, as in *nccl-warn*."""

    message: str = ""
    software: bool = False
    topic: str = ""


@kind("store-error", wording="store error", is_reaction=True, moot_after_end=True)
class StoreError(Event):
    """The TCP store failed, or what waited on it.

    ``operation`` is wait, unique-id (waits for ``peer``, a rank of the group, to enter its first call),
    peer-connect (``peer``, a rank of the group, or ``address`` could not be reached),
    barrier, connect, resolve (of the name of its host), clients-missing, crowded (more came than belong), port-in-use, recv, send, set-up;
    ``key`` the key waited for; ``missing`` how many did not join; ``address`` what was not reached, the store that was lost, or the port
    that was taken. *recv* and *send* only say that the process that hosts the store is gone.
    """

    operation: str = ""
    key: str | None = None
    missing: int | None = None
    peer: int | None = None
    address: str | None = None

    @property
    def failure(self) -> str:
        """What failed, in words: ``its port was taken``."""
        return wordings()["store"].get(self.operation, self.operation)

    def _phrase(self) -> str:
        return f"{self.wording}: {self.failure}" if self.failure else self.wording

    @property
    def is_complaint(self) -> bool:
        """A store that is gone at the end of a job says nothing, nor does one lookup: another may succeed."""
        return self.operation not in ("recv", "send", "resolve")


# at the end of a good job nothing is left that a failed rendezvous could harm
@kind("rendezvous-error", writer=Writer.LAUNCHER, wording="the launcher's rendezvous failed", is_trouble=True)
class RendezvousError(Event):
    """The launcher's rendezvous failed or lost a node.

    ``what``: store-lost (an agent lost it while its workers ran), closed (another agent had ended the rendezvous), no-store (not usable).
    """

    message: str = ""
    node: str | None = None
    what: str = ""


@kind(
    "scheduler",
    wording="scheduler",
    worded_by="what",
    causes=_ENDS,
    writer=Writer.SCHEDULER,
    symbol="trouble",
    is_end_of_process=True,
)
class SchedulerEvent(Event):
    """The scheduler stopped, moved or ended a job.

    ``what`` is preempted, node-failure, time-limit, cancelled, stopped (a pod), oom, evicted, task-exit, requeue, failed
    (its record says so, and not why);
    ``job`` is the id without that of a step; ``job_step`` is the step that the line is about (``0``, ``batch``), None where it is about
    the whole job or does not say. ``by`` is who says it: slurm, kubernetes, ray, host (its journal), or empty for clouds.
    """

    what: str = ""
    by: str = ""
    job: str | None = None
    job_step: str | None = None
    detail: str = ""

    @property
    def is_whole_jobs(self) -> bool:
        """True of an end that takes all ranks."""
        return self.what in ("preempted", "requeue", "time-limit")

    @property
    def is_withdrawal(self) -> bool:
        """True where the scheduler took the job, or a node or pod of it, away: processes end because of it."""
        return self.is_whole_jobs or self.what in ("node-failure", "evicted")

    @property
    def consequence(self) -> EventRole | None:
        """Who cancels a job does so after it stood still; a job is failed because a process of it is."""
        return EventRole.TEAR_DOWN if self.what in ("cancelled", "stopped", "failed") else None


@kind("kernel", wording="kernel", worded_by="what", writer=Writer.KERNEL, symbol="trouble", host_matters=True)
class KernelEvent(Event):
    """Another kernel line that matters.

    ``what`` is blocked-task, soft-lockup, nfs, lustre, link-down, link-up, nic (a network adapter in
    trouble), pcie (an uncorrected error), memory (an uncorrected error of host memory), disk, segfault, panic,
    reboot, oom-invoked (the killer was called; who died is *out-of-memory*), peermem.
    """

    what: str = ""
    detail: str = ""

    @property
    def can_cause(self) -> frozenset[CauseClass]:
        """By what it says of storage, links, memory and processes."""
        return _KERNEL.get(self.what, _NONE)

    @property
    def is_trouble(self) -> bool:
        """False only of a link that came back and of a note about peer memory."""
        return self.what not in ("link-up", "peermem")

    @property
    def is_end_of_process(self) -> bool:
        """True where a process was killed or the host went down."""
        return self.what in ("segfault", "panic", "reboot", "oom-invoked")


_KERNEL = {
    **dict.fromkeys(("nfs", "lustre", "disk", "blocked-task", "soft-lockup"), _STOPPED),
    **dict.fromkeys(("link-down", "nic"), _LINKS | {C.DIED, C.FROZEN}),
    **dict.fromkeys(("panic", "reboot", "memory", "segfault"), _ENDS),
    "pcie": _DEVICE,
}
