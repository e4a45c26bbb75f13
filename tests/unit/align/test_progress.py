"""Two fronts for each rank in each group: how far its host enqueued and how far its device completed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from builders.jobs.cases import WORLD, Log, RecordedRank, Team, case, gave_up, group_named, said

from nccldoctor.align.progress.from_dumps import GroupProgress
from nccldoctor.align.progress.from_lines import group_of, with_counted_members
from nccldoctor.align.progress.table import ProgressTable, build_progress_table
from nccldoctor.align.progress.unnamed_lines import place_unnamed_lines
from nccldoctor.events import BlockingWaitTimeout, DumpSignal, GroupRef, WorkStatus
from nccldoctor.identify.case import Case
from nccldoctor.model.ranks import Ranks

PAIR = Team("7", "tp", (2, 3))
DEFAULT_REF = GroupRef(pg_id=0, uid="0")


def read(*recorded_ranks: RecordedRank, logs: tuple[Log, ...] = ()) -> ProgressTable:
    return build_progress_table(case(*recorded_ranks, logs=logs))


def front_of(*recorded_ranks: RecordedRank, rank: int = 0, logs: tuple[Log, ...] = ()) -> GroupProgress:
    """The front of one rank in the default group."""
    found = case(*recorded_ranks, logs=logs)
    return build_progress_table(found).by_group_rank[(found.naming.by_local[(rank, "0")], rank)]


def placed(*recorded_ranks: RecordedRank, logs: Sequence[Log] = ()) -> Case:
    """A case whose lines without a group have been given one."""
    return place_unnamed_lines(case(*recorded_ranks, logs=logs))


def log(rank: int, *events: object) -> Log:
    return Log(f"rank_{rank}.log", events, rank=rank)  # type: ignore[arg-type]


# ---- dumps


def test_all_done() -> None:
    front = front_of(RecordedRank(0).calls(3))
    assert (front.enqueued, front.completed, front.pending, front.row) == (3, 3, None, -1)


def test_the_host_ran_ahead_of_the_device() -> None:
    front = front_of(RecordedRank(0).calls(3).call(done=False).calls(2, done=False))
    assert (front.enqueued, front.completed, front.pending) == (6, 3, 4)
    assert (front.row, front.position, front.started) == (3, 3, False)


def test_a_kernel_known_to_run() -> None:
    assert front_of(RecordedRank(0).call().call(done=False, state="started")).started


def test_a_call_that_finished_behind_an_open_one_does_not_move_the_completed_front() -> None:
    front = front_of(RecordedRank(0).call().call(done=False).call())
    assert (front.completed, front.pending, front.enqueued) == (1, 2, 3)


def test_fronts_of_two_groups_do_not_mix() -> None:
    recorded = RecordedRank(2, WORLD, PAIR).calls(5).calls(2, team=PAIR).call(team=PAIR, done=False)
    found = case(recorded)
    by = build_progress_table(found).by_group_rank
    assert (by[(group_named(found, "0"), 2)].enqueued, by[(group_named(found, "0"), 2)].pending) == (5, None)
    assert (by[(group_named(found, "7"), 2)].enqueued, by[(group_named(found, "7"), 2)].pending) == (3, 3)
    assert by[(group_named(found, "7"), 2)].position == 7, "its place in the rank's order over all groups"


def test_fronts_of_two_ranks_do_not_mix() -> None:
    by = read(RecordedRank(0).calls(2), RecordedRank(1).call().call(done=False), RecordedRank(3).calls(4)).by_group_rank
    assert {(f.rank, f.enqueued, f.pending) for f in by.values()} == {(0, 2, None), (1, 2, 2), (3, 4, None)}


def test_a_wrapped_ring_begins_at_its_oldest_number() -> None:
    front = front_of(RecordedRank(0).calls(6).call(done=False).kept(3))
    assert (front.oldest, front.enqueued, front.completed, front.pending) == (5, 7, 6, 7)


def test_what_the_ring_dropped_before_an_open_call_counts_as_done() -> None:
    # active calls only: the first entry is the open one
    front = front_of(RecordedRank(0).calls(6).call(done=False).kept(1))
    assert (front.completed, front.pending) == (6, 7)


# ---- counters


def status(rank: int, enqueued: int, completed: int, pg_id: int = 0) -> dict[str, dict[str, int]]:
    return {
        str(pg_id): {
            "last_enqueued_collective": enqueued,
            "last_started_collective": -1,
            "last_completed_collective": completed,
        }
    }


def test_counters_speak_for_groups_whose_calls_were_not_written() -> None:
    front = front_of(RecordedRank(0).other(entries=[], pg_status=status(0, 9, 8)))
    assert (front.enqueued, front.completed, front.pending, front.known_by) == (9, 8, 9, "status")
    front = front_of(RecordedRank(0).other(entries=[], pg_status=status(0, 9, 9)))
    assert (front.enqueued, front.pending) == (9, None)


def test_counters_that_are_late_do_not_take_calls_back() -> None:
    front = front_of(RecordedRank(0).calls(3).call(done=False).other(pg_status=status(0, 3, 3)))
    assert (front.enqueued, front.pending) == (4, 4)


def test_counters_ahead_of_the_entries_move_the_enqueued_front() -> None:
    front = front_of(RecordedRank(0).calls(3).other(pg_status=status(0, 5, 3)))
    assert (front.enqueued, front.completed) == (5, 3)


def test_counters_of_gloo_count_sends_and_are_not_believed() -> None:
    front = front_of(RecordedRank(0, backend="gloo").calls(3).other(pg_status=status(0, 16, 16)))
    assert (front.enqueued, front.completed) == (3, 3)


def test_none_counted_is_no_front() -> None:
    assert read(RecordedRank(0).other(entries=[], pg_status=status(0, -1, -1))).by_group_rank == {}


# ---- sends and receives


def test_an_open_send_names_its_peer_by_global_rank() -> None:
    pipe = Team("9", "pp", (1, 3))
    (open_,) = read(RecordedRank(3, WORLD, pipe).call().send(1, pipe, done=False)).transfers[3]
    assert (open_.sends, open_.receives, open_.position, open_.started) == ((1,), (), 1, False)


def test_an_open_receive_names_its_peer_by_global_rank() -> None:
    pipe = Team("9", "pp", (1, 3))
    (open_,) = read(RecordedRank(3, WORLD, pipe).recv(1, pipe, done=False, state="started")).transfers[3]
    assert (open_.sends, open_.receives, open_.started) == ((), (1,), True)


def test_finished_transfers_leave_nothing() -> None:
    found = read(RecordedRank(0).send(1).recv(1).batch(("send", 1), ("recv", 1)))
    assert (found.transfers, found.by_group_rank) == ({}, {})


def test_two_batches_are_told_apart() -> None:
    (open_,) = read(RecordedRank(0).batch(("send", 1)).batch(("send", 2), ("recv", 3), done=False)).transfers[0]
    assert (open_.sends, open_.receives) == ((2,), (3,))


def test_transfers_of_a_rank_keep_their_order() -> None:
    found = read(RecordedRank(0).recv(1, done=False).send(2, done=False))
    assert [(t.sends, t.receives) for t in found.transfers[0]] == [((), (1,)), ((2,), ())]


def test_a_coalesced_collective_alone_is_a_collective() -> None:
    front = front_of(RecordedRank(0).call().call("allreduce_coalesced", done=False))
    assert (front.enqueued, front.pending) == (2, 2)


# ---- gloo


def test_the_last_call_of_a_gloo_pair_is_open_where_the_partner_is_gone() -> None:
    # gloo also retires a call that failed because its peer died
    pair = Team("0", "default_pg", (0, 1))
    alone = front_of(RecordedRank(0, pair, backend="gloo").calls(3))
    assert (alone.completed, alone.pending) == (2, 3)
    both = front_of(RecordedRank(0, pair, backend="gloo").calls(3), RecordedRank(1, pair, backend="gloo").calls(3))
    assert (both.completed, both.pending) == (3, None)


# ---- lines


def test_a_timeout_says_issued_and_not_finished() -> None:
    front = front_of(logs=(log(0, gave_up(0, 7, team=WORLD)), log(1, gave_up(1, 7, team=WORLD))))
    assert (front.enqueued, front.completed, front.pending, front.known_by) == (7, 6, 7, "log")
    assert front.row == -1


def test_blocking_wait_says_the_same() -> None:
    line = said(BlockingWaitTimeout, 0, group=WORLD.ref, seq=7, op="ALLREDUCE")
    front = front_of(logs=(log(0, line), log(1, gave_up(1, 7, team=WORLD))))
    assert (front.enqueued, front.pending) == (7, 7)


def test_the_watchdogs_counters() -> None:
    line = said(WorkStatus, 0, group=DEFAULT_REF, failed=7, last_enqueued=9, last_completed=6)
    front = front_of(logs=(log(0, line),))
    assert (front.enqueued, front.completed, front.pending) == (9, 6, 7)


def test_the_dump_signals_counters_show_a_rank_that_waits_for_nothing() -> None:
    line = said(DumpSignal, 0, group=DEFAULT_REF, last_enqueued=6, last_completed=6)
    front = front_of(logs=(log(0, line),))
    assert (front.enqueued, front.completed, front.pending) == (6, 6, None)


def test_lines_of_one_rank_add_up() -> None:
    lines = (gave_up(0, 7, team=WORLD), said(DumpSignal, 0, group=DEFAULT_REF, last_enqueued=9, last_completed=6))
    front = front_of(logs=(log(0, *lines),))
    assert (front.enqueued, front.completed, front.pending) == (9, 6, 7)


def test_a_dump_goes_before_lines() -> None:
    front = front_of(RecordedRank(0).calls(3).call(done=False), logs=(log(0, gave_up(0, 99, team=WORLD)),))
    assert (front.enqueued, front.pending, front.known_by) == (4, 4, "dump")


@pytest.mark.parametrize("counter", [1 << 60, -7, 2**63 - 1])
def test_uninitialised_counters_are_no_progress(counter: int) -> None:
    line = said(WorkStatus, 0, group=DEFAULT_REF, failed=7, last_enqueued=counter, last_completed=6)
    assert read(logs=(log(0, line),)).by_group_rank == {}


def test_a_line_without_a_rank_moves_no_front() -> None:
    assert read(logs=(Log("all.log", [gave_up(None, 7, team=WORLD)]),)).by_group_rank == {}


# ---- which group a line means


def test_a_line_without_a_group_means_the_one_in_which_its_rank_recorded_that_call() -> None:
    recorded = RecordedRank(2, WORLD, PAIR).calls(2).calls(5, team=PAIR).call(team=PAIR, done=False)
    found = placed(recorded, logs=[log(2, gave_up(2, 6))])
    assert group_of(found, found.events[0]) == group_named(found, "7")


def test_two_groups_with_that_number_are_told_apart_by_size() -> None:
    recorded = RecordedRank(2, WORLD, PAIR).call(n=8).call(team=PAIR, n=32, done=False)
    found = placed(recorded, logs=[log(2, gave_up(2, 1, numel_in=32), gave_up(2, 1, numel_in=None))])
    assert group_of(found, found.events[0]) == group_named(found, "7")
    assert found.groups[group_of(found, found.events[1]) or 0].label == "not named", "both fit"


def test_without_dumps_a_line_without_a_group_means_the_default_group() -> None:
    found = placed(logs=[log(2, gave_up(2, 6)), log(3, gave_up(3, 6))])
    assert group_of(found, found.events[0]) == 0


def test_a_group_that_only_an_assumption_names_says_so() -> None:
    found = placed(logs=[log(2, gave_up(2, 6)), log(3, gave_up(3, 6))])
    assert found.groups[0].label == "default_pg (assumed)"
    named = placed(logs=[log(2, gave_up(2, 6, team=WORLD)), log(3, gave_up(3, 6))])
    assert named.groups[0].label == "default_pg (0)"
    assert {group_of(named, e) for e in named.events} == {0}


def test_a_line_joins_the_group_in_which_a_peer_recorded_the_same_call() -> None:
    recorded = RecordedRank(2, WORLD, PAIR).calls(5, team=PAIR).call(team=PAIR, n=32, done=False)
    found = placed(recorded, logs=[log(3, gave_up(3, 6, numel_in=32)), log(1, gave_up(1, 6, numel_in=32))])
    assert group_of(found, found.events[0]) == group_named(found, "7")
    assert found.groups[group_of(found, found.events[1]) or 0].label == "not named", "rank 1 is no member"


def test_a_gather_over_the_whole_job_is_of_the_default_group() -> None:
    gather = gave_up(1, 9, op="_ALLGATHER_BASE", numel_in=8, numel_out=32)
    found = placed(logs=[log(0, gave_up(0, 6)), log(1, gather), log(3)])
    assert [group_of(found, e) == 0 for e in found.events] == [False, True]


def test_unless_its_number_inside_the_group_is_another_than_its_rank() -> None:
    found = placed(logs=[log(2, gave_up(2, 6, group_rank=0)), log(3, gave_up(3, 6))])
    assert {found.groups[group_of(found, e) or 0].label for e in found.events} == {"not named"}


@pytest.mark.parametrize("other", [8, 900])
def test_numbers_that_do_not_queue_behind_each_other_are_of_groups_that_nobody_names(other: int) -> None:
    found = placed(logs=[log(r, gave_up(r, 6), *([gave_up(r, other)] if r < 2 else [])) for r in range(4)])
    groups = [group_of(found, e) for e in found.events]
    assert len(set(groups)) == len(groups), "each line is of a group of its own"
    assert {found.groups[g].label for g in groups if g is not None} == {"not named"}


def test_who_gives_up_on_a_later_call_that_needs_everybody_is_in_another_group() -> None:
    found = placed(logs=[log(0, gave_up(0, 6)), log(1, gave_up(1, 7))])
    assert len({group_of(found, e) for e in found.events} - {0}) == 2
    early = placed(logs=[log(0, gave_up(0, 6, op="BROADCAST")), log(1, gave_up(1, 7))])
    assert {group_of(early, e) for e in early.events} == {0}, "one member may finish a broadcast before the others"


def test_numbers_that_queue_behind_each_other_are_of_one_group() -> None:
    found = placed(logs=[log(r, gave_up(r, 6), gave_up(r, 7)) for r in range(4)])
    assert {group_of(found, e) for e in found.events} == {0}


def test_a_named_group_that_nobody_knows_is_not_taken_for_another() -> None:
    # the store names groups in its own words; such a line may be the only one
    found = case(RecordedRank(2).calls(3))
    line = gave_up(2, 3, team=Team("999", "cp", (2,)))
    assert group_of(found, line) is None


# ---- lines with and without the group of one call


def timed_out(
    members: Sequence[int], named: Sequence[int], *, uid: str = "5", without: Sequence[int] = (), **fields: object
) -> list[Log]:
    """The logs of a dp group in #77: lines of ``named`` members have its name, those of the others do not."""
    team = Team(uid, "dp", tuple(members))
    return [
        log(rank, gave_up(rank, 77, team=team if rank in named else None, group_rank=seat, **fields))
        for seat, rank in enumerate(members)
        if rank not in without
    ]


