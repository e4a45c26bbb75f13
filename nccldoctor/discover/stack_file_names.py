"""Reads from the path of a stack which process was looked at, and when.

``stacks-2/rank_3.txt`` is of the second look, ``stacks/08-44-28/rank_3.txt`` and ``rank_3.08-44-28.txt`` are of the look at 08:44:28,
and ``stacks-1/32714.txt`` is of process 32714. A time without a date is kept as such: the logs have the date.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, time

from msgspec import Struct

from nccldoctor.patterns import lazy

_DATE = r"(?P<year>20\d\d)[-_.]?(?P<month>\d\d)[-_.]?(?P<day>\d\d)[T_.-]{0,2}"
_CLOCK = r"(?P<hour>[01]\d|2[0-3])(?P<mark>[-_.:h]?)(?P<minute>[0-5]\d)(?P=mark)(?P<second>[0-5]\d)"
_CLOCK_LIKE = lazy(r"\d\d[-_.:h]?\d\d[-_.:h]?\d\d")
"""Six digits, which every time has, in whatever form."""

_DATED = lazy(rf"(?<!\d){_DATE}{_CLOCK}(?P<zone>Z?)(?!\d)")
_TIMED = lazy(r"(?<!\d)(?P<hour>[01]\d|2[0-3])(?P<mark>[-_.:])(?P<minute>[0-5]\d)(?P=mark)(?P<second>[0-5]\d)(?!\d)")
_EPOCH = lazy(r"(?<!\d)(1[5-9]\d{8})(?:\.\d{1,9})?(?!\d)")
_NUMBERED = lazy(
    r"(?:^|[^a-z])(?:stacks?|looks?|snap(?:shot)?s?|dumps?|round|take|sample|t|py-?spy|gdb|pystack|bt|traces?)[-_.]?(\d{1,3})$",
    re.IGNORECASE,
)
_AGAIN = lazy(
    r"(?:rank|rk|pid|proc(?:ess)?)?[-_.]?\d{1,7}[-_.](?:look|snap(?:shot)?|round|take|dump|t|n)?[-_.]?(\d{1,2})$",
    re.IGNORECASE,
)
_PID = lazy(r"(?:^|[^a-z])pid[-_.=]?(\d{1,10})(?!\d)", re.IGNORECASE)
_NUMBER = lazy(r"(?:^|[^\d])(\d{2,10})$")
_SUFFIX = lazy(r"(?:\.(?:txt|log|out|err|json|stack|stacks|bt|dump|gz|bz2|xz|zst))+$", re.IGNORECASE)

_PARTS = ("year", "month", "day", "hour", "minute", "second")


class StackFileName(Struct, frozen=True):
    """What the path of a stack says; ``look`` tells one look from another, empty where the path has none."""

    look: str = ""
    taken: datetime | time | None = None
    pid: int | None = None


def stack_file_name(path: str) -> StackFileName:
    """The look and the process that a path with ``/`` names; the file's own name comes before its folders."""
    folders, base = path.split("/")[:-1], _SUFFIX.sub("", path.rsplit("/", 1)[-1])
    look, taken = "", None
    for part in (base, *reversed(folders)):
        found = _time_in(part)
        if found is not None:
            look, taken = found
            break
        number = _NUMBERED.search(part) if part is not base else _AGAIN.fullmatch(part)
        if number is not None and not look:
            look = numbered_look(int(number[1]))
    bare = _TIMED.sub("", _DATED.sub("", base)) if _CLOCK_LIKE.search(base) else base
    bare = bare.rstrip("-_.")
    hit = _PID.search(bare) or _NUMBER.search(bare)
    return StackFileName(look, taken, int(hit[1]) if hit is not None else None)


def numbered_look(number: int) -> str:
    """The text by which looks that are counted are told apart, and ordered."""
    return f"{number:09d}"


def _time_in(part: str) -> tuple[str, datetime | time] | None:
    if _CLOCK_LIKE.search(part) is None:
        return None
    dated = _DATED.search(part)
    if dated is not None:
        year, month, day, hour, minute, second = (int(dated[name]) for name in _PARTS)
        try:
            return dated[0], datetime(year, month, day, hour, minute, second, tzinfo=UTC if dated["zone"] else None)
        except ValueError:
            return None
    timed = _TIMED.search(part)
    if timed is not None:
        return timed[0], time(int(timed["hour"]), int(timed["minute"]), int(timed["second"]))
    epoch = _EPOCH.search(part)
    return (epoch[0], datetime.fromtimestamp(int(epoch[1]), UTC)) if epoch is not None else None
