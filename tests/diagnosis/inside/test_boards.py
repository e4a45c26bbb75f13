"""Reports of boards beside a stalled job: a board that asks for a reset is at fault."""

from __future__ import annotations

import pytest
from builders.jobs.verdicts import read
from builders.logs.lines import watchdog

STALLED = "".join(watchdog(rank, 31, at="E302 10:15:12.518820143") for rank in range(4))
SMI = "GPU 00000000:19:00.0\n    GPU Recovery Action                   : {}\n"
HEALTH = "| -> 3                      | {0}                                        |\n|       -> Memory system    | {0}            |\n"
LINKS = "GPU 0: NVIDIA H100 (UUID: GPU-1)\n\t Link 0: 26.562 GB/s\n\t Link 1: <inactive>\n"


@pytest.mark.parametrize("report", [SMI.format("Reset"), HEALTH.format("Failure")])
def test_a_board_that_asks_for_a_reset_is_at_fault(report: str) -> None:
    ruling = read({"train.log": STALLED, "boards.txt": report})
    assert ruling.cause == "hardware", str(ruling)
    assert ruling.blamed == set(), "no line says whose board it is"


@pytest.mark.parametrize("report", [SMI.format("None"), HEALTH.format("Warning"), LINKS])
def test_a_board_that_is_well_or_only_warns_is_not(report: str) -> None:
    assert read({"train.log": STALLED, "boards.txt": report}).cause != "hardware"
