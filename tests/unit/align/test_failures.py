"""Failures that can start a stall, told from what a stall and its tear-down cause."""

from __future__ import annotations

from typing import Any

import pytest
from builders.jobs.cases import START, Log, RecordedRank, facts, gave_up, said

from nccldoctor.align.failures import Failure
from nccldoctor.events import (
    CommInit,
    CudaError,
    Event,
    ExceptionRaised,
    GpuError,
    Heartbeat,
    IbError,
    KernelEvent,
    OutOfMemory,
    ProcessExit,
    SchedulerEvent,
    SocketError,
    StoreError,
    TearDown,
)
from nccldoctor.model import CauseClass, SourceKind
from nccldoctor.model.ranks import Ranks

ALARM = 600.0


def failures(
    *events: Event, ranks: int = 4, alarm: bool = True, recorded_ranks: tuple[RecordedRank, ...] = ()
) -> tuple[Failure, ...]:
    """Of a job whose ranks live on two hosts and, from ``ALARM`` on, complain; ``events`` stand in one merged log."""
    start = [said(Heartbeat, r, 1.0, host=f"n{r // 2}", pid=100 + r) for r in range(ranks)]
    inits = [
        said(
            CommInit,
            r,
            2.0,
            what="start",
            group_rank=r,
            nranks=ranks,
            host=f"n{r // 2}",
            pid=100 + r,
            bus_id=f"{r % 2}a000",
            address=f"10.0.0.{r // 2}<5555>",
        )
        for r in range(ranks)
    ]
    victims = [gave_up(r, 7, ALARM) for r in (0, 1)] if alarm else []
    return facts(*recorded_ranks, logs=[Log("all.log", [*start, *inits, *events, *victims])]).failures


def one(*events: Event, **more: Any) -> Failure:
    (found,) = failures(*events, **more)
    return found


# ---- devices


def test_a_device_error_before_the_alarm() -> None:
    found = one(said(GpuError, 2, 100, xid=79))
    assert (found.cause, found.ranks, found.when) == (CauseClass.HARDWARE, Ranks([2]), START + 100)
    assert found.certain


@pytest.mark.parametrize(
    "event",
    [
        said(GpuError, 2, 100, xid=31, software=True, weight="software"),
        said(GpuError, 2, 100, xid=45, weight="consequence"),
        said(GpuError, 2, 100, xid=63, weight="notice"),
        said(GpuError, 2, ALARM + 60, xid=79),
        said(CudaError, 2, ALARM + 60),
    ],
    ids=["faulty-program", "consequence", "notice", "later", "later-cuda"],
)
def test_what_is_no_failure_of_a_device(event: Event) -> None:
    assert failures(event) == ()


def test_what_cuda_refuses_to_a_faulty_program_is_the_ranks_own_doing() -> None:
    found = one(said(CudaError, 2, 100, software=True))
    assert (found.cause, found.ranks) == (CauseClass.RAISED, Ranks([2]))


def test_a_refusal_that_the_rank_outlived_is_none() -> None:
    assert failures(said(CudaError, 2, 100, software=True), said(Heartbeat, 2, 200.0, step=9)) == ()


def test_two_errors_of_one_board_are_one_failure() -> None:
    found = one(said(GpuError, 2, 100, xid=79), said(GpuError, 2, 101, xid=48), said(CudaError, 2, 102))
    assert len(found.events) == 3


def test_an_error_of_an_unknown_board_suspects_the_host() -> None:
    found = one(said(GpuError, None, 100, xid=79, host="n1", device="0000:9f:00"))
    assert (found.ranks, found.suspects) == (Ranks(), Ranks([2, 3]))


def test_the_only_rank_of_the_host_is_no_mere_suspect() -> None:
    found = one(said(GpuError, None, 100, xid=79, host="n1", device="0000:9f:00"), ranks=3)
    assert (found.ranks, found.suspects) == (Ranks([2]), Ranks())


def on_two_hosts(addresses: tuple[str, ...], *events: Event) -> tuple[Failure, ...]:
    """Eight ranks on two hosts; only those of the first one print INIT lines."""
    start = [said(Heartbeat, r, 1.0, host=f"n{r // 4}") for r in range(8)]
    inits = [
        said(CommInit, r, 2.0, what="start", group_rank=r, nranks=8, host="n0", bus_id=address)
        for r, address in enumerate(addresses)
    ]
    return facts(logs=[Log("all.log", [*start, *inits, *events, gave_up(0, 7, ALARM)])]).failures


