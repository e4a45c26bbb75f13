"""The findings as SARIF 2.1.0, which code hosts and CI systems show beside a run.

SARIF was made for defects in source files. A finding here is a result, its class a rule, and each piece of evidence with a line a location.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from nccldoctor.model import Diagnosis, Evidence, Finding
from nccldoctor.model.causes import Family
from nccldoctor.reports import json_document
from nccldoctor.reports.parts import wording
from nccldoctor.version import __version__
from nccldoctor.words.sanitize import line, text

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"

MOST_LOCATIONS = 20
"""Locations of a result; the first ones say the most."""

_LEVELS = {Family.NONE: "none", Family.UNDETERMINED: "warning"}


def to_sarif(diagnosis: Diagnosis) -> str:
    """One run with a result for each finding. A job that ended well has a result of kind ``pass``."""
    classes = sorted({finding.cause for finding in diagnosis.findings})
    rules = [{"id": cause.value, "shortDescription": {"text": wording.CLASSES[cause].title}} for cause in classes]
    driver = {"name": "nccldoctor", "semanticVersion": __version__, "rules": rules}
    results = [_sarif_result(finding) for finding in diagnosis.findings]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return json_document.written({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


def _sarif_result(finding: Finding) -> dict[str, Any]:
    family = finding.cause.family
    return {
        "ruleId": finding.cause.value,
        "kind": "pass" if family is Family.NONE else "fail",
        "level": _LEVELS.get(family, "error"),
        "message": {"text": line(finding.headline, 1000)},
        "locations": list(_locations(finding.evidence)),
        "properties": {
            "id": finding.id,
            "ranks": str(finding.ranks),
            "suspects": str(finding.suspects),
            "confidence": finding.confidence.value,
        },
    }


def _locations(evidence: Iterable[Evidence]) -> Iterable[dict[str, Any]]:
    told = [item for item in evidence if item.supports and item.where is not None][:MOST_LOCATIONS]
    for number, item in enumerate(told, 1):
        assert item.where is not None
        place: dict[str, Any] = {"artifactLocation": {"uri": quote(text(item.where.path))}}
        if item.where.line is not None:
            place["region"] = {"startLine": item.where.line, "snippet": {"text": line(item.quote)}}
        entry = "" if item.where.entry is None else f" (entry {item.where.entry})"
        yield {"id": number, "physicalLocation": place, "message": {"text": f"{line(item.says)}{entry}"}}
