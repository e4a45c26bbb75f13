"""Who waits for whom: where members stand towards a stuck call, and where waiting ends."""

from __future__ import annotations

from builders.jobs.cases import WORLD, Log, RecordedRank, Team, case, facts, gave_up, group_named, said, world
from hypothesis import given, settings
from hypothesis import strategies as st

from nccldoctor.align.stalls import StallKind
from nccldoctor.align.wait_graph import Key, WaitGraph, components
from nccldoctor.events import GroupRef, Heartbeat, Setting, WorkStatus
from nccldoctor.model.ranks import Ranks

TP_LOW, TP_HIGH = Team("1", "tp", (0, 1)), Team("2", "tp", (2, 3))
DP_EVEN, DP_ODD = Team("3", "dp", (0, 2)), Team("4", "dp", (1, 3))
GRID = (WORLD, TP_LOW, TP_HIGH, DP_EVEN, DP_ODD)


def graph(*recorded_ranks: RecordedRank, logs: tuple[Log, ...] = ()) -> WaitGraph:
    return facts(*recorded_ranks, logs=logs).wait_graph


def test_who_is_inside_and_who_never_came() -> None:
    found = graph(*(RecordedRank(r).calls(2).call(done=False) for r in (0, 1, 2)), RecordedRank(3).calls(2))
    (call,) = found.calls.values()
    assert (call.seq, str(call.inside), str(call.missing), str(call.blockers)) == (3, "0-2", "3", "3")
    assert (found.roots, found.entered_by_all, found.cycles) == (Ranks([3]), (), ())
    assert found.waiting_for(3) == [call]
    assert found.waiting_for(2) == []


def test_who_left_nothing_is_unknown_not_missing() -> None:
    (call,) = graph(*(RecordedRank(r).calls(2).call(done=False) for r in (0, 1, 2))).calls.values()
    assert (call.missing, call.unknown) == (Ranks(), Ranks([3]))


def test_a_dump_without_any_call_in_a_group_shows_absence_unless_the_ring_wrapped() -> None:
    waiting = [RecordedRank(r, *GRID).calls(2).call(team=TP_HIGH, done=False) for r in (2,)]
    (call,) = graph(*waiting, RecordedRank(3, *GRID).calls(2)).calls.values()
    assert (call.missing, call.unknown) == (Ranks([3]), Ranks())
    wrapped = RecordedRank(3, *GRID).calls(9).kept(2)
    wrapped.other(pg_status={})
    (call,) = graph(*waiting, wrapped).calls.values()
    assert (call.missing, call.unknown) == (Ranks(), Ranks([3]))


def test_who_completed_a_call_has_passed_it() -> None:
    # a broadcast's root may leave early
    found = graph(
        RecordedRank(0).calls(3, "broadcast"),
        *(RecordedRank(r).calls(2, "broadcast").call("broadcast", done=False) for r in (1, 2, 3)),
    )
    (call,) = found.calls.values()
    assert (str(call.inside), str(call.completed), str(call.blockers)) == ("1-3", "0", "")
    assert found.entered_by_all == (call.key,)


def test_all_inside_is_a_full_call() -> None:
    found = graph(*(RecordedRank(r).call().call(done=False) for r in range(4)))
    (call,) = found.calls.values()
    assert (found.entered_by_all, found.roots, found.cycles) == ((call.key,), Ranks(), ())
    assert str(call.entered) == "0-3"


def test_the_chain_is_followed_to_who_waits_for_nobody() -> None:
    # 3 never came to tp(2,3); 2 waits there and so is missing from dp(0,2); 0 waits there, and so 1 in tp(0,1)
    recorded_ranks = [RecordedRank(r, *GRID).call() for r in range(4)]
    recorded_ranks[2].call(team=TP_HIGH, done=False)
    recorded_ranks[0].call(team=DP_EVEN, done=False)
    recorded_ranks[1].call(team=TP_LOW, done=False)
    found = graph(*recorded_ranks)
    assert found.roots == Ranks([3])
    assert {(str(c.inside), str(c.missing)) for c in found.calls.values()} == {("2", "3"), ("0", "2"), ("1", "0")}
    assert (found.entered_by_all, found.cycles) == ((), ())


