"""Chooses the exhibits that prove a verdict.

They show what a peer did and the culprit did not, where the culprit was then, and how it ended. An exhibit is a table of recorded
calls, the order of two ranks' calls, or lines as they stand in a file. What one exhibit shows, no other repeats.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nccldoctor.align.call_sequences import call_site
from nccldoctor.align.descriptions import STATES
from nccldoctor.align.facts import Facts
from nccldoctor.events import Stack
from nccldoctor.model import CauseClass, Evidence, Family, Finding, Place, Stalled
from nccldoctor.model.excerpts import Excerpts, SourceLine
from nccldoctor.model.exhibits import CallCell, CallsRow, CallsSide, CallsTable, Exhibit, FormattedRow, QuotedLines
from nccldoctor.model.figures import CallDiff, IssuedCall
from nccldoctor.model.operations import op_type

EXHIBITS = 3

CONTEXT = 2
"""Lines before and after a quoted line that unfold."""

DEEPEST_FRAME = 60
"""Lines below the head of a stack among which the cited frame stands."""

RECORDS = 3

BEFORE_STALL = 2
"""Calls before the stalled one that a table of calls shows."""


def wanted_lines(facts: Facts, finding: Finding) -> dict[int, set[int]]:
    """The lines, by source id, that exhibits of the finding may quote."""
    stacks = _cited_stacks(facts, finding)
    wanted: dict[int, set[int]] = {}
    for item in finding.evidence:
        if item.where is None or item.where.line is None:
            continue
        reach = DEEPEST_FRAME if item.where in stacks else CONTEXT
        lines = range(max(item.where.line - CONTEXT, 1), item.where.line + reach + 1)
        wanted.setdefault(item.where.source, set()).update(lines)
    return wanted


def exhibits(facts: Facts, finding: Finding, excerpts: Excerpts, diff: CallDiff | None) -> tuple[Exhibit, ...]:
    """At most three exhibits of a finding, in the order of the argument; none where nothing can be quoted."""
    chosen = [*_order_exhibit(finding, diff), *_calls_exhibit(facts, finding)] or [*_records_exhibit(finding)]
    shown = {number for exhibit in chosen for number in exhibit.evidence}
    shapes = {_shape(finding.evidence[number - 1]) for number in shown}
    stacks = _cited_stacks(facts, finding)
    for number in _by_weight(finding):
        shape = _shape(finding.evidence[number - 1])
        if number in shown or shape in shapes or len(chosen) == EXHIBITS:
            continue
        shapes.add(shape)
        exhibit = _lines_exhibit(finding.evidence[number - 1], number, stacks, excerpts)
        if exhibit is not None and exhibit.lines is not None and not _is_shown(exhibit.lines, chosen):
            chosen.append(exhibit)
    return tuple(chosen)


def _cited_stacks(facts: Facts, finding: Finding) -> dict[Place, Stack]:
    places = {item.where for item in finding.evidence}
    return {stack.place: stack for stack in facts.case.of(Stack) if stack.place in places}


def _by_weight(finding: Finding) -> list[int]:
    """Numbers of the evidence: of each observer the first piece, then the rest; contradicting pieces last."""
    first: dict[str, int] = {}
    for number, item in enumerate(finding.evidence, start=1):
        first.setdefault(_observer_kind(item), number)
    rest = [n for n in range(1, len(finding.evidence) + 1) if n not in first.values()]
    return sorted([*first.values()], key=lambda n: (not finding.evidence[n - 1].supports, n)) + rest


def _records_exhibit(finding: Finding) -> Iterator[Exhibit]:
    """Records of dumps and of RAS that have no line: up to three of them, formatted."""
    numbers = [n for n, e in enumerate(finding.evidence, 1) if e.where is not None and e.where.line is None]
    rows = [(n, finding.evidence[n - 1]) for n in numbers[:RECORDS]]
    if rows:
        records = tuple(FormattedRow(e.says, e.quote, e.where) for _, e in rows if e.where is not None)
        yield Exhibit(rows[0][1].says, (), tuple(n for n, _ in rows), records=records)


def _shape(item: Evidence) -> str:
    """The sentence without its rank: seven peers that gave up on the same call say the same thing."""
    return re.sub(r"\branks? [\d, -]+", "", item.says)


def _observer_kind(item: Evidence) -> str:
    return item.observer.partition(":")[0]


def _is_shown(lines: QuotedLines, chosen: Sequence[Exhibit]) -> bool:
    return any(e.lines is not None and (e.lines.path, e.lines.shown) == (lines.path, lines.shown) for e in chosen)


def _order_exhibit(finding: Finding, diff: CallDiff | None) -> Iterator[Exhibit]:
    """The order of the calls of both sides, where the verdict is about their order."""
    if finding.cause is not CauseClass.ORDER_INVERSION or diff is None:
        return
    swapped = _swapped(diff)
    if swapped is None:
        return
    first, other = swapped
    about = {f"dump:{rank}" for rank in (diff.left, diff.right)}
    numbers = tuple(n for n, item in enumerate(finding.evidence, 1) if item.observer in about)
    claim = (
        f"Rank {diff.left} called {_call_title(first)} before {_call_title(other)}. Rank {diff.right} did the reverse."
    )
    yield Exhibit(claim, (), numbers, order=diff)


def _swapped(diff: CallDiff) -> tuple[IssuedCall, IssuedCall] | None:
    """The first two shared calls of the left side that the right side issued in reverse order."""
    left = [row.left for row in diff.rows if row.left is not None]
    places = {c.key: n for n, c in enumerate(row.right for row in diff.rows if row.right is not None)}
    shared = [(places[c.key], c) for c in left if c.key in places]
    return next(((c, d) for (m, c), (n, d) in itertools.pairwise(shared) if n < m), None)


def _call_title(call: IssuedCall) -> str:
    return call.op if call.seq is None else f"{call.op} #{call.seq}"


@dataclass(frozen=True, slots=True)
class _Pair:
    """A waiting peer and a culprit that both left a record of the stalled group."""

    peer: int
    culprit: int
    group: int


def _calls_exhibit(facts: Facts, finding: Finding) -> Iterator[Exhibit]:
    """The last calls of the stalled group on a peer and on a culprit, side by side."""
    stalled = finding.stalled
    if stalled is None or stalled.seq is None or stalled.kind == "p2p" or finding.family is Family.UNDETERMINED:
        return
    pair = _peer_and_culprit(facts, finding, stalled)
    if pair is None:
        return
    table = _calls_table(facts, pair, stalled.seq)
    about = {f"dump:{rank}" for rank in (pair.peer, pair.culprit)}
    numbers = tuple(n for n, item in enumerate(finding.evidence, 1) if item.observer in about)
    decisive = next((row for row in reversed(table.rows) if row.differs), None)
    if decisive is None:
        return
    cites = (f"#{decisive.seq}", str(pair.peer), str(pair.culprit))
    yield Exhibit(_calls_claim(table, decisive, stalled), cites, numbers, calls=table)


def _calls_claim(table: CallsTable, row: CallsRow, stalled: Stalled) -> str:
    peer, culprit = table.sides
    name = f"{stalled.op or 'call'} #{row.seq}"
    if row.cells[1] is None:
        return f"Rank {peer.rank} entered {name}. Rank {culprit.rank} never did."
    if row.cells[0] is None:
        return f"Rank {culprit.rank} entered {name}. Rank {peer.rank} never did."
    words = {"op": "a different operation", "sizes": "different sizes", "dtype": "a different data type"}
    field = next((words[name] for name in row.differs if name in words), "")
    if field:
        return f"Ranks {peer.rank} and {culprit.rank} both issued #{row.seq}, with {field}."
    done, other = (culprit, peer) if row.cells[1].state == "completed" else (peer, culprit)
    return f"{name} is complete on rank {done.rank} and still open on rank {other.rank}."


def _peer_and_culprit(facts: Facts, finding: Finding, stalled: Stalled) -> _Pair | None:
    groups = [g.index for g in facts.case.groups if g.label == stalled.group]
    if not groups:
        return None
    recorded = facts.progress.recorded_ranks
    culprits = [r for r in (finding.ranks or finding.suspects) if r in recorded]
    peers = [r for r in stalled.entered - finding.ranks if r in recorded]
    if not culprits or not peers:
        return None
    return _Pair(peers[0], culprits[0], groups[0])


def _calls_table(facts: Facts, pair: _Pair, seq: int) -> CallsTable:
    cells = {rank: _cells(facts, rank, pair.group, seq) for rank in (pair.peer, pair.culprit)}
    rows = []
    for number in range(seq - BEFORE_STALL, seq + 1):
        left, right = cells[pair.peer].get(number), cells[pair.culprit].get(number)
        if left is not None or right is not None:
            rows.append(CallsRow(number, (left, right), _differing(left, right)))
    paths = {r: d.path for r, d in zip(facts.case.dump_rank, facts.case.dumps, strict=True) if r in cells}
    sides = tuple(CallsSide(rank, paths.get(rank, "")) for rank in (pair.peer, pair.culprit))
    return CallsTable(facts.case.groups[pair.group].label, sides, tuple(rows))


def _cells(facts: Facts, rank: int, group: int, seq: int) -> dict[int, CallCell]:
    """The rank's calls of a group with the numbers that the table shows."""
    case, calls = facts.case, facts.case.calls
    out = {}
    for row in facts.sequences.rows(rank).tolist():
        number = calls.number(row)
        if case.call_group[row] == group and seq - BEFORE_STALL <= number <= seq and not calls.is_p2p[row]:
            out[number] = _cell(facts, row)
    return out


