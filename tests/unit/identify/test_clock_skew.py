"""Clocks of hosts are compared by collectives that all members finished together, and set right."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from builders.files.dumps import dump, entry
from builders.logs.lines import watchdog

import nccldoctor
from nccldoctor import pipeline
from nccldoctor.events import KernelEvent
from nccldoctor.identify.case import Skew
from nccldoctor.identify.clock_skew import SHARED, clock_offsets, correct_times, find_skews, skew_gaps
from nccldoctor.model import Place
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.recorded_calls import Batch, Calls, Vocabulary

HOSTS = {rank: f"node{rank // 2}" for rank in range(6)}
BASE = 1_780_000_000_000_000_000


def found(
    offset: dict[str, float],
    calls: int = 20,
    op: str = "all_reduce",
    jitter: float = 0.05,
    hosts: dict[int, str] = HOSTS,
) -> tuple[Skew, ...]:
    """Six ranks on three hosts, whose clocks are off by so many seconds, and some calls each second."""
    rng = random.Random(7)
    rows = [(rank, seq) for rank in HOSTS for seq in range(1, calls + 1)]
    seen = [BASE + int((seq + offset.get(HOSTS[rank], 0.0) + rng.random() * jitter) * 1e9) for rank, seq in rows]
    words = Vocabulary(ops=(op,))
    columns = {"dump": [rank for rank, _ in rows], "seq": [seq for _, seq in rows], "completed_ns": seen}
    table = Calls.build(columns | {"op": [0] * len(rows)})
    ranks = np.array([rank for rank, _ in rows], dtype=np.int32)
    return find_skews(Batch((), table, words), ranks, np.zeros(len(rows), np.int32), hosts).skews


def test_a_host_that_is_ahead_is_named_with_its_ranks() -> None:
    (skew,) = found({"node1": 3.0})
    assert (skew.host, skew.ranks, skew.calls) == ("node1", Ranks([2, 3]), 20)
    assert skew.seconds == pytest.approx(3.0, abs=0.1)


def test_a_host_that_is_behind() -> None:
    (skew,) = found({"node2": -40.0})
    assert skew.host == "node2" and skew.seconds == pytest.approx(-40.0, abs=0.1)
    (gap,) = skew_gaps((skew,))
    assert gap.what == "clock of node2" and gap.why.startswith("40.0 s behind most others'")


def test_clocks_that_agree_are_not_mentioned() -> None:
    assert found({}) == ()
    assert found({"node1": 0.2}) == ()


def test_few_calls_prove_nothing() -> None:
    assert found({"node1": 3.0}, calls=SHARED - 1) == ()


def test_lateness_that_varies_is_none_of_the_clock() -> None:
    assert found({}, jitter=4.0) == ()


def test_calls_with_a_root_end_at_different_times() -> None:
    assert found({"node1": 3.0}, op="broadcast") == ()


def test_ranks_of_unknown_hosts_are_told_together() -> None:
    (skew,) = found({"node1": 3.0}, hosts={})
    assert skew.host is None and skew.ranks == Ranks([2, 3])
    assert skew_gaps((skew,))[0].what == "clock of ranks 2-3"


def test_no_recorder_no_clock() -> None:
    empty = np.zeros(0, np.int32)
    assert find_skews(Batch.empty(), empty, empty, {}).skews == ()


def dumps(folder: Path) -> Path:
    """Dumps of four ranks; the clock of the last runs five seconds ahead."""
    for rank in range(4):
        off = int(5e9) if rank >= 3 else 0
        entries = [
            entry(seq, time_discovered_completed_ns=BASE + seq * 10**9 + off, time_created_ns=BASE + seq * 10**9 + off)
            for seq in range(1, 9)
        ]
        ranks = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}}
        (folder / f"nccl_trace_rank_{rank}").write_bytes(dump(*entries, pg_config=ranks))
    return folder


def test_it_is_said_in_the_coverage(tmp_path: Path) -> None:
    diagnosis = pipeline.analyze(dumps(tmp_path)).diagnosis
    told = [problem for row in diagnosis.coverage for problem in row.problems if "clock of" in problem]
    assert told and told[0].startswith("clock of ranks 3: 5.0 s ahead of most others'")


def test_recorded_times_are_set_right(tmp_path: Path) -> None:
    case = pipeline.read([dumps(tmp_path)])
    created = case.calls.created_ns.reshape(4, -1)
    assert (created == created[0]).all()
    assert [skew.ranks for skew in case.skews] == [Ranks([3])]


def test_a_time_that_is_none_stays_none() -> None:
    calls = Calls.build({"dump": [0, 0], "seq": [1, 2], "created_ns": [BASE, BASE], "completed_ns": [BASE, 0]})
    batch = Batch((), calls, Vocabulary())
    right = correct_times(batch, np.array([3, 3], np.int32), (Skew(Ranks([3]), None, -2.0, 8),))
    assert right.calls.completed_ns.tolist() == [BASE + 2 * 10**9, 0]


def test_lines_of_a_host_have_the_clock_of_its_ranks() -> None:
    place = Place(0, "kern.log", 1)
    lines = [KernelEvent(place=place, text="", host=host) for host in ("node1", "node2", None)]
    assert clock_offsets(lines, (Skew(Ranks([2, 3]), "node1", 5.0, 8),)).tolist() == [5.0, 0.0, 0.0]


def test_the_story_is_told_on_one_clock(tmp_path: Path) -> None:
    """The process of the host that is ahead was killed before the first alarm, though its time is printed as later."""
    (tmp_path / "rank_0.log").write_text(watchdog(0, at="E528 20:36:40.050510987", numel=1))
    (tmp_path / "rank_3.log").write_text(
        "2026-05-28 20:36:43,000 ERROR train: [rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    )
    dumps(tmp_path)
    case = pipeline.read([tmp_path])
    at = {e.kind: float(s) for e, s in zip(case.events, case.seconds, strict=True)}
    assert at["out-of-memory"] == pytest.approx(at["collective-timeout"] - 2)
    story = pipeline.analyze(tmp_path).diagnosis.story
    assert [row.kind for row in story].index("out-of-memory") < [row.kind for row in story].index("collective-timeout")
    (row,) = [row for row in story if row.kind == "out-of-memory"]
    assert row.time is not None and row.time.second == 38
    assert "its clock was 5.0 s ahead" in row.says


SPOKE = "[rank{r}]: 2026-02-02 03:{m:02d}:{s:02d},600 | INFO | trainer | step {m}/500 | loss 3.0\n"


def told_by_logs(folder: Path, ahead: int, steps: int, jitter: int = 0) -> tuple[Skew, ...]:
    """Two hosts with two ranks each, which print their steps; the clock of the second is ahead."""
    for rank in range(4):
        late = ahead if rank > 1 else 0
        lines = (SPOKE.format(r=rank, m=m, s=10 + late + (rank * m * jitter) % 40) for m in range(steps))
        (folder / f"node{rank // 2}").mkdir(exist_ok=True)
        (folder / f"node{rank // 2}" / f"rank_{rank}.log").write_text("".join(lines))
    return pipeline.read([folder]).skews


def test_steps_tell_a_clock_that_is_ahead(tmp_path: Path) -> None:
    (skew,) = told_by_logs(tmp_path, 6, steps=5)
    assert (skew.host, skew.ranks, skew.seconds) == ("node1", Ranks([2, 3]), 6.0)
    assert "measured on 5 steps that they reported" in skew_gaps((skew,))[0].why


@pytest.mark.parametrize(("ahead", "steps", "jitter"), [(0, 5, 0), (1, 5, 0), (6, SHARED - 1, 0), (6, 5, 7)])
def test_few_or_uneven_steps_tell_no_clock(tmp_path: Path, ahead: int, steps: int, jitter: int) -> None:
    assert told_by_logs(tmp_path, ahead, steps, jitter) == ()


def test_a_dump_signal_reaches_all_hosts_at_once(tmp_path: Path) -> None:
    told = "Received a dump signal due to a collective timeout from rank 0 and we will try our best to dump the debug info. "
    for rank, at in ((0, "03:10:01"), (1, "03:10:02"), (2, "11:10:01"), (3, "11:10:02")):
        (tmp_path / f"node{rank // 2}").mkdir(exist_ok=True)
        line = f"[rank{rank}]:[E202 {at}.050510987 ProcessGroupNCCL.cpp:1365] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] {told}\n"
        (tmp_path / f"node{rank // 2}" / f"rank_{rank}.log").write_text(line)
    (skew,) = pipeline.read([tmp_path]).skews
    assert (skew.host, skew.of_lines) == ("node1", True)
    assert skew.seconds == pytest.approx(8 * 3600, abs=1)


TIMED_OUT = (
    "[rank{r}]:[E202 {at}.050510987 ProcessGroupNCCL.cpp:629] [Rank {r}] Watchdog caught collective operation timeout:"
    " WorkNCCL(SeqNum=211, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600041 milliseconds before timing out.\n"
)


@pytest.mark.parametrize(("at", "ahead"), [("04:10:02", 3600), ("03:11:02", None)])
def test_ranks_that_give_up_on_one_call_hours_apart_have_other_zones(
    tmp_path: Path, at: str, ahead: int | None
) -> None:
    """A minute is no difference of clocks: a rank may enter the call late."""
    for rank in range(6):
        (tmp_path / f"node{rank // 2}").mkdir(exist_ok=True)
        line = TIMED_OUT.format(r=rank, at=at if rank > 3 else f"03:10:0{rank}")
        (tmp_path / f"node{rank // 2}" / f"rank_{rank}.log").write_text(line)
    found = nccldoctor.analyze(tmp_path)
    assert [(s.host, round(s.seconds / 60) * 60) for s in found.case.skews] == ([("node2", ahead)] if ahead else [])
    assert "since 02-02 02:59:59" in found.to_text(), "the wait began by the clock of most hosts"


@pytest.mark.parametrize(("ahead", "is_seen"), [(97.0, True), (4.0, False)])
def test_who_is_later_than_the_limit_in_calls_that_ended_has_another_clock(ahead: float, is_seen: bool) -> None:
    """Gloo records no ends; a rank that is late in each call may only be slow."""
    rows = [(rank, seq) for rank in range(4) for seq in range(1, 9)]
    made = [BASE + int((seq + (ahead if rank == 3 else 0.0)) * 1e9) for rank, seq in rows]
    columns = {"dump": [r for r, _ in rows], "seq": [s for _, s in rows], "created_ns": made, "op": [0] * len(rows)}
    table = Calls.build(columns | {"timeout_ms": [5000] * len(rows)})
    ranks = np.array([rank for rank, _ in rows], dtype=np.int32)
    clocks = find_skews(Batch((), table, Vocabulary(ops=("all_reduce",))), ranks, np.zeros(len(rows), np.int32), {})
    assert [skew.ranks for skew in clocks.skews] == ([Ranks([3])] if is_seen else [])