def test_what_was_issued_later_queues_behind() -> None:
    # the host of 0 ran ahead: its dp call is issued, yet it waits in tp
    recorded_ranks = [RecordedRank(r, *GRID).call() for r in range(4)]
    recorded_ranks[0].call(team=TP_LOW, done=False).call(team=DP_EVEN, done=False)
    recorded_ranks[2].call(team=DP_EVEN, done=False)
    found = graph(*recorded_ranks)
    calls = {c.group: c for c in found.calls.values()}
    dp = calls[group_named(case(*recorded_ranks), "3")]
    assert (str(dp.inside), str(dp.queued), str(dp.missing)) == ("2", "0", "")
    assert found.roots == Ranks([1]), "0 is held up by 1, whom tp(0,1) misses"


def test_independent_stalls_have_a_root_each() -> None:
    recorded_ranks = [RecordedRank(r, *GRID).call() for r in range(4)]
    recorded_ranks[0].call(team=TP_LOW, done=False)
    recorded_ranks[2].call(team=TP_HIGH, done=False)
    found = facts(*recorded_ranks)
    assert found.wait_graph.roots == Ranks([1, 3])
    assert [(s.kind, str(s.ranks), str(s.proven_absent)) for s in found.stalls] == [
        (StallKind.ABSENT, "1", "1"),
        (StallKind.ABSENT, "3", "3"),
    ]


def test_two_orders_make_a_circle() -> None:
    # 0 and 3 go to tp first, 1 and 2 to dp: everybody waits for somebody who waits
    recorded_ranks = [RecordedRank(r, *GRID).call() for r in range(4)]
    recorded_ranks[0].call(team=TP_LOW, done=False)
    recorded_ranks[1].call(team=DP_ODD, done=False)
    recorded_ranks[3].call(team=TP_HIGH, done=False)
    recorded_ranks[2].call(team=DP_EVEN, done=False)
    found = graph(*recorded_ranks)
    assert found.roots == Ranks()
    (cycle,) = found.cycles
    assert len(cycle) == 4


def test_a_circle_of_two_groups_with_the_same_members() -> None:
    a, b = Team("5", "a", (0, 1)), Team("6", "b", (0, 1))
    first = RecordedRank(0, WORLD, a, b).call(team=a, done=False).call(team=b, done=False)
    second = RecordedRank(1, WORLD, a, b).call(team=b, done=False).call(team=a, done=False)
    found = graph(first, second, RecordedRank(2).call(), RecordedRank(3).call())
    assert len(found.cycles) == 1
    assert {str(found.calls[k].inside) + "|" + str(found.calls[k].queued) for k in found.cycles[0]} == {"0|1", "1|0"}
    assert found.roots == Ranks()


def test_a_circle_that_also_waits_for_an_absent_rank_is_no_circle() -> None:
    three = Team("5", "a", (0, 1, 2))
    other = Team("6", "b", (0, 1))
    recorded_ranks = [
        RecordedRank(0, WORLD, three, other).call(team=three, done=False).call(team=other, done=False),
        RecordedRank(1, WORLD, three, other).call(team=other, done=False).call(team=three, done=False),
        RecordedRank(2, WORLD, three).call(),
        RecordedRank(3).call(),
    ]
    found = graph(*recorded_ranks)
    assert found.roots == Ranks([2])
    assert found.cycles == ()


def test_a_started_kernel_is_what_a_rank_waits_in() -> None:
    # two streams: the call issued second runs, the first queues behind something else
    recorded_ranks = [RecordedRank(r, *GRID).call() for r in range(4)]
    recorded_ranks[0].call(team=TP_LOW, done=False).call(team=DP_EVEN, done=False, state="started")
    found = graph(*recorded_ranks)
    (key,) = found.waits_in[0]
    assert found.calls[key].group == group_named(case(*recorded_ranks), "3")


def test_p2p_waits_for_the_other_end() -> None:
    found = graph(RecordedRank(0).call().recv(1, done=False), *(RecordedRank(r).call() for r in (1, 2, 3)))
    (call,) = found.calls.values()
    assert (call.pair, str(call.inside), str(call.missing)) == ((1, 0), "0", "1")
    assert found.roots == Ranks([1])


def test_a_chain_through_p2p_and_collectives() -> None:
    # 0 receives from 1; 1 is in a collective that 2 and 3 never joined
    found = graph(
        RecordedRank(0).call().recv(1, done=False),
        RecordedRank(1).call().call(done=False),
        RecordedRank(2).call(),
        RecordedRank(3).call(),
    )
    assert str(found.roots) == "2-3"


