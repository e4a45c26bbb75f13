"""What an agent may ask about files, diagnoses, saved reports and words.

Every answer is plain JSON. ``strangers_text`` names the fields that may hold texts of the input, masked and bounded, so that an agent can
tell them from our own words: they come from strangers.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec.structs import asdict, replace

from nccldoctor import pipeline
from nccldoctor.cli.explain import explanation
from nccldoctor.discover.discover import discover
from nccldoctor.history import returning
from nccldoctor.history.page import notable
from nccldoctor.history.saved_report import SavedReport, hosts_of, load
from nccldoctor.history.store import PastIncident, past_incident
from nccldoctor.incident import Incident
from nccldoctor.ingest.excerpts import lines_of_input
from nccldoctor.model import Finding
from nccldoctor.model.errors import InputError
from nccldoctor.reports import inspect as inspected
from nccldoctor.reports import json_names
from nccldoctor.words.sanitize import encodable, line, sanitize

MOST_LINES = 200
"""Lines of a file in one answer."""

MOST_ROWS = 100
"""Rows of each list in one answer; ``left_out`` counts the others."""

SAVED = (".json", ".html", ".zip")
MOST_REPORTS = 400
"""Files that are looked at as reports, the newest."""


class Answers:
    """Answers about files below ``roots``, and about nothing else.

    Each method raises :class:`~nccldoctor.model.errors.NccldoctorError` where a path is outside the roots or cannot be analysed.
    """

    def __init__(self, roots: Sequence[Path]) -> None:
        self._roots = tuple(root.resolve(strict=True) for root in roots)
        self._incidents: dict[Path, Incident] = {}

    def files_below(self, path: str) -> dict[str, Any]:
        """List the files below a folder: what each is, its size, and rank and host where its name says so."""
        found = discover((str(self._inside(path)),))
        sources = [json_names.json_value(one.source) for one in found.inputs]
        kinds = Counter(source["kind"] for source in sources)
        gaps = [{"what": line(gap.what), "why": line(gap.why)} for gap in found.gaps]
        return {"strangers_text": ["files", "gaps"], "kinds": dict(kinds), **_bounded(files=sources, gaps=gaps)}

    def recognised_in(self, path: str) -> dict[str, Any]:
        """Say how much of each file was understood, the least first, and what is missing. It gives no verdict."""
        told = inspected.document(pipeline.read((str(self._inside(path)),)))
        told["sources"].sort(key=lambda row: (row["understood"] or 0) - (row["candidates"] or 0))
        kinds = Counter(event["kind"] for event in told["events"])
        shown = _bounded(sources=told["sources"], gaps=told["gaps"])
        return {"strangers_text": ["sources", "gaps"], "events": dict(kinds), **shown}

    def history_of(self, path: str) -> dict[str, Any]:
        """Say what came back in the saved reports below a folder (.json, .html, .zip): defects, and hosts beyond chance."""
        top = self._inside(path)
        files = [file for file in (top, *top.rglob("*")) if file.suffix in SAVED and file.is_file()]
        newest = sorted(files, key=lambda file: file.stat().st_mtime)[-MOST_REPORTS:]
        reports: dict[str, SavedReport] = {}
        for file in newest:
            with suppress(InputError):  # it is no report, or a link out of the roots
                report = replace(load(self._inside(str(file))), path=str(file.relative_to(top)))
                reports[report.incident_id] = report
        past = sorted((past_incident(one, datetime.now(UTC)) for one in reports.values()), key=lambda one: one.time)
        again = [defect for defect in returning.returning_defects(past) if defect.count > 1]
        hosts = [*notable(returning.returning_hosts(past)), *notable(returning.returning_devices(past))]
        shown = _bounded(
            incidents=[_row(one) for one in reversed(past)],
            defects=[{"count": one.count, "defect": line(str(one.fingerprint))} for one in again],
            hosts=[{**asdict(one), "name": line(one.name), "is_beyond_chance": one.is_beyond_chance} for one in hosts],
        )
        not_read = {"files": len(files) - len(newest)} if len(files) > len(newest) else {}
        return {"strangers_text": ["incidents", "defects", "hosts"], **shown, "left_out": shown["left_out"] | not_read}

    def diagnosis_of(self, path: str) -> dict[str, Any]:
        """Diagnose a folder or file of logs and dumps: which rank is at fault, why, how sure, what to do. Evidence has ids."""
        place = self._inside(path)
        self._incidents.pop(place, None)
        incident = self._incident(place)
        diagnosis = incident.unquoted
        job = json_names.json_value(diagnosis.job)
        return {
            "strangers_text": ["verdict", "other_findings", "job", "restart.why", "do_now"],
            "verdict": _finding(diagnosis.verdict),
            "other_findings": [_finding(finding) for finding in diagnosis.findings[1:4]],
            "job": {name: job[name] for name in ("world_size", "hosts", "torch", "nccl")},
            "restart": {"when": diagnosis.action.restart, "why": line(diagnosis.action.why, 400)},
            "do_now": [line(step.text, 400) for step in diagnosis.action.steps],
            "remedies": [{"id": one.id, "title": one.title, "fit": one.fit} for one in diagnosis.remedies[:5]],
            "left_out": {"findings": len(diagnosis.findings[4:]), "remedies": len(diagnosis.remedies[5:])},
            "missing_input": [
                {"input": row.input, "expected": str(row.expected), "found": str(row.found)}
                for row in diagnosis.coverage
                if row.expected - row.found
            ],
        }

    def lines_of_evidence(self, path: str, evidence_id: str, context: int = 5) -> dict[str, Any]:
        """Read the log lines behind a piece of evidence of analyze, such as E3 or F2.E1, with lines around them."""
        shown = self._incident(self._inside(path)).source(evidence_id, min(max(context, 0), 30))
        return {
            "strangers_text": ["path", "lines"],
            "id": evidence_id,
            "path": line(shown.path),
            "quoted": sorted(shown.quoted),
            "lines": {str(one.number): sanitize(one.text) for one in shown.lines},
        }

    def lines_of_file(self, path: str, first: int, count: int = 50) -> dict[str, Any]:
        """Read lines of one log file, counted from 1, at most 200; compressed files are unpacked."""
        place = self._inside(path)
        if not place.is_file():
            raise InputError(f"{path} is no file", "name one file below the folders that were given")
        inputs = discover((str(place),)).inputs
        first = max(first, 1)
        wanted = range(first, first + min(max(count, 1), MOST_LINES))
        found = lines_of_input(inputs[0], wanted) if len(inputs) == 1 else {}
        lines = {str(number): sanitize(text) for number, text in sorted(found.items())}
        left_out = max(count - MOST_LINES, 0)
        return {"strangers_text": ["path", "lines"], "path": line(path), "lines": lines, "left_out": left_out}

    def explain(self, name: str) -> dict[str, Any]:
        """Explain a message of a log, an Xid, a class, a remedy, a kind of event or a setting."""
        return {"strangers_text": ["markdown"], "markdown": explanation(name)}

    def _inside(self, path: str) -> Path:
        """The real place of a path, which must stand below a root, links followed."""
        given = Path(encodable(path).replace("\0", "\\x00"))  # no file has such a name
        tried = [given] if given.is_absolute() else [root / given for root in self._roots]
        for place in tried:
            real = place.resolve()
            if any(real.is_relative_to(root) for root in self._roots) and os.path.exists(real):  # noqa: PTH110 - a name too long raises nothing
                return real
        raise InputError(
            f"{line(path)} is not below the folders that this server may read",
            f"they are {', '.join(map(str, self._roots))}",
        )

    def _incident(self, place: Path) -> Incident:
        if place not in self._incidents:
            while len(self._incidents) >= 4:  # kept, so that evidence is read without another analysis
                del self._incidents[next(iter(self._incidents))]
            self._incidents[place] = pipeline.analyze((str(place),))
        return self._incidents[place]


def _bounded(**lists: list[dict[str, Any]]) -> dict[str, Any]:
    """The first rows of each list, and how many of it are left out."""
    left_out = {name: len(rows) - MOST_ROWS for name, rows in lists.items() if len(rows) > MOST_ROWS}
    return {name: rows[:MOST_ROWS] for name, rows in lists.items()} | {"left_out": left_out}


def _row(one: PastIncident) -> dict[str, Any]:
    told = {"headline": one.headline, "confidence": one.confidence, "job": one.told_size, "report": one.report}
    told |= {"defect": str(one.fingerprint), "hosts": ", ".join(sorted(hosts_of(one.accused)))}
    return {"id": one.id, "time": str(one.time), **{name: line(value, 400) for name, value in told.items()}}


def _finding(finding: Finding) -> dict[str, Any]:
    """A finding as the JSON document has it; ids of evidence are those that ``lines_of_evidence`` takes."""
    told: dict[str, Any] = json_names.json_value(finding)
    prefix = "" if finding.id == "F1" else f"{finding.id}."
    pieces, told["evidence_left_out"] = told["evidence"][:12], len(told["evidence"][12:])
    told["evidence"] = [{**piece, "id": prefix + piece["id"], "quote": line(piece["quote"])} for piece in pieces]
    del told["why"]  # it repeats the evidence with the weights of the rules
    return told
