"""``./check`` runs a fixed third of each costly family, and a part of the checkout where it is asked for one."""

from __future__ import annotations

import os
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


STUB = """#!/bin/sh
name=$(basename "$0")
case "$*" in
*"-m pytest"*) name=pytest ;;
"-c "*) echo ctrace && exit ;;
*"-m pip"*) exit ;;
esac
echo "$name $*" >>"$LOG"
case " $BROKEN " in *" $name "*) exit 1 ;; esac
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout whose tools do nothing but note their arguments, and fail where they are asked to."""
    for name in ("check", "packaging/setup.sh"):
        target = tmp_path / name
        target.parent.mkdir(exist_ok=True)
        target.write_text((ROOT / name).read_text(encoding="utf-8"))
    for name in (
        "packaging/requirements-dev.txt",
        "pyproject.toml",
        "tests/unit/test_a.py",
        "tests/help.py",
        "reports/a.py",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    tools = tmp_path / ".venv-check" / "bin"
    tools.mkdir(parents=True)
    for name in ("python", "ruff", "mypy", "chromium"):
        (tools / name).write_text(STUB)
        (tools / name).chmod(0o755)
    return tmp_path


def _checked(checkout: Path, *words: str, broken: str = "") -> tuple[int, list[str]]:
    """The exit code, and what ran."""
    log = checkout / "log"
    log.write_text("")
    environment = os.environ | {
        "LOG": str(log),
        "BROKEN": broken,
        "NCCLDOCTOR_CHROMIUM": str(checkout / ".venv-check" / "bin" / "chromium"),
    }
    done = subprocess.run(
        ["sh", "check", *words], cwd=checkout, env=environment, capture_output=True, text=True, timeout=60
    )
    return done.returncode, log.read_text().splitlines()


@pytest.mark.parametrize("words", [(), ("--all",), ("tests/unit", "reports")])
@pytest.mark.parametrize("broken", ["ruff", "mypy", "pytest"])
def test_each_stage_that_fails_fails_the_check(checkout: Path, words: tuple[str, ...], broken: str) -> None:
    assert _checked(checkout, *words)[0] == 0
    assert _checked(checkout, *words, broken=broken)[0] == 1


@pytest.mark.parametrize(
    ("words", "ran"),
    [
        (("reports",), ["ruff check reports", "ruff format --check reports", "mypy "]),
        (
            ("./tests/unit/test_a.py::test_b", "-k", "c"),
            [
                "ruff check tests/unit/test_a.py",
                "ruff format --check tests/unit/test_a.py",
                "pytest tests/unit/test_a.py::test_b -k c",
            ],
        ),
        (("tests/help.py",), ["ruff check tests/help.py", "ruff format --check tests/help.py"]),
        (("tests",), ["ruff check tests", "ruff format --check tests", "pytest tests"]),
    ],
)
def test_a_part_is_linted_and_its_tests_run(checkout: Path, words: tuple[str, ...], ran: list[str]) -> None:
    code, noted = _checked(checkout, *words)
    options = " -m pytest --numprocesses auto --dist worksteal --quiet"
    assert code == 0
    assert [line.replace(options, "") for line in noted] == ran


def test_all_runs_every_case(checkout: Path) -> None:
    assert any("--costly-third" in line for line in _checked(checkout)[1])
    assert not any("--costly-third" in line for line in _checked(checkout, "--all")[1])


def test_a_path_that_is_missing_is_named_before_anything_is_installed(tmp_path: Path) -> None:
    (tmp_path / "check").write_text((ROOT / "check").read_text(encoding="utf-8"))
    done = subprocess.run(["sh", "check", "tests/nothing"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr == "error: there is no tests/nothing\n"