def _cell(facts: Facts, row: int) -> CallCell:
    case, calls = facts.case, facts.case.calls
    words, dump = case.vocabulary, case.dumps[calls.dump[row]]
    inputs = words.sizes[calls.sizes[row]][0] if calls.sizes[row] >= 0 else ()
    dtypes = words.dtypes[calls.dtypes[row]] if calls.dtypes[row] >= 0 else ((), ())
    return CallCell(
        op=op_type(words.ops[calls.op[row]]),
        sizes=", ".join(str(list(shape)) for shape in inputs[:3]),
        dtype=next(iter(dtypes[0] or dtypes[1]), "") or "",
        state=STATES[2] if facts.progress.completed[row] else STATES[int(calls.state[row])],
        site=call_site(words.stacks[calls.stack[row]]),
        where=Place(dump.source, dump.path, entry=int(calls.entry[row])),
    )


def _differing(left: CallCell | None, right: CallCell | None) -> tuple[str, ...]:
    if left is None or right is None:
        return ("entry",)
    fields = [name for name in ("op", "sizes", "dtype") if getattr(left, name) != getattr(right, name)]
    if (left.state == STATES[2]) != (right.state == STATES[2]):
        fields.append("state")
    return tuple(fields)


def _lines_exhibit(item: Evidence, number: int, stacks: dict[Place, Stack], excerpts: Excerpts) -> Exhibit | None:
    """The lines at a place, down to the frame of a stack; None for evidence without a line."""
    place = item.where
    if place is None or place.line is None:
        return None
    shown = _shown_lines(place, stacks.get(place), item, excerpts)
    is_whole = bool(shown)
    if not shown:
        texts = item.quote.split("\n")[:6]
        shown = tuple(SourceLine(place.line + n, text) for n, text in enumerate(texts))
    first, last = shown[0].number, shown[-1].number
    quoted = QuotedLines(
        path=place.path,
        shown=shown,
        marked=frozenset({last}),
        before=excerpts.between(place.source, first - CONTEXT, first - 1),
        after=excerpts.between(place.source, last + 1, last + CONTEXT),
        is_whole=is_whole,
    )
    return Exhibit(item.says, _cited(item, shown), (number,), lines=quoted)


