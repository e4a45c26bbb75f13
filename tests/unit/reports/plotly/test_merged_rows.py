"""Rows of many ranks merged into few."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nccldoctor.model.figures import SEVERITY
from nccldoctor.reports.plotly import heat


@given(
    st.lists(st.lists(st.integers(0, 6), min_size=3, max_size=3).map(bytes), min_size=1, max_size=60),
    st.integers(1, 20),
)
def test_merged_rows_keep_the_worst(rows: list[bytes], most: int) -> None:
    few, step = heat.merged(rows, most, SEVERITY)

    assert len(few) <= most
    for number, row in enumerate(few):
        inside = rows[number * step : (number + 1) * step]
        for column in range(3):
            assert SEVERITY[row[column]] == max(SEVERITY[r[column]] for r in inside)
