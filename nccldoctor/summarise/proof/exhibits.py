"""Chooses the exhibits that prove a verdict: at most three, each a part of the argument, in its order.

A table formatted from dumps may show a peer and the culprit at once. What one exhibit shows, no other repeats, and a part that the input
cannot show is named.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace

from nccldoctor.align.facts import Facts
from nccldoctor.model import Family, Finding
from nccldoctor.model.exhibits import Exhibit, Part, Unshown
from nccldoctor.model.figures import CallDiff
from nccldoctor.model.ranks import Ranks
from nccldoctor.patterns import lazy
from nccldoctor.summarise.proof.counters import counters_of_ranks, joined_ranks
from nccldoctor.summarise.proof.plans import PLANS, Plan, Record
from nccldoctor.summarise.proof.quotes import Quotable, exhibit_of, quotables
from nccldoctor.summarise.proof.side_by_side import calls_of_peer, calls_side_by_side, order_of_calls
from nccldoctor.summarise.proof.transfers import transfers_of_ranks
from nccldoctor.words import names

EXHIBITS = 3


@dataclass(frozen=True, slots=True)
class Proof:
    """The exhibits of a verdict, and the parts of its argument that the input cannot show."""

    exhibits: tuple[Exhibit, ...]
    unshown: tuple[Unshown, ...]


def prove(facts: Facts, finding: Finding, diff: CallDiff | None) -> Proof:
    """The proof of a finding, as the first reading knows its lines."""
    lines = quotables(facts, finding)
    plan = PLANS.get(finding.cause)
    blamed = finding.ranks or finding.suspects
    if plan is None or not blamed:
        return Proof(_with_ids(list(_by_weight(finding, lines))[:EXHIBITS]), ())
    chosen = _Chooser(facts, finding, diff, lines).chosen(plan)
    spent = {number for exhibit in chosen for number in exhibit.evidence}
    others = [line for line in lines if line.number is not None and line.number not in spent]
    chosen += list(_by_weight(finding, others, chosen))[: EXHIBITS - len(chosen)]
    shown = {part for exhibit in chosen for part in exhibit.parts}
    missing = (Unshown(part, _unshown_part(part, finding, blamed)) for part in Part if part not in shown)
    return Proof(_with_ids(chosen), tuple(missing))


def _with_ids(exhibits: Sequence[Exhibit]) -> tuple[Exhibit, ...]:
    return tuple(replace(exhibit, id=f"E{number}") for number, exhibit in enumerate(exhibits, 1))


class _Chooser:
    """Finds, for each part of the argument, the best record that no other part uses."""

    def __init__(self, facts: Facts, finding: Finding, diff: CallDiff | None, lines: Sequence[Quotable]) -> None:
        self._facts, self._finding, self._diff, self._lines = facts, finding, diff, lines
        self._blamed = finding.ranks or finding.suspects
        self._used: set[object] = set()

    def chosen(self, plan: Plan) -> list[Exhibit]:
        """The exhibits of a plan in the order of the argument."""
        found = list(self._tables(plan.both, (Part.PEER, Part.CULPRIT)))[:1] or self._one_by_one(plan)
        condition = self._one(plan.condition, Part.CONDITION, found, whoever=plan.whoever)
        if condition is not None:
            return [*found, condition]
        return [_with_arrival(exhibit) for exhibit in found] if plan.whoever else found

    def _one_by_one(self, plan: Plan) -> list[Exhibit]:
        """A peer's deed and the culprit's, each by a record of its own; a report on ranks shows both."""
        peer = self._one(plan.peer, Part.PEER, ())
        found = [peer] if peer is not None else []
        if peer is None or Part.CULPRIT not in peer.parts:
            culprit = self._one(plan.culprit, Part.CULPRIT, found)
            found += [culprit] if culprit is not None else []
        return found

    def _one(
        self, records: Sequence[Record], part: Part, chosen: Sequence[Exhibit], *, whoever: bool = False
    ) -> Exhibit | None:
        """The best record for a part: a table or a line that a rule cited, else another line."""
        told = {_shape(exhibit.claim) for exhibit in chosen}
        cited = [line for line in self._lines if line.number is not None]
        for lines in (cited, self._lines):
            for record in records:
                table = next(self._tables((record,), (part,)), None)
                exhibit = table or self._quoted(lines, record, part, whoever, told)
                if exhibit is not None:
                    return exhibit
        return None

    def _tables(self, records: Sequence[Record], parts: tuple[Part, ...]) -> Iterator[Exhibit]:
        """Formatted records that show just these parts."""
        for record in records:
            exhibit = self._formatted(record, parts)
            if exhibit is not None and set(parts) <= set(exhibit.parts):
                yield exhibit

    def _formatted(self, record: Record, parts: tuple[Part, ...]) -> Exhibit | None:
        facts, finding = self._facts, self._finding
        if record is Record.ORDER:
            return order_of_calls(finding, self._diff)
        if record is Record.CALLS:
            return (calls_of_peer if parts == (Part.PEER,) else calls_side_by_side)(facts, finding)
        if record is Record.TRANSFERS:
            return transfers_of_ranks(facts, finding)
        if record is Record.COUNTS:
            return counters_of_ranks(facts, finding)
        return joined_ranks(facts, finding) if record is Record.JOINED else None

    def _quoted(
        self, lines: Sequence[Quotable], record: Record, part: Part, whoever: bool, told: Container[str]
    ) -> Exhibit | None:
        fitting = [line for line in lines if line.record is record and self._is_of(line, part, whoever)]
        free = [line for line in fitting if line.place not in self._used and _shape(line.says) not in told]
        if not free:
            return None
        line = next((one for one in free if whoever and one.rank in self._blamed), free[0])
        self._used.add(line.place)
        is_of_both = record is Record.REPORT and part is Part.PEER
        parts = (Part.PEER, Part.CULPRIT) if is_of_both else (part,)
        return replace(exhibit_of(line, _alike(line, fitting)), parts=parts)

    def _is_of(self, line: Quotable, part: Part, whoever: bool) -> bool:
        if part is Part.PEER:
            return line.rank is not None and line.rank not in self._blamed
        if whoever or line.rank in self._blamed:
            return True
        return part is Part.CONDITION and line.number is not None and (line.rank is None or line.record in _OF_OTHERS)


def _with_arrival(exhibit: Exhibit) -> Exhibit:
    """The exhibit; with a call of each side, or the culprit's timeout, it also shows the arrival."""
    rows = exhibit.calls.rows if exhibit.calls is not None else ()
    has_entry = exhibit.order is not None or any(None not in row.cells and len(row.cells) > 1 for row in rows[-1:])
    is_own = exhibit.lines is not None and exhibit.parts == (Part.CULPRIT,)
    return replace(exhibit, parts=(*exhibit.parts, Part.CONDITION)) if has_entry or is_own else exhibit


