"""Says where ranks stand: few rows of ranks that stand alike, and the track of each rank.

Example: rank 394 is in no call, 7 tensor-parallel peers wait for it, 24 ranks of the same pipeline wait for those, and 480 ranks wait in
data-parallel groups behind them. 512 ranks make four rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter

from msgspec import Struct
from msgspec.structs import replace

from nccldoctor.align.descriptions import describe, describe_group
from nccldoctor.align.facts import Facts, align
from nccldoctor.align.stack_activity import wait_of
from nccldoctor.align.tracks import Span
from nccldoctor.align.wait_graph import Key
from nccldoctor.align.wait_times import known_times, last_issued, time_of_exit, timed_out_or_ended
from nccldoctor.events import Stack
from nccldoctor.identify.case import Case
from nccldoctor.model import RankState, Role
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.stack_frames import innermost
from nccldoctor.model.standings import Involvement, RankWait, Standing, TrackRow, WaitedCall
from nccldoctor.words.lists import or_list

ROWS = 24
"""Rows at most; with more, ranks that differ in their stack, then those that differ in their call, share a row."""

ENDS = 2
"""Ends of a row that are named one by one."""


class _RankStanding(Struct, frozen=True):
    """One rank before folding."""

    rank: int
    host: str
    involvement: Involvement
    call: WaitedCall | None
    wait: RankWait | None
    frame: str
    last: str
    end: str
    distance: int | None
    hangs: tuple[int, ...]

    @property
    def call_kind(self) -> tuple[str, str | None, int | None, str] | None:
        """What call it waits in: the kind of its group, the operation, the sequence number, the line that made it."""
        return (self.call.kind, self.call.op, self.call.seq, self.call.site) if self.call is not None else None


def standings(facts: Facts, states: Sequence[RankState], apart: Sequence[Ranks] = ()) -> tuple[Standing, ...]:
    """The rows, culprits first, then by distance from them; ``states`` are the rows of the rank table.

    ``apart`` are the culprits of each of several hangs: ranks behind different ones share no row.
    """
    culprits = Ranks(state.rank for state in states if state.role in (Role.CULPRIT, Role.SUSPECT))
    # some wait though no stuck call holds them: their stack stands in one, or others wait for them and what they raised follows
    waits_in = facts.wait_graph.waits_in
    without_call = Ranks(r for r in facts.case.world if r not in culprits and not waits_in.get(r))
    stacks = ((r, _main_stack(facts, r)) for r in without_call)
    standing = Ranks(r for r, s in stacks if s is not None and (wait_of(s.frames) or ("",))[0] == "call")
    missed = Ranks(r for call in facts.wait_graph.calls.values() for r in call.blockers & without_call)
    unrecorded = standing | Ranks(r for r in missed if facts.liveness.activity(r).secondary_errors)
    distances = _distances(facts, culprits, unrecorded)
    reached = [_distances(facts, culprits, Ranks()) for culprits in apart]
    known = {state.rank: state for state in states}
    ranks = [
        _rank_standing(facts, known.get(rank) or RankState(rank, Role.UNKNOWN), distances, unrecorded, reached)
        for rank in facts.case.world
    ]
    for likeness in (_by_all, attrgetter("involvement", "distance", "call_kind", "hangs"), attrgetter("involvement")):
        folded: dict[object, list[_RankStanding]] = {}
        for one in ranks:
            folded.setdefault(likeness(one), []).append(one)
        if len(folded) <= ROWS:
            break
    rows = [_folded(facts, members) for members in folded.values()]
    order = list(Involvement)
    return tuple(
        sorted(
            rows,
            key=lambda row: (
                order.index(row.involvement),
                99 if row.distance is None else row.distance,
                min(row.ranks),
            ),
        )
    )


def _by_all(one: _RankStanding) -> object:
    """Ranks in the same call stand together, and so do culprits of one host.

    A stack tells apart ranks of which no call is known, an end those that wait for nobody.
    """
    apart = one.host or one.rank if one.involvement is Involvement.CULPRIT else None
    is_waiting = one.involvement in _WAITS
    return (
        one.involvement,
        one.distance,
        one.call_kind,
        one.hangs,
        "" if is_waiting else one.end,
        "" if is_waiting and one.call_kind is not None else one.frame,
        apart,
    )


def _distances(facts: Facts, culprits: Ranks, unrecorded: Ranks) -> dict[Key, int]:
    """The number of waits between each stuck call and the culprits; 0 where one is missing from it.

    Ranks in a call that no recorder notes wait for a culprit too: the diagnosis found no other end of the waiting.
    """
    calls = facts.wait_graph.calls
    depth = {
        key: 0
        for key, call in calls.items()
        if call.blockers & culprits or (call.inside & culprits and not call.blockers)
    }
    reached, level = Ranks(r for key in depth for r in calls[key].inside) | unrecorded, 0
    while reached:
        level += 1
        nearest = [key for key, call in calls.items() if key not in depth and call.blockers & reached]
        depth.update(dict.fromkeys(nearest, level))
        reached = Ranks(r for key in nearest for r in calls[key].inside)
    return depth


def _main_stack(facts: Facts, rank: int) -> Stack | None:
    return next((s for s in facts.liveness.activity(rank).stacks if s.main and s.frames), None)


_WAITS = (Involvement.WAITING, Involvement.BLOCKED)
_NEAR = {Involvement.CULPRIT: 0, Involvement.SUSPECT: 0, Involvement.WAITING: 1}
_PARTS = {Role.CULPRIT: Involvement.CULPRIT, Role.SUSPECT: Involvement.SUSPECT, Role.UNINVOLVED: Involvement.UNINVOLVED}


def _rank_standing(
    facts: Facts,
    state: RankState,
    distances: Mapping[Key, int],
    unrecorded: Ranks,
    reached: Sequence[Mapping[Key, int]],
) -> _RankStanding:
    rank, role, wait = state.rank, state.role, state.wait
    keys = facts.wait_graph.waits_in.get(rank, ()) if role is not Role.UNINVOLVED else ()
    stack = _main_stack(facts, rank)
    part = Involvement.WAITING if rank in unrecorded else _PARTS.get(role)
    distance = _NEAR.get(part) if part is not None else None
    if part is None and keys:
        nearer = distances.get(keys[0])
        distance = nearer + 1 if nearer is not None else None
        part = Involvement.WAITING if distance == 1 else Involvement.BLOCKED
    if part is None and role is Role.WAITING:
        part, distance = Involvement.WAITING, 1
    is_in_call = wait is not None and (keys or (part in _WAITS and (wait.call.op or wait.call.seq is not None)))
    exits = facts.liveness.activity(rank).exits
    known = next((e for e in exits if e.exitcode is not None or e.signal), None)
    return _RankStanding(
        rank=rank,
        host=facts.case.rank_host.get(rank) or facts.hosts.around(rank),
        involvement=part or Involvement.UNKNOWN,
        call=wait.call if wait is not None and is_in_call else None,
        wait=wait,
        frame=innermost(stack.frames) if stack is not None else "",
        last=_last_seen_at(facts, state),
        end="" if known is None else known.signal or f"exit code {known.exitcode}",
        distance=distance,
        hangs=tuple(number for number, behind in enumerate(reached) if keys and keys[0] in behind),
    )


def _last_seen_at(facts: Facts, state: RankState) -> str:
    """What a rank did last outside a call: an exception, work, the last finished call, else its last sign."""
    activity = facts.liveness.activity(state.rank)
    if activity.own_exceptions or activity.stopped is not None:
        return activity.own_exceptions[0].phrase() if activity.own_exceptions else "stopped by a signal"
    work = [e for e in activity.phases if e.work and (e.is_over or not facts.liveness.is_after_alarm(e))]
    steps = [e for e in activity.steps if not facts.liveness.is_after_alarm(e)]
    newest = max((*work[-1:], *steps[-1:]), key=lambda e: (e.place.source, e.place.line or 0), default=None)
    if newest is not None:
        return newest.phrase()
    if state.completed:
        return f"last call: #{state.completed}, done"
    return f"last sign: {state.last_sign}" if activity.last_event is not None else state.last_sign


def _alternatives(said: Sequence[str], what: str) -> str:
    """``SIGTERM``, ``SIGABRT or SIGTERM``, ``3 different ends``; "" where none is known, or several and one unknown."""
    kinds = sorted(set(said))
    if "" in kinds:
        return ""
    return or_list(kinds) if len(kinds) <= ENDS else f"{len(kinds)} different {what}"


def _folded(facts: Facts, members: list[_RankStanding]) -> Standing:
    ranks = Ranks(one.rank for one in members)
    frames = {one.frame for one in members}
    function, _, place = (frames.pop() if len(frames) == 1 else "").partition(" (")
    hosts = dict.fromkeys(one.host for one in members)
    waits = [one.wait for one in members if one.wait is not None]
    others = [one.rank for one in members if one.wait is None]
    times = [wait.times for wait in waits]
    begun = [one.since for one in times if one.since is not None and not one.is_calculated]
    recorded = begun + known_times(last_issued(facts, rank) for rank in others)
    calculated = [one.since for one in times if one.since is not None and one.is_calculated]
    since = recorded or calculated or known_times(last_issued(facts, rank) for rank in ranks)
    until = [one.until for one in times if one.until is not None]
    left = (facts.liveness.activity(rank) for rank in ranks)
    groups = dict.fromkeys(group for one in members if one.call is not None for group in one.call.groups)
    return Standing(
        ranks=ranks,
        involvement=members[0].involvement,
        hosts=() if "" in hosts else tuple(hosts),
        call=replace(call, groups=tuple(groups)) if (call := members[0].call) is not None else None,
        waits_for=Ranks(r for needed in {wait.waits_for for wait in waits} for r in needed) - ranks,
        frame=function,
        frame_at=place.rstrip(")"),
        last=_alternatives([one.last for one in members], "last lines"),
        end=_alternatives([one.end for one in members], "ends"),
        distance=min((one.distance for one in members if one.distance is not None), default=None),
        since=min(since, default=None),
        until=max(until + known_times(timed_out_or_ended(facts, rank) for rank in others), default=None),
        ended=max(known_times(time_of_exit(facts, activity) for activity in left), default=None),
        is_calculated=bool(calculated) and not recorded,
    )


def track_rows(case: Case) -> Iterator[TrackRow]:
    """What each rank of a case did, oldest first; one row that says why, where nothing is known."""
    facts = align(case)
    for rank in facts.case.world:
        track = facts.tracks.track(rank)
        yield from (_row_of_span(facts, rank, span) for span in track.spans)
        if track.silence:
            yield TrackRow(rank, "silent", track.silence, None, None, -math.inf, math.inf, "", None)


def _row_of_span(facts: Facts, rank: int, span: Span) -> TrackRow:
    call = facts.wait_graph.calls[span.key] if span.key is not None else None
    of_event = span.event.place if span.event is not None else None
    return TrackRow(
        rank,
        span.doing.value,
        describe(facts, call) if call is not None else span.what,
        describe_group(facts, call.group) if call is not None else None,
        call.seq if call is not None else None,
        span.began.earliest,
        span.began.latest,
        span.began.known_by,
        facts.case.place_of_call(span.row) if span.row >= 0 else of_event,
    )
