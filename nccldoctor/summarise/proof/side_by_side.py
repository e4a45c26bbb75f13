"""Lays the calls of a peer and of a culprit side by side, an absent one as an empty slot."""

from __future__ import annotations

import itertools

from msgspec import Struct

from nccldoctor.align.call_sequences import call_site
from nccldoctor.align.descriptions import recorded_state
from nccldoctor.align.divergence.mismatches import rows_at
from nccldoctor.align.facts import Facts
from nccldoctor.model import Finding
from nccldoctor.model.exhibits import CallCell, CallsRow, CallsSide, CallsTable, Exhibit, Part
from nccldoctor.model.figures import CallDiff, IssuedCall
from nccldoctor.model.operations import op_type
from nccldoctor.model.ranks import Ranks
from nccldoctor.words import names

BEFORE_STALL = 1
"""Calls before the stalled one that a table of calls shows: one is enough to see that both sides agreed."""

BOTH = (Part.PEER, Part.CULPRIT)


class Sides(Struct, frozen=True):
    """A waiting peer and a culprit that left a record of the stalled group; None for one without."""

    peer: int | None
    culprit: int | None
    group: int

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks with a record, the peer first."""
        return tuple(rank for rank in (self.peer, self.culprit) if rank is not None)


def order_of_calls(finding: Finding, diff: CallDiff | None) -> Exhibit | None:
    """The order of the calls of both sides, where they issued two calls in reverse order."""
    swapped = _swapped(diff) if diff is not None else None
    if diff is None or swapped is None:
        return None
    first, other = (names.call_title(call.op, call.seq) for call in swapped)
    claim = f"Rank {diff.left} called {first} before {other}. Rank {diff.right} did the reverse."
    return Exhibit("", claim, BOTH, (first, other), evidence_of_dumps(finding, (diff.left, diff.right)), order=diff)


def _swapped(diff: CallDiff) -> tuple[IssuedCall, IssuedCall] | None:
    """The first two shared calls of the left side that the right side issued in reverse order."""
    left = [row.left for row in diff.rows if row.left is not None]
    places = {c.key: n for n, c in enumerate(row.right for row in diff.rows if row.right is not None)}
    shared = [(places[c.key], c) for c in left if c.key in places]
    return next(((c, d) for (m, c), (n, d) in itertools.pairwise(shared) if n < m), None)


def calls_side_by_side(facts: Facts, finding: Finding) -> Exhibit | None:
    """The last calls of the stalled group on a peer and on a culprit; None without both records."""
    sides, seq = sides_of(facts, finding), _stalled_number(finding)
    if sides is None or seq is None or len(sides.ranks) < 2:
        return None
    table = _calls_table(facts, sides, seq)
    decisive = next((row for row in reversed(table.rows) if row.differs), None)
    if decisive is None:
        return None
    cites = (f"#{decisive.seq}", *map(str, sides.ranks))
    alike = _alike(facts, finding, sides, decisive)
    return Exhibit(
        "", _claim(table, decisive), BOTH, cites, evidence_of_dumps(finding, sides.ranks), calls=table, alike=alike
    )


def calls_of_peer(facts: Facts, finding: Finding) -> Exhibit | None:
    """The last calls of the stalled group on a waiting peer alone, where no dump of a culprit was read."""
    sides, seq = sides_of(facts, finding), _stalled_number(finding)
    if sides is None or seq is None or sides.peer is None:
        return None
    alone = Sides(sides.peer, None, sides.group)
    table = _calls_table(facts, alone, seq)
    if not table.rows or table.rows[-1].seq != seq or not finding.inside & [sides.peer]:
        return None
    stalled = CallsRow(seq, table.rows[-1].cells, ("state",))
    table = CallsTable(table.group, table.sides, (*table.rows[:-1], stalled))
    title = names.call_title(finding.stalled.op if finding.stalled is not None else None, seq)
    claim = f"Rank {sides.peer} entered {title}, which never finished."
    cites, numbers = (f"#{seq}", str(sides.peer)), evidence_of_dumps(finding, (sides.peer,))
    alike = _alike(facts, finding, alone, stalled)
    return Exhibit("", claim, (Part.PEER,), cites, numbers, calls=table, alike=alike)


def evidence_of_dumps(finding: Finding, ranks: tuple[int, ...]) -> tuple[int, ...]:
    """The numbers of the pieces of evidence that the dumps of these ranks gave."""
    about = {f"dump:{rank}" for rank in ranks}
    return tuple(n for n, item in enumerate(finding.evidence, 1) if item.observer in about)


def _stalled_number(finding: Finding) -> int | None:
    call = finding.stalled
    return None if call is None or call.kind == "p2p" else call.seq


def _claim(table: CallsTable, row: CallsRow) -> str:
    peer, culprit = table.sides
    name = names.call_title(next((cell.op for cell in row.cells if cell is not None), None), row.seq)
    if row.cells[1] is None:
        return f"Rank {peer.rank} entered {name}. Rank {culprit.rank} never did."
    if row.cells[0] is None:
        return f"Rank {culprit.rank} entered {name}. Rank {peer.rank} never did."
    words = {"op": "a different operation", "sizes": "different sizes", "dtype": "a different data type"}
    field = next((words[name] for name in row.differs if name in words), "")
    if field:
        return f"Ranks {peer.rank} and {culprit.rank} both issued #{row.seq}, with {field}."
    done, other = (culprit, peer) if row.cells[1].is_done else (peer, culprit)
    return f"{name} is complete on rank {done.rank} and still open on rank {other.rank}."


def sides_of(facts: Facts, finding: Finding) -> Sides | None:
    """The first peer inside the stalled call and the first culprit with a record; None without a stalled group.

    Where no side of a mismatch has a majority, the first two suspects whose calls differ.
    """
    call = finding.stalled
    groups = [g.index for g in facts.case.groups if call is not None and g.label == call.group]
    if call is None or not groups:
        return None
    recorded = facts.progress.recorded_ranks
    culprit = next((r for r in finding.blamed if r in recorded), None)
    peer = next((r for r in call.entered - finding.blamed if r in recorded), None)
    if peer is None and not finding.ranks and call.seq is not None and call.kind != "p2p":
        rows = rows_at(facts.case, facts.progress, groups[0], call.seq)
        cells = {rank: call_cell(facts, rows[rank]) for rank in finding.suspects if rank in rows}
        other = next((r for r in cells if culprit in cells and _differing(cells[culprit], cells[r])), None)
        if other is not None:
            return Sides(culprit, other, groups[0])
    return Sides(peer, culprit, groups[0])


def _calls_table(facts: Facts, sides: Sides, seq: int) -> CallsTable:
    cells = {rank: _cells(facts, rank, sides.group, seq) for rank in sides.ranks}
    rows = []
    for number in range(seq - BEFORE_STALL, seq + 1):
        row = tuple(cells[rank].get(number) for rank in sides.ranks)
        if any(row):
            rows.append(CallsRow(number, row, _differing(*row) if len(row) == 2 else ()))
    return CallsTable(facts.case.groups[sides.group].label, columns(facts, sides.ranks), tuple(rows))


def columns(facts: Facts, ranks: tuple[int, ...]) -> tuple[CallsSide, ...]:
    """The heads of the columns: each rank with the path of its dump."""
    paths = {r: d.path for r, d in zip(facts.case.dump_rank, facts.case.dumps, strict=True) if r in ranks}
    return tuple(CallsSide(rank, paths.get(rank, "")) for rank in ranks)


def _cells(facts: Facts, rank: int, group: int, seq: int) -> dict[int, CallCell]:
    """The rank's calls of a group with the numbers that the table shows."""
    case, calls = facts.case, facts.case.calls
    out = {}
    for row in facts.sequences.rows(rank).tolist():
        number = calls.number(row)
        if case.call_group[row] == group and seq - BEFORE_STALL <= number <= seq and not calls.is_p2p[row]:
            out[number] = call_cell(facts, row)
    return out