def test_both_ends_posted_is_a_full_transfer() -> None:
    found = graph(
        RecordedRank(0).call().recv(1, done=False),
        RecordedRank(1).call().send(0, done=False),
        RecordedRank(2).call(),
        RecordedRank(3).call(),
    )
    (call,) = found.calls.values()
    assert str(call.inside) == "0-1"
    assert found.entered_by_all == (call.key,)
    assert found.roots == Ranks()


def test_two_receives_from_each_other_are_two_transfers_that_miss_their_senders() -> None:
    found = graph(
        RecordedRank(0).call().recv(1, done=False),
        RecordedRank(1).call().recv(0, done=False),
        RecordedRank(2).call(),
        RecordedRank(3).call(),
    )
    assert {(c.pair, str(c.inside), str(c.missing)) for c in found.calls.values()} == {
        ((1, 0), "0", "1"),
        ((0, 1), "1", "0"),
    }
    assert found.roots == Ranks()
    assert len(found.cycles) == 1


def test_timeouts_show_waiting_and_not_absence() -> None:
    # 2 gave up on an earlier call than the others: that is a call that timed out, not a counter
    logs = tuple(Log(f"r{r}.log", [gave_up(r, 7, team=WORLD)], rank=r) for r in (0, 1, 3))
    found = graph(logs=(*logs, Log("r2.log", [gave_up(2, 5, team=WORLD)], rank=2)))
    call = next(c for c in found.calls.values() if c.seq == 7)
    assert (str(call.inside), call.missing, str(call.unknown)) == ("0-1,3", Ranks(), "2")


def test_counters_in_a_line_show_absence() -> None:
    ref = GroupRef(pg_id=0, uid="0")
    logs = [Log(f"r{r}.log", [gave_up(r, 7, team=WORLD)], rank=r) for r in (0, 1, 3)]
    counters = said(WorkStatus, 2, group=ref, failed=None, last_enqueued=6, last_completed=6)
    found = graph(logs=(*logs, Log("r2.log", [counters], rank=2)))
    (call,) = found.calls.values()
    assert (str(call.inside), str(call.missing)) == ("0-1,3", "2")
    assert found.roots == Ranks([2])


def test_of_two_calls_known_from_lines_the_one_issued_first_is_waited_in() -> None:
    # printed later but running longer: issued earlier
    late = gave_up(0, 9, 900.0, team=TP_LOW, ran_ms=600_000)
    early = gave_up(0, 4, 910.0, team=DP_EVEN, ran_ms=900_000)
    logs = (
        Log("r0.log", [late, early], rank=0),
        Log("r1.log", [gave_up(1, 9, team=TP_LOW)], rank=1),
        Log("r2.log", [gave_up(2, 4, team=DP_EVEN)], rank=2),
    )
    found = graph(logs=logs)
    ((_, _, seq, _),) = found.waits_in[0]
    assert seq == 4


def test_of_lines_of_one_second_the_call_that_fewest_wait_in_came_first() -> None:
    """Rank 1 left both calls out; 0 waits in the pair's, and like all others in that of the whole job behind it."""
    pair = Team("7", "tp", (0, 1))
    logs = [Log(f"r{r}.log", [gave_up(r, 5, team=WORLD)], rank=r) for r in (2, 3)]
    both = Log("r0.log", [gave_up(0, 5, team=WORLD), gave_up(0, 40, team=pair)], rank=0)
    found = graph(logs=(both, *logs, Log("r1.log", [said(Heartbeat, 1, 1.0, step=4)], rank=1)))
    ((_, _, seq, _),) = found.waits_in[0]
    assert seq == 40
    everywhere = [Log(f"r{r}.log", [gave_up(r, 5, team=WORLD), gave_up(r, 40, team=pair)], rank=r) for r in (0, 2, 3)]
    assert {key[2] for r in (0, 2, 3) for key in graph(logs=tuple(everywhere)).waits_in[r]} == {5}


