"""A report that was saved: the JSON document, from a ``.json`` file, a page, or a zip of both."""

from __future__ import annotations

import base64
import gzip
import io
import json
import re
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from msgspec import Struct

from nccldoctor.history.fingerprint import Fingerprint, fingerprint_of, ranks_in
from nccldoctor.identify.event_times import NO_YEAR_KNOWN
from nccldoctor.model import CauseClass, Confidence, ConfidenceIn, EventRole, Evidence, Finding
from nccldoctor.model.errors import InputError, NccldoctorError
from nccldoctor.words.sanitize import line

LARGEST = 256 * 1024 * 1024
"""Bytes of a document, and of a file that holds one, at most."""

_IN_PAGE = re.compile(rb'<script type="application/gzip;base64" id="document">([^<]+)</script>')
_STAND_IN = re.compile(r"host-\d+|HOST_?\d+")
_WAY_OUT = "give what nccldoctor analyze wrote: report.json, report.html or report.zip"


class Accused(Struct, frozen=True):
    """A rank at fault, with the host and the device that the report knows."""

    rank: int
    host: str | None
    device: str | None


class SavedReport(Struct, frozen=True, dict=True):
    """A document of ``analyze --format json`` as it was saved; ``document`` has all of it, as plain values.

    ``path`` is the file that it came from, empty where it came from none.
    """

    document: Mapping[str, Any]
    path: str = ""

    def __getattr__(self, name: str) -> Any:
        """Only for a name that is missing, such as a frame of an incident."""
        raise AttributeError(
            f"a saved report has no {name!r}, only its document; nccldoctor.analyze(PATH) reads the files again"
        )

    def __repr__(self) -> str:
        return f"<SavedReport {self.cause}, {self.path or 'of no file'}: {line(self.headline, 160)}>"

    @cached_property
    def verdict(self) -> Finding:
        """The verdict as :func:`nccldoctor.analyze` gives it; the stalled call and the places are in ``document`` alone."""
        held = self.document["verdict"]
        pieces = held.get("evidence") or [{"says": held["headline"]}]
        ranks, suspects, victims = (ranks_in(held.get(name)) for name in ("ranks", "suspects", "victims"))
        return Finding(
            held.get("id", "F1"),
            CauseClass(held["class"]),
            ConfidenceIn(Confidence(self.confidence_in_ranks), Confidence(self._in_verdict("confidence_in", "class"))),
            held["headline"],
            tuple(Evidence(None, one.get("quote", ""), one["says"], one.get("supports", True)) for one in pieces),
            ranks,
            suspects,
            victims,
            refuted_by=held.get("refuted_by", ""),
        )

    def _in_verdict(self, *names: str) -> str:
        return str(_deep(self.document["verdict"], *names) or self.document["verdict"]["confidence"])

    @property
    def cause(self) -> str:
        """The class of the verdict."""
        return str(self.document["verdict"]["class"])

    @property
    def headline(self) -> str:
        """The verdict in a sentence."""
        return str(self.document["verdict"]["headline"])

    @property
    def confidence_in_ranks(self) -> str:
        """How sure the verdict is of the ranks: ``high``, ``medium``, ``low`` or ``cannot-tell``."""
        return self._in_verdict("confidence_in", "ranks")

    @property
    def job_size(self) -> int | None:
        """The number of ranks of the job, None where the report does not know it."""
        size = _deep(self.document, "job", "world_size")
        return size if type(size) is int and 0 < size < 1 << 31 else None

    @cached_property
    def hosts(self) -> frozenset[str]:
        """The hosts that the job ran on, without stand-ins of a redacted report."""
        named = [*(_deep(self.document, "job", "hosts") or ()), *(one.host for one in self.accused)]
        return frozenset(host for host in named if isinstance(host, str) and not _STAND_IN.fullmatch(host))

    @cached_property
    def accused(self) -> tuple[Accused, ...]:
        """The ranks at fault; a row of several ranks on several hosts tells no host of each."""
        at_fault: frozenset[int] = ranks_in(self.document["verdict"]["ranks"])
        out: list[Accused] = []
        rows: Iterable[Mapping[str, Any]] = self.document["ranks"]
        for row in rows:
            hosts: Sequence[object] = row.get("hosts") or ()
            for rank in ranks_in(row.get("ranks")) & at_fault:
                host = str(hosts[0]) if len(hosts) == 1 and not _STAND_IN.fullmatch(str(hosts[0])) else None
                out.append(Accused(rank, host, str(row["device"]) if row.get("device") else None))
        out.sort(key=lambda one: one.rank)
        return tuple(out)

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """What two incidents of one defect have in common."""
        return fingerprint_of(self.document)

    @cached_property
    def clock(self) -> datetime | None:
        """When it happened: the begin of the stall, else the first complaint, else the first event of the incident.

        The begin of the timeline where none of these has a time. It is without a zone where the report names none. None where no file
        of the incident names a year.
        """
        rows: Iterable[Mapping[str, Any]] = self.document.get("story") or ()
        told = [row.get("time") for row in rows if row.get("role") != EventRole.UNRELATED]
        for value in (
            _deep(self.document, "verdict", "stalled", "since"),
            _deep(self.document, "alarm", "time"),
            *told,
        ):
            if isinstance(value, str):
                return datetime.fromisoformat(value)
        start = _deep(self.document, "timeline", "start")
        begin = datetime.fromtimestamp(start, UTC) if isinstance(start, float) else None
        if begin is None or begin.year <= NO_YEAR_KNOWN:
            return None
        return begin if _deep(self.document, "timeline", "zone") else begin.replace(tzinfo=None)

    @cached_property
    def happened(self) -> datetime | None:
        """:attr:`clock` in UTC, to put reports in order; a time without a zone counts as UTC."""
        if self.clock is None:
            return None
        return self.clock.astimezone(UTC) if self.clock.tzinfo else self.clock.replace(tzinfo=UTC)

    @cached_property
    def incident_id(self) -> str:
        """The same for all reports about the same files, whichever version wrote them."""
        basis = [self.document.get("input"), self.document.get("alarm"), self.document.get("job")]
        return sha256(json.dumps(basis, sort_keys=True).encode()).hexdigest()[:16]


