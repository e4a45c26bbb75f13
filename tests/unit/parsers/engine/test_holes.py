"""Lines that are missing between others show where parts of one record do not come together."""

from __future__ import annotations

import random

import pytest
from builders.jobs.verdicts import torchrun
from builders.logs.log_reading import parsed

from nccldoctor.model import Gap

NATIVE = [f"frame #{n}: c10d::f{n}() + 0x{n}0 (0x7f in /usr/lib/libtorch.so)" for n in range(6)]
PYTHON = [f"#{n} f{n} from /srv/train.py:{n}" for n in range(5)]
TABLE = torchrun(0, 1, {1: -15, 2: -15, 3: -15}).splitlines()


def holes(*lines: str) -> list[Gap]:
    return [gap for gap in parsed("\n".join(lines) + "\n").gaps if gap.holes]


@pytest.mark.parametrize("record", [NATIVE, PYTHON])
def test_a_stack_that_skips_a_frame_lost_lines(record: list[str]) -> None:
    (gap,) = holes("[rank0]: before", *record[:2], *record[3:], "after")
    assert "frames of stacks" in gap.why
    assert gap.lost


@pytest.mark.parametrize("record", [NATIVE, PYTHON])
def test_a_stack_that_the_text_cuts_is_no_hole(record: list[str]) -> None:
    """The oldest lines of a rotated log are gone, and its newest are not written yet."""
    assert not holes(*record[3:], "between", *record, "between", *record[:2])


@pytest.mark.parametrize("seed", range(5))
def test_processes_share_a_text_in_any_order(seed: int) -> None:
    """Four ranks write their stacks and none waits for another: every frame is there."""
    rng, left = random.Random(seed), [list(NATIVE) for _ in range(4)]
    mixed = []
    while left := [lines for lines in left if lines]:
        mixed.append(rng.choice(left).pop(0))
    assert not holes(*mixed)
    assert holes(*(line for line in mixed if "#2" not in line))


def test_an_error_without_its_head_lost_lines() -> None:
    head, what = "terminate called after throwing an instance of 'std::runtime_error'", "  what():  x"
    assert not holes(head, head, "[rank0]: between", what, what, "terminate called without an active exception")
    (gap,) = holes(head, "[rank0]: between", what, what)
    assert "heads of errors" in gap.why


def test_rows_of_ranks_without_exit_codes_are_a_hole() -> None:
    assert not holes(*TABLE)
    (gap,) = holes(*(line for line in TABLE if "rank" in line))
    assert "torchrun" in gap.why


def test_a_row_that_the_text_cuts_is_no_hole() -> None:
    last = max(n for n, line in enumerate(TABLE) if " rank " in line)
    assert not holes(*TABLE[: last + 1])
