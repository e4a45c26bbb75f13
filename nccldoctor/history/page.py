"""The history as one HTML page: what returned, when, and each incident."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

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
    hosts, devices = returning.returning_hosts(incidents), returning.returning_devices(incidents)
    defects = returning.returning_defects(incidents)
    return (
        html.environment()
        .get_template("history.html")
        .render(
            named=[one.name for one in (*hosts, *devices) if one.is_beyond_chance],
            tested={"host": notable(hosts), "device": notable(devices)},
            heads=HEADS,
            defects=defects[:MOST_ROWS],
            returned=sum(defect.count > 1 for defect in defects),
            incidents=incidents,
            newest=list(reversed(incidents))[:MOST_ROWS],
            strip=_strip(incidents, hosts),
            level=f"{LEVEL:.0%}",
            version=__version__,
            at_fault=_at_fault,
            cells=cells,
            day=day,
            plural=plural,
            style=style,
            policy=Markup(f"style-src '{style.hash}'"),  # our own words and hash
        )
        + "\n"
    )


def notable(found: Sequence[Recurrence]) -> list[Recurrence]:
    """Those that stand out, and some behind them to compare with."""
    return [one for number, one in enumerate(found[:MOST_ROWS]) if one.chance <= LEVEL or number < 10]


def cells(one: Recurrence) -> tuple[str, ...]:
    """A recurrence in the words of a table."""
    chance = f"{one.chance:.2g}" if one.chance >= 1e-6 else "below 0.000001"
    remark = f"always {one.always}: that explains it as well" if one.always else ""
    return (masked(one.name), str(one.at_fault), str(one.took_part), f"{one.expected:.2f}", chance, remark)


def _at_fault(one: PastIncident) -> str:
    return ", ".join(dict.fromkeys(accused.host or f"rank {accused.rank}" for accused in one.accused[:8]))


def _strip(incidents: Sequence[PastIncident], hosts: Sequence[Recurrence]) -> Strip | None:
    accusing = returning.accusations(incidents)
    if len(accusing) < 2 or accusing[0].time == accusing[-1].time:
        return None
    first, length = accusing[0].time, (accusing[-1].time - accusing[0].time).total_seconds()
    width = _WIDTH - _LEFT - _APART
    places = {one.id: round(_LEFT + (one.time - first).total_seconds() / length * width, 1) for one in accusing}
    rows = tuple(
        StripRow(
            masked(host.name),
            _ROW // 2 + number * _ROW,
            _marked_places(places[one.id] for one in accusing if host.name in hosts_of(one.accused)),
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


def day(time: datetime) -> str:
    """The day of a time, ``2026-11-20``."""
    return time.date().isoformat()