def test_of_lines_of_one_second_the_call_that_others_recorded_first_came_first() -> None:
    """Ranks 1 and 3 dumped one order, the dump of 2 is lost, and 0 is silent: no deadlock, 0 alone is waited for."""
    whole = Team("7", "tp", (0, 1, 2, 3))
    logs = [Log(f"r{r}.log", [gave_up(r, 1, team=WORLD), gave_up(r, 1, team=whole)], rank=r) for r in (1, 2, 3)]
    dumps = [RecordedRank(r, WORLD, whole).call(team=whole, done=False).call(done=False) for r in (1, 3)]
    found = facts(*dumps, logs=(*logs, Log("r0.log", [said(Heartbeat, 0, 1.0, step=4)], rank=0)))
    assert found.wait_graph.cycles == ()
    assert [(s.kind, str(s.ranks)) for s in found.stalls] == [(StallKind.ABSENT, "0")]


def test_who_gave_up_on_a_call_of_whatever_group_is_not_silent() -> None:
    part = Team("7", "tp", (0, 2))
    logs = [Log(f"r{r}.log", [gave_up(r, 9, team=part)], rank=r) for r in (0, 2, 3)]
    nameless = Log("r1.log", [gave_up(1, 30, op="BROADCAST", team=Team("", "", ()))], rank=1)
    silent = Log("r1.log", [said(Heartbeat, 1, 1.0, step=4)], rank=1)
    size = Log("env.log", [said(Setting, name="WORLD_SIZE", value="4")])
    assert graph(logs=(*logs, silent, size)).roots == Ranks([1])
    assert graph(logs=(*logs, nameless, size)).roots == Ranks()


# ---- the pieces of a graph

NODES: list[Key] = [("collective", g, 0, 0) for g in range(7)]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=20))
def test_components_are_what_reaches_each_other(pairs: list[tuple[int, int]]) -> None:
    edges: dict[Key, set[Key]] = {n: set() for n in NODES}
    for a, b in pairs:
        edges[NODES[a]].add(NODES[b])
    reach = {n: {n} for n in NODES}
    for _ in NODES:
        for n in NODES:
            reach[n] |= {t for m in reach[n] for t in edges[m]}
    expected = {frozenset(m for m in NODES if m in reach[n] and n in reach[m]) for n in NODES}
    found = components(edges)
    assert {frozenset(p) for p in found} == expected
    assert sum(map(len, found)) == len(NODES)


def test_components_of_a_long_chain_need_no_recursion() -> None:
    chain: list[Key] = [("collective", n, 0, 0) for n in range(5000)]
    edges: dict[Key, set[Key]] = {k: {chain[i + 1]} if i + 1 < len(chain) else set() for i, k in enumerate(chain)}
    assert len(components(edges)) == 5000


def test_a_big_world_is_one_call() -> None:
    whole = world(64)
    found = graph(
        *(
            RecordedRank(r, whole).call().call(done=r == 63) if r != 63 else RecordedRank(r, whole).call()
            for r in range(64)
        )
    )
    (call,) = found.calls.values()
    assert (str(call.inside), str(found.roots)) == ("0-62", "63")


# ---- whole jobs

PROGRAM = st.lists(st.sampled_from(GRID), min_size=1, max_size=14)


def played(program: list[Team], stopped: int, after: int, ahead: bool) -> list[RecordedRank]:
    """The dumps of four ranks that issue the same calls in one order, where one host stops after so many of its own.

    Hosts wait for each call, or run ``ahead`` of their devices; a call ends when all its members have reached it.
    """
    recorded_ranks = [RecordedRank(r, *GRID) for r in range(4)]
    issued = [0] * 4
    stuck: set[int] = set()
    for team in program:
        here = [r for r in team.members if not (r == stopped and issued[r] >= after) and (ahead or r not in stuck)]
        done = len(here) == len(team.members) and not stuck & set(here)
        for rank in here:
            recorded_ranks[rank].call(team=team, done=done)
            issued[rank] += 1
        if not done:
            stuck |= set(here) - {stopped} if not ahead else set(here)
    return recorded_ranks


@settings(max_examples=80, deadline=None)
@given(program=PROGRAM, stopped=st.integers(0, 3), after=st.integers(0, 6), ahead=st.booleans())
def test_whoever_stops_is_the_only_root(program: list[Team], stopped: int, after: int, ahead: bool) -> None:
    recorded_ranks = played(program, stopped, after, ahead)
    found = graph(*recorded_ranks)
    waiting = any(e["state"] != "completed" for t in recorded_ranks for e in t.entries)
    assert found.roots == Ranks([stopped] if waiting else [])
    assert (found.cycles, found.entered_by_all) == ((), ())
    assert bool(found.calls) == waiting
