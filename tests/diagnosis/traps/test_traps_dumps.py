"""What misleads readers of recorder dumps, one test each; the numbers are those of the list in docs on signals (those
about lines stand in ``test_traps_lines.py``)."""

from __future__ import annotations

import json
import pickle

from builders.jobs.cases import START, WORLD, Log, RecordedRank, Team, case, facts, gave_up, group_named, said

from nccldoctor.align.liveness import collect_liveness
from nccldoctor.align.progress.table import build_progress_table
from nccldoctor.diagnose.diagnose import diagnose
from nccldoctor.events import DumpSignal, GroupRef, WorkStatus
from nccldoctor.model import CauseClass, Role
from nccldoctor.model.ranks import Ranks
from nccldoctor.summarise.coverage import coverage
from nccldoctor.summarise.rank_table import rank_table

PAIR = Team("7", "tp", (2, 3))


def test_02_the_group_of_a_timeout_comes_from_the_line_that_names_it_not_from_its_number() -> None:
    # both groups of rank 2 have a call 5; the line names the pair
    found = case(
        logs=[Log("r2.log", [gave_up(2, 5, team=PAIR)], rank=2), Log("r3.log", [gave_up(3, 5, team=PAIR)], rank=3)]
    )
    both = build_progress_table(found)
    pair = group_named(found, "7")
    assert {(f.group, f.rank, f.pending) for f in both.by_group_rank.values()} == {(pair, 2, 5), (pair, 3, 5)}


def test_04_counters_of_the_dump_signal_are_those_of_the_default_group() -> None:
    signal = said(DumpSignal, 3, 601, group=GroupRef(pg_id=0, uid="0"), last_enqueued=-1, last_completed=-1)
    found = case(
        logs=[
            Log("r3.log", [gave_up(3, 9, team=PAIR), signal], rank=3),
            Log("r2.log", [gave_up(2, 9, team=PAIR)], rank=2),
        ]
    )
    both = build_progress_table(found)
    assert both.by_group_rank[(group_named(found, "7"), 3)].pending == 9
    assert both.by_group_rank[(group_named(found, "0"), 3)].enqueued == -1
    assert both.by_group_rank[(group_named(found, "0"), 3)].pending is None


def test_06_scheduled_does_not_mean_not_started_without_timing() -> None:
    # every rank is in call 3, all say "scheduled": nobody is accused of not having started
    recorded_ranks = [RecordedRank(r).calls(2).call(done=False) for r in range(4)]
    found = facts(*recorded_ranks)
    assert found.progress.timed_ranks == frozenset()
    (call,) = found.wait_graph.calls.values()
    assert (call.inside, call.blockers) == (Ranks(range(4)), Ranks())
    assert not diagnose(found).findings[0].ranks


def test_06_with_timing_a_scheduled_call_queues_behind_the_started_one() -> None:
    recorded_ranks = [RecordedRank(r, WORLD, PAIR).call() for r in range(4)]
    for recorded in recorded_ranks[2:]:
        recorded.call(team=PAIR, done=False).call(done=False, state="started")
    for recorded in recorded_ranks[:2]:
        recorded.call(done=False, state="started")
    found = case(*recorded_ranks)
    result = facts(*recorded_ranks)
    assert result.progress.timed_ranks == frozenset(range(4))
    assert result.wait_graph.waits_in[3] == (("collective", group_named(found, "0"), 2, 0),)


def test_07_gloo_calls_are_done_when_retired_whatever_their_state() -> None:
    recorded_ranks = [RecordedRank(r, backend="gloo").calls(2) for r in range(4)]
    for recorded in recorded_ranks[:3]:
        recorded.call("barrier", done=False)
    found = facts(*recorded_ranks)
    by_rank = {f.rank: (f.enqueued, f.completed, f.pending) for f in found.progress.by_group_rank.values()}
    assert by_rank == {0: (3, 2, 3), 1: (3, 2, 3), 2: (3, 2, 3), 3: (2, 2, None)}
    assert found.wait_graph.roots == Ranks([3])


def test_07_a_retired_nccl_call_that_did_not_complete_has_timed_out() -> None:
    recorded_ranks = [RecordedRank(r).call().call(done=False, retired=True) for r in range(4)]
    assert {f.pending for f in facts(*recorded_ranks).progress.by_group_rank.values()} == {2}


