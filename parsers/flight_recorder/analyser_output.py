"""Reads the output of PyTorch's own flight-recorder analyser, where it lies in the input.

Source: pytorch ``torch/distributed/flight_recorder/components`` 2.13 (``tools/flight_recorder`` up to 2.8). Its
*culprit rank* is the rank that differs from the first one it looked at, not from the majority; a partial hang is
reported as a state mismatch. So this is a lead to follow, never evidence by itself.
"""

from __future__ import annotations

import re
from typing import Any

from nccldoctor.events import FrAnalysis, GroupRef
from nccldoctor.parsers.base import Line, common, line_parser, ranks_in
from nccldoctor.parsers.rows import Row, RowParser
from nccldoctor.patterns import lazy

_BLOCK = 14
"""Lines of a block from its first to the state of the call."""

_FIELD = lazy(
    r"^[^:]{0,60}?(?P<key>group info|collective|missing ranks|error msg|expected ranks|collective state):"
    r" (?P<value>.{0,2000})"
)


@line_parser
class FrAnalysisParser(RowParser):
    """One event for each conclusion, and one for each set of tables written by the debug server."""

    event = FrAnalysis
    rows = (
        Row("=== FR Trace", r"^=== FR Trace(?: NCCL)? ===", what="tables", also=[r"^\s*(?P<detail>.{1,120})"]),
        Row("Not all ranks joining", r"Not all ranks joining collective[,:]? sequence number: (?P<seq>\d{1,19})", what="ranks-missing"),
        Row("Input/output mismatch in the",
            r"Input/output mismatch in the collective sequence number: (?P<seq>\d{1,19})", what="mismatch"),
        Row("Collective sequence number:", r"Collective sequence number: (?P<seq>\d{1,19}) has errors", what="mismatch"),
        Row("We cannot decide what's wrong",
            r"We cannot decide what's wrong with this collective entry.{0,120}?ranks \(?(?P<lost>[\d,\s{}()]{0,400})",
            what="cannot-decide", missing="{lost}"),
        Row("Missing dump files from ranks", r"Missing dump files from ranks (?P<lost>\{[\d,\s]{0,4000}\})",
            what="dumps-missing", missing="{lost}"),
        Row("No errors found for this collective entry", r"No errors found for this collective entry", what="no-errors"),
        Row("Too many mismatches", r"Too many mismatches.{0,160}", what="too-many"),
    )  # fmt: skip

    def row_fields(self, line: Line, hit: re.Match[str]) -> dict[str, Any]:
        """With what the lines below say of the call, where the conclusion names one."""
        if "seq" not in hit.groupdict():
            return common(line, rank=None)
        described = self._below(line)
        return common(
            line,
            rank=None,
            group=_group_ref(described.get("group info")),
            missing=ranks_in(described.get("missing ranks", "")),
            expected=_count(described.get("expected ranks", "")),
            op=(described.get("collective") or "").rpartition(":")[2].strip()[:60] or None,
            detail=(described.get("error msg") or hit[0])[:300],
        )

    def _below(self, line: Line) -> dict[str, str]:
        described: dict[str, str] = {}
        for below in line.following(_BLOCK):
            if any(row.first_match(below.body) for row in self.rows[1:]):
                break
            if field := _FIELD.search(below.body):
                described.setdefault(field["key"], field["value"].strip())
        return described


def _count(ranks: str) -> int | None:
    """Eight for ``{0, 1, 2, 3, 4, 5, 6, 7}`` as for ``8``, which older releases print."""
    return int(ranks) if ranks.isdecimal() else len(ranks_in(ranks)) or None


def _group_ref(text: str | None) -> GroupRef | None:
    if not text:
        return None
    uid, _, desc = text.partition(":")
    return GroupRef(None, uid.strip()[:120], desc.strip()[:120] or None)
