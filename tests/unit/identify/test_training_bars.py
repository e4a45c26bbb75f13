"""What bars without a name and numbers without a loss count."""

from __future__ import annotations

import pytest

from nccldoctor.events import Events, Progress
from nccldoctor.identify.told_lines import with_counted_bars
from nccldoctor.model import Place


def counted(*steps: int, rank: int | None = None, total: int | None = None, of_trainer: bool = False) -> set[str]:
    """What lone numbers of one writer count; ``of_trainer`` where it prints a loss too."""
    lines = [
        Progress(place=Place(0, "a.log", n), text="", rank=rank, step=step, total=total, counts="")
        for n, step in enumerate(steps, 1)
    ]
    losses = [Progress(place=Place(0, "a.log", 99), text="", rank=rank, epoch=1)] if of_trainer else []
    return {e.counts for e in with_counted_bars(Events([*lines, *losses])).of_kind(Progress)}


@pytest.mark.parametrize("rank", [None, 3])
def test_numbers_that_grow_from_line_to_line_are_steps(rank: int | None) -> None:
    assert counted(10, 20, 30, rank=rank) == {"steps"}


@pytest.mark.parametrize("steps", [(1,), (1, 2), (1, 2, 1, 2), (1, 1, 1)])
def test_a_number_that_leads_nowhere_may_be_a_heading(steps: tuple[int, ...]) -> None:
    assert counted(*steps) == {""}


def test_a_bar_counts_steps_only_where_its_writer_trains() -> None:
    assert counted(1, 2, 3, total=3) == {""}
    assert counted(1, 2, 3, total=3, of_trainer=True) == {"steps"}