def _shown_lines(place: Place, stack: Stack | None, item: Evidence, excerpts: Excerpts) -> tuple[SourceLine, ...]:
    """The line itself; of a stack the lines down to the frame that the evidence names."""
    line = place.line or 1
    if stack is None:
        return excerpts.citing(place.source, line, item.quote)
    below = excerpts.between(place.source, line, line + DEEPEST_FRAME)
    functions = [frame.partition(" (")[0] for frame in stack.frames]
    named = next((f for f in functions if f and f in item.says), functions[0] if functions else "")
    end = next((n for n, below_line in enumerate(below) if n and named and named in below_line.text), 0)
    return below[max(end - 4, 0) : end + 1] if end else below[:1]


_VALUE = re.compile(
    r"(?<![\w.])(?:\d[\w.:]{0,60}\w|\d|[A-Z][A-Z_]{3,60}|\w{1,60}[a-z][A-Z]\w{0,60}|\w{0,60}[A-Za-z]_\w{1,60}|[\w/-]{1,60}\.(?:py|sh|idx|log))(?!\w)"
)
"""What a claim may cite: numbers, names in capitals, names with an underscore or in mixed case, files."""


def _cited(item: Evidence, shown: Sequence[SourceLine]) -> tuple[str, ...]:
    """The values of the claim that the lines hold, each as a whole word."""
    text = "\n".join(line.text for line in shown)
    values = dict.fromkeys(_VALUE.findall(item.says))
    return tuple(value for value in values if re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text))
