"""Durations that a line tells in words: ``written in 639.2 s``, ``took 10m 39s``, ``elapsed: 00:10:39``."""

from __future__ import annotations

from nccldoctor.patterns import lazy

_UNITS = {"ms": 1e-3, "millisecond": 1e-3, "s": 1.0, "sec": 1.0, "second": 1.0, "m": 60.0, "min": 60.0, "minute": 60.0}
_UNITS |= {"h": 3600.0, "hr": 3600.0, "hour": 3600.0}

_NUMBER = lazy(
    r"(?<![\w.:-])(\d{1,9}(?:\.\d{1,9})?)\s?(ms|milliseconds?|h|hrs?|hours?|min|minutes?|m|s|sec|secs|seconds?)\b"
)
_CLOCK = lazy(r"(?i)\b(?:took|elapsed|in|after|time|duration)[ :=]{1,3}(\d{1,3}):(\d{2})(?::(\d{2}))?(?![\d:])")


def longest_duration(text: str) -> float | None:
    """The longest duration in a line, in seconds; ``1 h 5 min`` counts as one. None where the line tells none."""
    found: list[float] = []
    total, end = 0.0, -9
    for match in _NUMBER.finditer(text[:2000]):
        unit = match[2].lower()
        value = float(match[1]) * _UNITS.get(unit, _UNITS.get(unit.rstrip("s"), 1.0))
        total = total + value if match.start() - end <= 2 else value
        end = match.end()
        found.append(total)
    for match in _CLOCK.finditer(text[:2000]):
        hours, minutes, seconds = (match[1], match[2], match[3]) if match[3] else ("0", match[1], match[2])
        found.append(int(hours) * 3600.0 + int(minutes) * 60.0 + int(seconds))
    return max(found, default=None)
