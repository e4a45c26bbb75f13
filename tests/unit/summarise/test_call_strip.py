"""The strip of calls around a mismatch holds what the dumps hold, and marks the one call that differs."""

from __future__ import annotations

import pytest
from builders.diagnoses.bundled import incident

from nccldoctor.model.ranks import Ranks

EXPECTED = {
    "dtype-mismatch": ("dtype", Ranks([3]), ("float32", "float16")),
    "op-mismatch": ("operation", Ranks([2]), ("ALLTOALL", "BROADCAST")),
    "size-mismatch": ("input sizes", Ranks([2]), ("1", "3")),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_only_the_stalled_call_differs_and_the_culprit_stands_last(name: str) -> None:
    strip = incident(name).diagnosis.strip
    shown, culprit, values = EXPECTED[name]

    assert strip is not None
    assert strip.shown == shown
    assert strip.rows[-1].ranks == culprit
    at = strip.seqs.index(strip.stalled)
    assert tuple(row.cells[at].value for row in strip.rows if row.cells[at] is not None) == values
    differing = [seq for seq, cell in zip(strip.seqs, strip.rows[-1].cells, strict=True) if cell and cell.differs]
    assert differing == [7]
    assert strip.seqs == tuple(range(strip.seqs[0], strip.seqs[-1] + 1))


def test_calls_before_the_stall_completed_and_those_behind_it_did_not() -> None:
    strip = incident("dtype-mismatch").diagnosis.strip

    assert strip is not None
    for row in strip.rows:
        assert [cell.done for cell in row.cells if cell is not None] == [seq < 7 for seq in strip.seqs]


def test_without_a_mismatch_or_without_dumps_there_is_no_strip() -> None:
    assert incident("not-arrived").diagnosis.strip is None
    assert incident("order-inversion").diagnosis.strip is None
