"""The published JSON of ``analyze``: the fields of ``schema/analyze.json``, the same bytes for the same input."""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Any

from nccldoctor.model import (
    Alarm,
    Avoid,
    Coverage,
    Diagnosis,
    Evidence,
    Finding,
    Job,
    Link,
    RemedyAdvice,
    Source,
    Stalled,
)
from nccldoctor.reports import json_figures
from nccldoctor.reports.parts import rank_rows
from nccldoctor.reports.parts.sanitize import optional, text
from nccldoctor.version import __version__

SCHEMA_VERSION = "1.0"


def to_json(diagnosis: Diagnosis) -> str:
    """The document that ``analyze --format json`` prints: two-space indent, one newline at the end."""
    return written(document(diagnosis))


def written(value: dict[str, Any]) -> str:
    """JSON text as all our documents have it: readable UTF-8, in which no character can move others about."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    return _moving.sub(lambda found: f"\\u{ord(found.group()):04x}", text) + "\n"


_moving = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ufffe\uffff]")
"""Bidirectional controls, C1 controls and zero-width characters: legal in JSON, harmful in a terminal."""


def document(diagnosis: Diagnosis) -> dict[str, Any]:
    """The same as plain dictionaries and lists."""
    findings = [_finding(f) for f in diagnosis.findings]
    return {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "nccldoctor", "version": __version__, "catalogue": text(diagnosis.catalogue) or None},
        "verdict": findings[0],
        "findings": findings,
        "remedies": [_remedy(r) for r in diagnosis.remedies],
        "avoid": [_avoid(a) for a in diagnosis.avoid],
        "job": _job(diagnosis.job),
        "notices": [text(notice) for notice in diagnosis.notices],
        "coverage": [_coverage(c) for c in diagnosis.coverage],
        "action": {
            "restart": diagnosis.action.restart,
            "cordon": [text(h) for h in diagnosis.action.cordon],
            "why": text(diagnosis.action.why),
        },
        "ranks": [
            {
                "ranks": str(row.ranks),
                "role": row.role.value,
                "hosts": [text(h) for h in row.hosts],
                "device": optional(row.device),
                "pid": row.pid,
                "group": optional(row.group),
                "completed": row.completed,
                "enqueued": row.enqueued,
                "waits_in": optional(row.waits_in),
                "last_sign": text(row.last_sign),
                "where": optional(str(row.where) if row.where else None),
            }
            for row in rank_rows.folded(diagnosis)
        ],
        "ruled_out": [
            {"hypothesis": text(c.text), "ruled_out": c.met is False, "says": text(c.says), "where": optional(c.where)}
            for c in diagnosis.ruled_out
        ],
        "capture": [text(c) for c in diagnosis.capture],
        "alarm": _alarm(diagnosis.alarm) if diagnosis.alarm else None,
        "story": [
            {
                "role": row.role.value,
                "cause": row.cause,
                "kind": row.kind,
                "says": text(row.says),
                "ranks": str(row.ranks),
                "host": optional(row.host),
                "time": moment(row.time),
                "where": text(str(row.where)),
                "count": row.count,
            }
            for row in diagnosis.story
        ],
        "input": _read(diagnosis.sources),
        **json_figures.fields(diagnosis),
    }


def moment(time: datetime | None) -> str | None:
    """ISO 8601 as the source says it; None where there is no time, or one without a year."""
    return None if time is None or time.year == 1900 else time.isoformat()


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "id": finding.id,
        "family": finding.family.value,
        "class": finding.cause.value,
        "confidence": finding.confidence.value,
        "headline": text(finding.headline),
        "ranks": str(finding.ranks),
        "suspects": str(finding.suspects),
        "victims": str(finding.victims),
        "stalled": _stalled(finding.stalled) if finding.stalled else None,
        "chain": [_link(link) for link in finding.chain],
        "evidence": [_evidence(e) for e in finding.evidence],
        "refuted_by": text(finding.refuted_by),
    }


def _stalled(call: Stalled) -> dict[str, Any]:
    return {
        "op": optional(call.op),
        "seq": call.seq,
        "kind": call.kind,
        "group": optional(call.group),
        "numel_in": call.numel_in,
        "numel_out": call.numel_out,
        "dtype": optional(call.dtype),
        "entered": str(call.entered),
        "missing": str(call.missing),
        "timeout_ms": call.timeout_ms,
        "since": moment(call.since),
        "until": moment(call.until),
    }


def _link(link: Link) -> dict[str, Any]:
    return {
        "waiting": str(link.waiting),
        "for": str(link.for_),
        "group": text(link.group),
        "op": optional(link.op),
        "seq": link.seq,
    }


def _evidence(item: Evidence) -> dict[str, Any]:
    return {
        "where": optional(str(item.where) if item.where else None),
        "quote": text(item.quote),
        "says": text(item.says),
        "supports": item.supports,
        "observer": text(item.observer),
    }


def _remedy(remedy: RemedyAdvice) -> dict[str, Any]:
    return {
        "id": text(remedy.id),
        "title": text(remedy.title),
        "finding": remedy.finding,
        "fit": remedy.fit,
        "conditions_met": remedy.conditions_met,
        "conditions": remedy.conditions,
        "confirm": [text(t) for t in remedy.confirm],
        "fix": [text(t) for t in remedy.fix],
        "prevent": [text(t) for t in remedy.prevent],
        "avoid": [{"what": text(a.what), "why": text(a.why)} for a in remedy.avoid],
        "sources": [text(s) for s in remedy.sources],
        "summary": text(remedy.summary),
        "topic": text(remedy.topic),
        "checks": [
            {"condition": text(c.text), "met": c.met, "says": text(c.says), "where": optional(c.where)}
            for c in remedy.checks
        ],
        "origin": text(remedy.origin),
    }


def _avoid(advice: Avoid) -> dict[str, Any]:
    return {"what": text(advice.what), "why": text(advice.why), "where": optional(advice.where)}


def _job(job: Job) -> dict[str, Any]:
    return {
        "world_size": job.world_size,
        "world_guessed": job.world_guessed,
        "hosts": [text(h) for h in job.hosts],
        "torch": optional(job.torch),
        "nccl": optional(job.nccl),
        "groups": [{"id": text(g.uid), "description": text(g.desc), "members": str(g.members)} for g in job.groups],
    }


def _coverage(row: Coverage) -> dict[str, Any]:
    return {
        "input": text(row.input),
        "expected": str(row.expected),
        "found": str(row.found),
        "problems": [text(p) for p in row.problems],
    }


def _alarm(alarm: Alarm) -> dict[str, Any]:
    where = str(alarm.where) if alarm.where else None
    return {"rank": alarm.rank, "time": moment(alarm.time), "where": optional(where)}


def _read(sources: tuple[Source, ...]) -> dict[str, Any]:
    kinds: dict[str, int] = {}
    for source in sources:
        kinds[source.kind.value] = kinds.get(source.kind.value, 0) + 1
    return {"files": len(sources), "bytes": sum(s.size for s in sources), "kinds": dict(sorted(kinds.items()))}
