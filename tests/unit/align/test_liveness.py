"""Signs of life: what each rank left, and when the trouble began."""

from __future__ import annotations

import math

import pytest
from builders.jobs.cases import START, Log, RecordedRank, case, gave_up, said, wall
from builders.remedies import fixtures_conditions
from msgspec.structs import replace

from nccldoctor.align.liveness import Liveness, collect_liveness
from nccldoctor.events import (
    DesyncReport,
    DumpNote,
    DumpSignal,
    ExceptionRaised,
    GpuError,
    Heartbeat,
    HeartbeatStuck,
    KernelEvent,
    MonitoredBarrier,
    NcclError,
    OutOfMemory,
    Phase,
    ProcessExit,
    Progress,
    SchedulerEvent,
    Stack,
    StoreError,
    TearDown,
    WorkStatus,
)
from nccldoctor.model import SourceKind
from nccldoctor.model.ranks import Ranks


def read(*recorded_ranks: RecordedRank, logs: tuple[Log, ...] = ()) -> Liveness:
    return collect_liveness(case(*recorded_ranks, logs=logs))


def of(rank: int, *events: object) -> Liveness:
    """Of a job in which only one rank wrote anything."""
    return read(logs=(Log(f"rank_{rank}.log", events, rank=rank),))  # type: ignore[arg-type]


def test_a_dump_is_good_with_calls_or_counters_and_empty_without() -> None:
    counters = {"0": {"last_enqueued_collective": 4, "last_started_collective": -1, "last_completed_collective": 4}}
    found = read(
        RecordedRank(0).call(),
        RecordedRank(1).other(entries=[], pg_status=counters),
        RecordedRank(2).other(entries=[], pg_status={}),
    )
    assert [found.activity(r).dump for r in range(4)] == ["good", "good", "empty", "none"]
    assert found.dumped == Ranks([0, 1])
    assert [found.activity(r).is_alive for r in range(4)] == [True, True, True, False]


def test_a_dump_that_cannot_be_read_is_none() -> None:
    broken = RecordedRank(2).call().data()[:40]
    found = collect_liveness(case(RecordedRank(0).call(), (2, broken)))
    assert found.activity(2).dump == "none"
    assert not found.activity(2).is_alive


@pytest.mark.parametrize(
    "event",
    [
        gave_up(3, 5),
        said(WorkStatus, 3, failed=5),
        said(HeartbeatStuck, 3, seconds=600),
        said(MonitoredBarrier, 3, missing=Ranks([1])),
        said(DesyncReport, 3, laggards=Ranks([1])),
        said(DumpSignal, 3),
        said(DumpNote, 3, what="preparing"),
        said(Stack, 3, frames=("a (b.py:1)",)),
    ],
    ids=lambda e: e.kind,
)
def test_what_shows_that_a_rank_was_alive(event: object) -> None:
    assert of(3, event).activity(3).is_alive


@pytest.mark.parametrize(
    "event",
    [said(Heartbeat, 3, step=4), said(Phase, 3, what="checkpoint"), said(ExceptionRaised, 3, origin="own")],
    ids=lambda e: e.kind,
)
def test_what_was_written_before_shows_nothing_of_later(event: object) -> None:
    assert not of(3, event).activity(3).is_alive
    assert of(3, event).activity(3).logged


@pytest.mark.parametrize(
    "event",
    [
        said(ProcessExit, 3, exitcode=-9),
        said(GpuError, 3, xid=79),
        said(KernelEvent, 3, what="segfault"),
        said(OutOfMemory, 3, scope="host"),
        said(SchedulerEvent, 3, what="node-failure"),
        said(TearDown, 3, what="closing-signal"),
        said(TearDown, 3, what="forced-kill"),
    ],
    ids=lambda e: e.kind + getattr(e, "what", ""),
)
def test_lines_about_a_rank_are_no_sign_of_its_life(event: object) -> None:
    found = read(logs=(Log("all.log", [said(Heartbeat, 0), said(Heartbeat, 1), event]),))  # type: ignore[list-item]
    assert not found.activity(3).logged
    assert not found.activity(3).is_alive
    assert found.activity(3).last_event is None
    assert found.logged == Ranks([0, 1])


def test_a_stack_is_the_word_of_a_tool_and_no_log() -> None:
    found = read(logs=(Log("stacks.txt", [said(Stack, 3, main=True), said(Stack, 4, main=True)]),))
    assert found.activity(3).is_alive
    assert 3 not in found.log_read


def test_an_empty_log_was_read_and_holds_nothing() -> None:
    empty = fixtures_conditions.case(kinds=(SourceKind.EMPTY,))
    found = collect_liveness(replace(empty, sources=tuple(replace(s, rank=3) for s in empty.sources)))
    assert (found.logged, found.log_read) == (Ranks(), Ranks([3]))


def test_tear_down_lines_of_the_rank_itself_are_its_own() -> None:
    assert of(3, said(TearDown, 3, what="watchdog-terminated")).activity(3).logged


