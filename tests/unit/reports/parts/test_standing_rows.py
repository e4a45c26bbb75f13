"""The table of a large job has few rows, and every rank stands in one of them."""

from __future__ import annotations

from builders.diagnoses.fixtures_diagnosis_parts import culprit, waiting
from msgspec.structs import replace

from nccldoctor.model.ranks import Ranks
from nccldoctor.reports.page.view import ROWS, folded

LAGS = culprit(Ranks([0]))
PIPELINES = [waiting(Ranks([n]), Ranks([n - 1]), f"pp_{n % 3}", "RECV", distance=n) for n in range(2, 40)]


def test_ranks_in_the_same_call_share_a_row_however_far_behind_they_are() -> None:
    rows = folded([LAGS, waiting(Ranks([1]), Ranks([0])), *PIPELINES])

    assert len(rows) == 5
    assert rows[0] == LAGS
    assert Ranks(rank for row in rows for rank in row.ranks) == Ranks(range(40))
    third = next(row for row in rows if row.call is not None and row.call.kind == "pp_2")
    assert third.ranks == Ranks(range(2, 40, 3))
    assert third.waits_for == Ranks(range(1, 39, 3))
    assert third.distance == 2


def test_few_rows_stay_as_they_are() -> None:
    few = [LAGS, *PIPELINES[: ROWS - 1]]

    assert folded(few) == tuple(few)


def test_an_end_or_a_frame_that_differs_is_not_told_of_all() -> None:
    ended = [replace(row, end="SIGTERM", frame="recv") for row in PIPELINES[:20]]
    others = [replace(row, end="SIGABRT", frame="send") for row in PIPELINES[20:]]

    for row in folded([LAGS, *ended, *others])[1:]:
        assert (row.end, row.frame) == ("", "")
