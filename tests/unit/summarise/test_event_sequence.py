"""The story of an incident: roles, order, and the first cause that fits the verdict."""

from __future__ import annotations

from collections.abc import Sequence

from builders.remedies import fixtures_conditions

from nccldoctor.align.facts import align
from nccldoctor.events import (
    CommInit,
    Event,
    ExceptionRaised,
    GpuError,
    IbError,
    KernelEvent,
    OutOfMemory,
    ProcessExit,
    SchedulerEvent,
    TearDown,
)
from nccldoctor.model import EventRole, IncidentEvent, Place, Stalled
from nccldoctor.model.ranks import Ranks
from nccldoctor.summarise.event_sequence import MOST, event_sequence, shared_endpoint

KERNEL = Place(1, "dmesg_node1.log", 1)


def told(
    events: Sequence[tuple[float, Event]],
    cause: str = "not-arrived",
    ranks: Sequence[int] = (5,),
    stalled: Stalled | None = None,
) -> tuple[IncidentEvent, ...]:
    """The story of a job whose rank 5 (on node1) is late from 1000 and in which ranks complain at 1600."""
    timed = [
        *events,
        (fixtures_conditions.TIMEOUT_AT, fixtures_conditions.timeout(0)),
        (fixtures_conditions.TIMEOUT_AT + 1, fixtures_conditions.timeout(1, line=901)),
    ]
    case = fixtures_conditions.case([e for _, e in timed], [t for t, _ in timed])
    return event_sequence(align(case), (fixtures_conditions.finding(cause, ranks, stalled),))


def first_cause(rows: Sequence[IncidentEvent]) -> IncidentEvent | None:
    marked = [row for row in rows if row.cause]
    assert len(marked) <= 1
    return marked[0] if marked else None


def kernel(what: str, host: str, detail: str = "") -> KernelEvent:
    return KernelEvent(place=KERNEL, text=detail or what, host=host, what=what, detail=detail or what)


def xid(number: int, host: str, weight: str = "fault") -> GpuError:
    return GpuError(place=KERNEL, text=f"Xid {number}", host=host, xid=number, device="0000:3a:00", weight=weight)


def test_a_storage_stall_on_the_culprits_host_is_the_cause_and_one_elsewhere_is_not() -> None:
    rows = told([
        (900.0, kernel("nfs", "node0", "nfs: server a not responding")),
        (990.0, kernel("nfs", "node1", "nfs: server b not responding")),
        (1120.0, kernel("blocked-task", "node1.cluster.local", "python blocked for 120 s")),
    ])  # fmt: skip
    cause = first_cause(rows)
    assert cause is not None
    assert (cause.kind, cause.host, cause.says) == ("kernel", "node1", cause.says)
    roles = {(row.host, row.role) for row in rows if row.kind == "kernel"}
    assert roles == {
        ("node0", EventRole.UNRELATED),
        ("node1", EventRole.INITIATING),
        ("node1.cluster.local", EventRole.INITIATING),
    }


def test_an_xid_on_the_culprits_host_before_the_first_complaint() -> None:
    rows = told([(995.0, xid(79, "node1")), (996.0, xid(45, "node1", "consequence"))], "hardware")
    cause = first_cause(rows)
    assert cause is not None and cause.kind == "gpu-error" and "79" in cause.says
    assert [row.role for row in rows if row.kind == "gpu-error"] == [EventRole.INITIATING, EventRole.CASCADE]


def test_an_xid_after_the_complaints_began_nothing() -> None:
    rows = told([(1700.0, xid(79, "node1")), (1701.0, xid(79, "node0"))], "hardware")
    assert first_cause(rows) is None
    assert {(row.host, row.role) for row in rows if row.kind == "gpu-error"} == {
        ("node1", EventRole.CASCADE),
        ("node0", EventRole.UNRELATED),
    }


def test_the_kernel_killed_the_rank_before_it_went_silent() -> None:
    killed = OutOfMemory(
        place=KERNEL, text="Killed process 1005", host="node1", scope="host", process="python", pid=1005
    )
    cause = first_cause(told([(980.0, killed)], "died"))
    assert cause is not None and cause.kind == "out-of-memory" and cause.host == "node1"


def test_memory_explains_no_call_of_another_size() -> None:
    killed = OutOfMemory(
        place=KERNEL, text="Killed process 1005", host="node1", scope="host", process="python", pid=1005
    )
    rows = told([(980.0, killed)], "size-mismatch")
    assert first_cause(rows) is None
    assert [row.role for row in rows if row.kind == "out-of-memory"] == [EventRole.UNRELATED]


