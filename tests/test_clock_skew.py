"""Clocks of hosts are compared by collectives that all members finished together."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from dumps import dump, entry

from nccldoctor import doctor
from nccldoctor.clock_skew import SHARED, Skew, gaps, skews
from nccldoctor.columns import Batch, Calls, Vocabulary
from nccldoctor.ranks import Ranks

HOSTS = {rank: f"node{rank // 2}" for rank in range(6)}
BASE = 1_780_000_000_000_000_000


def found(
    offset: dict[str, float], calls: int = 20, op: str = "all_reduce", jitter: float = 0.05, **more: object
) -> tuple[Skew, ...]:
    """Six ranks on three hosts, whose clocks are off by so many seconds, and some calls each second."""
    rng = random.Random(7)
    rows = [(rank, seq) for rank in HOSTS for seq in range(1, calls + 1)]
    seen = [BASE + int((seq + offset.get(HOSTS[rank], 0.0) + rng.random() * jitter) * 1e9) for rank, seq in rows]
    words = Vocabulary(ops=(op,))
    columns = {"dump": [rank for rank, _ in rows], "seq": [seq for _, seq in rows], "completed_ns": seen}
    table = Calls.build(columns | {"op": [0] * len(rows)})
    ranks = np.array([rank for rank, _ in rows], dtype=np.int32)
    return skews(Batch((), table, words), ranks, np.zeros(len(rows), np.int32), more.get("hosts", HOSTS))  # type: ignore[arg-type]


def test_a_host_that_is_ahead_is_named_with_its_ranks() -> None:
    (skew,) = found({"node1": 3.0})
    assert (skew.host, skew.ranks, skew.calls) == ("node1", Ranks([2, 3]), 20)
    assert skew.seconds == pytest.approx(3.0, abs=0.1)


def test_a_host_that_is_behind() -> None:
    (skew,) = found({"node2": -40.0})
    assert skew.host == "node2" and skew.seconds == pytest.approx(-40.0, abs=0.1)
    (gap,) = gaps((skew,))
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
    assert gaps((skew,))[0].what == "clock of ranks 2-3"


def test_no_recorder_no_clock() -> None:
    empty = np.zeros(0, np.int32)
    assert skews(Batch.empty(), empty, empty, {}) == ()


def test_it_is_said_in_the_coverage(tmp_path: Path) -> None:
    for rank in range(4):
        off = int(5e9) if rank >= 3 else 0
        entries = [
            entry(seq, time_discovered_completed_ns=BASE + seq * 10**9 + off, time_created_ns=BASE + seq * 10**9 + off)
            for seq in range(1, 9)
        ]
        ranks = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}}
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(dump(*entries, pg_config=ranks))
    diagnosis = doctor.analyze(tmp_path).diagnosis
    told = [problem for row in diagnosis.coverage for problem in row.problems if "clock of" in problem]
    assert told and told[0].startswith("clock of ranks 3: 5.0 s ahead of most others'")
