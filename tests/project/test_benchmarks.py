"""Every benchmark starts: what it imports is there. Their page judges what was measured, and nothing else."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from builders.documents.page_origin import fault, without_history

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = sorted((ROOT / "benchmarks").glob("*.py"))


@pytest.fixture(scope="module")
def runner() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "benchmarks" / "all.py"))


@pytest.mark.parametrize("script", BENCHMARKS, ids=lambda path: path.stem)
def test_a_benchmark_starts(script: Path) -> None:
    done = subprocess.run([sys.executable, str(script), "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_verdicts_of_the_page_are_those_of_what_it_says_was_printed(runner: dict[str, Any]) -> None:
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    assert page.count("| met |") > 10
    assert page == runner["judged_again"](page), "run python benchmarks/all.py --judge-again"


def test_each_section_of_the_page_is_of_a_commit_that_is_not_old(runner: dict[str, Any]) -> None:
    if why := without_history():
        pytest.skip(why)
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    runs = runner["runs_in"](page)
    assert len(runs) == page.count("\n### ")
    old = [fault(f"Made on {run.day} from commit {run.commit} by `{run.command}`") for run in runs.values()]
    assert not any(old), old


def test_a_section_is_read_as_it_was_written(runner: dict[str, Any]) -> None:
    run = runner["Run"]("python benchmarks/it.py", 1.5, 0.25, "2026-11-29", "0123abcd", "took 2 s\n\ntook 3 s")
    question = runner["MEASUREMENTS"][0].question
    page = runner["page_of"]({question: run}, "Made today", is_quick=True)
    assert runner["runs_in"](page) == {question: run}
    judged = runner["page_of"]({question: run}, "Made today", is_quick=False)
    assert runner["judged_again"](judged) == judged


def test_a_figure_is_judged_as_it_was_measured_and_scaled_beside_that(runner: dict[str, Any]) -> None:
    figure = runner["Figure"]("it", r"took ([\d.]+) s", runner["CPU_S"], most=12)
    assert figure.row("took 13 s\ntook 2 s", 0.2) == "| it | 13 CPU-s | at most 12 CPU-s | **missed** | 6.5 CPU-s |"
    assert figure.row("took 12 s", 0.2) == "| it | 12 CPU-s | at most 12 CPU-s | met | 6 CPU-s |"
    assert figure.row("broke", 0.2) == "| it | not measured | at most 12 CPU-s | | |"


def test_a_figure_that_no_machine_changes_is_not_scaled(runner: dict[str, Any]) -> None:
    figure = runner["Figure"]("it", r"([\d.]+) times", "times ours", least=8)
    assert figure.row("9 times, 7.5 times", 0.2) == "| it | 7.5 times ours | at least 8 times ours | **missed** |  |"
