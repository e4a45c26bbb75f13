"""``reduce`` writes a part, ``merge`` reports like ``analyze``, and both say what is wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from builders.diagnoses.bundled import FOLDER, incident
from click.testing import CliRunner, Result

from nccldoctor.cli.app import cli


def _nccldoctor(*words: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(word) for word in words])


@pytest.fixture
def part(tmp_path: Path) -> Path:
    incident("died")
    done = _nccldoctor("reduce", FOLDER / "died", "-o", tmp_path / "node0.nd")
    assert done.exit_code == 0
    assert "24 files, 187 recorded calls" in done.stderr
    return tmp_path / "node0.nd"


def test_merge_prints_and_writes_what_analyze_does(part: Path, tmp_path: Path) -> None:
    merged = _nccldoctor("merge", part, "--format", "json", "-o", tmp_path / "report.html")
    whole = _nccldoctor("analyze", FOLDER / "died", "--format", "json", "-o", tmp_path / "whole.html")

    assert merged.exit_code == whole.exit_code == 1
    assert merged.stdout == whole.stdout
    assert (tmp_path / "report.html").read_bytes() == (tmp_path / "whole.html").read_bytes()


def test_the_same_files_give_the_same_bytes(part: Path, tmp_path: Path) -> None:
    _nccldoctor("reduce", FOLDER / "died", "-o", tmp_path / "again" / "node0.nd")
    (tmp_path / "again").mkdir()
    assert _nccldoctor("reduce", FOLDER / "died", "-o", tmp_path / "again" / "node0.nd").exit_code == 0

    assert (tmp_path / "again" / "node0.nd").read_bytes() == part.read_bytes()


def test_analyze_and_inspect_take_a_part(part: Path) -> None:
    assert _nccldoctor("analyze", part, "-q").stdout == _nccldoctor("analyze", FOLDER / "died", "-q").stdout
    assert _nccldoctor("inspect", part).stdout == _nccldoctor("inspect", FOLDER / "died").stdout


def test_no_path_of_this_machine_is_in_a_part(part: Path) -> None:
    assert str(FOLDER).encode() not in part.read_bytes()
    assert str(FOLDER) not in _nccldoctor("inspect", part, "--format", "json").stdout


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["reduce", "PART", "-o", "new.nd"], "is a part already"),
        (["reduce", "EMPTY", "-o", "new.nd"], "nothing to read"),
        (["reduce", "JOB", "-o", "new.zip"], "cannot tell the format"),
        (["reduce", "JOB", "-o", "PART"], "exists"),
        (["reduce", "missing", "-o", "new.nd"], "no such file"),
        (["merge", "JOB"], "no part in"),
        (["merge", "PART", "-o", "PART"], "exists"),
        (["merge", "PART", "-o", "new.txt"], "cannot tell the format"),
        (["analyze", "JOB", "--scheduler", "nowhere"], "dask"),
    ],
)
def test_what_cannot_be_done_is_said(
    part: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], why: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("nccldoctor.parts.on_cluster.PATIENCE", 0.2)
    (tmp_path / "empty").mkdir()
    known = {"PART": str(part), "JOB": str(FOLDER / "died"), "EMPTY": str(tmp_path / "empty")}
    done = _nccldoctor(*(known.get(word, word) for word in words))

    assert done.exit_code == 2
    assert why in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "node0.nd"]


_KILLED = """
import os, signal, sys
from nccldoctor.parts import write

def killed(discovered, file, *more, **named):
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGTERM)

write.write_part = killed
from nccldoctor.cli.app import main
main()
"""


def test_a_reduce_that_sigterm_ends_leaves_nothing_half_written(tmp_path: Path) -> None:
    incident("died")
    target = tmp_path / "new" / "node0.nd"
    target.parent.mkdir()
    words = [sys.executable, "-c", _KILLED, "reduce", str(FOLDER / "died"), "-o", str(target)]
    done = subprocess.run(words, capture_output=True, timeout=120)

    assert done.returncode == 143
    assert list(target.parent.iterdir()) == []