def test_a_board_of_a_host_without_init_lines_is_found_by_its_slot() -> None:
    xid = said(GpuError, None, 100, xid=79, host="n1", device="0000:5d:00")
    (found,) = on_two_hosts(("18000", "2a000", "5d000", "9a000"), xid)
    assert (found.ranks, found.suspects, found.derived) == (Ranks([6]), Ranks(), True)


def test_a_slot_that_no_other_host_has_suspects_the_host() -> None:
    xid = said(GpuError, None, 100, xid=79, host="n1", device="0000:5d:00")
    (found,) = on_two_hosts(("18000", "2a000", "3a000", "9a000"), xid)
    assert (found.ranks, found.suspects) == (Ranks(), Ranks([4, 5, 6, 7]))


def test_a_slot_of_an_unknown_host_is_nobodys() -> None:
    xid = said(GpuError, None, 100, xid=79, host="n7", device="0000:5d:00")
    (found,) = on_two_hosts(("18000", "2a000", "5d000", "9a000"), xid)
    assert (found.ranks, found.suspects) == (Ranks(), Ranks())


# ---- the network


def test_both_ends_of_a_broken_connection() -> None:
    found = one(said(IbError, 1, 100, what="completion", status=12, peer="10.0.0.1<5555>"))
    assert (found.cause, found.ranks, found.suspects) == (CauseClass.NETWORK, Ranks([1]), Ranks([2, 3]))


def test_the_end_with_the_port_error_alone() -> None:
    broken = [said(IbError, r, 100, what="completion", status=12) for r in (0, 3)]
    found = one(*broken, said(IbError, 3, 99, what="port"))
    assert (found.ranks, found.suspects) == (Ranks([3]), Ranks())


def test_a_link_that_went_down_points_at_its_host() -> None:
    broken = [said(IbError, r, 100, what="completion", status=12) for r in (0, 3)]
    found = one(*broken, said(KernelEvent, None, 99, what="link-down", host="n1"))
    assert found.ranks == Ranks([3])


def test_a_link_alone_is_a_weak_sign() -> None:
    found = one(said(KernelEvent, None, 99, what="link-down", host="n1"))
    assert (found.ranks, found.suspects, found.certain) == (Ranks(), Ranks([2, 3]), False)


@pytest.mark.parametrize(
    "event",
    [
        said(IbError, 1, 100, what="completion", status=5),
        said(IbError, 1, 100, what="notice"),
        said(IbError, 1, 100, what="speed"),
        said(SocketError, 1, 100, echo=True, how="closed"),
        said(IbError, 1, ALARM + 60, what="port"),
        said(KernelEvent, None, ALARM + 60, what="link-down", host="n1"),
    ],
    ids=["flush", "notice", "speed", "closed-by-peer", "later-port", "later-link"],
)
def test_what_is_no_failure_of_the_network(event: Event) -> None:
    assert failures(event) == ()


# ---- exceptions


def raised(rank: int | None, second: float | None = 100, **more: Any) -> Event:
    return said(ExceptionRaised, rank, second, **({"origin": "own", "type": "ValueError"} | more))


def test_an_exception_of_its_own() -> None:
    found = one(raised(3))
    assert (found.cause, found.ranks, found.certain) == (CauseClass.RAISED, Ranks([3]), True)


def test_the_first_of_a_ranks_exceptions_counts() -> None:
    found = one(raised(3, type="KeyError"), raised(3, 110, type="ValueError"))
    assert [getattr(e, "type", "") for e in found.events] == ["KeyError"]


def test_exceptions_of_two_ranks_are_two_failures_the_earlier_first() -> None:
    assert [f.ranks for f in failures(raised(3, 110), raised(2, 100))] == [Ranks([2]), Ranks([3])]


@pytest.mark.parametrize(
    "events",
    [
        [raised(3, origin="echo")],
        [raised(3, origin="")],
        [raised(3, ALARM + 60)],
        [raised(3, logged=True), said(Heartbeat, 3, 110, step=12)],
        [raised(3, None, logged=True), said(Heartbeat, 3, step=12)],
        [raised(None, logged=True)],
    ],
    ids=["echo", "cut", "later", "caught-and-went-on", "caught-without-a-time", "logged-by-nobody"],
)
def test_what_is_no_exception_to_blame(events: list[Event]) -> None:
    assert failures(*events) == ()


def test_a_logged_exception_after_which_nothing_came_is_not_certain() -> None:
    assert not one(said(Heartbeat, 3, 90, step=12), raised(3, logged=True)).certain


def test_an_exception_of_nobody_known_names_nobody() -> None:
    found = one(raised(None))
    assert (found.cause, found.ranks) == (CauseClass.RAISED, Ranks())


