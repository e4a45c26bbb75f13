"""Lays out which calls the sides of a mismatch issued before and after the one that differs.

Ranks 0-2 recorded ALLREDUCE #3 to #11 with float32; rank 3 recorded #7 with float16, and the others like its peers.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nccldoctor.align.facts import Facts
from nccldoctor.model import Finding
from nccldoctor.model.figures import CallStrip, FieldDiff, StripCell, StripRow
from nccldoctor.model.ranks import Ranks
from nccldoctor.summarise.field_diff import entry_fields

AROUND = 4
"""Sequence numbers before the stalled call, and behind it."""

FEWEST = 3
"""Calls that are worth a picture: with fewer the table of fields says the same."""

Rows = npt.NDArray[np.int64]


def call_strip(facts: Facts, finding: Finding, fields: FieldDiff) -> CallStrip | None:
    """The strip of a mismatch; None where the flight recorders hold too few calls, or no difference."""
    rows = _recorded_near(facts, finding, fields.seq)
    seqs = np.unique(facts.case.calls.seq[rows]).tolist()
    shown = fields.fields[0].name if fields.fields else ""
    if len(seqs) < FEWEST or fields.seq not in seqs:
        return None
    cells = [[_calls_of_side(facts, _on_side(facts, rows, side, seq), shown) for seq in seqs] for side in fields.sides]
    marked = tuple(
        StripRow(side, tuple(_with_mark(cell, usual) for cell, usual in zip(line, cells[0], strict=True)))
        for side, line in zip(fields.sides, cells, strict=True)
    )
    at = seqs.index(fields.seq)
    if not any(cell is not None and cell.differs for cell in (row.cells[at] for row in marked)):
        return None
    at_seq = (_distinct(facts, rows[facts.case.calls.seq[rows] == seq]) for seq in seqs)
    named = ({dict(entry_fields(facts, row))["operation"] for row in own} for own in at_seq)
    ops = tuple(next(iter(own)) if len(own) == 1 else "" for own in named)
    group = finding.stalled.group if finding.stalled is not None else None
    return CallStrip(group or "", fields.seq, shown, tuple(seqs), ops, marked)


def _recorded_near(facts: Facts, finding: Finding, seq: int) -> Rows:
    """The recorded calls of the group within :data:`AROUND` of the stalled one."""
    case, calls = facts.case, facts.case.calls
    label = finding.stalled.group if finding.stalled is not None else None
    index = next((g.index for g in case.groups if g.label == label), None)
    if index is None or not len(calls):
        return np.empty(0, dtype=np.int64)
    near = (calls.seq >= seq - AROUND) & (calls.seq <= seq + AROUND)
    return np.flatnonzero((case.call_group == index) & near & facts.progress.collective)


def _on_side(facts: Facts, rows: Rows, side: Ranks, seq: int) -> Rows:
    found = rows[facts.case.calls.seq[rows] == seq]
    is_inside: npt.NDArray[np.bool_] = np.isin(facts.case.call_rank[found], list(side))
    inside: Rows = found[is_inside]
    return inside


def _calls_of_side(facts: Facts, rows: Rows, shown: str) -> StripCell | None:
    """What the ranks issued; calls that are recorded alike are looked at once."""
    if not len(rows):
        return None
    values = {dict(entry_fields(facts, row)).get(shown, "") for row in _distinct(facts, rows)}
    done = bool(facts.progress.completed[rows].all())
    return StripCell(values.pop() if len(values) == 1 else "varies", done, differs=False)


def _distinct(facts: Facts, rows: Rows) -> list[int]:
    calls = facts.case.calls
    kinds = np.stack([calls.op[rows], calls.dtypes[rows], calls.sizes[rows]])
    return [int(row) for row in rows[np.unique(kinds, axis=1, return_index=True)[1]]]


def _with_mark(cell: StripCell | None, usual: StripCell | None) -> StripCell | None:
    return cell if cell is None or usual is None else StripCell(cell.value, cell.done, cell.value != usual.value)
