"""Kinds of event about records: communicators, NCCL's calls, RAS, dumps of NCCL, versions, other tools' findings, notes."""

from __future__ import annotations

from nccldoctor.events.base import Event, Writer, kind, wordings
from nccldoctor.model import CauseClass, EventRole
from nccldoctor.model.ranks import Ranks


@kind("comm-init")
class CommInit(Event):
    """NCCL's INIT lines: the host, process and GPU of a rank of a communicator.

    ``what`` is start, complete, abort, destroy, revoke, bootstrap, or torn: a start or an end whose numbers are not readable. ``comm`` is
    the pointer, private to its process; ``comm_id`` is equal on all members where the release prints it. Members of a split (2.23 to 2.30
    print no id for it) share ``split`` and the communicator behind their own ``parent`` pointer.
    """

    what: str = ""
    comm: str | None = None
    comm_id: str | None = None
    parent: str | None = None
    split: str | None = None
    nranks: int | None = None
    cuda_dev: int | None = None
    nvml_dev: int | None = None
    bus_id: str | None = None
    address: str | None = None

    @property
    def consequence(self) -> EventRole | None:
        """Tear-down where a communicator is given up."""
        return EventRole.TEAR_DOWN if self.what in ("abort", "revoke") else None

    def _phrase(self) -> str:
        words = wordings()["communicator"].get(self.what, "named a communicator{}")
        return words.format(f" of {self.nranks} ranks" if self.nranks else "")


@kind("coll-call")
class CollCall(Event):
    """NCCL's COLL lines: a call as it was made, with NCCL's own count (hex, per communicator)."""

    op: str = ""
    op_count: int = 0
    numel: int | None = None
    dtype: str | None = None
    root: int | None = None
    comm: str | None = None
    nranks: int | None = None

    def _phrase(self) -> str:
        return f"issued {self.op or 'a call'}"


@kind("ras", writer=Writer.RAS, wording="reported by NCCL's RAS")
class RasStatus(Event):
    """One row or block of NCCL's RAS output, or one event of its monitor.

    ``what`` is the state of a row (OK, MISMATCH, ERROR, INCOMPLETE),
    the head of a block (also DEAD, TIMEOUT), an event (NEW, DEAD …), OUTLIER for a node with another number of processes, or TOTAL for
    all GPUs of the job. ``counts`` are (rank inside ``comm_id``, operation, how many it launched), rank -1 for those that the text does
    not list; ``processes`` are (rank inside, host, pid); a block belongs to the row with its ``table`` number, which has ``nranks``.
    The communicators of a row hold ``gpus`` different GPUs.
    """

    what: str = ""
    missing: Ranks = Ranks()
    detail: str = ""
    counts: tuple[tuple[int, str, int], ...] = ()
    comm_id: str | None = None
    nranks: int | None = None
    processes: tuple[tuple[int, str, int], ...] = ()
    table: int | None = None
    gpus: int | None = None

    def _phrase(self) -> str:
        return f"{self.wording}: {self.detail}" if self.detail else self.wording

    @property
    def is_trouble(self) -> bool:
        """True of a process without an answer and of an error; counts differ in a running job as well."""
        return self.what in ("DEAD", "ERROR", "TIMEOUT") or (self.what == "INCOMPLETE" and bool(self.missing))


@kind("inspector", wording="finished a call, by NCCL's Inspector")
class InspectorRecord(Event):
    """The last call of a communicator that NCCL's Inspector saw finish in one process.

    It is ``group_rank`` of ``nranks`` in communicator ``comm_id``, the call's number ``op_count`` among ``calls`` (*coll* or
    *p2p*), its ``size`` in bytes and time in microseconds. Small calls are not recorded by default and a killed process may
    leave nothing: a low count is a lead, no proof.
    """

    calls: str = ""
    op: str = ""
    op_count: int | None = None
    comm_id: str | None = None
    nranks: int | None = None
    size: int | None = None
    micros: float | None = None


@kind("proxy-dump", wording="its proxy thread listed its transfers")
class ProxyDump(Event):
    """The transfers that NCCL's proxy thread had in flight when a signal asked for them.

    ``what`` is *waits-for-peer* (``peers`` are the
    ranks inside the communicators that it receives from or sends to: those, or the link to them), *waits-for-gpu* (this GPU does
    not run), *not-begun*, *mixed* or *idle*; ``states`` counts transfers by NCCL's letter.
    """

    what: str = ""
    peers: Ranks = Ranks()
    ops: int = 0
    states: tuple[tuple[str, int], ...] = ()
    detail: str = ""


@kind("version", wording="printed its versions", is_testimony=False)  # it may stand in any list of requirements
class Version(Event):
    """A version banner: ``of`` is torch, nccl, cuda, driver, python."""

    of: str = ""
    version: str = ""


@kind("fr-analysis", wording="an analysis of flight recorder dumps")
class FrAnalysis(Event):
    """Output of PyTorch's own flight-recorder analyser found in the input; ``expected`` counts the ``members`` of the call."""

    what: str = ""
    missing: Ranks = Ranks()
    members: Ranks = Ranks()
    expected: int | None = None
    op: str | None = None
    seq: int | None = None
    detail: str = ""

    @property
    def is_trouble(self) -> bool:
        """True where it names missing ranks."""
        return bool(self.missing)


@kind("note")
class Note(Event):
    """Another line worth quoting; ``what`` names it."""

    what: str = ""
    detail: str = ""

    @property
    def is_testimony(self) -> bool:
        """Advice, and code that reads a variable, are what people wrote; sizes, places and unread lines tell of no event."""
        asides = ("advice", "reads-variable", "world-size", "job-size", "least-size", "pod-on-node")
        return self.what not in (*asides, "marked")

    @property
    def is_sign_of_life(self) -> bool:
        """False of a rank that somebody asked in vain."""
        return self.written_by is Writer.RANK and self.what != "debug-server-no-answer"

    @property
    def can_cause(self) -> frozenset[CauseClass]:
        """What a full disk, a lost loader worker and the like can lead to; other notes are no trouble."""
        return _ANY_OF_A_PROCESS if self.what in _TROUBLE else frozenset()

    @property
    def is_trouble(self) -> bool:
        """True also of what ends a call or a worker, whatever that leads to."""
        return self.what in _TROUBLE or self.what in _FAILED or self.is_prompt

    @property
    def has_lost_loss(self) -> bool:
        """True where the loss is not a number: the job may go on, and what it computes is worth nothing."""
        return self.what == "loss-nan"

    @property
    def is_prompt(self) -> bool:
        """True where the program waits for the input of a person."""
        return self.what in ("debugger", "question")

    def _phrase(self) -> str:
        return "a prompt without an answer" if self.is_prompt else Event._phrase(self)


_ANY_OF_A_PROCESS = frozenset(CauseClass) - {CauseClass.NONE, CauseClass.NETWORK, CauseClass.HARDWARE}
_TROUBLE = frozenset(
    {"shm-exhausted", "fd-exhausted", "disk-full", "loader-died", "loader-timeout", "loss-nan", "zero3-trace"}
)
_FAILED = (
    frozenset({"nccl-trail", "remote-error", "aborted-comm", "worker-gone", "worker-crashed", "ranks-missing"})
    | {"store-barrier-waiting", "connect-retry", "process-limit", "iommu-fault", "port-down", "desync-failed"}
    | {"pod-pending", "pod-ended", "wrong-results", "low-bandwidth"}
    | {"exit-barrier-timeout", "forward-order"}
)
