"""Folds the ranks of a job into few rows of ranks that stand alike; every picture draws these rows.

Example: rank 394 is in no call, 7 tensor-parallel peers wait for it, 24 ranks of the same pipeline wait for those, and 480 ranks wait in
data-parallel groups behind them. 512 ranks make four rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial

from nccldoctor.align.descriptions import op_of
from nccldoctor.align.facts import Facts
from nccldoctor.align.first_pending import Key
from nccldoctor.align.liveness import RankActivity
from nccldoctor.align.stack_activity import wait_of
from nccldoctor.align.wait_graph import StuckCall
from nccldoctor.dataclass import dataclass
from nccldoctor.events import CallTimeout, Stack
from nccldoctor.model import CauseClass, Finding, Link, Role
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.stack_frames import innermost
from nccldoctor.model.standings import Involvement, Standing, WaitedCall
from nccldoctor.parsers.event_details import is_gloo_timeout
from nccldoctor.words.lists import or_list

ROWS = 24
"""Rows at most; with more, ranks that differ in their stack, then those that differ in their call, share a row."""

COUNTED_BY_NCCL = ("ras", "inspector", "comm-dump")

ENDS = 2
"""Ends of a row that are named one by one."""


_Kind = tuple[str, str | None, int | None]
"""What call a rank waits in: the kind of its group, the operation, the sequence number."""


@dataclass(frozen=True, slots=True)
class _RankStanding:
    """One rank before folding."""

    rank: int
    host: str
    involvement: Involvement
    call: StuckCall | None
    kind: _Kind | None
    needs: Ranks
    frame: str
    end: str
    distance: int | None


def standings(facts: Facts, findings: tuple[Finding, ...], roles: Mapping[int, Role]) -> tuple[Standing, ...]:
    """The rows, culprits first, then by distance from them; ``roles`` are those of the rank table."""
    culprits = Ranks(r for r, role in roles.items() if role in (Role.CULPRIT, Role.SUSPECT))
    unrecorded = _unrecorded_waits(facts, culprits)
    distances = _distances(facts, culprits, unrecorded)
    links = {rank: link for finding in findings for link in _links(finding) for rank in link.waiting}
    kind_of = cache(partial(_call_kind, facts))
    ranks = [
        _rank_standing(facts, rank, roles.get(rank, Role.UNKNOWN), distances, unrecorded, links.get(rank), kind_of)
        for rank in facts.case.world
    ]
    for likeness in (_by_all, _by_call, _by_part):
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


def _links(finding: Finding) -> tuple[Link, ...]:
    """Who waits for whom as the finding has it.

    Before the first call, its victims wait in init for its culprits.
    """
    if finding.chain or finding.cause is not CauseClass.INIT:
        return finding.chain
    return (Link(finding.victims, finding.ranks, "", "init", None),)


def _by_all(one: _RankStanding) -> object:
    """Ranks in the same call stand together, and so do culprits of one host.

    A stack tells apart ranks of which no call is known, an end those that wait for nobody.
    """
    apart = one.host or one.rank if one.involvement is Involvement.CULPRIT else None
    is_waiting = one.involvement in _WAITS
    return (
        one.involvement,
        one.distance,
        one.kind,
        "" if is_waiting else one.end,
        "" if is_waiting and one.kind is not None else one.frame,
        apart,
    )


def _by_call(one: _RankStanding) -> object:
    return one.involvement, one.distance, one.kind


def _by_part(one: _RankStanding) -> object:
    return one.involvement


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


def _unrecorded_waits(facts: Facts, culprits: Ranks) -> Ranks:
    """The ranks that wait though no stuck call holds them.

    Their stack stands in a collective or a transfer. Or others wait for them, and what they raised follows from the trouble of others.
    """
    waits_in = facts.wait_graph.waits_in
    without_call = Ranks(r for r in facts.case.world if r not in culprits and not waits_in.get(r))
    stacks = ((r, _main_stack(facts, r)) for r in without_call)
    standing = Ranks(r for r, s in stacks if s is not None and (wait_of(s.frames) or ("",))[0] == "call")
    missed = Ranks(r for call in facts.wait_graph.calls.values() for r in call.blockers & without_call)
    return standing | Ranks(r for r in missed if facts.liveness.activity(r).secondary_errors)


def _main_stack(facts: Facts, rank: int) -> Stack | None:
    return next((s for s in facts.liveness.activity(rank).stacks if s.main and s.frames), None)


_WAITS = (Involvement.WAITING, Involvement.BLOCKED)
_PARTS = {Role.CULPRIT: Involvement.CULPRIT, Role.SUSPECT: Involvement.SUSPECT, Role.UNINVOLVED: Involvement.UNINVOLVED}


def _rank_standing(
    facts: Facts,
    rank: int,
    role: Role,
    distances: Mapping[Key, int],
    unrecorded: Ranks,
    link: Link | None,
    kind_of: Callable[[Key], _Kind],
) -> _RankStanding:
    keys = facts.wait_graph.waits_in.get(rank, ()) if role is not Role.UNINVOLVED else ()
    call = facts.wait_graph.calls[keys[0]] if keys else None
    stack = _main_stack(facts, rank)
    part = Involvement.WAITING if rank in unrecorded else _PARTS.get(role)
    distance = (
        {Involvement.CULPRIT: 0, Involvement.SUSPECT: 0, Involvement.WAITING: 1}.get(part) if part is not None else None
    )
    if part is None and call is not None:
        distance = _one_more(distances.get(call.key))
        part = Involvement.WAITING if distance == 1 else Involvement.BLOCKED
    if part is None and role is Role.WAITING:
        part, distance = Involvement.WAITING, 1
    kind = kind_of(keys[0]) if keys else None
    if kind is None and part in _WAITS and link is not None and (link.op or link.seq is not None):
        kind = (link.group, link.op, link.seq)
    return _RankStanding(
        rank=rank,
        host=facts.case.rank_host.get(rank) or facts.hosts.around(rank),
        involvement=part or Involvement.UNKNOWN,
        call=call,
        kind=kind,
        needs=link.for_ if link is not None and part in _WAITS else Ranks(),
        frame=innermost(stack.frames) if stack is not None else "",
        end=_end(facts, rank),
        distance=distance,
    )


def _call_kind(facts: Facts, key: Key) -> _Kind:
    call = facts.wait_graph.calls[key]
    group = facts.case.groups[call.group]
    return group.desc or group.label, op_of(facts, call), call.seq


def _one_more(distance: int | None) -> int | None:
    return None if distance is None else distance + 1


def _end(facts: Facts, rank: int) -> str:
    """How the process ended: ``SIGTERM``, ``exit code 1``; "" without a record."""
    exits = facts.liveness.activity(rank).exits
    known = next((e for e in exits if e.exitcode is not None or e.signal), None)
    if known is None:
        return ""
    return known.signal or f"exit code {known.exitcode}"


def _ends(ends: Sequence[str]) -> str:
    """``SIGTERM``, ``SIGABRT or SIGTERM``; "" where no end is known, or several and one unknown."""
    kinds = sorted(set(ends))
    if "" in kinds:
        return ""
    return or_list(kinds) if len(kinds) <= ENDS else f"{len(kinds)} different ends"


def _folded(facts: Facts, members: list[_RankStanding]) -> Standing:
    ranks = Ranks(one.rank for one in members)
    calls = {one.call.key: one.call for one in members if one.call is not None}
    frames = {one.frame for one in members}
    function, _, place = (frames.pop() if len(frames) == 1 else "").partition(" (")
    hosts = dict.fromkeys(one.host for one in members)
    left = (facts.liveness.activity(rank) for rank in ranks)
    ending = [one for one in left if one.alarms or one.secondary_errors or one.exits]
    recorded = _known_times(_since(facts, one) for one in members)
    since = recorded or _known_times(_calculated_since(facts, one) for one in members)
    return Standing(
        ranks=ranks,
        involvement=members[0].involvement,
        hosts=() if "" in hosts else tuple(hosts),
        call=_waited_call(facts, calls.values(), members[0].kind),
        waits_for=(Ranks(r for call in calls.values() for r in _waited_for(facts, call)) or _needs(members)) - ranks,
        frame=function,
        frame_at=place.rstrip(")"),
        end=_ends([one.end for one in members]),
        distance=min((one.distance for one in members if one.distance is not None), default=None),
        since=min(since, default=None),
        until=max(
            _known_times(_until(facts, one) for one in ending)
            or _known_times(_calculated_until(facts, one) for one in members),
            default=None,
        ),
        ended=max(_known_times(_time_of_exit(facts, one) for one in ending), default=None),
        is_calculated=bool(since) and not recorded,
    )


def _waited_for(facts: Facts, call: StuckCall) -> Ranks:
    """The ranks that hold a call up.

    NCCL's counters give no order between communicators: a rank that counted the call and lags in another one did arrive.
    """
    counted = (facts.progress.by_group_rank.get((call.group, rank)) for rank in call.queued)
    arrived = Ranks(own.rank for own in counted if own is not None and own.known_by in COUNTED_BY_NCCL)
    return call.blockers - arrived


def _needs(members: Iterable[_RankStanding]) -> Ranks:
    """Whom the finding names where the calls of the ranks miss nobody.

    Rank 3 stands in the same call, with another size.
    """
    return Ranks(r for one in members for r in one.needs)


def _waited_call(
    facts: Facts, calls: Iterable[StuckCall], kind: tuple[str, str | None, int | None] | None
) -> WaitedCall | None:
    if kind is None:
        return None
    groups = tuple(dict.fromkeys(facts.case.groups[call.group].label for call in calls))
    return WaitedCall(*kind, groups or ((kind[0],) if kind[0] else ()))


def _since(facts: Facts, one: _RankStanding) -> float:
    """When the rank issued the call that it waits in, else its last recorded call; NaN if unknown."""
    calls = facts.case.calls
    if one.call is not None:
        own = facts.progress.by_group_rank.get((one.call.group, one.rank))
        if own is not None and own.row >= 0 and calls.created_ns[own.row] > 0:
            return float(calls.created_ns[own.row]) / 1e9
    row = facts.progress.last_row.get(one.rank)
    return float(calls.created_ns[row]) / 1e9 if row is not None and calls.created_ns[row] > 0 else math.nan


def _calculated_since(facts: Facts, one: _RankStanding) -> float:
    """When the rank began to wait by its own timeout.

    That is its time less what the call ran; NaN without such a line.
    """
    alarms = (e for e in facts.liveness.activity(one.rank).alarms if isinstance(e, CallTimeout) and e.ran_ms)
    began = (facts.liveness.time(e) - (e.ran_ms or 0) / 1e3 for e in alarms)
    return min((at for at in began if not math.isnan(at)), default=math.nan)


def _until(facts: Facts, activity: RankActivity) -> float:
    """When the rank first gave up, else when its process ended; NaN where neither has a time."""
    gave_up = _known_times(facts.liveness.time(e) for e in (*activity.alarms, *activity.secondary_errors))
    return min(gave_up) if gave_up else _time_of_exit(facts, activity)


def _calculated_until(facts: Facts, one: _RankStanding) -> float:
    """When the limit of a rank's call was over, where it says so without a time.

    Gloo raises an exception, which has none.
    """
    activity = facts.liveness.activity(one.rank)
    own = facts.progress.by_group_rank.get((one.call.group, one.rank)) if one.call is not None else None
    if own is None or own.row < 0 or not any(map(is_gloo_timeout, (*activity.alarms, *activity.secondary_errors))):
        return math.nan
    limit = int(facts.case.calls.timeout_ms[own.row])
    return _since(facts, one) + limit / 1e3 if limit > 0 else math.nan


def _time_of_exit(facts: Facts, activity: RankActivity) -> float:
    """When its process ended; NaN where no record has a time."""
    times = (facts.liveness.time(e) for e in activity.exits)
    return min((at for at in times if not math.isnan(at)), default=math.nan)


def _known_times(times: Iterable[float]) -> list[float]:
    return [at for at in times if not math.isnan(at)]