def groups_in(found: Case) -> dict[int, str]:
    """The group of each rank's line, by its name."""
    return {e.rank or 0: found.groups[group_of(found, e) or 0].uid for e in found.events}


@pytest.mark.parametrize(
    ("members", "named"),
    [((0, 1, 2, 3), (0, 1)), ((0, 1, 2, 3), (2,)), ((4, 5, 6, 7), (4,)), ((1, 3, 5, 7), (3, 7)), ((0, 1), (1,))],
)
def test_lines_of_one_call_with_and_without_its_group_are_joined(members: Sequence[int], named: Sequence[int]) -> None:
    found = placed(logs=timed_out(members, named))
    assert groups_in(found) == dict.fromkeys(members, "5")
    assert found.groups[group_of(found, found.events[0]) or 0].members == Ranks(members)


def test_sister_groups_make_the_same_call_and_are_not_pooled() -> None:
    """Ranks 0 and 2, and ranks 1 and 3: rank 2 may sit beside either."""
    for named in ((0,), (0, 1)):
        found = placed(logs=[*timed_out((0, 2), named), *timed_out((1, 3), named, uid="6")])
        groups = {e.rank: group_of(found, e) for e in found.events}
        assert len(set(groups.values())) == 4, groups
    found = placed(logs=[*timed_out((0, 2, 4, 6), (0, 2)), *timed_out((1, 3, 5, 7), (1, 5), uid="6")])
    assert groups_in(found) == {rank: "56"[rank % 2] for rank in range(8)}
    beside = placed(logs=[*timed_out((0, 2), (0,), without=(2,)), *timed_out((1, 3), (), without=(1,))])
    assert len({group_of(beside, e) for e in beside.events}) == 2


