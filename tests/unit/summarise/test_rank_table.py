"""Where everyone is: one row for each rank, the job, and who complained first."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from builders.jobs.cases import WORLD, Log, RecordedRank, Team, facts, gave_up, said, wall
from msgspec.structs import replace

import nccldoctor.samples
from nccldoctor.align.facts import Facts
from nccldoctor.diagnose.diagnose import diagnose
from nccldoctor.events import CommInit, ExceptionRaised, Heartbeat, ProcessExit, Stack, Version
from nccldoctor.identify.event_times import YEARLESS
from nccldoctor.model import Gap, RankState, Role, Stalled
from nccldoctor.model.ranks import Ranks
from nccldoctor.summarise.rank_table import alarm, job, notices, rank_table

TP_LOW, TP_HIGH = Team("1", "tp", (0, 1)), Team("2", "tp", (2, 3))


def states(found: Facts) -> dict[int, RankState]:
    return {s.rank: s for s in rank_table(found, diagnose(found).findings)}


def late(*logs: Log) -> Facts:
    """Rank 3 never comes to the third call."""
    recorded_ranks = [RecordedRank(r).calls(2) for r in range(4)]
    for recorded in recorded_ranks[:3]:
        recorded.call(done=False)
    return facts(*recorded_ranks, logs=logs)


def test_one_row_for_each_rank_in_order() -> None:
    found = rank_table(late(), diagnose(late()).findings)
    assert [s.rank for s in found] == [0, 1, 2, 3]


def test_fronts_and_what_a_rank_waits_in() -> None:
    found = states(late())
    assert (found[0].completed, found[0].enqueued, found[0].waits_in) == (2, 3, "ALLREDUCE #3")
    assert (found[3].completed, found[3].enqueued, found[3].waits_in) == (2, 2, None)
    assert found[0].group == found[3].group == "default_pg (0)"


def test_roles() -> None:
    assert [s.role for s in states(late()).values()] == [Role.WAITING] * 3 + [Role.CULPRIT]


def test_a_rank_that_left_nothing_is_unknown_not_uninvolved() -> None:
    recorded_ranks = [RecordedRank(r, WORLD, TP_LOW if r < 2 else TP_HIGH).call() for r in range(3)]
    recorded_ranks[0].call(team=TP_LOW, done=False)
    found = states(facts(*recorded_ranks))
    assert found[2].role is Role.UNINVOLVED
    assert found[3].role is Role.UNKNOWN


def test_a_log_that_merely_ends_shows_nobody_uninvolved() -> None:
    recorded_ranks = [RecordedRank(r, WORLD, TP_LOW if r < 2 else TP_HIGH).call() for r in range(3)]
    recorded_ranks[0].call(team=TP_LOW, done=False)
    found = states(facts(*recorded_ranks, logs=[Log("rank_3.log", [said(Heartbeat, 3, 1)], rank=3)]))
    assert found[3].role is Role.UNKNOWN
    assert found[2].role is Role.UNINVOLVED, "every call that it recorded is complete"


def test_a_member_of_which_nothing_is_known_is_unseen_not_missing() -> None:
    recorded_ranks = [RecordedRank(r).calls(2) for r in range(3)]
    recorded_ranks[0].call(done=False)
    recorded_ranks[1].call(done=False)
    (verdict, *_) = diagnose(facts(*recorded_ranks, RecordedRank(3).other(entries=[], pg_status={}))).findings
    assert verdict.stalled is not None
    assert (str(verdict.stalled.entered), str(verdict.stalled.missing), str(verdict.stalled.unseen)) == (
        "0-1",
        "2",
        "3",
    )


def test_who_is_missing_in_the_stalled_call_and_not_blamed_is_not_uninvolved() -> None:
    found = facts(*[RecordedRank(r).calls(2) for r in range(4)])
    (verdict, *_) = diagnose(found).findings
    call = Stalled("ALLREDUCE", 3, entered=Ranks([0]), missing=Ranks([1, 2, 3]))
    named = replace(verdict, ranks=Ranks([1, 3]), victims=Ranks([0]), stalled=call)
    assert [s.role for s in rank_table(found, (named,))] == [
        Role.WAITING,
        Role.CULPRIT,
        Role.UNKNOWN,
        Role.CULPRIT,
    ]


def test_the_group_shown_is_the_one_that_a_rank_waits_in() -> None:
    recorded_ranks = [RecordedRank(r, WORLD, TP_LOW if r < 2 else TP_HIGH).calls(5) for r in range(4)]
    recorded_ranks[0].call(team=TP_LOW, done=False)
    found = states(facts(*recorded_ranks))
    assert (found[0].group, found[0].enqueued) == ("tp (1)", 1)
    assert found[0].waits_in == "ALLREDUCE #1 of tp 1"
    assert found[2].group == "default_pg (0)"


def test_each_rank_is_shown_in_the_stall_that_is_its_own() -> None:
    recorded_ranks = [RecordedRank(r, WORLD, TP_LOW if r < 2 else TP_HIGH).calls(5) for r in range(4)]
    recorded_ranks[0].call(team=TP_LOW, done=False)
    recorded_ranks[2].call(team=TP_HIGH, done=False)
    found = states(facts(*recorded_ranks))
    assert [found[r].group for r in (0, 2)] == ["tp (1)", "tp (2)"]


def test_host_process_and_board() -> None:
    init = said(CommInit, 3, what="start", group_rank=3, nranks=4, host="n1.x", pid=77, bus_id="1a000")
    found = states(late(Log("r3.log", [init], rank=3)))[3]
    assert (found.host, found.pid, found.device) == ("n1", 77, "0000:1a:00")


def test_the_last_sign_is_the_last_line_of_a_rank() -> None:
    lines = [said(Heartbeat, 3, 1, text="step 1", step=1), said(Heartbeat, 3, 2, text="step 2 " + "x" * 400, step=2)]
    found = states(late(Log("r3.log", lines, rank=3)))
    assert str(found[3].where) == "r3.log:2"
    assert found[3].last_sign
    assert len(found[3].last_sign) <= 160
    assert (found[2].last_sign, found[2].where) == ("wrote a dump", None)


def test_a_stack_says_more_than_a_line() -> None:
    lines = [said(Heartbeat, 3, 2, text="step 2", step=2)]
    stack = said(Stack, 3, frames=("load (/opt/train/data.py:3)",), main=True)
    found = states(late(Log("r3.log", lines, rank=3), Log("stacks.txt", [stack])))
    assert str(found[3].where) == "stacks.txt:1"
    assert "load" in found[3].last_sign or "data" in found[3].last_sign


def test_a_rank_that_went_silent_has_the_time_of_its_last_line_and_not_of_its_stack() -> None:
    lines = [said(Heartbeat, 3, n, text=f"step {n}", step=n, time=wall(n)) for n in (1, 2)]
    stack = said(Stack, 3, frames=("load (/opt/train/data.py:3)",), main=True, time=wall(900))
    found = states(late(Log("r3.log", lines, rank=3), Log("stacks.txt", [stack])))
    assert found[3].last_line == wall(2).timestamp()
    assert found[2].last_line is None


def test_a_stack_is_told_by_the_innermost_frame_of_the_users_own() -> None:
    head = "Thread 0x00007fb8e9a77b80 (most recent call first):"
    frames = ("wait (/usr/lib/python3.12/threading.py:355)", "refresh (/opt/train/train.py:121)", "main (/opt/t.py:9)")
    stack = said(Stack, 3, text=head, frames=frames, main=True)
    bare = said(Stack, 2, text=head, main=True)
    found = states(late(Log("stacks.txt", [stack, bare])))
    assert found[3].last_sign == "stack: in refresh (train.py:121)"
    assert "0x" not in found[2].last_sign


def test_nothing_is_said_so() -> None:
    recorded_ranks = [RecordedRank(r).calls(2).call(done=False) for r in (0, 1, 2)]
    assert states(facts(*recorded_ranks))[3].last_sign == "no file or line of it"


def test_an_end_that_the_launcher_saw_is_the_last_sign_of_a_rank_that_left_nothing_else() -> None:
    table = Log("torchrun.log", [said(ProcessExit, 3, reporter="torchrun", exitcode=1)])
    recorded_ranks = [RecordedRank(r).calls(2).call(done=False) for r in (0, 1, 2)]
    ended = states(facts(*recorded_ranks, logs=[table]))[3]
    assert (ended.last_sign, str(ended.where)) == ("exited with code 1", "torchrun.log:1")


# ---- the job


def test_the_job() -> None:
    logs = [
        Log("r0.log", [said(Version, of="torch", version="2.9.1"), said(Heartbeat, 0, pid=5, host="b.x.y")], rank=0),
        Log("r1.log", [said(Heartbeat, 1, pid=6, host="a"), said(CommInit, 1, host="c", what="start")], rank=1),
    ]
    found = job(late(*logs))
    assert (found.world_size, found.torch) == (4, "2.9.1")
    assert found.hosts == ("a", "b", "c")
    assert [(g.uid, str(g.members)) for g in found.groups] == [("0", "0-3")]


def test_the_library_of_a_dump_is_told_where_no_line_does() -> None:
    assert job(facts(RecordedRank(0).call().other(comm_lib_version="2.27.5"))).nccl == "2.27.5"
    line = Log("r0.log", [said(Version, of="nccl", version="2.26.2")], rank=0)
    assert job(facts(RecordedRank(0).call().other(comm_lib_version="2.27.5"), logs=[line])).nccl == "2.26.2"


def test_an_unknown_job_is_unknown() -> None:
    found = job(facts())
    assert (found.world_size, found.hosts, found.torch, found.nccl) == (None, (), None, None)


# ---- the alarm


def test_who_complained_first() -> None:
    logs = [Log(f"r{r}.log", [gave_up(r, 3, 600 + 10 * (2 - r))], rank=r) for r in (0, 1, 2)]
    found = alarm(late(*logs))
    assert found is not None
    assert (found.rank, found.time, str(found.where)) == (2, wall(600), "r2.log:1")


def test_a_time_without_a_year_is_not_shown() -> None:
    line = gave_up(1, 3, time=datetime(YEARLESS, 5, 1, 12))
    found = alarm(late(Log("r1.log", [line], rank=1)))
    assert found is not None
    assert (found.rank, found.time) == (1, None)


def test_nobody_complained() -> None:
    assert alarm(late()) is None


def test_what_was_left_out_is_told_before_what_was_lost_and_the_rest_is_counted() -> None:
    found = facts(RecordedRank(0).call())
    lost = tuple(Gap(f"{n}.log", "cut off", lost=True) for n in range(4))
    gaps = (
        *lost,
        Gap("older calls", "the ring dropped them"),
        Gap("b/x.log: a different run", "it has 4 ranks", apart=True),
    )
    told = notices(replace(found, case=replace(found.case, gaps=gaps)))
    assert told == (
        "b/x.log: a different run: it has 4 ranks",
        "0.log: cut off",
        "1.log: cut off",
        "and 2 more files: see the coverage",
    )


def test_of_a_rank_that_only_others_counted_that_is_its_last_sign() -> None:
    folder = Path(nccldoctor.samples.__path__[0]) / "ras-queries"
    signs = {state.last_sign for state in nccldoctor.analyze(folder).diagnosis.ranks}
    assert signs == {"it left no file; others counted its calls"}


def test_a_person_who_stops_the_job_raises_no_alarm() -> None:
    stopped = said(ExceptionRaised, 2, type="KeyboardInterrupt", origin="echo")
    assert alarm(facts(logs=[Log("r2.log", [stopped], rank=2)])) is None
    failed = said(ExceptionRaised, 2, type="DistBackendError", origin="echo")
    found = alarm(facts(logs=[Log("r2.log", [failed], rank=2)]))
    assert found is not None
    assert found.rank == 2
