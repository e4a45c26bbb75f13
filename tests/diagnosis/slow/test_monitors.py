"""Tools beside the job: who they find slow straggles, and a monitor that saw no step names nobody."""

from __future__ import annotations

from builders.jobs.verdicts import read
from builders.logs.lines import watchdog

SLOW = (
    "[rank0]: 2026-03-02 10:03:00,000 WARNING STRAGGLER DETECTION WARNING: Some GPUs have worse relative performance. "
    "Affected ranks: {StragglerId(rank=5, node='n7')}\n"
)
NODE = "[2026-03-02 10:00:00,123] [WARNING] [rdzv_manager.py:854:get_straggler] Straggler: {3: 41.203}.\n"
MONITOR = (
    "[2026-03-02 10:20:0{0},123] [WARNING] [RankMonitorServer77@n0:{0}] [Cycle 0] "
    "Did not get subsequent heartbeat. Waited 900.00 seconds.\n"
)
STEPS = "".join(
    f"[rank{r}]: 2026-03-02 10:0{m}:00,000 INFO step={m * 10} loss=2.31\n" for m in (1, 2) for r in range(8)
)
DONE = "".join(f"[rank{r}]: 2026-03-02 10:09:01,000 INFO training finished\n" for r in range(8))


def test_a_rank_that_a_tool_finds_slow_straggles() -> None:
    ruling = read({"train.log": STEPS + SLOW})
    assert (ruling.cause, ruling.ranks) == ("straggler", "5"), str(ruling)
    assert ruling.verdict["confidence"] == "medium", "one tool alone says so"


def test_a_slow_node_names_no_rank() -> None:
    ruling = read({"master.log": NODE})
    assert (ruling.cause, ruling.ranks) == ("straggler", ""), str(ruling)


def test_a_slow_rank_is_no_cause_of_a_stalled_call_nor_of_a_good_end() -> None:
    stalled = "".join(watchdog(rank, 31, at="E302 10:15:12.518820143") for rank in range(8))
    assert read({"train.log": STEPS + SLOW + stalled}).cause != "straggler"
    assert read({"train.log": STEPS + SLOW + DONE}).cause == "none"


def test_monitors_that_saw_no_step_name_nobody() -> None:
    ruling = read({"monitor.log": "".join(map(MONITOR.format, range(8)))})
    assert (ruling.cause, ruling.blamed) == ("undetermined", set()), str(ruling)
    assert "made no step for 900 s" in ruling.verdict["headline"]