def hosts_of(accused: Iterable[Accused]) -> frozenset[str]:
    """The hosts at fault, as far as they are known."""
    return frozenset(one.host for one in accused if one.host)


def load(path: str | Path) -> SavedReport:
    """Read a report that ``nccldoctor analyze`` or ``Incident.to_json`` wrote: ``.json``, ``.html`` or ``.zip``.

    >>> import nccldoctor as nd, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "report.html"
    >>> _ = path.write_text(nd.analyze(nd.demo("died")).to_html(), encoding="utf-8")
    >>> report = nd.load(path)
    >>> report.verdict.cause.value, report.verdict.ranks, report.accused[0].host
    ('died', Ranks('3'), 'node0')

    Raises :class:`~nccldoctor.model.errors.InputError` where the file cannot be
    read or is no such report.
    """
    path = Path(path)
    try:
        if path.stat().st_size > LARGEST:
            raise InputError(f"{path} is larger than any report", _WAY_OUT)
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}", _WAY_OUT) from error
    try:
        return from_document(json.loads(_document_in(content)), str(path))
    except (ValueError, RuntimeError, OSError, EOFError, zlib.error, zipfile.BadZipFile) as error:
        raise InputError(f"{path} is no report of nccldoctor: {error or type(error).__name__}", _WAY_OUT) from error


def from_document(document: object, path: str = "") -> SavedReport:
    """A report from its document. Raises :class:`~nccldoctor.model.errors.InputError` for any other value."""
    if not isinstance(document, dict) or not str(document.get("schema_version", "")).startswith("1."):
        raise InputError(f"{path or 'the document'} is no report of nccldoctor: it has no schema_version 1", _WAY_OUT)
    verdict = document.get("verdict")
    missing = [
        name
        for name in ("class", "family", "confidence", "headline", "ranks")
        if not isinstance(verdict, dict) or not isinstance(verdict.get(name), str)
    ]
    wrong = [name for name in ("job", "input") if not isinstance(document.get(name), dict)]
    rows = document.get("ranks")
    wrong += [] if isinstance(rows, list) and all(isinstance(row, dict) for row in rows) else ["ranks"]
    if missing or wrong:
        named = ", ".join([*(f"verdict.{name}" for name in missing), *wrong])
        raise InputError(f"{path or 'the document'} is no whole report of nccldoctor: {named} is missing", _WAY_OUT)
    report = SavedReport(document, path)
    try:
        _ = (report.accused, report.hosts, report.fingerprint, report.happened)
    except (TypeError, AttributeError, ValueError, KeyError, IndexError, NccldoctorError) as error:
        raise InputError(f"{path or 'the document'} is a broken report: {error}", _WAY_OUT) from error
    return report


def _document_in(content: bytes) -> bytes:
    """The JSON text of a file: the file itself, the member of a zip, or what a page carries."""
    if content.startswith(b"PK\x03\x04"):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            member = next((info for info in archive.infolist() if info.filename.endswith(".json")), None)
            if member is None or member.file_size > LARGEST:
                raise ValueError("the zip holds no report.json")
            return archive.read(member)
    if content.lstrip()[:9].lower().startswith(b"<!doctype"):
        held = _IN_PAGE.search(content)
        if held is None:
            raise ValueError("the page holds no document")
        with gzip.open(io.BytesIO(base64.b64decode(held[1]))) as packed:
            document: bytes = packed.read(LARGEST)
        return document
    return content


def _deep(value: object, *names: str) -> Any:
    """A value deep in a document; None where a part is missing."""
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