def test_without_times_the_order_of_the_file_decides() -> None:
    before = [raised(3, None), gave_up(0, 7, None)]
    after = [gave_up(0, 7, None), raised(3, None)]
    assert [f.ranks for f in failures(*before, alarm=False)] == [Ranks([3])]
    assert failures(*after, alarm=False) == ()


# ---- ends


def ended(rank: int, code: int | None, second: float | None = 100, **more: Any) -> Event:
    return said(ProcessExit, rank, second, exitcode=code, **({"reporter": "torchrun"} | more))


@pytest.mark.parametrize("code", [-9, 137, -11, 139, -7])
def test_a_kill_before_the_alarm(code: int) -> None:
    found = one(ended(3, code))
    assert (found.cause, found.ranks, found.certain) == (CauseClass.DIED, Ranks([3]), True)


CLOSED = "[gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:63189"
TIMED_OUT = "[gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 12000ms for recv operation to complete"


@pytest.mark.parametrize(
    ("message", "is_first", "found"),
    [(CLOSED, True, [Ranks([3])]), (CLOSED, False, []), (TIMED_OUT, True, [])],
    ids=["its peers lose it", "not the first failure", "a peer timed out before"],
)
def test_the_abort_of_a_rank_that_its_peers_lose_is_its_own(message: str, is_first: bool, found: list[Ranks]) -> None:
    """Rank 3 leaves by ``sys.exit(0)``, and its threads still run: C++ says "terminate called without an active exception"."""
    leaving = said(TearDown, 3, what="terminate-called")
    lost = [said(ExceptionRaised, rank, origin="echo", type="RuntimeError", message=message) for rank in (0, 2)]
    launcher = said(ExceptionRaised, None, origin="echo", type="ChildFailedError")
    ends = [ended(3, -6, 100, first=is_first), ended(0, -15, 100), ended(2, -15, 100)]
    assert [one.ranks for one in failures(leaving, *lost, launcher, *ends, alarm=False)] == found


def test_a_signal_known_by_name_only() -> None:
    assert one(ended(3, None, signal="SIGKILL")).ranks == Ranks([3])


@pytest.mark.parametrize(
    "events",
    [
        [ended(3, -15)],
        [ended(3, 143)],
        [ended(3, 0)],
        [ended(3, None)],
        [ended(3, -9, ALARM + 60)],
        [gave_up(3, 7, ALARM), ended(3, -9, ALARM)],
        [raised(3, origin="echo"), ended(3, 1, first=True)],
        [ended(3, 1)],
        [said(TearDown, None, 100, what="forced-kill", pid=103), ended(3, -9, pid=103)],
        [said(SchedulerEvent, None, 100, what="cancelled"), ended(3, -9)],
        [said(StoreError, 3, 100, operation="wait"), ended(3, -11)],
    ],
    ids=[
        "closed",
        "closed-by-shell",
        "ended-well",
        "unknown",
        "later",
        "own-watchdog",
        "echo",
        "follows",
        "forced",
        "cancelled",
        "store",
    ],
)
def test_ends_that_the_tear_down_caused(events: list[Event]) -> None:
    assert failures(*events) == ()


def test_the_first_failure_of_a_launcher_may_be_an_end_of_its_own() -> None:
    found = one(ended(3, 1, first=True))
    assert (found.cause, found.ranks, found.certain) == (CauseClass.DIED, Ranks([3]), False)


def test_a_rank_that_dumped_its_calls_did_not_leave_early() -> None:
    assert failures(ended(3, 1, first=True), recorded_ranks=(RecordedRank(3).call(),)) == ()


def test_killed_for_memory() -> None:
    found = one(said(OutOfMemory, 3, 100, scope="host", process="python"), ended(3, -9))
    assert (found.cause, found.ranks) == (CauseClass.DIED, Ranks([3]))
    assert [type(e) for e in found.events] == [OutOfMemory, ProcessExit]


def test_memory_of_the_device_is_an_exception_not_an_end() -> None:
    assert failures(said(OutOfMemory, 3, 100, scope="device")) == ()


def test_a_lost_node_takes_all_its_ranks() -> None:
    found = one(said(SchedulerEvent, None, 100, what="node-failure", host="n1"))
    assert (found.cause, found.ranks, found.certain) == (CauseClass.DIED, Ranks([2, 3]), True)


def test_the_notice_on_the_first_host_of_a_job_does_not_name_the_lost_node() -> None:
    notice = said(
        SchedulerEvent, None, 90, what="node-failure", host="n0", job="4711", detail="STEP DUE TO NODE FAILURE"
    )
    lost = said(SchedulerEvent, None, 100, what="node-failure", host="n1", detail="srun: error: Node failure on n1")
    found = one(notice, lost)
    assert (found.ranks, [event.host for event in found.events]) == (Ranks([2, 3]), ["n1"])


