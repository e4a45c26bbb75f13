"""Names as an engineer says them: ``ALLGATHER #128``, ``TP 1``, ``rank 3``, ``120 ranks``."""

from __future__ import annotations

import re

from nccldoctor.model.ranks import Ranks
from nccldoctor.model.standings import Standing, WaitedCall
from nccldoctor.reports.parts.sanitize import line
from nccldoctor.reports.parts.wording import few

KINDS = (
    ("TENSOR", "TP"),
    ("PIPELINE", "PP"),
    ("DATA_PARALLEL", "DP"),
    ("EXPERT", "EP"),
    ("CONTEXT", "CP"),
    ("MODEL_PARALLEL", "MP"),
)
"""What the description of a process group holds, and the letters that engineers use for it."""

NAMED_RANKS = 4
"""Ranks that a short name lists one by one."""


def op_name(op: str | None) -> str:
    """``ALLGATHER`` of ``_ALLGATHER_BASE``: the internal underscore and suffix say nothing to a reader."""
    return line(re.sub(r"^_|_BASE$", "", op), 60) if op else "call"


def call_title(op: str | None, seq: int | None) -> str:
    """``ALLREDUCE #9``, ``ALLREDUCE``, ``call #9``."""
    return op_name(op) if seq is None else f"{op_name(op)} #{seq}"


def kind_name(desc: str) -> str:
    """``TP`` of ``TENSOR_MODEL_PARALLEL_GROUP``, ``default group`` of ``default_pg``; other names stay."""
    upper = desc.upper()
    if upper in ("DEFAULT_PG", "DEFAULT"):
        return "default group"
    return next((short for word, short in KINDS if word in upper), line(desc, 40))


def group_title(label: str) -> str:
    """``TP 1`` of ``TENSOR_MODEL_PARALLEL_GROUP (1)``; the number tells groups of one kind apart."""
    match = re.fullmatch(r"(.{1,400}?) \((.{1,200})\)", label)
    if not match:
        name = line(label, 60)
        return f"group {name}" if name.removeprefix("#").isdigit() else name
    name = kind_name(match[1])
    return name if name == "default group" else f"{name} {line(match[2], 40)}"


def ranks_title(ranks: Ranks) -> str:
    """``rank 1``, ``ranks 2, 6``, ``ranks 8-15``, ``480 ranks``."""
    if len(ranks) == 1:
        return f"rank {min(ranks)}"
    spans = ranks.spans()
    return f"ranks {few(ranks)}" if len(spans) <= NAMED_RANKS else f"{len(ranks):,} ranks"


def waited_title(call: WaitedCall | None) -> str:
    """``TP 1 · ALLREDUCE #9``; of many groups of one kind ``84 DP groups · ALLREDUCE #2115``."""
    if call is None:
        return ""
    name = call_title(call.op, call.seq)
    if not call.groups:
        return name
    groups = (
        group_title(call.groups[0]) if len(call.groups) == 1 else f"{len(call.groups)} {kind_name(call.kind)} groups"
    )
    return f"{groups} · {name}"


def place_title(standing: Standing) -> str:
    """Where ranks stand: in a call, else in the function of their stacks, else in no collective."""
    if standing.call is not None:
        return waited_title(standing.call)
    return f"in {line(standing.frame, 60)}" if standing.frame else "not in a collective"
