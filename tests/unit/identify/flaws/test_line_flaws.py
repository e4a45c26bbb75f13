"""The lines of a rank that go back in time are not in the order in which they were written."""

from __future__ import annotations

import pytest
from builders.jobs.cases import Log, case, said

from nccldoctor.events import Event, Heartbeat, Progress
from nccldoctor.identify.flaws.file_flaws import WHY


def unordered(*events: Event) -> list[str]:
    """The paths of texts whose lines go back in time, of one text with these events."""
    return [gap.what for gap in case(logs=[Log("job.log", events)]).gaps if gap.why == WHY and gap.odd]


def step(rank: int, second: float) -> Event:
    return said(Progress, rank, second, step=int(second))


def test_steps_of_one_rank_that_go_back_are_found() -> None:
    assert unordered(step(0, 1.25), step(0, 3.25), step(0, 2.25)) == ["job.log"]


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ([step(0, 1.25), step(0, 2.25), step(0, 3.25)], "in order"),
        ([step(0, 2.25), step(1, 1.25), step(0, 3.25), step(1, 2.5)], "each rank in its own order"),
        ([step(0, 2.25), said(Heartbeat, 0, 1.25), step(0, 3.25)], "a buffered stream arrives late"),
        ([step(0, 2.252), step(0, 2.249)], "threads of one process"),
        ([step(0, 3.0), step(0, 2.0)], "times that may be cut to the second"),
        ([step(0, 86_399.5), step(0, 0.5)], "midnight of a clock without a date"),
    ],
)
def test_what_healthy_logs_do(events: list[Event], why: str) -> None:
    assert not unordered(*events), why
