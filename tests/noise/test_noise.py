"""Innocent files beside a job change nothing: not the class, the ranks, the confidences, the headline or the first remedy."""

from __future__ import annotations

import pytest
from noise.beside import SAMPLES, changed, innocent_files, verdict


def test_the_files_are_many() -> None:
    assert len(innocent_files()) >= 50


@pytest.mark.costly
@pytest.mark.parametrize("sample", SAMPLES)
def test_all_at_once_change_nothing(sample: str) -> None:
    assert verdict(sample, innocent_files()) == verdict(sample, {})


@pytest.mark.costly
@pytest.mark.parametrize("sample", ["comm-dumps", "init"])
def test_each_alone_changes_nothing(sample: str) -> None:
    """The two incidents whose verdicts rest on the least evidence."""
    assert not changed(sample)