def ib(host: str, peer: str, status: int = 12) -> IbError:
    return IbError(
        place=fixtures_conditions.at(line=5),
        text="Got completion",
        host=host,
        peer=peer,
        status=status,
        what="completion",
    )


def test_errors_between_hosts_that_share_an_endpoint_point_at_it() -> None:
    address = CommInit(
        place=fixtures_conditions.at(), text="Bootstrap", host="node1", what="bootstrap", address="10.0.0.2"
    )
    events = [
        (10.0, address),
        (1500.0, ib("node0", "10.0.0.2")),
        (1501.0, ib("node2", "10.0.0.2")),
        (1502.0, ib("node1", "10.0.0.9", status=5)),
    ]
    case = fixtures_conditions.case([e for _, e in events], [t for t, _ in events])
    assert shared_endpoint(align(case)) == "node1"
    one_pair = fixtures_conditions.case([ib("node0", "10.0.0.2"), address], [1500.0, 10.0])
    assert shared_endpoint(align(one_pair)) == ""
    rows = told([*events, (1503.0, ib("node1", "10.0.0.9"))], "network", ranks=(4, 5))
    cause = first_cause(rows)
    assert cause is not None and (cause.kind, cause.host) == ("ib-error", "node1")


def test_preemption_is_the_whole_jobs() -> None:
    preempted = SchedulerEvent(
        place=fixtures_conditions.at(line=3), text="DUE TO PREEMPTION", host="node0", what="preempted"
    )
    cause = first_cause(told([(999.0, preempted)], "died"))
    assert cause is not None and cause.kind == "scheduler"


def test_complaints_are_cascade_and_the_end_is_tear_down_in_the_order_of_the_clock() -> None:
    closing = TearDown(place=fixtures_conditions.at(line=950), text="closing signal", rank=3, what="closing-signal")
    echo = ExceptionRaised(
        place=fixtures_conditions.at(line=940), text="DistBackendError", rank=2, type="DistBackendError", origin="echo"
    )
    rows = told([(1620.0, closing), (1605.0, echo), (995.0, kernel("lustre", "node1"))])
    assert [(row.kind, row.role) for row in rows] == [
        ("kernel", EventRole.INITIATING),
        ("collective-timeout", EventRole.CASCADE),
        ("exception", EventRole.CASCADE),
        ("tear-down", EventRole.TEAR_DOWN),
    ]
    assert rows[1].ranks == Ranks([0, 1]) and rows[1].count == 2


def test_a_verdict_that_names_nobody_takes_any_host_that_takes_part() -> None:
    call = Stalled("ALLREDUCE", 50, entered=Ranks(range(8)))
    rows = told([(995.0, xid(74, "node0"))], "unfinished", ranks=(), stalled=call)
    cause = first_cause(rows)
    assert cause is not None and cause.host == "node0"


def test_a_story_is_bounded_and_keeps_its_cause() -> None:
    noise = [(500.0 + i, kernel("nfs", f"other{i}")) for i in range(3 * MOST)]
    rows = told([*noise, (999.0, kernel("nfs", "node1"))])
    assert len(rows) == MOST
    cause = first_cause(rows)
    assert cause is not None and cause.host == "node1"


def test_nothing_found_tells_no_story() -> None:
    assert event_sequence(align(fixtures_conditions.case()), ()) == ()


def test_a_process_that_its_launcher_had_to_kill_did_not_begin_it() -> None:
    kill = TearDown(place=Place(0, "train.log", 950), text="", rank=5, pid=7, what="forced-kill", detail="SIGKILL")
    ended = ProcessExit(place=Place(0, "train.log", 960), text="", rank=5, pid=7, exitcode=-9, signal="SIGKILL")
    own = ProcessExit(place=Place(0, "train.log", 960), text="", rank=5, pid=8, exitcode=-9, signal="SIGKILL")
    rows = told([(1602.0, kill), (1603.0, ended)], "frozen")

    assert first_cause(rows) is None
    assert [row.role for row in rows if row.kind == "process-exit"] == [EventRole.TEAR_DOWN]
    assert first_cause(told([(1602.0, kill), (1603.0, own)], "died")) is not None, "the kill was of another process"


def test_a_closing_signal_is_called_by_its_name() -> None:
    for signal in ("SIGINT", "SIGTERM"):
        sent = TearDown(place=Place(0, "train.log", 950), text="", rank=5, what="closing-signal", detail=signal)
        assert f"got {signal} from its launcher" in [row.says for row in told([(1601.0, sent)])]
