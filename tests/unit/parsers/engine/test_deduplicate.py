from __future__ import annotations

from datetime import datetime

from builders.logs.log_reading import parsed

from nccldoctor.events import CollectiveTimeout, GroupRef, Note, WorkStatus
from nccldoctor.model import Place
from nccldoctor.parsers.engine.deduplicate import with_groups, without_repetitions


def at(line: int) -> Place:
    return Place(0, "job.log", line=line)


def timeout(line: int, **more: object) -> CollectiveTimeout:
    known: dict[str, object] = {"op": "ALLREDUCE", "seq": 5, "timeout_ms": 9, "ran_ms": 11, "group_rank": 1}
    return CollectiveTimeout(place=at(line), text="", **(known | more))  # type: ignore[arg-type]


def test_a_copy_completes_the_first() -> None:
    (e,) = without_repetitions([timeout(1), timeout(9, rank=7, group=GroupRef(uid="2"))])
    assert (e.place.line, e.rank, str(e.group)) == (1, 7, "2")


def test_a_cut_copy_is_still_a_copy() -> None:
    assert len(without_repetitions([timeout(1), timeout(2, ran_ms=None, timeout_ms=None)])) == 1


def test_other_ranks_other_groups_and_other_times_are_other_records() -> None:
    found = without_repetitions(
        [timeout(1, rank=0), timeout(2, rank=1), timeout(3, rank=0, ran_ms=12), timeout(4, group_rank=2)]
    )
    assert len(found) == 4
    pair = without_repetitions(
        [timeout(1, rank=0, group=GroupRef(uid="1")), timeout(2, rank=0, group=GroupRef(uid="2"))]
    )
    assert len(pair) == 2


def test_the_rank_inside_the_group_may_differ_where_the_global_one_agrees() -> None:
    assert len(without_repetitions([timeout(1, rank=8, group_rank=6), timeout(2, rank=8, group_rank=1)])) == 1


def status(line: int, hour: int | None = None) -> WorkStatus:
    when = None if hour is None else datetime(1900, 3, 1, hour)
    return WorkStatus(place=at(line), text="", rank=3, failed=1, last_enqueued=1, last_completed=-1, time=when)


def test_the_next_attempt_may_fail_with_the_same_counters() -> None:
    assert len(without_repetitions([status(1, 5), status(2, 5)])) == 1
    assert len(without_repetitions([status(1, 5), status(2, 8)])) == 2
    assert len(without_repetitions([status(1), status(900)])) == 1
    assert len(without_repetitions([status(1), status(90_000)])) == 2


def test_other_kinds_are_left_alone() -> None:
    notes = [Note(place=at(1), text="", what="x"), Note(place=at(1), text="", what="x")]
    assert without_repetitions(notes) == notes


def test_thousands_of_records_that_nothing_tells_apart_stay_cheap() -> None:
    events = [timeout(i, seq=None, ran_ms=i) for i in range(5_000)]
    assert len(without_repetitions(events)) == 5_000
    text = (
        "Watchdog caught collective operation timeout: WorkNCCL(OpType=SEND, Timeout(ms)=1) ran for {} milliseconds\n"
    )
    assert len(parsed("".join(text.format(i) for i in range(2_000))).events) == 2_000


def test_a_group_is_found_behind_the_lines_of_all_other_ranks() -> None:
    def counters(line: int, rank: int, group: str, hour: int = 5, failed: int = 5) -> WorkStatus:
        ref, when = GroupRef(uid=group), datetime(1900, 3, 1, hour)
        return WorkStatus(place=at(line), text="", rank=rank, group_rank=0, group=ref, failed=failed, time=when)

    early = datetime(1900, 3, 1, 5)
    waiting = [timeout(r, rank=r, time=early) for r in range(1, 4)]
    told = [
        counters(500, 1, "a"),
        counters(501, 2, "b", hour=9),
        counters(502, 3, "c", failed=6),
        counters(503, 1, "z"),
    ]
    found = with_groups([*waiting, *told])
    assert [str(e.group) if e.group else None for e in found[:3]] == ["a", None, None]
    assert found[0].group_rank == 0


def test_two_watchdogs_of_one_rank_that_give_up_on_one_number_keep_their_own_groups() -> None:
    def counters(line: int, uid: str) -> WorkStatus:
        return WorkStatus(place=at(line), text="", rank=0, group=GroupRef(uid=uid), failed=5)

    world, data = GroupRef(uid="0"), "7"
    both = [timeout(1, rank=0, group=world), timeout(2, rank=0, group=world, op="_ALLGATHER_BASE")]
    found = with_groups([*both, counters(3, "0"), counters(4, data)])
    assert [str(e.group) for e in found[:2]] == ["0", data]
    bare = [timeout(1, rank=0), timeout(2, rank=0, op="_ALLGATHER_BASE")]
    assert [str(e.group) for e in with_groups([*bare, counters(3, "0"), counters(4, data)])[:2]] == ["0", data]
    assert with_groups([*both, counters(3, "0")])[1].group is None