_OF_OTHERS = (Record.EXIT, Record.TROUBLE)
"""Records of other ranks that show the condition of a culprit where a rule cites them: their exits, the other end of a link."""


def _alike(line: Quotable, fitting: Sequence[Quotable]) -> Ranks:
    """Other ranks of which a line says the same."""
    shape = _shape(line.says)
    others = (one.rank for one in fitting if _shape(one.says) == shape and one.rank is not None)
    return Ranks(others) - ([line.rank] if line.rank is not None else [])


_RANKS = lazy(r"\b[Rr]anks? [\d, -]+")


def _shape(says: str) -> str:
    """The sentence without its rank: seven peers that timed out in one call say the same thing."""
    return _RANKS.sub("", says).strip()


def _by_weight(finding: Finding, lines: Sequence[Quotable], chosen: Sequence[Exhibit] = ()) -> Iterator[Exhibit]:
    """Cited lines as exhibits: of each observer the first, then the rest; none that says what another one shows."""
    blamed = finding.ranks or finding.suspects
    cited = [line for line in lines if line.number is not None]
    shapes = {_shape(exhibit.claim) for exhibit in chosen}
    kinds: dict[str, Quotable] = {}
    for line in cited:
        kinds.setdefault(finding.evidence[(line.number or 1) - 1].observer.partition(":")[0], line)
    for line in [*kinds.values(), *(line for line in cited if line not in kinds.values())]:
        if _shape(line.says) not in shapes:
            shapes.add(_shape(line.says))
            part = Part.CULPRIT if line.rank in blamed else Part.PEER if line.rank is not None else Part.CONDITION
            yield replace(exhibit_of(line, _alike(line, cited)), parts=(part,))


def _unshown_part(part: Part, finding: Finding, blamed: Ranks) -> str:
    who = names.ranks_phrase(blamed, 4)
    if part is Part.PEER:
        return "No log or dump shows what a waiting rank did."
    if part is Part.CULPRIT:
        return f"No log or dump shows the calls of {who}."
    if finding.family is Family.DISAGREE:
        return "No log line shows that every rank had arrived."
    return f"No stack, exit record or later log line shows what became of {who}."
