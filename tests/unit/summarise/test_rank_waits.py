"""The call that each rank waits in, the ranks it waits for, and when the wait began and ended."""

from __future__ import annotations

import pytest
from builders.jobs.cases import START, WORLD, Log, RecordedRank, Team, facts, gave_up, said
from msgspec.structs import replace

from nccldoctor.align.facts import Facts
from nccldoctor.diagnose.diagnose import diagnose
from nccldoctor.events import Event, ExceptionRaised, Heartbeat, Note, ProcessExit, TearDown
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.standings import RankWait, WaitedCall, WaitEnd, WaitStart
from nccldoctor.summarise.rank_table import rank_table
from nccldoctor.summarise.standings import standings

LIMIT = "[gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 8000ms for recv operation to complete"


def waits(found: Facts) -> dict[int, RankWait]:
    states = rank_table(found, diagnose(found).findings)
    return {state.rank: state.wait for state in states if state.wait is not None}


def late(*logs: Log, backend: str = "nccl") -> Facts:
    """Rank 3 never comes to the third call; the others come to it one second after the other."""
    recorded_ranks = [RecordedRank(r, backend=backend).calls(2) for r in range(4)]
    for recorded in recorded_ranks[:3]:
        recorded.pause(10.0 + recorded.rank).call(done=False, timeout_ms=8_000)
    return facts(*recorded_ranks, logs=logs)


def own_log(rank: int, *events: Event) -> Log:
    return Log(f"{rank}.log", events, rank=rank)


def gloo(rank: int, second: float | None = None) -> Event:
    return said(ExceptionRaised, rank, second, type="RuntimeError", message=LIMIT, origin="echo")


def killed(rank: int, second: float) -> Log:
    exit_ = said(ProcessExit, rank, second, exitcode=-15, signal="SIGTERM", reporter="torchrun")
    return Log(f"launcher-{rank}.log", (exit_,))


def test_each_rank_has_its_own_times_and_their_row_lasts_from_the_first_to_the_last() -> None:
    found = late(*(own_log(r, gave_up(r, 3, 600.0 + 2 * r, ran_ms=None)) for r in range(3)))
    own = waits(found)

    assert own.keys() == {0, 1, 2}
    assert [own[r].times.since for r in range(3)] == pytest.approx([START + 10, START + 11, START + 12])
    assert [own[r].times.until for r in range(3)] == [START + 600, START + 602, START + 604]
    assert own[2].times.waited_ms() == pytest.approx(592_000, abs=1)
    assert all(wait.waits_for == {3} and wait.times.end is WaitEnd.TIMED_OUT for wait in own.values())
    row = next(s for s in standings(found, rank_table(found, diagnose(found).findings)) if 0 in s.ranks)
    assert (row.since, row.until) == (own[0].times.since, own[2].times.until)


