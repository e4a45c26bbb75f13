"""Times as the different writers print them. All hosts of a job share one zone, UTC."""

from __future__ import annotations

from datetime import UTC, datetime


def at(seconds: float) -> datetime:
    """Seconds since 1970 as a date."""
    return datetime.fromtimestamp(seconds, UTC)


def c10(seconds: float) -> str:
    """``E1120 09:35:10.336386705`` without its letter: the month is not padded, the fraction is no wall clock."""
    t = at(seconds)
    return f"{t.month}{t.day:02d} {t:%H:%M:%S}.{int(seconds * 7919) % 1000:03d}{int(seconds * 104729) % 1_000_000:06d}"


def agent(seconds: float) -> str:
    """``1120 09:35:10.336000``: month and day are padded."""
    t = at(seconds)
    return f"{t:%m%d %H:%M:%S}.{t.microsecond // 1000:03d}000"


def comma(seconds: float) -> str:
    """``2025-11-20 09:35:10,336``."""
    t = at(seconds)
    return f"{t:%Y-%m-%d %H:%M:%S},{t.microsecond // 1000:03d}"
