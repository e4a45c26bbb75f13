"""A column that is packed comes back as it was, whatever it holds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nccldoctor.parts.columns import Turns, pack_column, unpack_column

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
VALUES = st.one_of(st.lists(INT64, max_size=40), st.lists(st.integers(-3, 300), max_size=40))


def _column(values: list[int]) -> np.ndarray:
    return np.array(values, dtype=np.int64)


@given(VALUES)
def test_a_column_comes_back(values: list[int]) -> None:
    packing, data = pack_column(_column(values))

    assert unpack_column(packing, data, len(values)).tolist() == values


@given(VALUES, st.data())
def test_a_column_that_counts_in_each_group_comes_back(values: list[int], data: st.DataObject) -> None:
    size = {"min_size": len(values), "max_size": len(values)}
    groups = data.draw(st.lists(st.integers(-1, 3), **size))
    between_two = data.draw(st.lists(st.integers(0, 1), **size))
    turns = Turns.by_group(_column(groups), _column(between_two))
    packing, packed = pack_column(_column(values), turns)

    assert unpack_column(packing, packed, len(values), turns).tolist() == values


@given(VALUES, st.data())
def test_times_beside_others_come_back_with_absent_ones(values: list[int], data: st.DataObject) -> None:
    beside = _column([value + data.draw(st.sampled_from([0, 1, -7])) & 0xFFFFFFFF for value in values])
    own = _column([data.draw(st.sampled_from([0, value])) for value in values])
    packing, packed = pack_column(own, beside=beside)

    assert unpack_column(packing, packed, len(values), beside=beside).tolist() == own.tolist()


def test_what_counts_up_or_stands_still_takes_no_bytes() -> None:
    assert pack_column(np.arange(50_000, 52_000)) == (("steps", 50_000, 1, 0), b"")
    assert pack_column(np.full(2_000, 600_000)) == (("same", 600_000, 0, 0), b"")


def test_numbers_of_two_groups_by_turns_take_a_byte_each() -> None:
    groups = np.arange(2_000) % 2
    numbers = np.where(groups == 0, 5_000_000 + np.arange(2_000) // 2, np.arange(2_000) // 2)
    turns = Turns.by_group(groups, np.zeros(2_000, dtype=np.int64))

    assert len(pack_column(numbers, turns)[1]) == 4 * 2_000  # the first number of a group stands as it is
    assert len(pack_column(np.where(groups == 0, numbers % 100, numbers % 100), turns)[1]) == 2_000


@pytest.mark.parametrize("packing", [("plain", 0, 0, 4), ("plain", 0, 0, 3), ("none", 0, 0, 1), ("turns", 0, 0, 1)])
def test_what_no_column_leaves_is_refused(packing: tuple[str, int, int, int]) -> None:
    with pytest.raises(ValueError, match=r"column|packing"):
        unpack_column(packing, b"12345", 5)
