"""Closed and full streams: one clear line, the right exit code, and a report that was asked for is written all the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SAMPLE = Path(__file__).resolve().parents[3] / "sample_logs" / "not-arrived"


def shell(redirection: str, *words: object) -> subprocess.CompletedProcess[str]:
    command = f'"$@" {redirection}'
    arguments = [sys.executable, "-m", "nccldoctor", *map(str, words)]
    return subprocess.run(["/bin/sh", "-c", command, "sh", *arguments], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("redirection", "words", "told"),
    [
        (">&-", ("analyze", SAMPLE), "error: stdout is closed"),
        ("> /dev/full", ("analyze", SAMPLE, "--format", "json"), "error: stdout can't be written: No space left"),
        (">&-", ("explain", "frozen"), "error: stdout is closed"),
        ("<&-", ("analyze", "-"), "error: standard input is closed"),
    ],
)
def test_a_closed_or_full_stream_is_one_clear_line(redirection: str, words: tuple[object, ...], told: str) -> None:
    done = shell(redirection, *words)
    assert done.returncode == 2
    assert done.stderr.startswith(told)
    assert done.stderr.count("\n") == 2, "the error, and a hint"


def test_a_report_is_written_although_stdout_is_closed(tmp_path: Path) -> None:
    done = shell(">&-", "analyze", SAMPLE, "-o", tmp_path / "report.html")
    assert done.returncode == 2
    assert (tmp_path / "report.html").read_text("utf-8").lower().startswith("<!doctype html>")


def test_a_closed_stderr_costs_nothing() -> None:
    done = shell("2>&-", "analyze", SAMPLE, "--quiet")
    assert done.returncode == 1
    assert done.stdout.startswith("Rank ")
