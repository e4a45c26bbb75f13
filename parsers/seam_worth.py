"""Whether two halves of a record tell more as one: what the parsers read in them apart, and what together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from nccldoctor.events import Event

_NOTHING = (None, "", ())


def tells_more(apart: Sequence[Event], together: Sequence[Event], inside: bool) -> bool:
    """Whether a join tells more than its pieces; no kind of event may be lost by it.

    As good is one that says the same in fewer events, or where the cut went through a number or a name another one.
    """
    kept = {e.kind for e in together}
    if any(e.kind not in kept and not _retold(e, together) for e in apart) or any(map(_absurd, together)):
        return False
    before, now = worth(apart), worth(together)
    if now != before:
        return now > before and (inside or len(together) >= len(apart) or _none_lost(apart, together))
    if inside and now:
        return [(e.kind, e.host, e.details()) for e in apart] != [(e.kind, e.host, e.details()) for e in together]
    return len(together) < len(apart) and all(any(_covers(whole, part) for whole in together) for part in apart)


def _none_lost(apart: Sequence[Event], together: Sequence[Event]) -> bool:
    """Whether each record still tells what happened: of two that tell different things, a join makes one longer one."""

    def what(event: Event) -> object:
        return getattr(event, "what", "")

    return all(any(w.kind == p.kind and what(p) in (None, "", what(w)) for w in together) for p in apart)


def _retold(part: Event, together: Sequence[Event]) -> bool:
    """Whether another kind of event says all of one and more: its words had been cut."""
    told = part.details()
    return any(e.details() == told and worth([e]) > worth([part]) for e in together)


def renamed(apart: Sequence[Event], together: Sequence[Event]) -> bool:
    """Whether a join tells the same, but by another host: NCCL's prefix names the one that its process runs on.

    A record that was whole must not change by it: then the second half has only got onto its line.
    """
    if [e.kind for e in apart] != [e.kind for e in together]:
        return False
    pairs = list(zip(apart, together, strict=True))
    kept = all(a.details() == b.details() for a, b in pairs if a.host == b.host)
    return kept and any(a.host != b.host for a, b in pairs)


def _absurd(event: Event) -> bool:
    """Whether numbers contradict each other, as where the rest of another number was glued to one."""
    done, issued = getattr(event, "last_completed", None), getattr(event, "last_enqueued", None)
    ran, limit = getattr(event, "ran_ms", None), getattr(event, "timeout_ms", None)
    return (done is not None and issued is not None and done > issued) or (
        ran is not None and limit is not None and ran < limit
    )


def worth(events: Sequence[Event]) -> int:
    """How much the event tells that tells most."""
    return max((sum(getattr(e, f.name) not in _NOTHING for f in fields(e)) for e in events), default=0)


def _covers(whole: Event, part: Event) -> bool:
    """Whether one event says all that another says."""
    if whole.kind != part.kind or part.rank not in (None, whole.rank):
        return False
    mine, told = whole.details(), part.details()
    return all(told[name] in (*_NOTHING, mine[name]) for name in told)


def but(events: Sequence[Event], foreign: Sequence[object]) -> list[Event]:
    """The events without those that the lines in between hold."""
    return [e for e, said in zip(events, said(events), strict=True) if said not in foreign]


def said(events: Sequence[Event]) -> list[object]:
    """What events say, wherever they stand."""
    return [(e.kind, e.rank, e.host, e.details()) for e in events]
