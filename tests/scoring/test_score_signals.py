"""The script that scores labelled signals finds what is there, misses what is not, and knows broken lines."""

from __future__ import annotations

import json
from pathlib import Path

from scoring import score_signals

LOG = "step 1\nRuntimeError: CUDA error: uncorrectable ECC error encountered\nstep 2\n"


def excerpt(folder: Path, *signals: tuple[str, str]) -> Path:
    (folder / "one").mkdir()
    (folder / "one" / "log.txt").write_text(LOG)
    label = {"other_signals": [{"kind": kind, "rank": None, "line": line} for kind, line in signals]}
    (folder / "one" / "label.json").write_text(json.dumps(label))
    return folder


def test_a_signal_is_found_where_it_stands_and_nowhere_else(tmp_path: Path) -> None:
    found = excerpt(tmp_path, ("cuda-error", "uncorrectable ECC error"), ("ras-status", "uncorrectable ECC error"))
    assert [row.found for row in score_signals.outcomes(found)] == [True, False]


def test_a_floor_that_is_missed_fails(tmp_path: Path) -> None:
    folder = str(excerpt(tmp_path, ("cuda-error", "uncorrectable ECC"), ("sigterm", "step 2")))
    assert score_signals.main([folder, "--floor", "40"]) == 0
    assert score_signals.main([folder, "--floor", "90"]) == 1


def test_a_quoted_text_may_be_broken_over_lines() -> None:
    assert score_signals.places_of("abcdef ghij", ["x", "abc", "def gh", "ij", "y"]) == [2]
