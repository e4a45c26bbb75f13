"""What lines of a start-up tell of its end: who never came to the store's barrier, and where NCCL gave up making a communicator."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from nccldoctor.align import Facts
from nccldoctor.draft import Draft, names, quote
from nccldoctor.events import (
    CommInit,
    CudaError,
    Event,
    NcclError,
    NcclWarn,
    Note,
    OutOfMemory,
    SocketError,
    StoreError,
)
from nccldoctor.model import CauseClass, Confidence
from nccldoctor.ranks import Ranks

REFUTED = "a completed call of the same group"

_COUNTED = re.compile(r"world_size=(?P<all>\d{1,9}), (?:worker_count|num_workers_joined)=(?P<here>\d{1,9})")

_MADE = re.compile(r"Failed to execute operation (?:Connect|Setup|SharedInit|Init|Register)\b")

_AT_START = re.compile(
    r"Duplicate GPU detected|(?:creating|attaching to) shared memory segment|Mismatched NCCL|No (?:device|interface) found"
)
"""Last errors of NCCL that only the making of a communicator meets."""

_WAY = ("init.cc:", "bootstrap.cc:")
"""Where a result code passes when the making of a communicator fails."""


def counted(events: Sequence[StoreError | Note]) -> tuple[Ranks, int]:
    """Who is not among the ranks at the store's barrier, and how many are missing; nobody where not all that came are heard."""
    hits = [m for e in events if (m := _COUNTED.search(e.text))]
    if not hits:
        return Ranks(), 0
    size, here = max(int(m["all"]) for m in hits), max(int(m["here"]) for m in hits)
    came = Ranks(e.rank for e in events if e.rank is not None)
    absent = Ranks(range(size)) - came if len(came) == here and size <= 1 << 20 else Ranks()
    return absent, size - here


def crowded(events: Sequence[StoreError]) -> str | None:
    """That more came to the store's barrier than the group has members, in words; None where nobody says so."""
    hits = [m for e in events if e.operation == "crowded" and (m := _COUNTED.search(e.text))]
    if not hits:
        return None
    here, size = max((int(m["here"]), int(m["all"])) for m in hits)
    return f"{here:,} checked in where {size:,} belong, so that another job or an earlier attempt uses the same store"


def at_barrier(facts: Facts) -> Draft | None:
    """The last lines say that ranks wait for others at the store, and nothing came after: set-up that was cut off, or hangs."""
    waiting = [e for e in facts.case.of(Note) if e.what == "store-barrier-waiting"]
    absent, missing = counted(waiting)
    if not missing or facts.failures or facts.presence.first_alarm is not None:
        return None
    who = names(absent) if absent else f"{missing} rank{'s' if missing > 1 else ''}"
    return Draft(
        CauseClass.INIT,
        f"The job did not come up as far as was read: {who} had not joined",
        tuple(quote(e, f"rank {e.rank} waits at the store for the others") for e in waiting[-6:]),
        Confidence.MEDIUM if absent else Confidence.LOW,
        REFUTED,
        ranks=absent,
    )


def gave_up(facts: Facts) -> Draft | None:
    """NCCL itself says that it could not make a communicator, and no rank is known to have failed before."""
    if any(f.ranks for f in facts.failures) or any(e.what == "complete" for e in facts.case.of(CommInit)):
        return None
    signs = list(_signs(facts))
    if not signs:
        return None
    reasons = list(_reasons(facts))
    first = reasons[0] if reasons else signs[0]
    told = bool(reasons) and not (isinstance(first, SocketError) and (first.echo or first.how == "reset"))
    evidence = [quote(e, "what NCCL met first" if e is first else "and this") for e in (reasons or signs)[:3]]
    evidence += [quote(e, "the making of a communicator failed here") for e in signs[:3]]
    return Draft(
        CauseClass.INIT,
        f"A communicator failed to come up: {_where(first)}: {_words(first)}",
        tuple(evidence),
        Confidence.MEDIUM if told else Confidence.LOW,
        REFUTED,
        ranks=Ranks([first.rank] if told and first.rank is not None and not isinstance(first, SocketError) else []),
    )


def _signs(facts: Facts) -> Iterator[Event]:
    """Lines that only a failing start-up writes."""
    yield from (e for e in facts.case.of(NcclWarn) if _MADE.search(e.message))
    yield from (e for e in facts.case.of(Note) if e.what == "nccl-trail" and e.detail.startswith(_WAY))
    yield from (e for e in facts.case.of(SocketError) if e.how == "stranger")
    yield from (e for e in facts.case.of(NcclError) if _AT_START.search(e.last_error or ""))


def _reasons(facts: Facts) -> Iterator[Event]:
    """What may have made it fail, the more definite first; a closed connection follows the end of another process."""
    yield from facts.case.of(CudaError)
    yield from facts.case.of(OutOfMemory)
    yield from sorted(facts.case.of(SocketError), key=lambda e: e.echo)
    yield from (e for e in facts.case.of(NcclWarn) if _AT_START.search(e.message))
    yield from (e for e in facts.case.of(NcclError) if _AT_START.search(e.last_error or ""))


def _where(event: Event) -> str:
    if event.rank is not None:
        return f"rank {event.rank}"
    who = event.host or "a process"
    return f"{who} (pid {event.pid})" if event.pid is not None else who


def _words(event: Event) -> str:
    if isinstance(event, CudaError):
        return f"CUDA error, {event.message[:100]}"
    if isinstance(event, NcclError) and event.last_error:
        return event.last_error[:120]
    return str(getattr(event, "message", "") or getattr(event, "detail", "") or event.text)[:120]