def test_a_file_of_its_own_counts_though_nothing_in_it_was_understood() -> None:
    found = read(logs=(Log("rank_2.log", rank=2), Log("rank_3.log", rank=3, size=0)))
    assert found.logged == Ranks([2])


def test_per_rank_logs_need_two_files() -> None:
    one, two = Log("rank_2.log", rank=2), Log("rank_3.log", rank=3)
    assert not read(logs=(one,)).per_rank_logs
    assert read(logs=(one, two)).per_rank_logs


def test_stack_files_are_no_logs() -> None:
    stacks = Log("stacks_2.txt", [said(Stack, 2, frames=("a (b.py:1)",))], rank=2, kind=SourceKind.STACKS)
    assert not read(logs=(stacks, stacks)).per_rank_logs


def test_what_launchers_report() -> None:
    found = read(logs=(Log("agent.log", [said(ProcessExit, 3, exitcode=-9), said(ProcessExit, 1, exitcode=-15)]),))
    assert found.exited == Ranks([1, 3])
    assert [e.exitcode for e in found.activity(3).exits] == [-9]


# ---- when


def test_the_first_complaint_is_the_earliest_not_the_first_in_the_input() -> None:
    logs = (Log("a.log", [gave_up(0, 5, 900)], rank=0), Log("b.log", [gave_up(1, 5, 700)], rank=1))
    found = read(logs=logs)
    assert found.alarm == START + 700
    assert found.first_alarm is not None
    assert found.first_alarm.rank == 1


def test_the_trouble_began_when_the_first_stuck_call_was_issued() -> None:
    logs = (
        Log("a.log", [gave_up(0, 5, 700, ran_ms=600_000)], rank=0),
        Log("b.log", [gave_up(1, 5, 720, ran_ms=650_000)], rank=1),
    )
    assert read(logs=logs).began == START + 70


def test_without_times_the_first_in_the_input_complained_first() -> None:
    found = of(0, said(Heartbeat, 0), gave_up(0, 5, None), gave_up(0, 6, None))
    assert math.isnan(found.alarm)
    assert math.isnan(found.began)
    assert found.first_alarm is not None
    assert found.first_alarm.place.line == 2


def test_nobody_complains_in_a_healthy_log() -> None:
    found = of(
        0,
        said(Heartbeat, 0, 1, step=1),
        said(StoreError, 0, 9, operation="recv"),
        said(ExceptionRaised, 0, 5, origin="own"),
    )
    assert found.first_alarm is None
    assert math.isnan(found.alarm)


@pytest.mark.parametrize(
    "event",
    [
        said(NcclError, 0, 5),
        said(ExceptionRaised, 0, 5, origin="echo"),
        said(StoreError, 0, 5, operation="wait"),
        said(MonitoredBarrier, 0, 5),
    ],
    ids=lambda e: e.kind,
)
def test_who_reports_a_failed_call_complains(event: object) -> None:
    assert of(0, event).alarm == START + 5


# ---- details


def test_signs_hold_what_a_rank_wrote_in_order() -> None:
    events = [
        said(Heartbeat, 2, 10, step=7),
        said(Progress, 2, 20, step=9),
        said(Heartbeat, 2, 30, step=8),
        said(Phase, 2, 35, what="checkpoint"),
        said(ExceptionRaised, 2, 40, origin="own", type="ValueError"),
        said(ExceptionRaised, 2, 41, origin="echo"),
        said(ExceptionRaised, 2, 42, origin=""),
        said(ProcessExit, 2, 50, exitcode=1),
    ]
    signs = of(2, *events).activity(2)
    assert signs.step == 9
    assert signs.step_event is not None and signs.step_event.place.line == 2
    assert [e.type for e in signs.own_exceptions] == ["ValueError"]
    assert [e.place.line for e in signs.secondary_errors] == [6]
    assert [p.what for p in signs.phases] == ["checkpoint"]
    assert signs.last_event is not None and signs.last_event.place.line == 7, "the exit is not its own line"
    assert signs.last == START + 42


def test_the_clock_of_an_event() -> None:
    found = case(logs=[Log("a.log", [said(Heartbeat, 0, 3), said(Heartbeat, 0)], rank=0)])
    clock = collect_liveness(found)
    assert clock.time(found.events[0]) == START + 3
    assert math.isnan(clock.time(found.events[1]))
    assert wall(3).timestamp() == START + 3


def test_a_full_gpu_is_the_ranks_own_line_and_its_exception_the_last_sign() -> None:
    raised = said(ExceptionRaised, type="torch.OutOfMemoryError", origin="own", second=5.0)
    full = said(OutOfMemory, scope="device", second=5.0)
    killed = said(OutOfMemory, scope="host", second=6.0)
    job = case(logs=(Log("rank_3.log", (raised, full, killed), rank=3),))
    assert [e.rank for e in job.events] == [3, 3, None]
    assert collect_liveness(job).activity(3).last_event == job.events[0]
