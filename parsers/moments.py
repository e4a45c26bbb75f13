"""Points in time from the parts that a prefix prints: years and zones may be missing, and a collector's stamp may complete them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone


def number(text: str | None) -> int | None:
    """An integer that was matched as digits, None where the group took no part."""
    return int(text) if text else None


ZONES = {
    "Z": 0, "UTC": 0, "GMT": 0, "CET": 1, "CEST": 2, "EET": 2, "EEST": 3, "MSK": 3, "JST": 9, "KST": 9,
    "EST": -5, "EDT": -4, "CDT": -5, "MDT": -6, "PST": -8, "PDT": -7,
}  # fmt: skip
"""Hours ahead of UTC by names that mean one zone only (CST and IST mean several)."""


def moment(
    year: int, month: int, day: int, hms: str, fraction: str | None = None, zone: str | None = None
) -> datetime | None:
    """A point in time from its printed parts, None where they name no such day or hour.

    ``fraction`` is cut to microseconds; ``zone`` is ``Z``, ``+02:00``, ``+0200`` or a name of :data:`ZONES`.
    """
    micro = int((fraction or "0")[:6].ljust(6, "0"))
    tz: timezone | None = None
    if zone:
        tz = UTC
        if zone in ZONES:
            tz = timezone(timedelta(hours=ZONES[zone])) if ZONES[zone] else UTC
        else:
            minutes = int(zone[1:3]) * 60 + int(zone[-2:])
            if minutes >= 1440:
                return None
            tz = timezone(timedelta(minutes=-minutes if zone[0] == "-" else minutes))
    try:
        return datetime(year, month, day, int(hms[:2]), int(hms[3:5]), int(hms[6:8]), micro, tz)
    except ValueError:
        return None


def with_zone(own: datetime, collected: datetime) -> datetime:
    """The message's own time, completed by what the collector's time adds: the year, and the zone where the two
    clocks differ by whole quarters of an hour give or take two minutes.
    """
    if own.year == 1900:
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
