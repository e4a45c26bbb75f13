"""The state of the job follows from its logs and stacks."""

from __future__ import annotations

import pytest
from builders.remedies import fixtures_conditions
from builders.remedies.fixtures_conditions import at, finding, stack, timeout

from nccldoctor.events import Event, ExceptionRaised
from nccldoctor.model.steps import JobState
from nccldoctor.prescribe.job_end import job_end

LOOK = stack(5, "load (train.py:7)")


def gave_up(message: str) -> ExceptionRaised:
    return ExceptionRaised(
        place=at(), text=message, rank=1, type="RuntimeError", message=message, origin="log", logged=True
    )


@pytest.mark.parametrize(
    ("more", "state"),
    [
        ([], JobState.RUNNING),
        ([timeout()], JobState.UNKNOWN),
        ([gave_up("[unbound_buffer.cc:78] Timed out waiting 5000ms for recv operation to complete")], JobState.UNKNOWN),
        ([gave_up("batch 7 skipped")], JobState.RUNNING),
    ],
    ids=["looked at", "watchdog", "gloo", "caught"],
)
def test_a_job_whose_ranks_gave_up_is_not_said_to_run(more: list[Event], state: JobState) -> None:
    assert job_end(fixtures_conditions.case([LOOK, *more]), finding()).state is state