def test_08_members_of_a_batch_never_change_and_count_for_nothing() -> None:
    a = RecordedRank(0).batch(("send", 1), ("recv", 1)).call(done=False)
    b = RecordedRank(1).batch(("send", 0), ("recv", 0)).call(done=False)
    rest = [RecordedRank(r).call(done=False) for r in (2, 3)]
    found = facts(a, b, *rest)
    assert found.progress.transfers == {}
    (call,) = found.wait_graph.calls.values()
    assert (call.seq, call.inside) == (1, Ranks(range(4)))


def test_08_an_open_batch_waits_for_the_peers_of_its_members() -> None:
    found = facts(
        RecordedRank(0).batch(("send", 1), ("recv", 3), done=False), *(RecordedRank(r).call() for r in (1, 2, 3))
    )
    (open_,) = found.progress.transfers[0]
    assert (open_.sends, open_.receives) == ((1,), (3,))
    assert found.wait_graph.roots == Ranks([1, 3])


def test_08_members_of_a_batch_of_collectives_count_for_nothing_either() -> None:
    def recorded(rank: int) -> RecordedRank:
        out = RecordedRank(rank).call()
        out.call("all_gather", done=False)
        out.entries.append(dict(out.entries[-1], record_id=2, input_sizes=[[16]]))
        return out._put(WORLD, "coalesced", 0, True)

    found = facts(*(recorded(r) for r in range(4)))
    assert {(f.enqueued, f.completed, f.pending) for f in found.progress.by_group_rank.values()} == {(2, 2, None)}


def test_09_sends_carry_the_collective_counter_of_their_group_and_are_no_collective() -> None:
    # the send of 0 is open under collective number 2, which everybody completed
    found = facts(RecordedRank(0).calls(2).send(1, done=False), *(RecordedRank(r).calls(2) for r in (1, 2, 3)))
    assert {(f.enqueued, f.completed, f.pending) for f in found.progress.by_group_rank.values()} == {(2, 2, None)}
    (call,) = found.wait_graph.calls.values()
    assert (call.pair, call.seq, call.inside, call.missing) == ((0, 1), 1, Ranks([0]), Ranks([1]))


def test_09_counters_of_a_group_with_sends_are_not_believed() -> None:
    # 17 mixes both counters: nobody has enqueued a collective number 17
    status = {"0": {"last_enqueued_collective": 17, "last_started_collective": -1, "last_completed_collective": 3}}
    recorded_ranks = [
        RecordedRank(0).calls(2).send(1).other(pg_status=status),
        RecordedRank(1).calls(2).recv(0),
        RecordedRank(2).calls(2),
        RecordedRank(3).calls(2),
    ]
    assert {f.enqueued for f in facts(*recorded_ranks).progress.by_group_rank.values()} == {2}


def _list_2_2(calls: int, *, open_last: bool) -> bytes:
    rows = [
        {
            "pg_id": 0,
            "seq_id": n,
            "profiling_name": "nccl:all_reduce",
            "time_created_us": START * 10**6 + n,
            "input_sizes": [[8]],
            "output_sizes": [[8]],
            "state": "scheduled" if open_last and n == calls else "completed",
            "retired": False,
            "frames": [],
        }
        for n in range(1, calls + 1)
    ]
    return pickle.dumps(rows, protocol=2)


def test_16_the_bare_list_of_2_2_in_microseconds_is_diagnosed_like_the_rest() -> None:
    dumps = [(r, _list_2_2(3, open_last=True)) for r in (0, 1, 2)]
    found = facts(*dumps, (3, _list_2_2(2, open_last=False)))
    assert found.wait_graph.roots == Ranks([3])
    assert int(found.case.calls.created_ns[0]) == START * 10**9 + 1000
    assert diagnose(found).findings[0].ranks == Ranks([3])


