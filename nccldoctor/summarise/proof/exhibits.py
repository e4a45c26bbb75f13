"""Chooses the exhibits that prove a verdict: at most three, each a part of the argument, in its order.

A table formatted from dumps may show a peer and the culprit at once. What one exhibit shows, no other repeats, and a part that the input
cannot show is named.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from nccldoctor.align.facts import Facts
from nccldoctor.align.liveness import Liveness
from nccldoctor.model import Finding, Place
from nccldoctor.model.exhibits import Exhibit, Part, Unshown
from nccldoctor.model.figures import CallDiff
from nccldoctor.model.ranks import Ranks
from nccldoctor.patterns import lazy
from nccldoctor.summarise.proof.counters import cited_records, counters_of_ranks, joined_ranks, roll_call
from nccldoctor.summarise.proof.late_calls import late_calls_of_rank
from nccldoctor.summarise.proof.plans import PLANS, Plan, Question, Record
from nccldoctor.summarise.proof.quotes import Quotable, exhibit_of, quotables
from nccldoctor.summarise.proof.same_records import with_same_records
from nccldoctor.summarise.proof.side_by_side import calls_of_peer, calls_side_by_side, order_of_calls
from nccldoctor.summarise.proof.transfers import transfers_of_ranks
from nccldoctor.words import names
from nccldoctor.words.sentences import capitalized

LETTERS = "ABC"
"""Ids of the exhibits, so that none is taken for a piece of evidence, which has a number."""

EXHIBITS = len(LETTERS)


FEWEST = 2
"""Exhibits that a proof has where the input holds them."""


class Proof(Struct, frozen=True):
    """The exhibits of a verdict, and the parts of its argument that the input cannot show."""

    exhibits: tuple[Exhibit, ...]
    unshown: tuple[Unshown, ...]


def prove(facts: Facts, finding: Finding, diff: CallDiff | None) -> Proof:
    """The proof of a finding, as the first reading knows its lines."""
    lines = quotables(facts, finding)
    plan = PLANS.get(finding.cause)
    blamed = finding.blamed
    if plan is None or not blamed:
        # where nobody is named: the counters of the ranks in the call, then lines
        cited = [line for line in lines if line.number is not None]
        counts = counters_of_ranks(facts, finding) if len(cited) < len(finding.evidence) else None
        quoted = (exhibit_of(line) for line in _by_weight(finding, cited))
        return Proof(_with_ids(with_same_records(facts, [*islice(filter(None, (counts, *quoted)), EXHIBITS)])), ())
    chooser = _Chooser(facts, finding, diff, lines, plan)
    chosen = chooser.chosen()
    roll = roll_call(finding, Ranks(r for r in finding.ranks if not any(_is_about_rank(e, r) for e in chosen)))
    if roll is not None:
        full = len(chosen) == EXHIBITS
        chosen = [*(e for e in chosen if not full or e.parts != (Part.CULPRIT,)), roll][-EXHIBITS:]
    chosen += islice(chooser.further(tuple(chosen)), EXHIBITS - len(chosen))
    chosen += filter(None, [cited_records(finding)] if len(chosen) < FEWEST else [])
    shown = {part for exhibit in chosen for part in exhibit.parts}
    shown |= set() if finding.ranks or facts.case.world - blamed else {Part.PEER}  # every rank is a suspect
    missing = (Unshown(part, _unshown_part(part, plan, blamed, facts.liveness)) for part in Part if part not in shown)
    return Proof(_with_ids(with_same_records(facts, chosen)), tuple(missing))


def _is_about_rank(exhibit: Exhibit, rank: int) -> bool:
    """True where an exhibit is about a rank, by its line or anywhere in its claim."""
    return rank == exhibit.rank or rank in exhibit.alike or _is_about(exhibit.claim, Ranks([rank]), 8)


def _with_ids(exhibits: Sequence[Exhibit]) -> tuple[Exhibit, ...]:
    return tuple(replace(exhibit, id=letter) for letter, exhibit in zip(LETTERS, exhibits, strict=False))


class _Chooser:
    """Finds, for each part of the argument, the best record that no other part uses."""

    def __init__(
        self, facts: Facts, finding: Finding, diff: CallDiff | None, lines: Sequence[Quotable], plan: Plan
    ) -> None:
        self._facts, self._finding, self._diff, self._lines, self._plan = facts, finding, diff, lines, plan
        self._blamed = finding.blamed
        self._used: dict[Place, Record] = {}

    def chosen(self) -> list[Exhibit]:
        """The exhibits of the plan in the order of the argument."""
        plan = self._plan
        found = list(self._tables(plan.both, (Part.PEER, Part.CULPRIT)))[:1] or self._one_by_one()
        condition = self._one(plan.condition, Part.CONDITION, found)
        if condition is not None:
            return [*found, condition]
        return [replace(e, parts=(*e.parts, Part.CONDITION)) if self._is_answer(e) else e for e in found]

    def _is_answer(self, exhibit: Exhibit) -> bool:
        """True of a call that the culprit made, where the question is whether it arrived or continued."""
        question, lines = self._plan.question, exhibit.lines
        if question not in (Question.ARRIVAL, Question.PROGRESS) or Part.CULPRIT not in exhibit.parts:
            return False
        if lines is not None:
            of_calls = (*self._plan.condition, Record.CALL_LINE, Record.REPORT)
            return question is Question.PROGRESS or self._used[lines.where] in of_calls
        last = exhibit.calls.rows[-1].cells if exhibit.calls is not None else (None,)
        return exhibit.order is not None or None not in last

    def further(self, chosen: Sequence[Exhibit]) -> Iterator[Exhibit]:
        """Cited lines that no chosen exhibit stands for, by their weight. Tables alone are joined by a timeout."""
        spent = {number for exhibit in chosen for number in exhibit.evidence}
        rest = [line for line in self._lines if line.number is not None and line.number not in spent]
        for line in _by_weight(self._finding, rest, chosen):
            yield replace(exhibit_of(line), parts=self._parts_of(line))
        timeouts = [line for line in self._lines if line.record is Record.TIMEOUT]
        if timeouts and not rest and all(exhibit.lines is None for exhibit in chosen):
            yield replace(exhibit_of(timeouts[0]), parts=self._parts_of(timeouts[0]))

    def _parts_of(self, line: Quotable) -> tuple[Part, ...]:
        """What a cited line shows; nothing of the argument where it is about no rank."""
        if line.rank in self._blamed or _is_about(line.says, self._blamed):
            is_condition = line.record in self._plan.condition and line.record not in self._plan.culprit
            return (Part.CONDITION if is_condition else Part.CULPRIT,)
        return (Part.PEER,) if line.rank is not None else ()

    def _one_by_one(self) -> list[Exhibit]:
        """A peer's deed and the culprit's, each by a record of its own; a report on ranks shows both."""
        peer = self._one(self._plan.peer, Part.PEER, ())
        found = [peer] if peer is not None else []
        if peer is None or Part.CULPRIT not in peer.parts:
            culprit = self._one(self._plan.culprit, Part.CULPRIT, found)
            found += [culprit] if culprit is not None else []
        return found

    def _one(self, records: Sequence[Record], part: Part, chosen: Sequence[Exhibit]) -> Exhibit | None:
        """The best record for a part: a table or a line that a rule cited, else another line."""
        told = {_shape(exhibit.claim) for exhibit in chosen}
        cited = [line for line in self._lines if line.number is not None]
        for lines in (cited, self._lines):
            for record in records:
                table = next(self._tables((record,), (part,)), None)
                exhibit = table or self._quoted(lines, record, part, told)
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
        if record is Record.LATE_CALLS:
            return late_calls_of_rank(facts, finding)
        return joined_ranks(facts, finding) if record is Record.JOINED else None

    def _quoted(self, lines: Sequence[Quotable], record: Record, part: Part, told: Container[str]) -> Exhibit | None:
        of_kind = [line for line in lines if line.record is record]
        fitting = (line for line in of_kind if line.place not in self._used and _shape(line.says) not in told)
        line = next((line for line in fitting if self._is_fit(line, part)), None)
        if line is None:
            return None
        self._used[line.place] = record
        is_of_both = record is Record.REPORT and part is Part.PEER
        parts = (Part.PEER, Part.CULPRIT) if is_of_both else (part,)
        return replace(exhibit_of(line), parts=parts)

    def _is_fit(self, line: Quotable, part: Part) -> bool:
        """True where a line is about a peer, for the other parts about a culprit or its link."""
        if part is Part.PEER:
            is_report = line.record is Record.REPORT and line.number is not None
            return is_report if line.rank is None else line.rank not in self._blamed
        if line.rank in self._blamed:
            return True
        if line.number is None:
            return False
        if part is Part.CULPRIT:
            return line.record is Record.REPORT and _is_about(line.says, self._blamed)
        is_end = self._plan.question is Question.LINK and line.record is Record.TROUBLE
        return is_end or line.rank is None or _is_about(line.says, self._blamed)


_RANKS = lazy(r"\b[Rr]anks? (\d[\d, -]*)")
_SPAN = lazy(r"(\d{1,9})(?:-(\d{1,9}))?")


def _shape(says: str) -> str:
    """The sentence without its rank: seven peers that timed out in one call say the same thing."""
    return _RANKS.sub("", says).strip()


def _is_about(says: str, ranks: Ranks, namings: int = 1) -> bool:
    """True where the first ranks that a sentence names hold one of these: *no exit of rank 7*."""
    spans = [span for named in islice(_RANKS.finditer(says), namings) for span in _SPAN.findall(named[1])]
    return any(int(low) <= rank <= int(high or low) for low, high in spans for rank in ranks)


def _by_weight(finding: Finding, cited: Sequence[Quotable], chosen: Sequence[Exhibit] = ()) -> Iterator[Quotable]:
    """Cited lines: of each observer the first, then the rest; none that says what another one or an exhibit shows."""
    shapes = {_shape(exhibit.claim) for exhibit in chosen}
    kinds: dict[str, Quotable] = {}
    for line in cited:
        kinds.setdefault(finding.evidence[(line.number or 1) - 1].observer.partition(":")[0], line)
    for line in [*kinds.values(), *(line for line in cited if line not in kinds.values())]:
        if _shape(line.says) not in shapes:
            shapes.add(_shape(line.says))
            yield line


def _unshown_part(part: Part, plan: Plan, blamed: Ranks, liveness: Liveness) -> str:
    who = names.ranks_phrase(blamed, 4)
    if part is Part.PEER:
        return "No log or dump shows what a waiting rank did."
    if part is Part.CULPRIT:
        return f"No log or dump shows the calls of {who}."
    if plan.question is Question.ARRIVAL:
        return f"No log line or stack shows that {who} had arrived."
    if plan.question is Question.PROGRESS:
        return f"No log line or stack shows that {who} continued."
    if plan.question is Question.LINK:
        return "Only one end of the link reported an error."
    records = "stack" if any(liveness.activity(rank).exits for rank in blamed) else "stack, exit record"
    if blamed <= liveness.dumped:
        own = names.verb(blamed, "its dump was", "their dumps were")
        return f"{capitalized(who)} still ran when {own} written. No {records} or later log line shows more."
    return f"No {records} or later log line shows why {who} fell silent."
