"""Says why: the observations that speak for and against a finding, and the best other explanation.

Of the ranks that a hypothesis is about, what no source would show is unknown. Example: ranks 0-6 wait in ALLREDUCE #18. Of rank 7,
*position* is ``before`` by its dump, *alive* is ``yes`` by the same dump, *exit* is ``none`` because the launcher's table lists the
others, and *device* is unknown because no kernel log was read. The weights stand in ``causes.toml``, one table per class.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

from nccldoctor.align.facts import Facts
from nccldoctor.align.wait_graph import StuckCall
from nccldoctor.diagnose.hypothesis import Citation, Conclusion, written
from nccldoctor.diagnose.signs.absence import show_activity, show_alive, show_outside
from nccldoctor.events import Event
from nccldoctor.model import CauseClass, Confidence, Evidence, Place, Reason, RunnerUp, SourceKind
from nccldoctor.model.ranks import Ranks
from nccldoctor.words.names import ranks_phrase

UNKNOWN = "unknown"
LOG_READ = "log=read"
"""The key of the observation that a log of the rank was read to its end."""


class Observation(Struct, frozen=True):
    """One observation of some ranks: ``position`` is ``before``, seen by ``dump:7`` at a place. ``key`` is what weights go by."""

    name: str
    value: str
    observer: str = ""
    where: Place | None = None

    @property
    def key(self) -> str:
        """Name and value, as the table of causes writes it: ``position=before``."""
        return f"{self.name}={self.value}"


def observe(facts: Facts, call: StuckCall | None, ranks: Ranks) -> tuple[Observation, ...]:
    """The observations of the first of ``ranks``, which stands for all of them, about one stuck call."""
    if not ranks:
        return ()
    rank = min(ranks)
    return tuple(seen for look in _LOOKS for seen in look(facts, call, rank))


def _seen(facts: Facts, name: str, value: str, citations: list[Citation]) -> Observation:
    """An observation with the place of its first citation."""
    shown = written(facts, citations[:1])
    return Observation(name, value, shown[0].observer, shown[0].where) if shown else Observation(name, value)


def _at(name: str, value: str, event: Event, observer: str = "") -> Observation:
    return Observation(name, value, observer or f"log:{event.rank}", event.place)


def _position(facts: Facts, call: StuckCall | None, rank: int) -> Iterator[Observation]:
    if call is None:
        return
    value = UNKNOWN
    for ranks, name in ((call.missing, "before"), (call.completed, "past"), (call.entered, "in")):
        value = name if rank in ranks else value
    yield _seen(facts, "position", value, show_outside(facts, call, rank) if value == "before" else [])


def _life(facts: Facts, call: StuckCall | None, rank: int) -> Iterator[Observation]:
    own = facts.liveness.activity(rank)
    if own.alarms:
        yield _at("gave-up", "yes", own.alarms[0])
    elif facts.liveness.first_alarm is not None:
        yield Observation("gave-up", "no" if own.logged else UNKNOWN, f"log:{rank}" if own.logged else "")
    shown = show_alive(facts, rank)
    known = own.logged or rank in facts.liveness.exited
    yield _seen(facts, "alive", "yes" if shown else "no" if known else UNKNOWN, shown)


def _activity(facts: Facts, call: StuckCall | None, rank: int) -> Iterator[Observation]:
    words, shown = show_activity(facts, rank)
    own = facts.liveness.activity(rank)
    if own.waiting_stack is not None:
        yield _at("stack", "in-a-wait", own.waiting_stack, f"stack:{rank}")
    elif own.busy_stack is not None:
        yield _seen(facts, "stack", "elsewhere", shown)
    else:
        yield Observation("stack", UNKNOWN)
        if words:
            yield _seen(facts, "phase", "busy", shown)
    # a straggler moves on between two looks
    moved = facts.looks.has_moved(rank)
    if moved is not None:
        yield Observation("frames", "changed" if moved else "same", f"stack:{rank}")


def _exception_and_exit(facts: Facts, call: StuckCall | None, rank: int) -> Iterator[Observation]:
    own = facts.liveness.activity(rank)
    if own.own_exceptions:
        yield _at("exception", "own", own.own_exceptions[0])
    else:
        yield Observation("exception", "none" if own.logged else UNKNOWN)
    if exits := own.exits:
        kind = "closed" if exits[0].was_closed else "ok" if exits[0].exitcode == 0 else "failed"
        yield _at("exit", kind, exits[0], "launcher")
        if exits[0].exitcode == 1:
            yield _at("exit-code", "1", exits[0], "launcher")
    else:
        yield Observation("exit", "none" if facts.liveness.exited else UNKNOWN)


def _failure(facts: Facts, call: StuckCall | None, rank: int) -> Iterator[Observation]:
    by_cause = {f.cause: f for f in facts.failures if rank in f.ranks}
    for cause, name in ((CauseClass.HARDWARE, "device"), (CauseClass.NETWORK, "link"), (CauseClass.DIED, "end")):
        failure = by_cause.get(cause)
        if failure is not None:
            yield _at(name, "failed", failure.events[0])
        elif cause is CauseClass.HARDWARE:
            kernel = any(source.kind is SourceKind.KERNEL_LOG for source in facts.case.sources)
            yield Observation(name, "fine" if kernel else UNKNOWN)


def _context(facts: Facts, call: StuckCall | None, rank: int) -> Iterator[Observation]:
    """Where the others are, and whether a log of the rank was read to its end. One that is cut off may have later lines."""
    if call is not None:
        yield Observation("others", "open" if call.unknown - {rank} else "in-the-call")
    last = facts.liveness.activity(rank).last_event
    lost = {gap.source for gap in facts.case.gaps if gap.lost}
    logs = (source for source in facts.case.sources if source.kind is SourceKind.LOG and source.size > 0)
    own = {s.id for s in logs if s.rank == rank or (last is not None and s.id == last.place.source)}
    if own and not lost & own:
        yield Observation("log", "read")


_LOOKS = (_position, _life, _activity, _exception_and_exit, _failure, _context)


CONTRADICTS = -2.0
"""The weight from which on an observation rules a class out as another explanation."""


class CauseRow(Struct, frozen=True):
    """What observations weigh for a class, by ``name=value``, and what would separate it from each sibling.

    ``settled`` has the observation that already separates it from a sibling, ``read`` what would separate it where a log was read.
    """

    weights: dict[str, float]
    siblings: dict[CauseClass, str]
    settled: dict[CauseClass, str] = {}
    read: dict[CauseClass, str] = {}

    def is_separated_from(self, other: CauseClass, observations: Iterable[Observation]) -> bool:
        """True when an observation contradicts the other class, or answers what would separate the two."""
        seen = list(observations)
        weights = cause_table()[other].weights
        is_contradicted = any(weights.get(one.key, 0.0) <= CONTRADICTS for one in seen)
        return is_contradicted or self.settled.get(other) in {one.key for one in seen}

    def separated_by(self, other: CauseClass, observations: Iterable[Observation], ranks: Ranks) -> str:
        """What would separate the class from another, for these ranks; "" where nothing is known to."""
        is_read = LOG_READ in {seen.key for seen in observations}
        text = (self.read.get(other, "") if is_read else "") or self.siblings.get(other, "")
        return text.replace("{ranks}", ranks_phrase(ranks) if ranks else "each rank")


@cache
def cause_table() -> dict[CauseClass, CauseRow]:
    """The row of every class."""
    table = tomllib.loads(Path(__file__).with_name("causes.toml").read_text(encoding="utf-8"))
    return msgspec.convert(table, dict[CauseClass, CauseRow])


def reasons(observed: Iterable[Observation], cause: CauseClass, evidence: Sequence[Evidence]) -> tuple[Reason, ...]:
    """The observations that weigh for a class or against it, the strongest first, then the unknown ones."""
    row = cause_table()[cause]
    asked = {key.partition("=")[0] for key in row.weights}
    numbers: dict[Place | None, int] = {
        item.where: number for number, item in reversed(list(enumerate(evidence, 1))) if item.where is not None
    }
    rows = [
        Reason(seen.name, seen.value, seen.observer, row.weights.get(seen.key, 0.0), numbers.get(seen.where))
        for seen in observed
        if row.weights.get(seen.key) or (seen.value == UNKNOWN and seen.name in asked)
    ]
    return tuple(sorted(rows, key=lambda reason: -abs(reason.weight)))


def runner_up(facts: Facts, conclusion: Conclusion, rivals: Sequence[Conclusion]) -> RunnerUp | None:
    """The best other explanation: what held too, else the likeliest sibling of a doubtful class; None where all are contradicted."""
    row = cause_table()[conclusion.cause]
    named = [c for c in rivals if c.cause not in (CauseClass.NONE, CauseClass.UNDETERMINED)]
    for rival in sorted(named, key=lambda c: c.confidence.depth):
        ranks = rival.ranks or rival.suspects
        if not row.is_separated_from(rival.cause, observe(facts, rival.call, ranks)):
            asked = conclusion.ranks or ranks
            separated = row.separated_by(rival.cause, observe(facts, conclusion.call, asked), _told_apart(facts, asked))
            refuted_by = conclusion.refuted_by or rival.refuted_by
            return RunnerUp(rival.cause, ranks, separated or f"Check whether {refuted_by}.")
    if conclusion.confidence_in.cause is Confidence.HIGH:
        return None
    ranks = conclusion.ranks or conclusion.suspects
    observed = observe(facts, conclusion.call, ranks)
    for cause in row.siblings:
        if not row.is_separated_from(cause, observed):
            return RunnerUp(cause, ranks, row.separated_by(cause, observed, _told_apart(facts, ranks)))
    return None


def _told_apart(facts: Facts, ranks: Ranks) -> Ranks:
    """The ranks; none where they are the whole job, which has no other ranks to compare them with."""
    return ranks if facts.case.world - ranks else Ranks()
