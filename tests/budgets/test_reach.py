"""The conclusions and doubts that labelled jobs reach: every place is listed, and a job comes to its own."""

from __future__ import annotations

import tomllib
from pathlib import Path

from budgets import reach


def test_each_conclusion_and_doubt_is_listed_with_its_jobs() -> None:
    listed = tomllib.loads(reach.COUNTS.read_text(encoding="utf-8"))
    there = {(kind, name) for kind in reach.KINDS for name in listed[kind]}
    assert there == set(reach.places()), "run tests/budgets/reach.py"


def test_a_job_reaches_its_own_conclusion_and_no_other() -> None:
    seen = reach.reached(reach.DIAGNOSE.parents[1] / "sample_logs" / "died")
    assert ("conclusions", "rules/absent/died._recorded_end: _words_of_end") in seen
    assert not any("straggler" in name for _, name in seen)


def test_a_job_reaches_the_doubts_of_its_findings() -> None:
    seen = reach.reached(reach.DIAGNOSE.parents[1] / "sample_logs" / "frozen")
    assert any(kind == "doubts" for kind, _ in seen)


def test_places_are_named_by_function_and_words(tmp_path: Path) -> None:
    text = "def judge(a):\n    if a:\n        return Hypothesis('x', [])\n    return Hypothesis(said.gone(a), [])\n"
    (tmp_path / "rule.py").write_text(text)
    names = [name for kind, name in reach.places(tmp_path) if kind == "conclusions"]
    assert names == ["rule.judge: x", "rule.judge: gone"]
