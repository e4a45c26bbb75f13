"""A call that recorders show as missed by a rank, and what that rank did between two looks."""

from __future__ import annotations

import pytest
from builders.jobs.cases import RecordedRank, world
from builders.jobs.verdicts import read
from quoted.scenes.looks import BLOCKED, COMPUTES, looks, measured

EVALUATES = ("evaluate (job.py:61)", "main (job.py:85)")


@pytest.mark.parametrize(("counts", "cause", "ranks"), [(COMPUTES, "undetermined", ""), (BLOCKED, "not-arrived", "2")])
def test_a_rank_that_evaluates_is_no_culprit_yet_and_one_that_is_blocked_is(
    counts: str, cause: str, ranks: str
) -> None:
    recorders = [RecordedRank(r, world(4), backend="gloo").calls(3) for r in range(4)]
    dumps = {f"fr_trace_{one.rank}": (one if one.rank == 2 else one.call(done=False)).data() for one in recorders}
    ruling = read(dumps | looks(4, {2: EVALUATES}, 40) | measured(4, 2, counts))
    assert (ruling.cause, ruling.ranks) == (cause, ranks), ruling
