"""Reads the output of PyTorch's own flight-recorder analyser, where it lies in the input.

Source: pytorch ``torch/distributed/flight_recorder/components`` 2.13 (``tools/flight_recorder`` up to 2.8). Its
*culprit rank* is the rank that differs from the first one it looked at, not from the majority; a partial hang is
reported as a state mismatch. So this is a lead to follow, never evidence by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from nccldoctor.events import Event, FrAnalysis, GroupRef
from nccldoctor.model.ranks import Ranks
from nccldoctor.parsers.base import Line, LineParser, common, line_parser
from nccldoctor.patterns import lazy

_BLOCK = 14
"""Lines of a block from its first to the state of the call."""

_OPENING = lazy(
    r"(?P<absent>Not all ranks joining collective,? sequence number): (?P<seq1>\d{1,19})"
    r"|(?P<differ>Input/output mismatch in the collective sequence number): (?P<seq2>\d{1,19})"
    r"|(?P<errors>Collective sequence number): (?P<seq3>\d{1,19}) has errors"
    r"|(?P<unsure>We cannot decide what's wrong with this collective entry).{0,120}?ranks"
    r" \(?(?P<lost>[\d,\s{}()]{0,400})"
    r"|(?P<files>Missing dump files from ranks) (?P<gone>\{[\d,\s]{0,4000}\})"
    r"|(?P<none>No errors found for this collective entry)"
    r"|(?P<many>Too many mismatches.{0,160})"
)

_WHAT = {
    "absent": "ranks-missing",
    "differ": "mismatch",
    "errors": "mismatch",
    "unsure": "cannot-decide",
    "files": "dumps-missing",
    "none": "no-errors",
    "many": "too-many",
}

_FIELD = lazy(
    r"^[^:]{0,60}?(?P<key>group info|collective|missing ranks|error msg|expected ranks|collective state):"
    r" (?P<value>.{0,2000})"
)
_TABLE_ROW = lazy(r"^=== FR Trace(?: NCCL)? ===")


def _ranks(text: str) -> Ranks:
    return Ranks(int(n) for n in re.findall(r"\d{1,7}", text[:4000]))


@line_parser
class FrAnalysisParser(LineParser):
    """One event for each conclusion, and one for each set of tables written by the debug server."""

    literals = (
        "Not all ranks joining",
        "Input/output mismatch in the",
        "Collective sequence number:",
        "We cannot decide what's wrong",
        "Missing dump files from ranks",
        "No errors found for this collective entry",
        "Too many mismatches",
        "=== FR Trace",
    )

    def parse(self, line: Line) -> Iterator[Event]:
        """The conclusion with what the lines below say of its call."""
        if _TABLE_ROW.search(line.body):
            yield FrAnalysis(**common(line, rank=None), what="tables", detail=line.body.strip()[:120])
            return
        hit = _OPENING.search(line.body)
        if hit is None:
            return
        part = hit.groupdict()
        seq = part["seq1"] or part["seq2"] or part["seq3"]
        what = next(name for key, name in _WHAT.items() if part[key])
        told = _below(line) if seq else {}
        yield FrAnalysis(
            **common(line, rank=None, group=_group(told.get("group info"))),
            what=what,
            missing=_ranks(part["lost"] or part["gone"] or told.get("missing ranks", "")),
            op=(told.get("collective") or "").rpartition(":")[2].strip()[:60] or None,
            seq=int(seq) if seq else None,
            detail=(told.get("error msg") or hit[0])[:300],
        )


def _below(line: Line) -> dict[str, str]:
    told: dict[str, str] = {}
    for below in line.following(_BLOCK):
        if _OPENING.search(below.body):
            break
        hit = _FIELD.search(below.body)
        if hit:
            told.setdefault(hit["key"], hit["value"].strip())
    return told


def _group(text: str | None) -> GroupRef | None:
    if not text:
        return None
    uid, _, desc = text.partition(":")
    return GroupRef(None, uid.strip()[:120], desc.strip()[:120] or None)