def test_each_rank_waits_for_the_members_of_its_own_group_alone() -> None:
    teams = (Team("1", "dp", (0, 1)), Team("2", "dp", (2, 3)))
    ranks = [RecordedRank(r, WORLD, *teams).call(team=WORLD) for r in range(4)]
    for waiting in (0, 2):
        ranks[waiting].call(team=teams[waiting // 2], done=False)
    own = waits(facts(*ranks))

    assert {r: own[r].waits_for for r in (0, 2)} == {0: {1}, 2: {3}}


@pytest.mark.parametrize("first", ["all_gather", "all_reduce"])
def test_where_ranks_disagree_each_waits_in_the_call_that_it_made(first: str) -> None:
    other = {"all_gather": "all_reduce", "all_reduce": "all_gather"}[first]
    ranks = [RecordedRank(r).calls(2).call(first if r == 0 else other, done=False) for r in range(4)]
    found = facts(*ranks)
    states = rank_table(found, diagnose(found).findings)
    names = {"all_gather": "ALLGATHER", "all_reduce": "ALLREDUCE"}
    assert [state.wait and state.wait.call.op for state in states] == [names[first], *[names[other]] * 3]
    assert [state.waits_in for state in states] == [f"{names[first]} #3", *[f"{names[other]} #3"] * 3]


def test_how_long_a_call_ran_is_what_the_watchdog_prints() -> None:
    own = waits(late(own_log(0, gave_up(0, 3, 601.0, ran_ms=590_731, timeout_ms=590_000))))

    assert (own[0].times.waited_ms(), own[0].times.timeout_ms) == (590_731, 590_000)


def test_a_line_about_another_call_does_not_end_the_wait() -> None:
    own = waits(late(own_log(0, gave_up(0, 4, 300.0), gave_up(0, 3, 610.0, ran_ms=600_004))))

    assert (own[0].times.until, own[0].times.waited_ms()) == (START + 610, 600_004)


def test_without_a_dump_the_line_tells_when_it_began_and_how_long_it_lasted() -> None:
    teams = {"team": Team("0", "default_pg", (0, 1))}
    own = waits(facts(logs=[own_log(r, gave_up(r, 3, 600.0, ran_ms=600_000 - r, **teams)) for r in range(2)]))

    assert [own[r].times.waited_ms() for r in range(2)] == [600_000, 599_999]
    assert [own[r].times.since for r in range(2)] == pytest.approx([START, START + 0.001])
    assert all(wait.times.is_calculated and wait.call.op == "ALLREDUCE" and wait.call.seq == 3 for wait in own.values())


def test_a_line_without_a_time_still_tells_how_long_it_lasted() -> None:
    timeless = replace(gave_up(0, 3, ran_ms=600_017), time=None)
    own = waits(facts(logs=[own_log(0, timeless)]))

    assert (own[0].times.since, own[0].times.until, own[0].times.waited_ms()) == (None, None, 600_017)


def test_gloo_gives_up_at_its_limit_and_not_when_the_launcher_writes_its_table() -> None:
    own = waits(late(own_log(0, gloo(0)), killed(0, 25.0), backend="gloo"))

    assert (own[0].times.end, own[0].times.timeout_ms) == (WaitEnd.TIMEOUT, 8_000)
    assert own[0].times.until == pytest.approx(START + 18)
    assert own[0].times.waited_ms() == pytest.approx(8_000, abs=1)


def test_gloo_in_a_line_with_a_time_gives_up_then() -> None:
    own = waits(late(own_log(0, gloo(0, 18.013)), killed(0, 25.0), backend="gloo"))

    assert (own[0].times.end, own[0].times.until) == (WaitEnd.TIMED_OUT, START + 18.013)
    assert own[0].times.waited_ms() == pytest.approx(8_013, abs=1)


def test_a_rank_of_gloo_without_a_dump_gave_up_on_a_call_that_no_file_names() -> None:
    own = waits(facts(logs=[own_log(r, gloo(r)) for r in range(2)]))

    assert own.keys() == {0, 1}
    assert (own[0].call.op, own[0].call.seq, own[0].times.timeout_ms, own[0].times.waited_ms()) == (
        None,
        None,
        8_000,
        8_000,
    )


def test_a_lost_connection_without_a_time_ended_the_wait_before_the_process() -> None:
    lost = said(ExceptionRaised, 0, message="Connection closed by peer [10.0.0.3]:29500", origin="echo")
    own = waits(late(own_log(0, lost), killed(0, 14.0), backend="gloo"))

    assert (own[0].times.end, own[0].times.until) == (WaitEnd.BEFORE_EXIT, START + 14)


def test_the_closing_signal_refines_the_whole_seconds_of_the_launchers_table() -> None:
    signal = said(TearDown, 0, 14.412, what="closing-signal", detail="SIGTERM")
    own = waits(late(Log("agent.log", (signal,)), killed(0, 14.0)))

    assert (own[0].times.end, own[0].times.until) == (WaitEnd.EXIT, START + 14.412)
    assert waits(late(killed(0, 14.0)))[0].times.until == START + 14


def test_a_process_that_ended_before_the_call_began_ends_no_wait() -> None:
    assert waits(late(killed(0, 3.0)))[0].times.until is None


def test_a_rank_in_a_receive_waits_since_it_posted_that_receive() -> None:
    ranks = [RecordedRank(0), RecordedRank(1).pause(5.0).recv(0, done=False).pause(5.0).call(done=False)]
    own = waits(facts(*ranks, *(RecordedRank(r).call(done=False) for r in (2, 3))))

    assert own[1].call.op == "RECV"
    assert own[1].times.since == pytest.approx(START + 5)
    assert own[1].waits_for == Ranks([0])


def test_a_rank_that_waits_for_nobody_has_no_wait() -> None:
    assert 3 not in waits(late())


def gloo_in(rank: int, function: str, site: str) -> Event:
    frames = (f"{function} (/x/torch/distributed/distributed_c10d.py:9)", f"{site} (/job/train.py:40)")
    traceback = said(ExceptionRaised, rank, type="RuntimeError", message=LIMIT, origin="echo")
    return replace(traceback, frames=frames, frame=frames[-1], code="dist.call()")


def logs_of_gloo(*tracebacks: Event, launcher: tuple[Event, ...] = ()) -> Facts:
    """Rank 3 reports its first steps, and its peers raise in the end; no dump, and no line of a traceback has a time."""
    steps = [said(Heartbeat, rank, 1.0 + rank / 10, step=1) for rank in range(4)]
    own = [own_log(rank, steps[rank], *(e for e in tracebacks if e.rank == rank)) for rank in range(4)]
    told = said(Note, None, what="world-size", detail="4")
    return facts(logs=[*own, Log("launcher.log", (told, *launcher))])


def test_a_process_that_the_closing_signal_ended_waited_its_timeout_before_that_at_the_latest() -> None:
    peers = [gloo_in(rank, "all_reduce", "train_step") for rank in range(3)]
    sent = [said(TearDown, rank, 20.5, what="closing-signal", detail="SIGTERM") for rank in (0, 1, 3)]
    kill = said(TearDown, 3, 50.5, what="forced-kill", detail="SIGKILL")
    ends = [said(ProcessExit, rank, 51.0, exitcode=-15, signal="SIGTERM", reporter="torchrun") for rank in (0, 1)]
    ends += [said(ProcessExit, 2, 20.0, exitcode=1, first=True, reporter="torchrun")]
    own = waits(logs_of_gloo(*peers, launcher=(*sent, kill, *ends)))

    assert {own[r].times.start for r in range(3)} == {WaitStart.AT_LATEST}
    assert [own[r].times.since for r in range(3)] == pytest.approx([START + 12.5, START + 12.5, START + 13.0])
    assert own[0].times.waited_ms() == 8_000


def test_where_no_file_numbers_the_call_a_traceback_shows_what_each_rank_waited_in() -> None:
    same = waits(logs_of_gloo(*(gloo_in(rank, "all_gather_single", "forward") for rank in range(3))))
    apart = waits(logs_of_gloo(*(gloo_in(rank, ("all_reduce", "recv")[rank % 2], "step") for rank in range(3))))

    assert {wait.call for wait in same.values()} == {
        WaitedCall("", "_ALLGATHER_BASE", None, site="forward (train.py:40)")
    }
    assert all(wait.waits_for == {3} for wait in same.values())
    received = waits(logs_of_gloo(*(gloo_in(rank, "recv", "step") for rank in range(3))))

    assert not any(wait.waits_for for wait in received.values()), "each receives from a rank of its own"
    assert [apart[r].call.op for r in range(3)] == ["ALLREDUCE", "RECV", "ALLREDUCE"]
    assert not any(wait.waits_for for wait in apart.values()), "rank 3 is not shown to be missing in each of them"
