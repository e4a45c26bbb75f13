"""Timestamps as loggers print them: from the named groups of a prefix to a point in time."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone

NO_YEAR = 1900
"""The year of a time that was printed without one (c10, syslog)."""

ZONES = {
    "Z": 0, "UTC": 0, "GMT": 0, "CET": 1, "CEST": 2, "EET": 2, "EEST": 3, "MSK": 3, "JST": 9, "KST": 9,
    "EST": -5, "EDT": -4, "CDT": -5, "MDT": -6, "PST": -8, "PDT": -7,
}  # fmt: skip
"""Hours ahead of UTC by names that mean one zone only (CST and IST mean several)."""

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def printed_time(groups: Mapping[str, str | None]) -> datetime | None:
    """The time in the groups of a matched prefix; None where they name no such day or hour.

    Either ``seconds`` since 1970, or ``hms`` with ``date``, or with ``month``, ``day`` and perhaps ``year``; then ``frac``
    (cut to microseconds) and ``zone``: ``Z``, ``+02:00``, ``+0200`` or a name of :data:`ZONES`. A ``date`` is
    ``2026-04-17``, ``20260417``, ``0417``, or ``417`` as c10 prints the 17th of April.
    """
    micro = int((groups.get("frac") or "0")[:6].ljust(6, "0"))
    if seconds := groups.get("seconds"):
        return datetime.fromtimestamp(int(seconds), UTC).replace(microsecond=micro)
    if not (hms := groups.get("hms")):
        return None
    try:
        zone = _zone(groups.get("zone"))
        return datetime(*_day(groups), int(hms[:2]), int(hms[3:5]), int(hms[6:8]), micro, zone)
    except ValueError:
        return None


def iso_time(text: object) -> datetime | None:
    """The time of an ISO 8601 text; None for anything else."""
    try:
        return datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None


def time_of_seconds(seconds: float | str) -> datetime | None:
    """The whole seconds since 1970 as a time in UTC; None for what is no number, or too large."""
    try:
        return datetime.fromtimestamp(int(float(seconds)), UTC)
    except (ValueError, OverflowError, OSError):
        return None


def time_since_1970(number: float) -> str:
    """A number of seconds, or milliseconds, since 1970 as an ISO time; "" where it is none of these centuries."""
    seconds = number / 1000 if 1e12 <= number < 4e12 else number
    return datetime.fromtimestamp(seconds, UTC).isoformat() if 1e9 <= seconds < 4e9 else ""


def completed(own: datetime, collected: datetime) -> datetime:
    """The message's own time with what the collector's time adds: the year, and the zone.

    The zone follows where the two clocks differ by whole quarters of an hour, give or take two minutes: 09:12:40 in a line
    that was collected at 07:12:41Z was printed at UTC+2.
    """
    if own.year == NO_YEAR:
        try:
            own = own.replace(year=collected.year)
        except ValueError:
            return own
    if collected.tzinfo is None or own.tzinfo is not None:
        return own
    ahead = own.replace(tzinfo=UTC) - collected
    quarters = round(ahead / timedelta(minutes=15))
    if abs(quarters) > 56 or abs(ahead - quarters * timedelta(minutes=15)) > timedelta(minutes=2):
        return own
    return own.replace(tzinfo=timezone(quarters * timedelta(minutes=15)) if quarters else UTC)


def _day(groups: Mapping[str, str | None]) -> tuple[int, int, int]:
    """Year, month and day."""
    date = groups.get("date")
    if date is None:
        month = groups["month"] or ""
        number = MONTHS.index(month) + 1 if month in MONTHS else int(month)
        return int(groups.get("year") or NO_YEAR), number, int(groups["day"] or 0)
    if date.isdigit():
        return int(date[:-4]) if len(date) == 8 else NO_YEAR, int(date[-4:-2]), int(date[-2:])
    return int(date[:4]), int(date[5:7]), int(date[8:10])


def _zone(name: str | None) -> timezone | None:
    """The zone of a printed time; raises ValueError where no place on earth has it."""
    if not name:
        return None
    if name in ZONES:
        return timezone(timedelta(hours=ZONES[name])) if ZONES[name] else UTC
    minutes = int(name[1:3]) * 60 + int(name[-2:])
    return timezone(timedelta(minutes=-minutes if name[0] == "-" else minutes))
