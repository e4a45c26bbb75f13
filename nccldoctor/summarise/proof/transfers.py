"""Sets the transfer that a peer waits in beside the empty slot for its other end."""

from __future__ import annotations

from nccldoctor.align.facts import Facts
from nccldoctor.model import Finding
from nccldoctor.model.exhibits import CallCell, CallsRow, CallsTable, Exhibit, Part
from nccldoctor.summarise.proof.side_by_side import BOTH, call_cell, columns

ROWS = 3


def transfers_of_ranks(facts: Facts, finding: Finding) -> Exhibit | None:
    """The waiting end of a transfer, the empty slot for its other end, and what its owner recorded instead."""
    calls = facts.case.calls
    sources = {dump.source: n for n, dump in enumerate(facts.case.dumps)}
    wanted = {
        (sources[item.where.source], item.where.entry): (n, item)
        for n, item in enumerate(finding.evidence, 1)
        if item.where is not None and item.where.entry is not None and item.where.source in sources
    }
    found = [
        (*wanted[dump, int(calls.entry[row])], row)
        for dump, rows in calls.by_dump()
        for row in (range(rows.start, rows.stop) if any(of == dump for of, _ in wanted) else ())
        if (dump, int(calls.entry[row])) in wanted
    ]
    rows = sorted(found, key=lambda one: one[0])
    waiting = [(n, item, row) for n, item, row in rows if int(facts.case.call_rank[row]) not in finding.blamed]
    own = [(n, item, row) for n, item, row in rows if int(facts.case.call_rank[row]) in finding.blamed]
    if not waiting or not finding.blamed:
        return None
    _, _, open_row = waiting[0]
    peer = int(facts.case.call_rank[open_row])
    culprit = int(facts.case.call_rank[own[0][2]]) if own else min(finding.blamed)
    sides = columns(facts, (peer, culprit))
    cell = _cell(facts, open_row)
    end, other = ("receive", "send") if "RECV" in cell.op else ("send", "receive")
    table = [CallsRow(facts.case.calls.number(open_row), (cell, None), ("entry",), f"the {end}")]
    recent = sorted((row for _, _, row in own[: ROWS - 1]), reverse=True)
    for label, row in zip(
        ("instead", "an earlier step") if len(recent) > 1 else ("newest call",), recent, strict=False
    ):
        table.append(CallsRow(facts.case.calls.number(row), (None, _cell(facts, row)), (), label))
    group = facts.case.groups[facts.case.call_group[open_row]].label
    claim = f"Rank {peer} posted its {end}. Rank {culprit} has no matching {other}."
    numbers = tuple(n for n, _, _ in (waiting[0], *own[: ROWS - 1]))
    cites = (str(peer), str(culprit))
    parts = (*BOTH, Part.CONDITION) if own else BOTH
    return Exhibit("", claim, parts, cites, numbers, calls=CallsTable(group, sides, tuple(table)))


def _cell(facts: Facts, row: int) -> CallCell:
    """A transfer as a cell: of a batch, what it sends and receives."""
    case = facts.case
    members = list(case.groups[case.call_group[row]].members)
    parts = facts.sequences.batches.get(row) or frozenset({case.vocabulary.ops[case.calls.op[row]]})
    return call_cell(facts, row, " + ".join(sorted(_transfer_end(name, members) for name in parts)))


def _transfer_end(name: str, members: list[int]) -> str:
    """``SEND to rank 7`` of ``send 0->1``, whose numbers count inside the group."""
    kind, _, ends = name.partition(" ")
    _, _, other = ends.replace("<-", "->").partition("->")
    rank = (
        f" {members[int(other)]}"
        if other.strip().isdecimal() and int(other) < len(members)
        else f" {other.strip()} of its group"
    )
    return f"{kind.upper()} {'to' if kind == 'send' else 'from'} rank{rank}" if other else kind.upper()
