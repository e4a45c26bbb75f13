"""The prefixes that loggers write: PyTorch's C++ and Python loggers, glog, Python's ``logging`` in its usual layouts.

Each :class:`Form` recognises one layout at a position and notes what it says in a :class:`Hypothesis`.
Forms and eras of the c10 prefix: pytorch ``c10/util/Logging.cpp`` (v1.8 to v2.13); of the Python one:
``torch/_logging/_internal.py``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone

from nccldoctor.patterns import lazy


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


@dataclass(slots=True)
class Hypothesis:
    """A Mark in the making. ``places`` are names of what holds several writers (a pod, a node, a task);
    ``process`` names one writer; ``message`` is true once a logger said where its message begins.
    """

    rank: int | None = None
    local_rank: int | None = None
    task: int | None = None
    host: str | None = None
    pod: str | None = None
    pid: int | None = None
    severity: str | None = None
    file: str | None = None
    line: int | None = None
    time: datetime | None = None
    collected: datetime | None = None
    repeated: int = 1
    places: list[str] = field(default_factory=list)
    process: str = ""
    message: bool = False

    def stamp(self, when: datetime | None) -> None:
        """Note a time; one that already stands there was the collector's."""
        if when is not None:
            self.collected = self.collected or self.time
            self.time = when


@dataclass(frozen=True, slots=True)
class Form:
    """One layout of a prefix: what it looks like, and what it tells."""

    pattern: lazy[str]
    note: Callable[[Hypothesis, re.Match[str]], None]


LEVELS = r"(?:DEBUG|INFO|NOTICE|WARNING|WARN|ERROR|CRITICAL|FATAL|TRACE|SUCCESS)"
LETTER = {"N": "I", "C": "F", "S": "I", "T": "V", "D": "V"}


def _severity(word: str | None) -> str | None:
    return LETTER.get(word[0], word[0]) if word else None


def _native(draft: Hypothesis, m: re.Match[str]) -> None:
    """c10: the date is month * 100 + day without padding, the fraction is the monotonic clock's and so is dropped."""
    if m["rank"]:
        draft.rank = int(m["rank"])
    draft.severity, draft.file, draft.line = m["sev"], m["file"], int(m["line"])
    if m["date"]:
        draft.stamp(moment(1900, int(m["date"][:-2]), int(m["date"][-2:]), m["hms"]))
    draft.message = True


def _padded(draft: Hypothesis, m: re.Match[str]) -> None:
    """Glog and the torch Python loggers: MMDD padded, a year in front in some builds, wall clock to the microsecond."""
    date = m["date"]
    year = int(date[:-4]) if len(date) == 8 else 1900
    draft.severity, draft.file, draft.line = LETTER.get(m["sev"], m["sev"]), m["file"], int(m["line"])
    draft.stamp(moment(year, int(date[-4:-2]), int(date[-2:]), m["hms"], m["frac"]))
    if m["file"].endswith(".py"):  # C++ glog prints a thread id there
        draft.pid = int(m["pid"])
    draft.message = True


def _stamp(draft: Hypothesis, m: re.Match[str]) -> None:
    """A date and time; a bare one in front of another counts as the collector's."""
    year, month, day = (int(x) for x in re.split("[-/]", m["date"]))
    draft.stamp(moment(year, month, day, m["hms"], m["frac"], m["zone"]))


def _level_stamp(draft: Hypothesis, m: re.Match[str]) -> None:
    _stamp(draft, m)
    draft.severity = _severity(m["level"])


def _journal(draft: Hypothesis, m: re.Match[str]) -> None:
    _stamp(draft, m)
    draft.host = m["host"]


def _epoch(draft: Hypothesis, m: re.Match[str]) -> None:
    """Seconds since 1970 with a fraction, or milliseconds."""
    fraction = m["frac"] or m["milli"]
    draft.stamp(datetime.fromtimestamp(int(m["seconds"]), UTC).replace(microsecond=int(fraction[:6].ljust(6, "0"))))


def _level(draft: Hypothesis, m: re.Match[str]) -> None:
    draft.severity = _severity(m["level"])


