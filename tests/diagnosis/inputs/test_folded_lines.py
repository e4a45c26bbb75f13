"""Lines that Ray folds: *repeated 4x across cluster* stands for four ranks that printed the same."""

from __future__ import annotations

import pytest
from builders.jobs.verdicts import Ruling, read


def driver(heard: tuple[int, ...], folded: int) -> Ruling:
    """The driver's log: these ranks of 8 gave up on a call, the last of them for some of the others, too."""
    lines = [
        f"(TrainActor pid={700 + r}, ip=10.7.0.11) [rank{r}]:[E304 09:41:2{r}.114093518 ProcessGroupNCCL.cpp:685] [Rank {r}] Watchdog "
        "caught collective operation timeout: WorkNCCL(SeqNum=41, OpType=ALLREDUCE, NumelIn=18, NumelOut=18, Timeout(ms)=600000) "
        f"ran for 60002{r} milliseconds before timing out."
        for r in heard
    ]
    lines[-1] += f" [repeated {folded}x across cluster]" if folded else ""
    return read({"driver.log": "(TaskRunner pid=600) INFO: world_size=8\n" + "\n".join(lines) + "\n"})


def test_who_is_folded_is_no_suspect_and_the_answer_says_how_to_see_its_lines() -> None:
    """Of *repeated 5x* the line itself is one."""
    ruling = driver((0, 1, 2, 6), 5)
    assert (ruling.cause, ruling.ranks, ruling.verdict["suspects"]) == ("unfinished", "", ""), str(ruling)
    assert ruling.verdict["stalled"]["entered"] == "0-7"
    assert any("RAY_DEDUP_LOGS=0" in doubt for doubt in ruling.verdict["doubts"])


@pytest.mark.parametrize("folded", [2, 4])
def test_where_fewer_were_folded_than_are_silent_nobody_knows_who_printed_none(folded: int) -> None:
    ruling = driver((0, 1, 2, 6), folded)
    assert (ruling.cause, ruling.ranks, ruling.verdict["suspects"]) == ("undetermined", "", ""), str(ruling)
    assert "RAY_DEDUP_LOGS=0" in ruling.verdict["headline"]
    assert driver((0, 1, 2, 6), 0).verdict["suspects"] == "3-5,7"


def test_the_only_rank_that_is_silent_is_not_frozen_where_its_line_was_folded() -> None:
    assert driver(tuple(range(7)), 0).ranks == "7"
    assert driver(tuple(range(7)), 2).ranks == ""
