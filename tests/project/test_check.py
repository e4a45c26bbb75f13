"""``./check`` runs a fixed third of each costly family, and a part of the checkout where it is asked for one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

CASES = """
import pytest
@pytest.mark.costly
@pytest.mark.parametrize("n", range(7))
def test_of_seven(n): pass
@pytest.mark.costly("pair")
def test_one(): pass
@pytest.mark.costly("pair")
def test_other(): pass
def test_cheap(): pass
"""


@pytest.fixture
def family(tmp_path: Path) -> Path:
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text(encoding="utf-8"))
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = costly\n    no_cover\n")
    (tmp_path / "test_cases.py").write_text(CASES)
    return tmp_path


def _collected(folder: Path, *options: str) -> list[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--collect-only", "-q", *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=True)
    return [line.partition("::")[2] for line in done.stdout.splitlines() if "::" in line]


def test_a_third_of_each_costly_family_runs_and_always_the_same(family: Path) -> None:
    everything, third = _collected(family), _collected(family, "--costly-third")
    assert len(everything) == 10
    assert third == _collected(family, "--costly-third")
    assert sum(name.startswith("test_of_seven") for name in third) == 3
    assert len({"test_one", "test_other"} & set(third)) == 1
    assert "test_cheap" in third


def test_a_path_that_is_missing_is_named_before_anything_is_installed(tmp_path: Path) -> None:
    (tmp_path / "check").write_text((ROOT / "check").read_text(encoding="utf-8"))
    done = subprocess.run(["sh", "check", "tests/nothing"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr == "error: there is no tests/nothing\n"
