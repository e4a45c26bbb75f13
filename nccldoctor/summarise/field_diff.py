"""Lays the fields of a call side by side where ranks issued it differently.

Ranks 0-2 recorded ALLREDUCE #7 with float32 and rank 3 with float16: two sides, with the data type first. The entries of flight
recorders show most; without them the timeout lines of the watchdogs show operation and sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

import numpy as np

from nccldoctor.align.call_sequences import call_site
from nccldoctor.align.descriptions import recorded_state
from nccldoctor.align.facts import Facts
from nccldoctor.events import CallTimeout
from nccldoctor.model import CauseClass, Finding
from nccldoctor.model.figures import CallField, FieldDiff
from nccldoctor.model.operations import op_type
from nccldoctor.model.ranks import Ranks
from nccldoctor.words import names

MISMATCHES = (CauseClass.OP_MISMATCH, CauseClass.SIZE_MISMATCH, CauseClass.DTYPE_MISMATCH)

SIDES = 3
"""Ways to issue the call that are shown, the most frequent ones and that of the culprits."""

Fields = Mapping[str, str]

_DECISIVE = ("operation", "dtype", "input sizes", "output sizes", "elements in", "elements out")
"""What must be equal on all ranks, or belong together."""


def field_diff(facts: Facts, finding: Finding) -> FieldDiff | None:
    """The sides of the stalled call; None where the verdict is no mismatch, or the input shows one side alone."""
    call = finding.stalled
    if finding.cause not in MISMATCHES or call is None or call.seq is None:
        return None
    for source, issued in _recorded(facts, call.group, call.seq), _printed(facts, finding, call.seq):
        sides = _sides_of_call(issued, finding.ranks)
        if len(sides) > 1:
            fields = tuple(
                CallField(name, tuple(_one([issued[r].get(name, "") for r in side], name) for side in sides))
                for name in dict.fromkeys(n for f in issued.values() for n in f)
            )
            shown = tuple(field for field in fields if any(field.values))
            ordered = tuple(sorted(shown, key=lambda field: not (field.is_different and field.name in _DECISIVE)))
            return FieldDiff(names.op_name(call.op), call.seq, sides, ordered, source)
    return None


def _sides_of_call(issued: Mapping[int, Fields], culprits: Ranks) -> tuple[Ranks, ...]:
    """Ranks by what they issued: the most frequent first, the culprits last; a rank of each is among them."""
    ways: dict[tuple[str, ...], list[int]] = {}
    for rank, fields in sorted(issued.items()):
        ways.setdefault(tuple(fields.get(name, "") for name in _DECISIVE), []).append(rank)
    sides = sorted((Ranks(ranks) for ranks in ways.values()), key=lambda s: (bool(s & culprits), -len(s), min(s)))
    at_fault = [side for side in sides if side & culprits]
    others = [side for side in sides if not side & culprits]
    if not culprits:
        return tuple(others[:SIDES])
    return (*others[: SIDES - 1], *at_fault[: SIDES - len(others[: SIDES - 1])]) if at_fault and others else ()


def _one(values: list[str], name: str) -> str:
    """The value of all ranks of a side; of times the first."""
    if name == "created":
        return min((value for value in values if value), default="")
    return values[0] if len(set(values)) == 1 else "varies"


def _recorded(facts: Facts, group: str | None, seq: int) -> tuple[str, dict[int, Fields]]:
    """The fields of the call as each rank's recorder has it."""
    case, calls = facts.case, facts.case.calls
    index = next((g.index for g in case.groups if g.label == group), None)
    if index is None or not len(calls):
        return "", {}
    rows = np.flatnonzero((case.call_group == index) & (calls.seq == seq) & facts.progress.collective).tolist()
    return "from the dumps", {int(case.call_rank[row]): dict(entry_fields(facts, row)) for row in rows}


def entry_fields(facts: Facts, row: int) -> Iterator[tuple[str, str]]:
    """The fields of one recorded call, by their names in a report."""
    case, calls = facts.case, facts.case.calls
    words = case.vocabulary
    inputs, outputs = words.sizes[calls.sizes[row]] if calls.sizes[row] >= 0 else ((), ())
    types = words.dtypes[calls.dtypes[row]] if calls.dtypes[row] >= 0 else ((), ())
    yield "operation", names.op_name(op_type(words.ops[calls.op[row]]))
    yield "dtype", names.dtype_name(next(iter(types[0] or types[1]), "") or "")
    yield "input sizes", _shapes(inputs)
    yield "output sizes", _shapes(outputs)
    yield "called at", call_site(words.stacks[calls.stack[row]])
    yield "state", recorded_state(calls, row)
    if calls.created_ns[row] > 0:
        at = datetime.fromtimestamp(int(calls.created_ns[row]) / 1e9, UTC)
        yield "created", at.strftime("%H:%M:%S.") + f"{at.microsecond // 1000:03d} UTC"


def _shapes(shapes: tuple[tuple[int, ...], ...]) -> str:
    return ", ".join(" x ".join(f"{n:,}" for n in shape) or "scalar" for shape in shapes[:3])


def _printed(facts: Facts, finding: Finding, seq: int) -> tuple[str, dict[int, Fields]]:
    """The fields of the call as timeout lines print them."""
    issued: dict[int, Fields] = {}
    for event in facts.case.timeouts(seq):
        if event.rank is not None and event.rank in finding.members:
            issued.setdefault(event.rank, dict(_line_fields(event)))
    return "from the timeout lines, formatted", issued


def _line_fields(event: CallTimeout) -> Iterator[tuple[str, str]]:
    yield "operation", names.op_name(event.op) if event.op else ""
    yield "elements in", _grouped_digits(event.numel_in)
    yield "elements out", _grouped_digits(event.numel_out)
    yield "timeout", f"{event.timeout_ms:,} ms" if event.timeout_ms else ""


def _grouped_digits(value: int | None) -> str:
    return "" if value is None else f"{value:,}"
