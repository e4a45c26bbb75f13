"""What an agent may ask: a diagnosis, the evidence behind it, lines of a file, and what a word means.

Every answer is plain JSON. ``strangers_text`` names the fields that may hold texts of the input, masked and bounded, so that an agent can
tell them from our own words: they come from strangers.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nccldoctor import pipeline
from nccldoctor.cli.explain import explanation
from nccldoctor.discover.discover import discover
from nccldoctor.incident import Incident
from nccldoctor.ingest.excerpts import lines_of_input
from nccldoctor.model import Finding
from nccldoctor.model.errors import InputError
from nccldoctor.reports import json_names
from nccldoctor.words.sanitize import encodable, line, sanitize

MOST_LINES = 200
"""Lines of a file in one answer."""


class Answers:
    """Answers about files below ``roots``, and about nothing else.

    Each method raises :class:`~nccldoctor.model.errors.NccldoctorError` where a path is outside the roots or cannot be analysed.
    """

    def __init__(self, roots: Sequence[Path]) -> None:
        self._roots = tuple(root.resolve(strict=True) for root in roots)
        self._incidents: dict[Path, Incident] = {}

    def diagnosis_of(self, path: str) -> dict[str, Any]:
        """The verdict of a folder or file, the other findings, remedies, steps, and what is missing."""
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
            "missing_input": [
                {"input": row.input, "expected": str(row.expected), "found": str(row.found)}
                for row in diagnosis.coverage
                if row.expected - row.found
            ],
        }

    def lines_of_evidence(self, path: str, evidence_id: str, context: int = 5) -> dict[str, Any]:
        """The lines of a piece of evidence, read from its file: ``E3`` of the verdict, ``F2.E1`` of the second finding."""
        shown = self._incident(self._inside(path)).source(evidence_id, min(max(context, 0), 30))
        return {
            "strangers_text": ["path", "lines"],
            "id": evidence_id,
            "path": line(shown.path),
            "quoted": sorted(shown.quoted),
            "lines": {str(one.number): sanitize(one.text) for one in shown.lines},
        }

    def lines_of_file(self, path: str, first: int, count: int = 50) -> dict[str, Any]:
        """Lines of one file, at most :data:`MOST_LINES`, counted from 1; compressed files are unpacked."""
        place = self._inside(path)
        if not place.is_file():
            raise InputError(f"{path} is no file", "name one file below the folders that were given")
        inputs = discover((str(place),)).inputs
        first = max(first, 1)
        wanted = range(first, first + min(max(count, 1), MOST_LINES))
        found = lines_of_input(inputs[0], wanted) if len(inputs) == 1 else {}
        lines = {str(number): sanitize(text) for number, text in sorted(found.items())}
        return {"strangers_text": ["path", "lines"], "path": line(path), "lines": lines}

    def explain(self, name: str) -> str:
        """What a message of a log, an Xid, a class, a remedy or a setting means, as Markdown."""
        return explanation(name)

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


def _finding(finding: Finding) -> dict[str, Any]:
    """A finding as the JSON document has it; ids of evidence are those that ``lines_of_evidence`` takes."""
    told: dict[str, Any] = json_names.json_value(finding)
    prefix = "" if finding.id == "F1" else f"{finding.id}."
    pieces = told["evidence"][:12]
    told["evidence"] = [{**piece, "id": prefix + piece["id"], "quote": line(piece["quote"])} for piece in pieces]
    del told["why"]  # it repeats the evidence with the weights of the rules
    return told
