"""Durations that lines tell in words."""

from __future__ import annotations

import pytest

from nccldoctor.parsers.line_prefix.durations import longest_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("checkpoint of step 1550 written in 639.2 s", 639.2),
        ("saved after 10 min 39 s", 639.0),
        ("evaluation took 1h 5m", 3900.0),
        ("validation done, elapsed: 00:10:39", 639.0),
        ("took 10:39", 639.0),
        ("step_time=14 ms", 0.014),
        ("iteration 7 | elapsed time per iteration (ms): 1046.3", None),
        ("2026-11-20 11:32:50,355 INFO step=2 loss=2.6", None),
        ("3 shards of 7 models", None),
        ("", None),
    ],
)
def test_the_longest_duration_is_told(text: str, seconds: float | None) -> None:
    assert longest_duration(text) == (pytest.approx(seconds) if seconds is not None else None)