def test_16_json_and_pickle_of_one_dump_give_the_same_facts() -> None:
    recorded_ranks = [RecordedRank(r).calls(2) for r in range(4)]
    for recorded in recorded_ranks[:3]:
        recorded.call(done=False)

    def as_json(recorded: RecordedRank) -> tuple[int, bytes]:
        shape = recorded.content()
        for entry in shape["entries"]:
            entry.pop("frames")
        shape["pg_status"] = {k: {n: str(v) for n, v in s.items()} for k, s in shape["pg_status"].items()}
        return recorded.rank, json.dumps(shape, sort_keys=True).encode()

    pickled, written = facts(*recorded_ranks), facts(*map(as_json, recorded_ranks))
    assert written.progress.by_group_rank == pickled.progress.by_group_rank
    assert diagnose(written).findings[0].ranks == diagnose(pickled).findings[0].ranks == Ranks([3])


def test_17_a_dump_without_entries_proves_nothing_about_its_rank() -> None:
    recorded_ranks = [RecordedRank(r).calls(2).call(done=False) for r in (0, 1)]
    empty = [RecordedRank(r).other(entries=[], pg_status={}) for r in (2, 3)]
    found = facts(*recorded_ranks, *empty)
    assert found.liveness.activity(2).dump == "empty"
    assert found.liveness.dumped == Ranks([0, 1])
    (call,) = found.wait_graph.calls.values()
    assert (call.missing, call.unknown) == (Ranks(), Ranks([2, 3]))
    verdict = diagnose(found).findings[0]
    assert not verdict.ranks & Ranks([2, 3]), "two ranks left nothing: neither is shown to be outside"
    (row,) = [c for c in coverage(found) if c.input == "flight recorder"]
    assert row.found == Ranks([0, 1])
    assert sum("recorder off" in p for p in row.problems) == 2


def test_17_beside_peers_that_hold_their_first_call_it_proves_that_the_rank_made_none() -> None:
    recorded_ranks = [RecordedRank(r).call("barrier", done=False) for r in (1, 2, 3)]
    found = facts(RecordedRank(0).other(entries=[], pg_status={}), *recorded_ranks)
    (call,) = found.wait_graph.calls.values()
    assert (call.missing, call.unknown) == (Ranks([0]), Ranks())
    verdict = diagnose(found).findings[0]
    assert (verdict.cause, verdict.ranks) == (CauseClass.NOT_ARRIVED, Ranks([0]))
    counted = RecordedRank(0).other(entries=[], pg_status={"0": {"last_enqueued_collective": 1}})
    assert not any(call.missing for call in facts(counted, *recorded_ranks).wait_graph.calls.values())


def test_17_it_does_prove_that_the_rank_was_alive() -> None:
    recorded_ranks = [RecordedRank(r).calls(2).call(done=False) for r in (0, 1, 2)]
    found = collect_liveness(case(*recorded_ranks, RecordedRank(3).other(entries=[], pg_status={})))
    assert found.activity(3).is_alive
    assert not collect_liveness(case(*recorded_ranks)).activity(3).is_alive


def test_14_who_waits_is_a_victim_and_who_is_missing_is_not() -> None:
    recorded_ranks = [RecordedRank(r).calls(2) for r in range(4)]
    for recorded in recorded_ranks[:3]:
        recorded.call(done=False)
    logs = [Log(f"r{r}.log", [gave_up(r, 3)], rank=r) for r in (0, 1, 2)]
    found = facts(*recorded_ranks, logs=logs)
    roles = {s.rank: s.role for s in rank_table(found, diagnose(found).findings)}
    assert roles == {0: Role.WAITING, 1: Role.WAITING, 2: Role.WAITING, 3: Role.CULPRIT}


def test_09_counters_that_a_line_prints_may_be_behind_what_failed() -> None:
    # the newer watchdog mixes p2p and collective numbers: failed 7, enqueued 5, completed 9
    status = said(WorkStatus, 2, 600, group=PAIR.ref, failed=7, last_enqueued=5, last_completed=9)
    found = case(logs=[Log("r2.log", [status], rank=2)])
    front = build_progress_table(found).by_group_rank[(group_named(found, "7"), 2)]
    assert (front.pending, front.enqueued) == (7, 7)


def test_15_nothing_recorded_and_nothing_said_names_nobody() -> None:
    found = facts(*(RecordedRank(r).other(entries=[], pg_status={}) for r in range(4)))
    verdict = diagnose(found).findings[0]
    assert verdict.cause in (CauseClass.UNDETERMINED, CauseClass.NONE)
    assert not verdict.ranks
