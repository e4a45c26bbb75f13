"""The log of a host whose lines lie hours beside those of the job counts without its times, or not at all, and is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders.logs.lines import watchdog

import nccldoctor
from nccldoctor.model import CauseClass, Confidence

XID = (
    "Feb  {day} {at} node0 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=7002, name=python, GPU has fallen off the bus.\n"
)


def verdict(folder: Path, at: str, day: int = 2) -> tuple[CauseClass, Confidence, list[str]]:
    """The ranks gave up at 03:10 on a call of 03:00; the kernel reports an Xid at another time of its own clock."""
    for rank in range(4):
        (folder / f"rank_{rank}.log").write_text("" if rank == 2 else watchdog(rank, 9, at="E202 03:10:00.050510987"))
    (folder / "kern.log").write_text(XID.format(at=at, day=day))
    found = nccldoctor.analyze(folder)
    told = [gap.why for gap in found.case.gaps if "kern.log" in gap.what]
    return found.verdict.cause, found.verdict.confidence, told


def test_an_error_just_before_the_timeout_is_by_the_same_clock(tmp_path: Path) -> None:
    assert verdict(tmp_path, "02:59:50") == (CauseClass.HARDWARE, Confidence.HIGH, [])


@pytest.mark.parametrize("at", ["10:59:50", "08:29:50", "00:59:50"])
def test_an_error_by_the_clock_of_another_zone_counts_with_a_doubt(tmp_path: Path, at: str) -> None:
    cause, confidence, told = verdict(tmp_path, at)
    assert (cause, confidence) == (CauseClass.HARDWARE, Confidence.MEDIUM)
    assert "clock of another zone" in told[0]


@pytest.mark.parametrize(("at", "day", "words"), [("02:59:50", 1, "24 h"), ("12:32:00", 2, "after those of the job")])
def test_an_error_that_no_zone_brings_near_is_left_out_and_named(tmp_path: Path, at: str, day: int, words: str) -> None:
    cause, _, told = verdict(tmp_path, at, day)
    assert cause is not CauseClass.HARDWARE
    assert words in told[0] and told[0].endswith("left out")


def test_the_distance_is_that_of_the_lines_themselves(tmp_path: Path) -> None:
    (tmp_path / "rank_0.log").write_text(
        "".join(f"2026-02-02 03:{m:02d}:00,000 INFO rank 0 step {m} loss 2.0\n" for m in range(9))
    )
    (tmp_path / "kern.log").write_text(XID.format(at="02:10:00", day=2))
    (gap,) = (gap for gap in nccldoctor.analyze(tmp_path).case.gaps if "kern.log" in gap.what)
    assert "its lines are 50 min before" in gap.why
