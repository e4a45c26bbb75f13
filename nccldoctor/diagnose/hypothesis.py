"""Hypotheses: the conclusions that rules propose about one stall, with the evidence that they cite as plain values.

A rule names the line, the recorder entry or the stuck call that it rests on; nothing is formatted while rules are asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from msgspec import Struct

from nccldoctor.align.descriptions import describe, entry_text, timeouts_of
from nccldoctor.align.facts import Facts
from nccldoctor.align.nccl_counter_evidence import issue_evidence
from nccldoctor.align.wait_graph import StuckCall
from nccldoctor.diagnose.phrases.headline import Headline
from nccldoctor.diagnose.phrases.say import say
from nccldoctor.events import (
    Event,
    GpuError,
    IbError,
    KernelEvent,
    OutOfMemory,
    ProcessExit,
    ProcessState,
    RasStatus,
    SchedulerEvent,
    Stack,
    WorkStatus,
)
from nccldoctor.model import CauseClass, Confidence, ConfidenceIn, Doubt, Evidence, Place, Stalled
from nccldoctor.model.ranks import Ranks


class Line(Struct, frozen=True):
    """A log line. Its observer is what such a line comes from, unless ``observer`` names another one: ``debug server``."""

    event: Event
    says: str
    observer: str = ""

    def write(self, facts: Facts) -> Iterator[Evidence]:
        """The line as evidence."""
        yield quote(self.event, self.says, observer=self.observer)


class Entry(Struct, frozen=True):
    """A recorder entry: its row in the table of calls. Its observer is the dump's rank."""

    row: int
    says: str

    def write(self, facts: Facts) -> Iterator[Evidence]:
        """The entry as evidence, in one line of text."""
        case = facts.case
        place = case.place_of_call(self.row)
        yield Evidence(place, entry_text(facts, self.row), self.says, True, f"dump:{int(case.call_rank[self.row])}")


class Dump(Struct, frozen=True):
    """Cites a rank's dump as a whole: its newest entry, or the file where the dump holds none.

    ``row`` is the entry that the claim names, where it names one. A rank without a dump gives no citation.
    """

    rank: int
    says: str
    row: int | None = None

    def write(self, facts: Facts) -> Iterator[Evidence]:
        """The named or the newest entry, or the file, as evidence."""
        row = self.row if self.row is not None else facts.progress.last_row.get(self.rank)
        if row is not None:
            yield from Entry(row, self.says).write(facts)
        elif self.rank in facts.progress.recorded_ranks:
            dump = next(
                d for d, owner in zip(facts.case.dumps, facts.case.dump_rank, strict=True) if owner == self.rank
            )
            place = Place(dump.source, dump.path)
            yield Evidence(place, "no call is active in this dump", self.says, True, f"dump:{self.rank}")


def row_of_number(facts: Facts, group: int, rank: int, seq: int) -> int | None:
    """The row of a rank's collective with this number in a group; None where its dump holds none."""
    rows, calls = facts.sequences.rows(rank), facts.case.calls
    found = rows[(facts.case.call_group[rows] == group) & (calls.seq[rows] == seq) & ~calls.is_p2p[rows]]
    return int(found[-1]) if len(found) else None


class Waiting(Struct, frozen=True):
    """Cites ranks that wait in a stuck call: at most ``most`` recorder entries or counters, and as many watchdog lines."""

    call: StuckCall | None
    most: int = 3

    def write(self, facts: Facts) -> Iterator[Evidence]:
        """Evidence of the waiting; of a transfer, which no progress is kept of, its own entry."""
        call = self.call
        if call is None:
            return
        what = describe(facts, call)
        shown = list(written(facts, self._from_dumps(facts, call, what)))
        timeouts = islice(timeouts_of(facts, call), self.most)
        shown += (quote(e, say("waiting.timed-out", rank=e.rank, call=what)) for e in timeouts)
        if not shown:
            lines = [e for e in facts.case.of(WorkStatus) if e.rank in call.inside and e.failed == call.seq]
            shown += (quote(e, say("waiting.waited", rank=e.rank, call=what)) for e in lines[: self.most])
        yield from shown or issue_evidence(facts, call, what, self.most)

    def _from_dumps(self, facts: Facts, call: StuckCall, what: str) -> list[Entry | Dump]:
        cited: list[Entry | Dump] = []
        for rank in call.inside:
            front = facts.progress.by_group_rank.get((call.group, rank))
            if len(cited) == self.most:
                break
            if front is not None and front.row >= 0:
                cited.append(Entry(front.row, say("waiting.entered", rank=rank, call=what)))
            elif front is not None and front.known_by == "status":
                done = front.completed or None
                cited.append(Dump(rank, say("waiting.counted", rank=rank, queued=front.enqueued, finished=done)))
        if not cited and call.row >= 0:
            rank = int(facts.case.call_rank[call.row])
            cited.append(Entry(call.row, say("waiting.entered", rank=rank, call=what)))
        return cited


