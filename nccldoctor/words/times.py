"""Durations and moments in words: ``10 min 02 s``, ``2026-11-11 03:25:02 UTC``."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime


def duration(ms: float) -> str:
    """``250 ms``, ``90 s``, ``10 min 02 s``, ``2 h 05 min``."""
    if ms < 1000:
        return f"{ms:.0f} ms"
    seconds = round(ms / 1000)
    if seconds < 120:
        return f"{ms / 1000:.1f}".removesuffix(".0") + " s"
    if seconds < 7200:
        return f"{seconds // 60} min" + (f" {seconds % 60:02d} s" if seconds % 60 else "")
    return f"{seconds // 3600} h" + (f" {seconds % 3600 // 60:02d} min" if seconds % 3600 // 60 else "")


def zone_name(ahead: float) -> str:
    """The zone that is ``ahead`` seconds ahead of UTC: ``UTC-7``, ``UTC+5:30``."""
    hours, minutes = divmod(round(abs(ahead) / 60), 60)
    return f"UTC{'-' if ahead < 0 else '+'}{hours}" + (f":{minutes:02d}" if minutes else "")


def instant(time: datetime) -> str:
    """``2026-11-11 03:25:02 UTC``; without zone or year where the input has none."""
    zone = ""
    if time.tzinfo is not None:
        with suppress(OverflowError):  # a year at the edge of the calendar stays in the zone it was written in
            time, zone = time.astimezone(UTC).replace(tzinfo=None), " UTC"
    text = time.isoformat(" ", "seconds")
    return (text[5:] if time.year == 1900 else text) + zone
