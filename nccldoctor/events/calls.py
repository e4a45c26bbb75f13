"""Kinds of event about stuck calls: timeouts, counters, dumps and tear-down, from watchdogs, monitors and debug wrappers."""

from __future__ import annotations

from typing import ClassVar

from nccldoctor.events.base import Event, Writer, kind, wordings
from nccldoctor.model import EventRole, Stalled
from nccldoctor.model.ranks import Ranks
from nccldoctor.words.names import ranks_phrase


class CallTimeout(Event):
    """A rank gave up on a call that it waited in: it is a victim, the culprit is usually silent.

    ``ran_ms`` far above ``timeout_ms`` means that the watchdog itself was stuck.
    """

    symbol: ClassVar[str] = "timeout"
    is_alarm: ClassVar[bool] = True
    op: str | None = None
    seq: int | None = None
    numel_in: int | None = None
    numel_out: int | None = None
    timeout_ms: int | None = None
    ran_ms: int | None = None
    shape: str | None = None

    def _phrase(self) -> str:
        call = f" of {self.op}" if self.op else ""
        return f"watchdog timeout{call}" + (f" #{self.seq}" if self.seq is not None else "")

    def stalled(self, entered: Ranks, group: str | None = None, missing: Ranks = Ranks()) -> Stalled:
        """Returns the call of this line as a stalled one; ``entered`` are the ranks inside, ``group`` its name."""
        return Stalled(
            self.op,
            self.seq,
            group=group,
            numel_in=self.numel_in,
            numel_out=self.numel_out,
            entered=entered,
            missing=missing,
            timeout_ms=self.timeout_ms,
        )


@kind("collective-timeout")
class CollectiveTimeout(CallTimeout):
    """The watchdog of a rank gave up on a call."""


@kind("blocking-wait-timeout")
class BlockingWaitTimeout(CallTimeout):
    """``wait()`` gave up on a call (blocking wait mode, or an explicit wait)."""


@kind("work-status", wording="its watchdog failed", is_alarm=True)
class WorkStatus(Event):
    """The counters of one process group on one rank when its watchdog failed.

    They are the numbers of the call that failed and of the last ones enqueued, started and completed; -1 means none. ``op`` and the
    fields behind it are those of the failed call, where the line has them.
    """

    failed: int | None = None
    last_enqueued: int | None = None
    last_started: int | None = None
    last_completed: int | None = None
    op: str | None = None
    numel_in: int | None = None
    numel_out: int | None = None
    timeout_ms: int | None = None


@kind("heartbeat-stuck", wording="heartbeat monitor: no progress from the watchdog", symbol="timeout", is_alarm=True)
class HeartbeatStuck(Event):
    """The heartbeat monitor saw no progress of the watchdog thread for ``seconds``. After a timeout it is tear-down, not a second cause."""

    seconds: int | None = None


@kind("abort-stuck", wording="its abort of the process group did not end", symbol="timeout", is_reaction=True)
class AbortStuck(Event):
    """A rank began to abort its process group ``ran_ms`` before this line, and has not ended that."""

    ran_ms: int | None = None


@kind("dump-signal", wording="was asked to dump its flight recorder", symbol="dump", is_reaction=True)
class DumpSignal(Event):
    """A rank was told to dump its flight recorder. Printed by the default group, with that group's counters even if another group
    timed out; ``from_rank`` is the global rank whose watchdog fired first (a victim), None where the signal was local.
    """

    from_rank: int | None = None
    last_enqueued: int | None = None
    last_completed: int | None = None


# the timeout that a dump answers is the complaint
@kind(
    "dump-note", wording="logged that it dumps its flight recorder", symbol="dump", is_reaction=True, is_complaint=False
)
class DumpNote(Event):
    """Another line of the dump coordination, where ranks tell each other to dump.

    ``what`` is ``first-to-signal``, ``observed-from-another-rank``, ``preparing``,
    ``written``, ``write-failed``, ``gil-not-acquired``, ``future-timed-out``, ``writing``, ``broadcast``,
    ``no-heartbeat``, ``local-exception``, ``future-failed``; ``by-the-job`` where the training script itself wrote one,
    ``on-request`` where a person asked for one, as the debug server does: the job may be well.
    """

    what: str = ""
    detail: str = ""

    def _phrase(self) -> str:
        return "showed its flight recorder" if self.what == "on-request" else Event._phrase(self)

    @property
    def is_trouble(self) -> bool:
        """False where the rank only writes its dump: a person, or the job itself, may have asked for it."""
        return self.what not in ("by-the-job", "on-request", "preparing", "writing", "written", "broadcast")


@kind("tear-down", consequence=EventRole.TEAR_DOWN)
class TearDown(Event):
    """A line of a process that is being taken down: a consequence, never a cause.

    ``what`` is ``watchdog-terminated``, ``process-down``, ``terminate-called``,
    ``monitor-kills``, ``comm-aborted``, ``closing-signal`` (sent by the launcher to ``pid``), ``death-signal`` (received by the
    launcher: the job was stopped from outside), ``forced-kill``, ``exit-barrier`` (an agent of the launcher, its workers done, found
    the store gone). ``detail`` is the signal where a line names one: of *forced-kill* that which ended the process. ``agent`` is the pid
    of the launcher that wrote the line.
    """

    what: str = ""
    detail: str = ""
    agent: int | None = None

    @property
    def is_by_launcher(self) -> bool:
        """True where a launcher says that it closes or kills a process."""
        return self.what in ("closing-signal", "forced-kill")

    @property
    def written_by(self) -> Writer:
        """The launcher where it says that it was stopped, or that it closes or kills a rank."""
        return Writer.LAUNCHER if self.what in ("closing-signal", "death-signal", "forced-kill") else Writer.RANK

    @property
    def is_trouble(self) -> bool:
        """True unless the workers of the launcher were done."""
        return self.what != "exit-barrier"

    @property
    def is_stop_by_person(self) -> bool:
        """True of a launcher that received SIGINT."""
        return self.what == "death-signal" and self.detail == "SIGINT"

    def _phrase(self) -> str:
        if self.what == "closing-signal":
            return f"got {self.detail if self.detail.startswith('SIG') else 'SIGTERM'} from its launcher"
        return wordings()["tear-down"].get(self.what, f"tear-down: {self.what}" if self.what else "tear-down")