def call_cell(facts: Facts, row: int, op: str = "") -> CallCell:
    """A recorded call as a cell of a table; ``op`` where its recorded name would say less."""
    case, calls = facts.case, facts.case.calls
    words = case.vocabulary
    inputs = words.sizes[calls.sizes[row]][0] if calls.sizes[row] >= 0 else ()
    dtypes = words.dtypes[calls.dtypes[row]] if calls.dtypes[row] >= 0 else ((), ())
    return CallCell(
        op=op or op_type(words.ops[calls.op[row]]),
        sizes=", ".join(str(list(shape)) for shape in inputs[:3]),
        dtype=next(iter(dtypes[0] or dtypes[1]), "") or "",
        state=recorded_state(calls, row),
        is_done=bool(facts.progress.completed[row]),
        site=call_site(words.stacks[calls.stack[row]]),
        where=case.place_of_call(row),
    )


def _differing(left: CallCell | None, right: CallCell | None) -> tuple[str, ...]:
    if left is None or right is None:
        return ("entry",)
    fields = [name for name in ("op", "sizes", "dtype") if getattr(left, name) != getattr(right, name)]
    if left.is_done != right.is_done:
        fields.append("state")
    return tuple(fields)


def _alike(facts: Facts, finding: Finding, sides: Sides, row: CallsRow) -> Ranks:
    """Further ranks inside the stalled call whose entry under its number equals the peer's."""
    peer = row.cells[0]
    if peer is None:
        return Ranks()
    rows = rows_at(facts.case, facts.progress, sides.group, row.seq)
    others = finding.inside - sides.ranks - finding.blamed
    same = (r for r in others if r in rows and not _differing(peer, call_cell(facts, rows[r])))
    return Ranks(same)