def test_a_call_of_another_size_is_another() -> None:
    logs = [*timed_out((0, 1), (0, 1)), log(2, gave_up(2, 77, group_rank=2, numel_in=9))]
    assert groups_in(placed(logs=logs))[2] != "5"


def test_a_gather_counts_the_members_of_any_group() -> None:
    logs = timed_out((1, 3, 5, 7), (1, 3), without=(5,), op="_ALLGATHER_BASE", numel_in=100, numel_out=400)
    found = with_counted_members(placed(logs=logs))
    group = found.groups[group_of(found, found.events[0]) or 0]
    assert (group.members, group.learned) == (Ranks([1, 3, 5, 7]), "seats")
    logs = timed_out((1, 3, 5, 7), (1,), without=(3, 5, 7), op="_ALLGATHER_BASE", numel_in=100, numel_out=10**15)
    assert with_counted_members(placed(logs=logs)).groups[1].learned == "log", "one member shows no stride"


# ---- who is known how


def test_who_recorded_and_who_timed() -> None:
    started = RecordedRank(1).call(done=False, state="started")
    counted = RecordedRank(2).other(entries=[], pg_status=status(2, 4, 4))
    off = RecordedRank(3).other(entries=[], pg_status={})
    found = read(RecordedRank(0).call(), started, counted, off)
    assert found.recorded_ranks == {0, 1, 2}
    assert found.timed_ranks == {1}
    assert found.last_row == {0: 0, 1: 1}
