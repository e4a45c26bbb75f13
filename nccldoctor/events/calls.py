"""What watchdogs, monitors and debug wrappers say of a call: who gave up, with which counters, and what was dumped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nccldoctor.events.base import Event, kind
from nccldoctor.model.ranks import Ranks


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTimeout(Event):
    """A rank gave up on a call it waited in: it is a waiter, the culprit is usually silent. ``ran_ms`` can exceed ``timeout_ms`` by
    much where the watchdog itself was stuck.
    """

    op: str | None = None
    seq: int | None = None
    numel_in: int | None = None
    numel_out: int | None = None
    timeout_ms: int | None = None
    ran_ms: int | None = None
    shape: str | None = None


@kind
@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveTimeout(CallTimeout):
    """The watchdog of a rank gave up on a call."""

    kind: ClassVar[str] = "collective-timeout"


@kind
@dataclass(frozen=True, slots=True, kw_only=True)
class BlockingWaitTimeout(CallTimeout):
    """``wait()`` gave up on a call (blocking wait mode, or an explicit wait)."""

    kind: ClassVar[str] = "blocking-wait-timeout"


@kind
@dataclass(frozen=True, slots=True, kw_only=True)
class WorkStatus(Event):
    """The counters of one process group on one rank when its watchdog failed: the call that failed, the last one
    enqueued, started and completed. -1 means none.
    """

    kind: ClassVar[str] = "work-status"
    failed: int | None = None
    last_enqueued: int | None = None
    last_started: int | None = None
    last_completed: int | None = None


@kind
@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatStuck(Event):
    """The heartbeat monitor saw no progress of the watchdog thread for ``seconds``. After a timeout it is tear-down, not a second cause."""

    kind: ClassVar[str] = "heartbeat-stuck"
    seconds: int | None = None


@kind
@dataclass(frozen=True, slots=True, kw_only=True)
class DumpSignal(Event):
    """A rank was told to dump its flight recorder. Printed by the default group, with that group's counters even if another group
    timed out; ``from_rank`` is the global rank whose watchdog fired first (a victim), None where the signal was local.
    """

    kind: ClassVar[str] = "dump-signal"
    from_rank: int | None = None
    last_enqueued: int | None = None
    last_completed: int | None = None


@kind
@dataclass(frozen=True, slots=True, kw_only=True)
class DumpNote(Event):
    """Other lines of the dump coordination: ``what`` is ``first-to-signal``, ``observed-from-another-rank``, ``preparing``,
    ``written``, ``write-failed``, ``gil-not-acquired``, ``future-timed-out``, ``writing``, ``broadcast``,
    ``no-heartbeat``, ``local-exception``, ``future-failed``; ``by-the-job`` where the training script itself wrote one.
    """

    kind: ClassVar[str] = "dump-note"
    what: str = ""
    detail: str = ""


@kind
@dataclass(frozen=True, slots=True, kw_only=True)
class TearDown(Event):
    """Lines of a process that is being taken down: ``what`` is ``watchdog-terminated``, ``process-down``, ``terminate-called``,
    ``monitor-kills``, ``comm-aborted``, ``closing-signal`` (sent by the launcher to ``pid``), ``death-signal`` (received by the
    launcher: the job was stopped from outside), ``forced-kill``, ``exit-barrier`` (an agent of the launcher, its workers done, found
    the store gone). A consequence, never a cause.
    """

    kind: ClassVar[str] = "tear-down"
    what: str = ""
    detail: str = ""


@kind
@dataclass(frozen=True, slots=True, kw_only=True)
class FailedStack(Event):
    """The Python stack of the call that timed out, innermost frame first, each ``function (file:line)``."""

    kind: ClassVar[str] = "failed-stack"
    frames: tuple[str, ...] = ()


@kind
@dataclass(frozen=True, slots=True, kw_only=True)
class DesyncReport(Event):
    """PyTorch's own summary of who lags (``TORCH_NCCL_DESYNC_DEBUG``). ``laggards`` are ranks in the group.
    ``snapshot`` is its text.
    """

    kind: ClassVar[str] = "desync-report"
    laggards: Ranks = Ranks()
    snapshot: str = ""
    op: str | None = None
    seq: int | None = None


@kind
@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveMismatch(Event):
    """Two ends of one call differ: fingerprints of ``TORCH_DISTRIBUTED_DEBUG=DETAIL``, or a transport that received another size
    than it expected (the rank that says so need not be the one that differs). Ranks are those inside the group. ``aspects`` are
    ``op``, ``sequence``, ``shape``, ``dtype``, ``device``, ``size`` (bytes), ``parameters`` (DDP), ``nccl-version``, ``bootstrap``;
    ``op`` and ``seq`` are filled where both ends agree or only one is shown.
    """

    kind: ClassVar[str] = "collective-mismatch"
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


@kind
@dataclass(frozen=True, slots=True, kw_only=True)
class MonitoredBarrier(Event):
    """A monitored barrier names who did not come (``missing``) or only who did (``reached``), as ranks in the group.
    ``op`` and ``seq`` are those of the call that the debug wrapper guarded with it.
    """

    kind: ClassVar[str] = "monitored-barrier"
    missing: Ranks = Ranks()
    timeout_ms: int | None = None
    reached: Ranks = Ranks()
    op: str | None = None
    seq: int | None = None