def _short_date(draft: Hypothesis, m: re.Match[str]) -> None:
    draft.severity, draft.file, draft.line = _severity(m["level"]), m["file"], int(m["line"])
    draft.stamp(moment(int(m["year"] or 1900), int(m["month"]), int(m["day"]), m["hms"]))


def _ray_native(draft: Hypothesis, m: re.Match[str]) -> None:
    _stamp(draft, m)
    draft.severity, draft.pid = m["level"], int(m["pid"])
    draft.message = True


def _american(draft: Hypothesis, m: re.Match[str]) -> None:
    draft.stamp(moment(int(m["year"]), int(m["month"]), int(m["day"]), m["hms"]))
    draft.severity = _severity(m["level"])


_MONTHS = {
    name: i
    for i, name in enumerate(["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"], 1)
}


def _calendar(draft: Hypothesis, m: re.Match[str]) -> None:
    groups = m.groupdict()
    draft.stamp(
        moment(
            int(groups.get("year") or 1900),
            _MONTHS[m["month"]],
            int(m["day"]),
            m["hms"],
            groups.get("frac"),
            groups.get("zone"),
        )
    )
    if groups.get("host"):
        draft.host = m["host"]


_C_FILE = r"(?P<file>[A-Za-z_]\w{0,80}\.(?:cpp|hpp|h|cc|cu)):(?P<line>\d{1,6})\] ?"
_RANK = r"(?:\[rank(?P<rank>\d{1,7})[\[\]]{1,3}:\s?)?"  # two ranks' writes may be spliced: [rank3[]:[E508
_DATE = r"(?P<date>\d{4}[-/][01]\d[-/][0-3]\d)[T ](?P<hms>\d\d:\d\d:\d\d)(?:[.,](?P<frac>\d{1,9}))?"
_NAMES = "|".join(sorted(ZONES, key=len, reverse=True))
_ZONE = rf"(?: ?(?P<zone>[+-]\d\d:?\d\d|(?:{_NAMES})\b))?"
_MON = r"(?P<month>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"

