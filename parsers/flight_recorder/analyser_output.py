"""What PyTorch's own flight-recorder analyser says of a call below its conclusion."""

from __future__ import annotations

import re
from typing import Any

from nccldoctor.events import FrAnalysis, GroupRef
from nccldoctor.model.ranks import Ranks
from nccldoctor.parsers.base import Line, common, ranks_in
from nccldoctor.parsers.rows import for_rows, is_read_by
from nccldoctor.patterns import lazy

_BLOCK = 14
"""Lines of a block from its first to the state of the call."""

_FIELD = lazy(
    r"^[^:]{0,60}?(?P<key>group info|collective|missing ranks|error m(?:sg|essage)|expected ranks|collective state):"
    r" (?P<value>.{0,2000})"
)


@for_rows
def call_of_analyser(line: Line, hit: re.Match[str]) -> dict[str, Any]:
    """The common fields, with what the lines below say of the call, where the conclusion names one."""
    if "seq" not in hit.groupdict():
        return common(line, rank=None)
    told: dict[str, str] = {}
    for below in line.following(_BLOCK):
        if is_read_by("fr-analysis", below.body, FrAnalysis) and "=== FR Trace" not in below.body:
            break
        if field := _FIELD.search(below.body):
            told.setdefault(field["key"], field["value"].strip())
    expected, (uid, _, desc) = told.get("expected ranks", ""), told.get("group info", "").partition(":")
    return common(
        line,
        rank=None,
        group=GroupRef(None, uid.strip()[:120], desc.strip()[:120] or None) if uid or desc else None,
        missing=ranks_in(told.get("missing ranks", "")),
        members=Ranks() if expected.isdecimal() else ranks_in(expected),
        expected=int(expected) if expected.isdecimal() else len(ranks_in(expected)) or None,
        op=told.get("collective", "").rpartition(":")[2].strip()[:60] or None,
        detail=(told.get("error msg") or told.get("error message") or hit[0])[:300],
    )
