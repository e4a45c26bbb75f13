"""The database of incidents: one SQLite file, one row for each incident."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import Struct

from nccldoctor.history.fingerprint import Fingerprint
from nccldoctor.history.saved_report import Accused, SavedReport
from nccldoctor.model.errors import InputError, OutputError
from nccldoctor.words.numbers import plural

_VERSION = 1
_TABLE = """
create table if not exists incidents (
    id text primary key, happened text, added text not null, headline text not null, confidence text not null,
    cause text not null, site text not null, group_role text not null, world_size integer, accused text not null,
    hosts text not null, report text not null
) strict
"""
_OUTCOMES = "create table if not exists outcomes (id text primary key, outcome text not null) strict"
_ALL = "select incidents.*, coalesce(outcome, '') from incidents left join outcomes using (id)"
CONFIRMED, WRONG, FORGOTTEN = "confirmed", "wrong", "forgotten"
"""What a person says of an incident. A wrong one accuses nobody; a forgotten one is deleted."""
_PUT = f"insert or replace into incidents values ({', '.join('?' * 12)})"


class PastIncident(Struct, frozen=True):
    """One incident as the history keeps it; ``time`` is when it happened, else when it was added, in UTC."""

    id: str
    time: datetime
    headline: str
    confidence: str
    fingerprint: Fingerprint
    world_size: int | None
    accused: tuple[Accused, ...]
    hosts: frozenset[str]
    report: str
    outcome: str = ""

    @property
    def told_size(self) -> str:
        """The job by its size: ``128 ranks on 16 hosts``, or on the one host that it had."""
        where = (
            next(iter(self.hosts)) if len(self.hosts) == 1 else plural(len(self.hosts), "host") if self.hosts else ""
        )
        ranks = plural(self.world_size, "rank") if self.world_size else ""
        return " on ".join(filter(None, (ranks, where)))


class History:
    """The incidents of a database file, which is made where it is missing.

    Raises :class:`~nccldoctor.model.errors.OutputError` where the file cannot be made or is no history.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def remember(self, reports: Iterable[SavedReport], now: datetime) -> int:
        """Keep these reports; a later report about the same files replaces the earlier. Returns the number of new incidents."""
        with self._open() as database:
            before = _number_of_rows(database)
            database.executemany(_PUT, (_as_row(report, now) for report in reports))
            return _number_of_rows(database) - before

    def incidents(self, since: datetime | None = None) -> list[PastIncident]:
        """The incidents from ``since`` on, the oldest first."""
        with self._open() as database:
            rows = database.execute(_ALL).fetchall()
        found = sorted((_incident(row) for row in rows), key=lambda one: (one.time, one.id))
        return [one for one in found if since is None or one.time >= since]

    def note_outcome(self, start: str, outcome: str) -> PastIncident:
        """Note what a person says of the incident whose id begins so. Raises InputError where it isn't one alone."""
        found = [one for one in self.incidents() if one.id.startswith(start)]
        if len(found) != 1:
            raise InputError(f"{len(found)} incidents have an id that begins with {start!r}", _IDS)
        with self._open() as database:
            database.execute("insert or replace into outcomes values (?, ?)", (found[0].id, outcome))
            if outcome == FORGOTTEN:
                for table in ("incidents", "outcomes"):
                    database.execute(f"delete from {table} where id = ?", (found[0].id,))
        return found[0]

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            database = sqlite3.connect(self._path, timeout=30)
        except (OSError, sqlite3.Error) as error:
            raise OutputError(f"cannot open the history {self._path}: {error}", _WAY_OUT) from error
        try:
            with database:
                (version,) = database.execute("pragma user_version").fetchone()
                if version not in (0, _VERSION):
                    raise sqlite3.DatabaseError(f"a newer nccldoctor wrote it (version {version})")
                if database.execute(
                    "select 1 from sqlite_master where tbl_name not in ('incidents', 'outcomes')"
                ).fetchone():
                    raise sqlite3.DatabaseError("it holds tables of another program")
                database.execute(_TABLE)
                database.execute(_OUTCOMES)
                database.execute(f"pragma user_version = {_VERSION}")
                yield database
        except sqlite3.Error as error:
            raise OutputError(f"{self._path} is no history that can be used: {error}", _WAY_OUT) from error
        finally:
            database.close()


_WAY_OUT = "name another file with --db"
_IDS = "nccldoctor history list shows the ids"


def _number_of_rows(database: sqlite3.Connection) -> int:
    (count,) = database.execute("select count(*) from incidents").fetchone()
    return int(count)


def _as_row(report: SavedReport, now: datetime) -> tuple[str | int | None, ...]:
    happened, mark = report.happened, report.fingerprint
    return (
        report.incident_id,
        happened.isoformat() if happened else None,
        now.astimezone(UTC).isoformat(),
        report.headline,
        report.confidence_in_ranks,
        mark.cause,
        mark.site,
        mark.group_role,
        report.job_size,
        json.dumps([[one.rank, one.host, one.device] for one in report.accused]),
        json.dumps(sorted(report.hosts)),
        report.path,
    )


def past_incident(report: SavedReport, now: datetime) -> PastIncident:
    """A report as the history would keep it."""
    return _incident((*_as_row(report, now), ""))


def _incident(row: tuple[Any, ...]) -> PastIncident:
    id_, happened, added, headline, confidence, cause, site, role, size, accused, hosts, report, outcome = row
    try:
        return PastIncident(
            id_,
            datetime.fromisoformat(happened or added),
            headline,
            confidence,
            Fingerprint(cause, site, role),
            None if size is None else int(size),
            tuple(Accused(*one) for one in json.loads(accused)),
            frozenset(json.loads(hosts)),
            report,
            outcome,
        )
    except (ValueError, TypeError) as error:
        raise InputError(f"the history holds a broken row, {id_}: {error}", _WAY_OUT) from error
