"""Reads lines on trial, in pieces and joined, and compares the events that parsers find in both."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import astuple

from nccldoctor.events import Event

_NOTHING = (None, "", ())

_EARNED, _MOST = 40, 20_000  # more trials for each successful join, and in all: some five seconds

_GREEDY = {
    *("exception", "setting", "progress", "phase", "heartbeat", "version", "stack", "note", "nccl-warn"),
    *("comm-init", "absence-report", "absence-warning", "peer-timeout"),
}
"""Kinds that take in whatever follows them: no proof that a join is right."""

Read = Callable[[bytes], Sequence[Event]]
"""Gives the events of some lines."""


class Trials:
    """Reads lines on trial, within a budget; remembers what it read since the last successful join."""

    def __init__(self, read: Read, most: int) -> None:
        self.left = most
        self._most = _MOST
        self._read = read
        self._known: dict[str, Sequence[Event]] = {}

    def earn(self) -> None:
        """Allow more trials after a successful join."""
        more = min(_EARNED, self._most)
        self.left, self._most = self.left + more, self._most - more
        self._known.clear()

    def is_short_record(self, line: str) -> bool:
        """True when a line is a short record, complete where it is read at all, that nothing can follow."""
        return any(e.kind in ("heartbeat", "comm-init") for e in self._events(line))

    def events_in(self, *lines: str) -> list[Event]:
        """The events in some consecutive lines."""
        return [e for e in self._events("\n".join(lines)) if e.kind not in _GREEDY]

    def are_two_records(self, first: str, second: str) -> bool:
        """True when both parts hold records, and the second one a kind that the first one lacks."""
        kinds, others = ({e.kind for e in self.events_in(part)} for part in (first, second))
        return bool(kinds and others and not others <= kinds)

    def _events(self, text: str) -> Sequence[Event]:
        if text not in self._known:
            self.left -= 1
            self._known[text] = self._read(text.encode())
        return self._known[text]


class Trial(Struct, frozen=True):
    """One way to join: ``kept`` of the text so far, then ``added``; and the events with and without the join.

    ``apart`` are the events of the lines as they stand, ``together`` those of the joined text, ``alone`` those without the
    pieces. Events of lines that other processes wrote in between are left out.
    """

    kept: str
    added: str
    apart: Sequence[Event]
    together: Sequence[Event]
    alone: Sequence[Event]


def is_gain(trial: Trial, in_record: bool, in_digits: bool) -> bool:
    """True when the joined text tells more than its pieces and loses no kind of event.

    With ``in_record`` (the cut went through a number, or through the prefix of a logger) another number is enough:
    ``SeqNum=42`` and ``94, OpType=…`` read well apart, but the call is #4294. With ``in_digits`` digits met digits at a
    join, and events whose numbers contradict each other refute it.
    """
    apart, together = trial.apart, trial.together
    kept = {e.kind for e in together}
    if any(e.kind not in kept and not _is_retold(e, together) for e in apart):
        return False
    if in_digits and any(map(_is_contradictory, together)):
        return False
    before, now = worth(apart), worth(together)
    if now != before:
        return now > before and (in_record or len(together) >= len(apart) or _has_each_record(apart, together))
    if in_record and now:
        return [(e.kind, e.host, e.details()) for e in apart] != [(e.kind, e.host, e.details()) for e in together]
    return len(together) < len(apart) and all(any(_has_details_of(whole, part) for whole in together) for part in apart)


def is_other_host(trial: Trial) -> bool:
    """True when a join changes nothing but the host of an event.

    NCCL's prefix names the host that its process runs on. A record that was whole must not change: then the second
    half only got onto its line.
    """
    if [e.kind for e in trial.apart] != [e.kind for e in trial.together]:
        return False
    pairs = list(zip(trial.apart, trial.together, strict=True))
    kept = all(a.details() == b.details() for a, b in pairs if a.host == b.host)
    return kept and any(a.host != b.host for a, b in pairs)


def worth(events: Sequence[Event]) -> int:
    """The number of filled fields of the event that has most."""
    return max((sum(value not in _NOTHING for value in astuple(e)) for e in events), default=0)


def details_told(events: Sequence[Event]) -> int:
    """The number of filled fields that are particular to a kind, of the event that has most."""
    return max((sum(value not in _NOTHING for value in e.details().values()) for e in events), default=0)


def contents_of(events: Sequence[Event]) -> list[object]:
    """The events without their places and texts, to compare them."""
    return [(e.kind, e.rank, e.host, e.details()) for e in events]


def without(events: Sequence[Event], others: Sequence[object]) -> list[Event]:
    """The events without those whose :func:`contents` are among ``others``."""
    return [e for e, content in zip(events, contents_of(events), strict=True) if content not in others]


def _has_each_record(apart: Sequence[Event], together: Sequence[Event]) -> bool:
    """True when each record still tells what happened: two that tell different things must not become a longer one."""

    def what(event: Event) -> object:
        return getattr(event, "what", "")

    return all(any(w.kind == p.kind and what(p) in (None, "", what(w)) for w in together) for p in apart)


def _is_retold(part: Event, together: Sequence[Event]) -> bool:
    """True when another kind of event has all details of ``part`` and more: its first words were cut off."""
    details = {name: value for name, value in part.details().items() if value not in _NOTHING}
    return any(details.items() <= e.details().items() and worth([e]) > worth([part]) for e in together)


def _is_contradictory(event: Event) -> bool:
    """True when an event contradicts itself: more calls completed than enqueued, or a timeout before its limit."""
    done, issued = getattr(event, "last_completed", None), getattr(event, "last_enqueued", None)
    ran, limit = getattr(event, "ran_ms", None), getattr(event, "timeout_ms", None)
    return (done is not None and issued is not None and done > issued) or (
        ran is not None and limit is not None and ran < limit
    )


def _has_details_of(whole: Event, part: Event) -> bool:
    """True when ``whole`` has every detail of ``part``."""
    if whole.kind != part.kind or part.rank not in (None, whole.rank) or part.pid not in (None, whole.pid):
        return False
    details, wanted = whole.details(), part.details()
    return all(wanted[name] in (*_NOTHING, details[name]) for name in details)
