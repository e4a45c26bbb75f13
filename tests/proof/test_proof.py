"""A slice of ``python tests/proof/run.py``: a few inputs of every family, and that the proof sees what it is there to see."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
from proof.judge import PROMISES, Result, tried, tried_alone
from proof.live_content import POLICY, links, loads
from proof.run import kept, report
from proof.trials import FAMILIES, trial
from proof.watching import path_that_watches, seen_by_watch

SLICE = (*range(10), 13, 16, 30, 46)
"""Trials of every family; 3 lays modules named like those of others into the job, 46 pickles that call functions."""


@pytest.mark.costly
@pytest.mark.parametrize("number", SLICE)
def test_no_promise_is_broken(number: int) -> None:
    assert tried(trial(number)).broken == {}


def test_the_slice_has_every_family() -> None:
    assert {trial(number).family for number in SLICE} == set(FAMILIES)


def test_modules_of_the_input_are_not_imported() -> None:
    assert "as code" in trial(3).about
    assert tried_alone(trial(3)).broken == {}


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("import os; os.system('true')", "code"),
        ("import subprocess; subprocess.run(['true'])", "code"),
        (f"import pickle; pickle.loads({pickle.dumps(Path('x'))!r})", "code"),
        ("import socket; socket.socket().close()", "request"),
    ],
)
def test_the_watch_sees_what_runs_and_what_speaks(tmp_path: Path, code: str, kind: str) -> None:
    log = tmp_path / "watch.log"
    environment = {**os.environ, "PYTHONPATH": path_that_watches(tmp_path / "watching", log)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
    assert kind in {seen for seen, _ in seen_by_watch(log)}


PAGE = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'


@pytest.mark.parametrize(
    "bad",
    [
        "<img src=https://evil.example/p.png>",
        "<script>x()</script>",
        "<p onclick=x()>",
        "<style>p{background:url(https://evil.example/)}</style>",
        "<a href=javascript:x()>x</a>",
    ],
)
def test_what_a_page_would_load_is_seen(bad: str) -> None:
    assert loads(PAGE + bad)
    assert not loads(PAGE + "<a href=#x>x</a><img src=data:,>")
    assert loads("<p>no policy</p>")


@pytest.mark.parametrize("dialect", ["md", "github", "jira", "slack"])
def test_a_link_of_the_input_is_seen(dialect: str) -> None:
    assert links("see https://evil.example/x", dialect)
    assert not links("plain words", dialect)


def test_the_report_counts_by_promise_and_family() -> None:
    good = Result("1", "attacks", "a", {}, 2, 10, 1.0, 1 << 20)
    bad = Result("2", "attacks", "b", {"secret": ["x"]}, 2, 10, 2.0, 1 << 20)
    text = report([good, bad], "Made today")
    assert "| secret | 1 |" in text
    assert all(f"| {name} | 0 |" in text for name in PROMISES if name != "secret")
    assert "| attacks | 2 | 4 | secret: 1 |" in text


def test_a_run_goes_on_from_results_of_its_own_commit_alone(tmp_path: Path) -> None:
    log, result = tmp_path / "log", Result("1", "attacks", "a", {}, 2, 10, 1.0, 1 << 20)
    rows = ({"of": of, **asdict(result)} for of in ("commit aaaaaaaa", "commit bbbbbbbb"))
    log.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert kept(log, "commit aaaaaaaa") == [result]
    assert kept(log, "commit cccccccc") == kept(tmp_path / "none", "commit aaaaaaaa") == []
