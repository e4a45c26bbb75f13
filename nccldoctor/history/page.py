"""The history as one HTML page: what returned, when, and each incident."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from types import SimpleNamespace

from markupsafe import Markup
from msgspec import Struct

from nccldoctor.history import returning
from nccldoctor.history.recurrence import LEVEL, Recurrence
from nccldoctor.history.saved_report import hosts_of
from nccldoctor.history.store import PastIncident
from nccldoctor.reports import html
from nccldoctor.version import __version__
from nccldoctor.words.numbers import plural
from nccldoctor.words.secrets import masked

MOST_ROWS = 200
"""Rows of a table at most."""

_LEFT, _WIDTH, _ROW, _APART = 206, 1000, 24, 28


HEADS = ("At fault", "Took part", "By chance", "Probability", "Remark")
"""What is told of a host or device that is tested."""


class Row(Struct, frozen=True):
    """A row of a table; ``is_marked`` where it is beyond chance."""

    cells: tuple[str, ...]
    is_marked: bool = False


class Table(Struct, frozen=True):
    """A table with a sentence about it."""

    key: str
    title: str
    about: str
    heads: tuple[str, ...]
    rows: tuple[Row, ...]


class StripRow(Struct, frozen=True):
    """A host, and where its incidents stand, in pixels, with the number of those that would overlap."""

    label: str
    y: int
    marks: tuple[tuple[float, int], ...]
    is_marked: bool


class Strip(Struct, frozen=True):
    """The incidents of the hosts on one scale of time."""

    first: str
    last: str
    width: int
    height: int
    rows: tuple[StripRow, ...]


def history_page(incidents: Sequence[PastIncident]) -> str:
    """The page of these incidents, the oldest first; a file of its own that loads nothing."""
    style = html.asset("page.css")
    policy = Markup(f"style-src '{style.hash}'")  # our own words and hash
    template = html.environment().get_template("history.html")
    return template.render(h=overview(incidents), style=style, policy=policy) + "\n"


def overview(incidents: Sequence[PastIncident]) -> SimpleNamespace:
    """What the page says about these incidents: its title, lede, span, tables, strip and footer."""
    hosts, devices = returning.returning_hosts(incidents), returning.returning_devices(incidents)
    marks = returning.returning_defects(incidents)
    named = [masked(one.name) for one in (*hosts, *devices) if one.is_beyond_chance]
    again = sum(mark.count > 1 for mark in marks)
    rows = (
        Row((masked(str(mark.fingerprint)), str(mark.count), day(mark.first), day(mark.last)), mark.count > 1)
        for mark in marks[:MOST_ROWS]
    )
    about = "Incidents of one class, at one line of the program, in one kind of process group. They are counted, not tested."
    return SimpleNamespace(
        title=f"{named[0]} fails more often than by chance" if named else "No host fails more often than by chance",
        lede=f"{plural(len(incidents), 'incident')}. At the {LEVEL:.0%} level, over all that was tested, these stand out: "
        f"{', '.join(named) or 'none'}. {plural(again, 'defect')} returned.",
        span=f"{day(incidents[0].time)} to {day(incidents[-1].time)}" if incidents else "",
        tables=(
            _tested("hosts", "Hosts", "host", hosts),
            _tested("devices", "Devices", "device", devices),
            Table("defects", "Defects", about, ("Defect", "Incidents", "First", "Last"), tuple(rows)),
            _incidents(incidents),
        ),
        strip=_strip(incidents, hosts),
        footer=f"nccldoctor {__version__}",
    )


def _tested(key: str, title: str, noun: str, found: Sequence[Recurrence]) -> Table:
    about = (
        f"How often each {noun} was at fault, how often it took part, and how often we'd expect it by chance. The last column is the "
        f"probability that chance alone gives any {noun} so many."
    )
    rows = (Row(cells(one), one.is_beyond_chance) for one in notable(found))
    return Table(key, title, about, (noun.capitalize(), *HEADS), tuple(rows))


def notable(found: Sequence[Recurrence]) -> list[Recurrence]:
    """Those that stand out, and some behind them to compare with."""
    return [one for number, one in enumerate(found[:MOST_ROWS]) if one.chance <= LEVEL or number < 10]


def cells(one: Recurrence) -> tuple[str, ...]:
    """A recurrence in the words of a table."""
    chance = f"{one.chance:.2g}" if one.chance >= 1e-6 else "below 0.000001"
    remark = f"always {one.always}: that explains it as well" if one.always else ""
    return (masked(one.name), str(one.at_fault), str(one.took_part), f"{one.expected:.2f}", chance, remark)


def _incidents(incidents: Sequence[PastIncident]) -> Table:
    rows = (
        Row((day(one.time), masked(one.headline), _at_fault(one), one.confidence, one.outcome, one.report))
        for one in list(reversed(incidents))[:MOST_ROWS]
    )
    return Table(
        "incidents",
        "Incidents",
        "The newest first.",
        ("Day", "Verdict", "At fault", "Confidence", "Outcome", "Report"),
        tuple(rows),
    )


def _at_fault(one: PastIncident) -> str:
    return ", ".join(dict.fromkeys(accused.host or f"rank {accused.rank}" for accused in one.accused[:8]))


def _strip(incidents: Sequence[PastIncident], hosts: Sequence[Recurrence]) -> Strip | None:
    accusing = returning.accusations(incidents)
    if len(accusing) < 2 or accusing[0].time == accusing[-1].time:
        return None
    place = _scale(accusing[0].time, accusing[-1].time)
    rows = tuple(
        StripRow(
            masked(host.name),
            _ROW // 2 + number * _ROW,
            _marked_places(place(one.time) for one in accusing if host.name in hosts_of(one.accused)),
            host.is_beyond_chance,
        )
        for number, host in enumerate(notable(hosts)[:30])
    )
    return Strip(day(accusing[0].time), day(accusing[-1].time), _WIDTH, len(rows) * _ROW, rows)


def _marked_places(places: Iterable[float]) -> tuple[tuple[float, int], ...]:
    """The places from left to right, each with how many are drawn there: those that would overlap are one."""
    marks: list[tuple[float, int]] = []
    for x in places:
        if marks and x - marks[-1][0] < _APART:
            marks[-1] = (marks[-1][0], marks[-1][1] + 1)
        else:
            marks.append((x, 1))
    return tuple(marks)


def _scale(first: datetime, last: datetime) -> Callable[[datetime], float]:
    length = (last - first).total_seconds()
    return lambda time: round(_LEFT + (time - first).total_seconds() / length * (_WIDTH - _LEFT - _APART), 1)


def day(time: datetime) -> str:
    """The day of a time, ``2026-11-20``."""
    return time.date().isoformat()
