"""Shows the calls to which a rank came late again and again, each beside its peers."""

from __future__ import annotations

from msgspec import Struct

from nccldoctor.align.divergence.mismatches import rows_at
from nccldoctor.align.facts import Facts
from nccldoctor.align.lateness.call_times import Measure
from nccldoctor.align.lateness.late_ranks import LateRank
from nccldoctor.model import Finding, Place
from nccldoctor.model.exhibits import CountsRow, CountsTable, Exhibit, Part
from nccldoctor.model.ranks import Ranks
from nccldoctor.words import times


class _LateCall(Struct, frozen=True):
    """One call: milliseconds by which the late rank, and the latest of its peers, came after the first rank."""

    seq: int
    own_ms: float
    peers_ms: float
    peers: Ranks
    entry: Place
    peer_entry: Place | None


def late_calls_of_rank(facts: Facts, finding: Finding) -> Exhibit | None:
    """The newest late calls of the costliest straggler. None where one call stalls, and where the clocks of hosts hide the lateness."""
    found = [facts.lateness.late[rank] for rank in finding.ranks if rank in facts.lateness.late]
    if finding.stalled is not None or not found:
        return None
    late = max(found, key=lambda one: one.share)
    calls = [_late_call(facts, late, row) for row in late.rows]
    # less than half of its usual lateness says that the clocks of hosts differ
    if not calls or any(call.own_ms - call.peers_ms < 0.5 * late.seconds * 1e3 for call in calls):
        return None
    peers = Ranks(rank for call in calls for rank in call.peers)
    own = tuple(_text_of(call.own_ms) for call in calls)
    theirs = tuple(_text_of(call.peers_ms) for call in calls)
    heads = tuple(f"#{call.seq}" for call in calls)
    rows = (
        CountsRow(peers, theirs, lags=False, where=calls[-1].peer_entry),
        CountsRow(Ranks([late.rank]), own, lags=True, where=calls[-1].entry),
    )
    table = CountsTable(facts.case.groups[late.group].label, "the dumps", heads, rows)
    observers = {f"dump:{rank}" for rank in (late.rank, *peers)}
    numbers = tuple(n for n, item in enumerate(finding.evidence, 1) if item.observer in observers)
    return Exhibit("", _late_again(late), (Part.PEER, Part.CULPRIT), heads[-1:], numbers, counts=table)


def _text_of(ms: float) -> str:
    return f"{times.duration(ms)} late"


def _late_again(late: LateRank) -> str:
    calls, by = f"{late.late_calls} of {late.compared} calls", times.duration(late.seconds * 1e3)
    if late.measure is Measure.DURATION:
        return f"Peers waited about {by} for rank {late.rank} in {calls}."
    what = "started" if late.measure is Measure.STARTED else "issued"
    return f"Rank {late.rank} {what} {calls} about {by} after its peers."


def _late_call(facts: Facts, late: LateRank, row: int) -> _LateCall:
    calls = facts.case.calls
    seq = int(calls.seq[row])
    rows = rows_at(facts.case, facts.progress, late.group, seq) | {late.rank: row}
    at = {rank: arrived for rank, each in rows.items() if (arrived := _arrived(facts, late.measure, each)) is not None}
    first = min(at.values(), default=0.0)
    peers = Ranks(rank for rank in at if rank != late.rank)
    return _LateCall(
        seq,
        own_ms=at.get(late.rank, first) - first,
        peers_ms=max((at[rank] for rank in peers), default=first) - first,
        peers=peers,
        entry=facts.case.place_of_call(row),
        peer_entry=next((facts.case.place_of_call(rows[rank]) for rank in peers), None),
    )


def _arrived(facts: Facts, measure: Measure, row: int) -> float | None:
    """When a rank arrived in a call, in milliseconds; the rank that waited least came last."""
    calls = facts.case.calls
    if measure is Measure.DURATION:
        return -float(calls.duration_ms[row]) if calls.duration_ms[row] > 0 else None
    ns = int((calls.started_ns if measure is Measure.STARTED else calls.created_ns)[row])
    return ns / 1e6 if ns > 0 else None