@pytest.mark.parametrize("what", ["time-limit", "requeue"])
def test_a_scheduler_that_ends_a_job_accuses_nobody(what: str) -> None:
    found = one(said(SchedulerEvent, None, 100, what=what, host="n1"))
    assert (found.cause, found.ranks, found.certain) == (CauseClass.DIED, Ranks(), False)


def test_who_cancels_a_job_does_so_after_it_stood_still() -> None:
    assert failures(said(SchedulerEvent, None, 100, what="cancelled", host="n1")) == ()


@pytest.mark.parametrize("what", ["preempted", "requeue", "node-failure", "time-limit"])
def test_exits_and_exceptions_behind_the_word_of_the_scheduler_are_its_consequences(what: str) -> None:
    word = said(SchedulerEvent, None, 100, what=what, host="n9")
    assert one(word, ended(3, -9, 101), raised(2, 102)).events[0].kind == "scheduler"
    assert failures(ended(3, -9, 90), word)[0].ranks == Ranks([3]), "an exit before it may be the cause"


def test_hardware_then_network_then_exceptions_then_ends() -> None:
    events = [
        ended(3, -9, 10),
        raised(2, 20),
        said(IbError, 2, 30, what="port"),
        said(GpuError, 2, 40, xid=79),
    ]
    assert [f.cause.value for f in failures(*events)] == ["hardware", "network", "raised", "died"]


def test_a_healthy_job_has_none() -> None:
    assert failures(alarm=False) == ()
    assert failures() == ()


def test_a_kernel_log_of_another_host_blames_nobody_here() -> None:
    own = Log("r0.log", [said(Heartbeat, 0, 1, host="n0"), gave_up(0, 7, ALARM)], rank=0)
    kernel = Log(
        "n9.dmesg", [said(GpuError, None, 100, xid=79, device="0000:1a:00")], host="n9", kind=SourceKind.KERNEL_LOG
    )
    (found,) = facts(logs=[own, kernel]).failures
    assert (found.ranks, found.suspects) == (Ranks(), Ranks())


# ---- connections that broke because their other end was killed


@pytest.mark.parametrize(
    ("error", "message"),
    [
        ("ConnectionResetError", "[Errno 104] Connection reset by peer"),
        ("EOFError", ""),
        ("zmq.error.ZMQError", "Host unreachable"),
        ("grpc.RpcError", "terminated with: status = StatusCode.UNAVAILABLE"),
        ("TimeoutError", "no answer from peer"),
        ("_queue.Empty", ""),
        ("zmq.error.Again", "Resource temporarily unavailable"),
    ],
)
def test_a_partner_that_is_gone_or_silent_follows_the_kill_of_another_rank(error: str, message: str) -> None:
    broke = [raised(r, 99 + r, type=error, message=message) for r in (0, 1)]
    kill = said(ProcessExit, 3, 101, signal="SIGKILL", exitcode=-9, first=True)
    assert [f.ranks for f in failures(*broke, kill, alarm=False)] == [Ranks([3])]


def test_a_broken_connection_is_a_cause_where_nobody_was_killed_before() -> None:
    broke = raised(0, 99, type="ConnectionResetError", message="[Errno 104] Connection reset by peer")
    for end in (
        said(ProcessExit, 3, 101, exitcode=1),
        said(ProcessExit, 3, 400, signal="SIGKILL", exitcode=-9, first=True),
    ):
        assert failures(broke, end, alarm=False)[0].ranks == Ranks([0])
    cut = raised(0, 99, type="EOFError", message="Ran out of input")
    kill = said(ProcessExit, 3, 101, signal="SIGKILL", exitcode=-9, first=True)
    assert failures(cut, kill, alarm=False)[0].ranks == Ranks([0])


@pytest.mark.parametrize(
    ("what", "second", "named"),
    [("node-failure", 400, []), ("evicted", 100, []), ("oom", 100, []), ("evicted", 400, [0])],
)
def test_a_broken_connection_follows_what_the_scheduler_took_away(what: str, second: float, named: list[int]) -> None:
    broke = raised(0, 99, type="ConnectionResetError", message="[Errno 104] Connection reset by peer")
    end = said(SchedulerEvent, None, second, what=what, detail="pod w-1")
    accused = [f.ranks for f in failures(broke, end, alarm=False) if f.cause is CauseClass.RAISED]
    assert accused == [Ranks([rank]) for rank in named]
