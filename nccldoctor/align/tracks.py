"""Makes a track of what each rank did, and bounds the times at which ranks issued a stuck call.

Timers say when a call was issued. All timers of a group have one length: a watchdog that says at 10:10:00 that a call ran for 600,026 ms
says that its rank issued it at 10:00:00. A rank that is in the call too and whose watchdog printed something else at 10:11:10, and no
alarm before, issued it at 10:01:10 or later.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cached_property

from msgspec import Struct

from nccldoctor.align.divergence.mismatches import rows_at
from nccldoctor.align.liveness import Liveness
from nccldoctor.align.progress.from_lines import group_of
from nccldoctor.align.progress.table import ProgressTable
from nccldoctor.align.progress.unnamed_lines import line_key
from nccldoctor.align.wait_graph import Key, StuckCall, WaitGraph
from nccldoctor.events import CallTimeout, Event, NcclError, WorkStatus
from nccldoctor.identify.case import Case


class Doing(StrEnum):
    """What a rank did.

    ``STEPPED``: printed a step. ``WORKED``: printed a phase, such as a checkpoint. ``CALLED``: issued a call that hangs. ``STOOD``: its
    stack was taken. ``RAISED``: an exception of its own work. ``GAVE_UP``: its own timer fired. ``TOLD``: it answered the dump signal of a
    peer. ``LOST``: a call of it failed because of others. ``STOPPED``: a signal had stopped it. ``TORN_DOWN``: it was being ended.
    ``ENDED``: its process was gone.
    """

    STEPPED = "stepped"
    WORKED = "worked"
    CALLED = "in call"
    STOOD = "stood"
    RAISED = "raised"
    GAVE_UP = "gave up"
    TOLD = "told to dump"
    LOST = "lost others"
    STOPPED = "stopped"
    TORN_DOWN = "torn down"
    ENDED = "ended"


class Bounds(Struct, frozen=True):
    """When something began: not before ``earliest``, not after ``latest``, in seconds on the job's clock, infinite where unknown.

    ``known_by`` says what the bounds rest on: ``recorder``, ``own timer`` (the alarm less what the call ran), ``silent timer`` (a limit
    that had not run out at a line), ``line`` (its time) or ``order`` (lines around it in its file).
    """

    earliest: float = -math.inf
    latest: float = math.inf
    known_by: str = "order"

    @classmethod
    def at(cls, seconds: float, known_by: str = "line") -> Bounds:
        """One moment; no bounds where it is not known (NaN)."""
        return cls() if math.isnan(seconds) else cls(seconds, seconds, known_by)


class Span(Struct, frozen=True):
    """What a rank did, with its line or recorder row. ``key`` and ``row`` are of a stuck call (None, -1: no call, no entry)."""

    doing: Doing
    what: str
    began: Bounds
    event: Event | None = None
    key: Key | None = None
    row: int = -1


class Track(Struct, frozen=True):
    """What a rank did, oldest first. ``silence`` says why no more is known, where that is known: ``no file of it was read``."""

    rank: int
    spans: tuple[Span, ...]
    silence: str = ""


NEVER_PRINTED = 4e18
"""When a call of which nothing says it was issued: after all others."""

_SHOWN = 3
"""Lines of one kind that a track keeps: the last ones of what a rank worked at, the first ones of its troubles."""


class Tracks:
    """The tracks of all ranks, each made when it is first asked for."""

    def __init__(self, case: Case, progress: ProgressTable, graph: WaitGraph, liveness: Liveness) -> None:
        self._case, self._progress, self._graph, self._liveness = case, progress, graph, liveness
        self._tracks: dict[int, Track] = {}
        self._entries: dict[Key, dict[int, Bounds]] = {}

    def track(self, rank: int) -> Track:
        """The track of a rank."""
        if rank not in self._tracks:
            self._tracks[rank] = Track(rank, tuple(self._by_time(self._spans(rank))), self._why_silent(rank))
        return self._tracks[rank]

    def entries(self, call: StuckCall) -> dict[int, Bounds]:
        """When each rank that issued a stuck call did so; of some there may be no bound."""
        if call.key not in self._entries:
            rows = rows_at(self._case, self._progress, call.group, call.seq) if call.pair is None else {}
            ranks = call.entered | rows
            self._entries[call.key] = {rank: self._entered(call, rank, rows.get(rank, -1)) for rank in ranks}
        return self._entries[call.key]

    def issued_first(self, call: StuckCall) -> float:
        """When a waiting rank, or the first one, issued a stuck call; :data:`NEVER_PRINTED` where nothing says it."""
        if call.row >= 0:
            return float(self._case.calls.created_ns[call.row]) / 1e9
        known = (self._first_issued.get((rank, call.seq), NEVER_PRINTED) for rank in call.inside)
        return min(known, default=NEVER_PRINTED)

    def limit(self, call: StuckCall) -> float:
        """The seconds after which a watchdog gives up on a call; NaN where no line and no record says it."""
        told = [e.timeout_ms for rank in call.entered for e in self._watch_lines(call, rank) if e.timeout_ms]
        if not told and call.row >= 0 and int(self._case.calls.timeout_ms[call.row]) > 0:
            told = [int(self._case.calls.timeout_ms[call.row])]
        return max(told, default=math.nan) / 1e3

    def _entered(self, call: StuckCall, rank: int, row: int) -> Bounds:
        if row >= 0 and self._case.calls.created_ns[row] > 0:
            return Bounds.at(float(self._case.calls.created_ns[row]) / 1e9, "recorder")
        lines = self._watch_lines(call, rank)
        fired = (e for e in lines if isinstance(e, CallTimeout) and e.ran_ms is not None)
        began = [self._liveness.issued(e) for e in fired]
        known = [at for at in began if not math.isnan(at)]
        if known:
            return Bounds.at(min(known), "own timer")
        return Bounds() if began else self._by_silent_timer(call, rank, lines)

    def _by_silent_timer(self, call: StuckCall, rank: int, lines: Sequence[CallTimeout | WorkStatus]) -> Bounds:
        """The bounds for a rank that is in the call by its watchdog's lines, and had not given up."""
        if any(isinstance(e, CallTimeout) for e in lines):
            return Bounds()
        watched = [*lines, *(e for e in self._case.of(NcclError, rank))]
        times = [at for e in watched if not math.isnan(at := self._liveness.time(e))]
        if not times or math.isnan(limit := self.limit(call)):
            return Bounds()
        inside = [at for e in lines if not math.isnan(at := self._liveness.time(e))]
        return Bounds(max(times) - limit, min(inside, default=max(times)), "silent timer")

    @cached_property
    def _first_issued(self) -> Mapping[tuple[int, int | None], float]:
        """When each rank issued its call of a number; a watchdog prints the oldest of several groups first."""
        began: dict[tuple[int, int | None], float] = {}
        for event in self._case.of(CallTimeout):
            if event.rank is not None and not math.isnan(at := self._liveness.issued(event)):
                began.setdefault((event.rank, event.seq), at)
        return began

    def _watch_lines(self, call: StuckCall, rank: int) -> Sequence[CallTimeout | WorkStatus]:
        """What the watchdog of a rank printed of a stuck call."""
        return self._watched.get((call.group, rank, call.seq), ())

    @cached_property
    def _watched(self) -> Mapping[tuple[int | None, int, int], list[CallTimeout | WorkStatus]]:
        """What watchdogs printed of calls, by group, rank and number."""
        found: dict[tuple[int | None, int, int], list[CallTimeout | WorkStatus]] = {}
        lines: tuple[CallTimeout | WorkStatus, ...] = (*self._case.of(CallTimeout), *self._case.of(WorkStatus))
        for event in lines:
            if (key := line_key(event)) is not None:
                found.setdefault((group_of(self._case, event), *key[:2]), []).append(event)
        return found

    def _spans(self, rank: int) -> Iterator[Span]:
        own, time = self._liveness.activity(rank), self._liveness.time
        for key in self._graph.waits_in.get(rank, ()):
            call = self._graph.calls[key]
            own_row = self._progress.by_group_rank.get((call.group, rank))
            row = own_row.row if own_row is not None else -1
            first = next(iter(self._watch_lines(call, rank)), None) if row < 0 else None
            yield Span(Doing.CALLED, "", self.entries(call).get(rank, Bounds()), first, key, row)
        kept: tuple[tuple[Doing, Iterable[Event]], ...] = (
            (Doing.STEPPED, own.steps[-1:]),
            (Doing.WORKED, own.phases[-_SHOWN:]),
            (Doing.STOOD, [s for s in own.stacks if s.main][:1] or own.stacks[:1]),
            (Doing.RAISED, own.own_exceptions[:_SHOWN]),
            (Doing.GAVE_UP, [e for e in own.alarms if not isinstance(e, WorkStatus)][:_SHOWN]),
            (Doing.TOLD, own.dump_replies[:1]),
            (Doing.LOST, own.secondary_errors[:_SHOWN]),
            (Doing.STOPPED, [own.stopped] if own.stopped else []),
            (Doing.TORN_DOWN, own.teardown[:1]),
            (Doing.ENDED, own.exits[:1]),
        )
        for doing, events in kept:
            yield from (Span(doing, event.phrase(), Bounds.at(time(event)), event) for event in events)

    def _by_time(self, spans: Iterable[Span]) -> list[Span]:
        """Spans by time. One without a time goes behind the last timed line above it in its file, an end to the end."""
        timed = list(spans)
        dated = [
            (s.began.latest, s.event.place) for s in timed if s.event is not None and math.isfinite(s.began.latest)
        ]

        def when(span: Span) -> tuple[float, int]:
            if math.isfinite(span.began.latest):
                return span.began.latest, 0
            if span.doing in (Doing.STOOD, Doing.ENDED):
                return math.inf, int(span.doing is Doing.ENDED)
            if span.event is None:
                return -math.inf, 0
            own = span.event.place
            above = (at for at, place in dated if place.source == own.source and not place.is_below(own))
            return max(above, default=-math.inf), own.line or 0

        return sorted(timed, key=when)

    def _why_silent(self, rank: int) -> str:
        """Why no more is known of a rank."""
        own = self._liveness.activity(rank)
        if own.logged or own.exits or own.dump == "good":
            return ""
        return "its dump holds no call" if own.dump == "empty" else "no file of it was read"