NATIVE = Form(
    lazy(_RANK + r"\[(?P<sev>[FEWIV])(?:(?P<date>\d{3,4}) (?P<hms>\d\d:\d\d:\d\d)\.\d{6,9})? " + _C_FILE), _native
)
HEADLESS = Form(  # a copy that lost its first bracket
    lazy(_RANK + r"(?P<sev>[FEWIV])(?P<date>\d{3,4}) (?P<hms>\d\d:\d\d:\d\d)\.\d{6,9} " + _C_FILE), _native
)
PADDED = Form(
    lazy(
        r"(?P<sev>[VIWEFCD])(?P<date>\d{8}"
        r"|\d{4}) (?P<hms>\d\d:\d\d:\d\d)\.(?P<frac>\d{3,6}) +(?P<pid>\d{1,20})(?: +\d{1,20})? "
        r"(?P<file>[^\s:\]]{1,300}):(?P<line>\d{1,6})\] ?"
    ),
    _padded,
)
RAY_NATIVE = Form(
    lazy(
        r"\["
        + _DATE
        + r"(?P<zone>Z)? (?P<level>[DIWEFC]) (?P<pid>\d{1,10}) \d{1,10}\] (?:\(\w{1,40}\) )?[\w./]{1,80}\.cc:\d{1,6}: "
    ),
    _ray_native,
)
STAMP = Form(lazy(r"\[?" + _DATE + _ZONE + r"\]?(?=[\s,:|\[\]-]|$)[:,]? ?"), _stamp)
EPOCH = Form(lazy(r"\[?(?P<seconds>1\d{9})(?:\.(?P<frac>\d{1,9})|(?=\d{3}\D)(?P<milli>\d{3}))\]?:? "), _epoch)
LEVEL_STAMP = Form(  # Ray's and others' own loggers: the level, the time, the place
    lazy(
        rf"(?P<level>{LEVELS}):? {{1,4}}{_DATE}{_ZONE}(?=[\s,:|\]-])(?:[ ,]{{1,3}}[\w./-]{{1,120}}\.py:\d{{1,6}})?(?: --| -|:)?\s?"
    ),
    _level_stamp,
)
NEMO = Form(lazy(rf"\[NeMo (?P<level>[IWED]) {_DATE}{_ZONE}[^\]\n]{{0,120}}\] ?"), _level_stamp)
JOURNAL = Form(  # journalctl -o short-full
    lazy(rf"[A-Z][a-z]{{2}} {_DATE}{_ZONE} (?P<host>[A-Za-z0-9][\w.-]{{0,62}}) (?=\w)"), _journal
)
CALENDAR = Form(  # date(1), as scripts print it
    lazy(
        rf"[A-Z][a-z]{{2}} {_MON} +(?P<day>\d{{1,2}}) (?P<hms>\d\d:\d\d:\d\d)(?: (?P<zone>{_NAMES}))? (?P<year>\d{{4}})(?::|,| -)? "
    ),
    _calendar,
)
COLON_LEVEL = Form(lazy(rf"(?P<level>{LEVELS}):[\w.]{{1,120}}:"), _level)
SHORT_DATE = Form(
    lazy(
        rf"(?P<level>{LEVELS}) (?:(?P<year>\d{{4}})-)?(?P<month>[01]\d)-(?P<day>[0-3]\d) (?P<hms>\d\d:\d\d:\d\d) "
        r"\[?(?P<file>[\w./-]{1,120}\.py):(?P<line>\d{1,6})\] ?"
    ),
    _short_date,
)
AMERICAN = Form(
    lazy(
        rf"(?P<month>[01]\d)/(?P<day>[0-3]\d)/(?P<year>\d{{4}}) (?P<hms>\d\d:\d\d:\d\d)"
        rf"(?: - (?P<level>{LEVELS}) - [\w.]{{1,80}} - )?\s?"
    ),
    _american,
)
HUGGING_FACE = Form(
    lazy(rf"\[(?P<level>{LEVELS})\|[\w./<>-]{{1,120}}:\d{{1,6}}\] (?:{_DATE}{_ZONE} )?(?:>> )?"), _level
)
BARE_LEVEL = Form(lazy(rf"\[(?P<level>{LEVELS})\](?: \[[\w./]{{1,80}}\.py:\d{{1,6}}(?::\w{{1,60}})?\])?:? ?"), _level)
KERNEL_DATE = Form(
    lazy(
        rf"\[[A-Z][a-z]{{2}} {_MON} +(?P<day>\d{{1,2}}) (?P<hms>\d\d:\d\d:\d\d)"
        r"(?:\.(?P<frac>\d{1,9}))? (?P<year>\d{4})\] ?"
    ),
    _calendar,
)
SYSLOG = Form(
    lazy(
        rf"{_MON} +(?P<day>\d{{1,2}}) (?P<hms>\d\d:\d\d:\d\d)"
        r"(?:\.(?P<frac>\d{1,9}))? (?P<host>[A-Za-z0-9][\w.-]{0,62}) (?=\w)"
    ),
    _calendar,
)

TAILS = tuple(
    lazy(p)
    for p in (
        # what layouts put between the time and the message; names are looked at only where a level is near
        rf"\s*-\s*[\w./-]{{1,80}}\s*-\s*(?P<level>{LEVELS})\s*-\s?",
        rf"\s*-\s*(?P<level>{LEVELS})\s*-\s*[\w./-]{{1,80}}\s*-\s{{0,3}}",
        rf"\s*\|\s*(?P<level>{LEVELS})\s*\|[^|\n]{{1,120}}? - ",
        rf"\s*\|\s*(?P<level>{LEVELS})\s*\|\s*[\w.]{{1,80}}\s*\|\s?",
        rf"\s*[\w.]{{1,120}}:\s*\[(?P<level>{LEVELS})\]\s?",
        rf"\s*\[[\w./-]{{1,80}}\]\s*\[(?P<level>{LEVELS})\]\s*-?\s?",
        rf"\s*\[(?P<level>{LEVELS})\](?:\s*\[[\w./]{{1,80}}\.py:\d{{1,6}}(?::\w{{1,60}})?\])?:?\s*(?:-\s)?",
        rf"\s*-?\s*(?P<level>{LEVELS})\b(?:\s{{1,6}}[a-z_][\w.]{{0,60}}:(?=\s)|\s{{0,4}}[:-](?=\s))?\s?",
        r"\s*-\s(?P<level>(?!))?",
    )
)
"""Continuations behind :data:`STAMP`, the first that fits is taken."""
