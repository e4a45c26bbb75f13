"""Arrays: the same values as numpy gives, without what it imports for them."""

from __future__ import annotations

import subprocess
import sys
import warnings

import numpy as np
import pytest
from numpy.typing import NDArray

from nccldoctor.arrays import distinct, median, medians


@pytest.mark.parametrize(
    "values",
    [
        np.array([3, 1, 3, 2, 1], dtype=np.int32),
        np.array([], dtype=np.int64),
        np.array([7.5]),
        np.array([[2, 1], [1, 2]]),
        np.array([True, True]),
    ],
)
def test_each_value_is_given_once_in_order(values: NDArray[np.int64]) -> None:
    found = distinct(values)
    assert found.tolist() == np.unique(values).tolist()
    assert found.dtype == values.dtype


@pytest.mark.parametrize(
    "values", [[4.0], [1, 9, 2], [3.5, 1.0, 2.0, 8.0], [1.0, float("nan"), 2.0], [[2.0, 1.0], [5.0, 4.0]]]
)
def test_the_median_is_that_of_numpy(values: list[float]) -> None:
    assert median(values) == pytest.approx(float(np.median(values)), abs=0.0, rel=0.0, nan_ok=True)


def test_nothing_has_no_median() -> None:
    with pytest.raises(IndexError):
        median([])


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(5, 4), (4, 5), (1, 3), (3, 1)])
def test_medians_leave_out_what_is_missing(shape: tuple[int, int], axis: int) -> None:
    values = np.random.default_rng(7).normal(size=shape)
    values[0, 0] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        assert np.array_equal(medians(values, axis), np.nanmedian(values, axis=axis), equal_nan=True)


def test_masked_arrays_are_not_imported() -> None:
    code = """
import sys, numpy as np
from nccldoctor.arrays import distinct, median, medians
distinct(np.array([2, 1])), median([1.0, 2.0]), medians(np.array([[1.0, 2.0]]), 1)
print('numpy.ma' in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"False\n"