@kind("failed-stack", wording="printed the stack of the call that timed out")
class FailedStack(Event):
    """The Python stack of the call that timed out, innermost frame first, each ``function (file:line)``."""

    frames: tuple[str, ...] = ()


@kind("desync-report", wording="printed a desync report", is_alarm=True)
class DesyncReport(Event):
    """PyTorch's own summary of which ranks lag (``TORCH_NCCL_DESYNC_DEBUG``).

    ``laggards`` are ranks in the group, ``snapshot`` is its text.
    """

    laggards: Ranks = Ranks()
    snapshot: str = ""
    op: str | None = None
    seq: int | None = None


@kind("collective-mismatch", wording="reported calls that differ", is_trouble=True)
class CollectiveMismatch(Event):
    """The two ends of one call differ; the rank that says so need not be the one that differs.

    Fingerprints of ``TORCH_DISTRIBUTED_DEBUG=DETAIL`` show it, or a transport that received another size than it expected.
    Ranks are those inside the group. ``aspects`` are
    ``op``, ``sequence``, ``shape``, ``dtype``, ``device``, ``size`` (bytes), ``parameters`` (DDP), ``nccl-version``, ``bootstrap``;
    ``op`` and ``seq`` are filled where both ends agree or only one is shown.
    """

    left_rank: int | None = None
    left: str = ""
    right_rank: int | None = None
    right: str = ""
    aspects: tuple[str, ...] = ()
    op: str | None = None
    seq: int | None = None
    left_op: str | None = None
    left_seq: int | None = None
    right_op: str | None = None
    right_seq: int | None = None


@kind("monitored-barrier", wording="monitored barrier timed out", symbol="timeout", is_alarm=True)
class MonitoredBarrier(Event):
    """A monitored barrier names the ranks of the group that did not arrive (``missing``), or only those that did (``reached``).

    ``op`` and ``seq`` are those of the call that the debug wrapper guarded with it.
    """

    missing: Ranks = Ranks()
    timeout_ms: int | None = None
    reached: Ranks = Ranks()
    op: str | None = None
    seq: int | None = None


class Absence(Event):
    """Who waits for others says whom it misses, or only that somebody is missing.

    ``by`` is the framework that says so, ``call`` what the others wait in. ``missing`` ranks it names, ``reached`` ranks came;
    ``arrived`` of ``size`` came. Some name only those who came: then as many are in ``reached`` as ``arrived``.
    """

    by: str = ""
    what: str = ""
    call: str | None = None
    missing: Ranks = Ranks()
    reached: Ranks = Ranks()
    arrived: int | None = None
    size: int | None = None
    seconds: int | None = None

    @property
    def is_trouble(self) -> bool:
        """Always true; steps that follow a warning answer it."""
        return True

    def absent_ranks(self, world: Ranks) -> Ranks:
        """Those that it names, or all of ``world`` but those that came, where it lists just these.

        Example: Horovod writes ``[ready ranks: 0, 1, 3]`` in a job of 4 ranks: rank 2 is absent.
        """
        is_list_of_all_that_came = bool(self.reached) and self.arrived == len(self.reached)
        return self.missing or (world - self.reached if is_list_of_all_that_came else Ranks())

    @property
    def is_unfinished(self) -> bool:
        """True where all came and what they came for did not end."""
        return self.arrived is not None and self.arrived == self.size

    def _phrase(self) -> str:
        return (
            f"{self.by} is missing {ranks_phrase(self.missing)}"
            if self.missing
            else f"{self.by} waits for a missing rank"
        )

    def is_of_same_call(self, other: Absence) -> bool:
        """True where another process printed the same report, which each one that waits prints for itself."""
        return self.rank != other.rank and self.details() == other.details()


@kind("absence-report", symbol="timeout", is_alarm=True)
class AbsenceReport(Absence):
    """A coordinator, an engine or a watchdog of another framework gave up on ranks that did not come.

    ``what`` is set-up, barrier, collective, answer (of a worker), step (of the rank that says so), device (whose work did
    not end) or leader (the process that the others report to).
    """


@kind("absence-warning", symbol="timeout")
class AbsenceWarning(Absence):
    """A coordinator or an engine of another framework waits for ranks that have not come, and goes on waiting.

    ``what`` is barrier, collective, answer (of a worker), tokens (of an engine that has requests), step or quorum.
    """


@kind("peer-timeout")
class PeerTimeout(CallTimeout):
    """A rank gave up on one peer in a call.

    ``by`` names the library that says so. ``peer`` is a rank inside the group, ``size`` that of the group, ``device`` the number of
    its own device in the node. The peer need not be at fault: it may wait for the next one itself.
    """

    by: str = ""
    peer: int | None = None
    size: int | None = None
    device: int | None = None

    def _phrase(self) -> str:
        peer = f"rank {self.peer} of its group" if self.peer is not None else "a peer"
        return f"timed out waiting for {peer} in {self.op or f'a call of {self.by}'}"
