"""Ranks that are Python scripts, and a stack tool that is a shell script."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders.live.fake_ranks import PYSPY, Ranks, fake_ranks, tool


@pytest.fixture
def ranks(tmp_path: Path) -> Iterator[Ranks]:
    with fake_ranks(tmp_path) as started:
        yield started


@pytest.fixture
def pyspy(tmp_path: Path) -> str:
    """A path on which py-spy answers for every process."""
    return f"{tool(tmp_path / 'bin', 'py-spy', PYSPY)}:{os.environ['PATH']}"
