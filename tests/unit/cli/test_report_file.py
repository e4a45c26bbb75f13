"""A report takes its name in one step, and of two that are written at once the second is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from nccldoctor.cli.report_file import replacing
from nccldoctor.model.errors import OutputError


def test_of_two_writers_the_second_is_refused(tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    with pytest.raises(OutputError, match="exists"), replacing(target, force=False) as file:
        file.write(b"second")
        target.write_bytes(b"first")
    assert target.read_bytes() == b"first"
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_a_second_writer_may_be_wanted(tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    target.write_bytes(b"first")
    with replacing(target, force=True) as file:
        file.write(b"second")
    assert target.read_bytes() == b"second"


def test_what_fails_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="broken"), replacing(tmp_path / "report.html", force=False) as file:
        file.write(b"half")
        raise ValueError("broken")
    assert not list(tmp_path.iterdir())