Citation = Line | Entry | Dump | Waiting | Evidence
"""Kinds of thing that evidence may rest on; :class:`Evidence` that is written already stays as it is."""


def is_cited(citation: Citation, others: Iterable[Citation]) -> bool:
    """True when one of the others cites the same line or dump already, in whatever words."""
    return any(_record(other) == _record(citation) for other in others)


def _record(citation: Citation) -> object:
    if isinstance(citation, Line):
        return citation.event.place
    if isinstance(citation, Dump):
        return citation.rank
    return citation.where if isinstance(citation, Evidence) else citation


def written(facts: Facts, citations: Iterable[Citation]) -> tuple[Evidence, ...]:
    """The citations as evidence, in the same order."""
    pieces: list[Evidence] = []
    for citation in citations:
        pieces += [citation] if isinstance(citation, Evidence) else citation.write(facts)
    return tuple(pieces)


def quote(event: Event, says: str, *, observer: str = "") -> Evidence:
    """A log line as evidence; unless told otherwise, its observer is what such a line comes from."""
    who = observer or _observer_of(event)
    note = event.group_rank_note
    claim = says.removesuffix(".") + note + ("." if says.endswith(".") else "")
    return Evidence(event.place, event.text[:300], claim, True, who)


def _observer_of(event: Event) -> str:
    """Who saw what a line tells: ``launcher``, ``kernel:node7``, ``stack:3``, else the rank that wrote it, or its file."""
    if isinstance(event, GpuError | KernelEvent) or (isinstance(event, OutOfMemory) and event.scope == "host"):
        return f"kernel:{event.host or ''}"
    if isinstance(event, Stack | ProcessState):
        return f"stack:{event.rank}" if event.rank is not None else "stack"
    if isinstance(event, IbError) and event.is_of_own_end:
        return f"port:{event.rank}"
    kinds = {ProcessExit: "launcher", SchedulerEvent: "scheduler", RasStatus: "ras"}
    return kinds.get(type(event)) or (f"log:{event.rank}" if event.rank is not None else f"file:{event.place.path}")


MOST_QUOTES = 12
"""Pieces of evidence that a finding keeps; the rest would say the same again."""


class Hypothesis(Struct, frozen=True):
    """The conclusion of a rule about one stall, with what keeps it from being sure.

    ``ranks`` are named as culprits, ``suspects`` may be; ``victims`` are ranks that wait without a stuck call to name, as in the set-up
    of a group. ``refuted_by`` and ``cause`` are those of the rule where they are not given. A headline that is plain text holds at every
    confidence.
    """

    headline: Headline | str
    citations: Sequence[Citation]
    doubts: Sequence[Doubt]
    ranks: Ranks = Ranks()
    suspects: Ranks = Ranks()
    call: StuckCall | None = None
    stalled: Stalled | None = None
    victims: Ranks = Ranks()
    refuted_by: str = ""
    cause: CauseClass | None = None


class Conclusion(Hypothesis, frozen=True, kw_only=True):
    """A hypothesis whose rule held: its class is settled and its citations are written out."""

    headline: Headline
    doubts: tuple[Doubt, ...]
    cause: CauseClass
    evidence: tuple[Evidence, ...]

    @property
    def confidence_in(self) -> ConfidenceIn:
        """The confidence that its doubts leave in its ranks and in its class."""
        ranks = Confidence.lowest(doubt.ranks for doubt in self.doubts)
        return ConfidenceIn(ranks, Confidence.lowest(doubt.cause for doubt in self.doubts))

    @property
    def confidence(self) -> Confidence:
        """The lower of the two."""
        return self.confidence_in.lower
