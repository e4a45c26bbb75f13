"""Where ranks stand: the rows that every picture draws."""

from __future__ import annotations

from builders.jobs.cases import START, WORLD, Log, RecordedRank, Team, facts, gave_up, said

from nccldoctor.align.facts import Facts
from nccldoctor.diagnose.diagnose import diagnose
from nccldoctor.events import Heartbeat, Phase, ProcessExit, Stack
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.standings import Involvement, Standing
from nccldoctor.summarise.rank_table import rank_table
from nccldoctor.summarise.standings import ROWS, standings


def rows(found: Facts) -> tuple[Standing, ...]:
    findings = diagnose(found).findings
    return standings(found, rank_table(found, findings))


def late(*logs: Log) -> Facts:
    """Rank 3 never comes to the third call."""
    recorded_ranks = [RecordedRank(r).calls(2) for r in range(4)]
    for recorded in recorded_ranks[:3]:
        recorded.call(done=False)
    return facts(*recorded_ranks, logs=logs)


def test_the_culprit_comes_first_and_those_that_wait_share_a_row() -> None:
    culprit, waiting = rows(late())

    assert (culprit.ranks, culprit.involvement, culprit.distance, culprit.call) == ({3}, Involvement.CULPRIT, 0, None)
    assert (waiting.ranks, waiting.involvement, waiting.distance) == (Ranks(range(3)), Involvement.WAITING, 1)
    assert waiting.waits_for == {3}
    assert waiting.call is not None
    assert waiting.call.seq == 3


def test_a_row_names_hosts_only_where_those_of_all_its_ranks_are_known() -> None:
    def row(*placed: int) -> Standing:
        found = late(Log("all.log", [said(Heartbeat, rank, host=f"n{rank}") for rank in placed]))
        return next(row for row in rows(found) if 0 in row.ranks)

    assert row(0, 1, 2).hosts == ("n0", "n1", "n2")
    assert row(0, 1).hosts == ()


def test_a_rank_that_waits_for_a_waiting_rank_is_blocked() -> None:
    teams = (WORLD, Team("1", "tp", (0, 1)), Team("2", "dp", (0, 2)))
    ranks = [RecordedRank(r, *teams).call(team=WORLD) for r in range(4)]
    ranks[0].call(team=teams[1]).call(team=teams[2]).call(team=teams[1], done=False)
    ranks[1].call(team=teams[1])
    ranks[2].call(team=teams[2]).call(team=teams[2], done=False)
    by_rank = {r: s for s in rows(facts(*ranks)) for r in s.ranks}

    assert by_rank[1].involvement is Involvement.CULPRIT
    assert (by_rank[0].involvement, by_rank[0].waits_for) == (Involvement.WAITING, {1})
    assert (by_rank[2].involvement, by_rank[2].distance, by_rank[2].waits_for) == (Involvement.BLOCKED, 2, {0})
    assert by_rank[3].involvement is Involvement.UNINVOLVED


def test_each_rank_stands_in_exactly_one_row_and_rows_are_few() -> None:
    everybody = Team("0", "default_pg", tuple(range(64)))
    many = [RecordedRank(r, everybody).calls(2) for r in range(64)]
    for recorded in many[:-1]:
        recorded.call(done=False)
    found = rows(facts(*many))

    assert sorted(r for s in found for r in s.ranks) == list(range(64))
    assert len(found) <= ROWS


def test_the_end_of_a_process_and_its_stack_are_in_its_row() -> None:
    stack = said(Stack, 3, 5.0, frames=("load (/job/train.py:9)", "main (/job/train.py:1)"), main=True)
    exit_ = said(ProcessExit, 3, 900.0, exitcode=-15, signal="SIGTERM")
    culprit = rows(late(Log("stacks_3.txt", (stack,), rank=3), Log("launcher.log", (exit_,))))[0]

    assert (culprit.frame, culprit.frame_at, culprit.end) == ("load", "train.py:9", "SIGTERM")


def test_a_row_stands_where_the_newest_look_found_its_rank() -> None:
    looks = [
        said(Stack, 3, 5.0 + look, frames=(f"{name} (/job/train.py:{line})",), main=True, look=look)
        for look, name, line in ((1, "import_torch", 2), (2, "write_cache", 11))
    ]
    culprit = rows(late(*(Log(f"stack-{n}.txt", (stack,), rank=3) for n, stack in enumerate(looks, 1))))[0]

    assert (culprit.frame, culprit.frame_at) == ("write_cache", "train.py:11")


def test_a_row_lasts_from_the_call_to_the_timeout() -> None:
    logs = [Log(f"{r}.log", (gave_up(r, 3, 600.0 + r),), rank=r) for r in range(3)]
    waiting = rows(late(*logs))[1]

    assert waiting.until == START + 602.0
    assert waiting.since is not None
    assert START <= waiting.since < waiting.until


def test_a_culprit_without_a_stack_is_told_by_its_last_work_and_else_by_its_last_finished_call() -> None:
    assert rows(late())[0].last == "last call: #2, done"
    steps = Log("3.log", [said(Heartbeat, 3, 5.0, step=7)], rank=3)
    assert rows(late(steps))[0].last == "reported step 7"
    saves = Log("3.log", [said(Heartbeat, 3, 5.0, step=7), said(Phase, 3, 6.0, what="checkpoint")], rank=3)
    assert rows(late(saves))[0].last == "writing a checkpoint"


def test_ranks_behind_two_hangs_share_no_row() -> None:
    """Ranks 1 and 3 each miss a call of their own group."""
    teams = (WORLD, Team("1", "tp", (0, 1)), Team("2", "tp", (2, 3)))
    ranks = [RecordedRank(r, *teams).call(team=WORLD) for r in range(4)]
    for rank in (0, 2):
        ranks[rank].call(team=teams[1 + rank // 2], done=False)
    found = facts(*ranks)
    table = rank_table(found, diagnose(found).findings)

    apart = standings(found, table, [Ranks([1]), Ranks([3])])
    assert [s.ranks for s in apart if s.distance == 1] == [{0}, {2}]
