"""Compares two reports: what is the same in both incidents, and what differs."""

from __future__ import annotations

import json
from typing import Any

from msgspec import Struct

from nccldoctor.history.fingerprint import Fingerprint, differences, same_defect
from nccldoctor.history.saved_report import SavedReport, from_document, hosts_of
from nccldoctor.incident import Incident
from nccldoctor.model import CauseClass
from nccldoctor.words import names, times
from nccldoctor.words.lists import and_list
from nccldoctor.words.sanitize import line

ANSWERS = {True: "Same defect", False: "Different defects", None: "Not enough to tell if it is the same defect"}
"""The answer in words, by :attr:`Comparison.is_same_defect`."""


class ComparedRow(Struct, frozen=True):
    """One property of both incidents, in words; None where a report does not know it."""

    what: str
    left: str | None
    right: str | None

    @property
    def is_different(self) -> bool:
        """Whether both reports know it, and it is not the same."""
        return self.left != self.right and self.left is not None and self.right is not None


class Comparison(Struct, frozen=True):
    """Two incidents side by side.

    ``is_same_defect`` is True where class and function agree, False where one of these or the role of the group differs, None where a
    report leaves open what it takes. ``because`` says why, ``shared_hosts`` are hosts at fault in both.
    """

    rows: tuple[ComparedRow, ...]
    is_same_defect: bool | None
    because: str
    shared_hosts: tuple[str, ...]

    def __repr__(self) -> str:
        return f"<Comparison: {self.answer}>"

    @property
    def answer(self) -> str:
        """The answer and why: ``Different defects: another class.``"""
        shared = f" At fault in both: {', '.join(self.shared_hosts)}." if self.shared_hosts else ""
        return f"{ANSWERS[self.is_same_defect]}: {self.because}.{shared}"

    def __str__(self) -> str:
        """The answer, a line for each property that both share, two for one that differs: what ``nccldoctor diff`` prints."""
        lines = [self.answer]
        for row in self.rows:
            if row.left == row.right and row.left is not None:
                lines.append(f"  {row.what:<20} {row.left}")
            elif row.left is not None or row.right is not None:
                lines += [f"- {row.what:<20} {row.left or 'unknown'}", f"+ {row.what:<20} {row.right or 'unknown'}"]
        return "\n".join(lines)


def compare(a: Incident | SavedReport, b: Incident | SavedReport) -> Comparison:
    """Lay two incidents side by side: answers of :func:`nccldoctor.analyze`, or reports that :func:`nccldoctor.load` read.

    >>> import nccldoctor as nd
    >>> a, b = (nd.analyze(nd.demo(name)) for name in ("died", "missed-call"))
    >>> nd.compare(a, b).is_same_defect
    False
    >>> [row.what for row in nd.compare(a, b).rows if row.is_different][:2]
    ['headline', 'class']
    """
    left, right = _saved(a), _saved(b)
    rows = zip(_properties(left), _properties(right), strict=True)
    return Comparison(
        tuple(ComparedRow(what, one, other) for (what, one), (_, other) in rows),
        same_defect(left.fingerprint, right.fingerprint),
        _because(left.fingerprint, right.fingerprint),
        tuple(sorted(hosts_of(left.accused) & hosts_of(right.accused))),
    )


def _because(a: Fingerprint, b: Fingerprint) -> str:
    if CauseClass.NONE in (a.cause, b.cause):
        return "neither job failed" if a.cause == b.cause else "one of the jobs didn't fail"
    if same_defect(a, b):
        return f"{a.cause} in {a.site}"
    if found := differences(a, b):
        return f"another {and_list(found)}"
    return "no call site in both reports" if not (a.site and b.site) else "no class in both reports"


def _saved(one: Incident | SavedReport) -> SavedReport:
    return one if isinstance(one, SavedReport) else from_document(json.loads(one.to_json()))


def _properties(one: SavedReport) -> list[tuple[str, str | None]]:
    document, stalled = one.document, one.document["verdict"].get("stalled") or {}
    job, action = document["job"], document.get("action") or {}
    devices = sorted({accused.device for accused in one.accused if accused.device})
    remedies = document.get("remedies") or [{}]
    found: list[tuple[str, Any]] = [
        ("headline", one.headline),
        ("class", one.cause),
        ("confidence", document["verdict"]["confidence"]),
        ("ranks at fault", document["verdict"]["ranks"]),
        ("hosts at fault", ", ".join(sorted(hosts_of(one.accused)))),
        ("devices at fault", ", ".join(devices)),
        ("line of the program", one.fingerprint.site),
        ("stalled call", names.call_title(stalled["op"], stalled.get("seq")) if stalled.get("op") else None),
        ("process group", stalled.get("group")),
        ("ranks", one.job_size),
        ("hosts", len(one.hosts)),
        ("torch", job.get("torch")),
        ("nccl", job.get("nccl")),
        ("restart", action.get("restart")),
        ("first remedy", remedies[0].get("id") if remedies else None),
        ("happened", times.instant(one.clock) if one.clock is not None else None),
    ]
    return [(what, line(str(value), 300) if value else None) for what, value in found]
