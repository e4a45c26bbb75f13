"""Facts: the ranks laid side by side. Everything that rules reason from, computed once from a Case."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from nccldoctor.call_streams import CallStreams
from nccldoctor.case import Case
from nccldoctor.clocks import QUARTER
from nccldoctor.events import CallTimeout
from nccldoctor.excuse import excuses, needless
from nccldoctor.failures import Failure, failures
from nccldoctor.first_waits import Key
from nccldoctor.fronts import Fronts, fronts
from nccldoctor.own_order import in_own_order
from nccldoctor.presence import Presence, presence
from nccldoctor.ranks import Ranks
from nccldoctor.stalls import Stall, StallKind, stalls
from nccldoctor.waits import Waits, waits

NEVER_PRINTED = 4e18
"""When a call that no line gave up on was issued: after all others."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The aligned job: fronts, who waits for whom, call streams, signs of life, failures, and where waiting ends.

    ``order`` says when each stuck call was first issued, in seconds on any one clock: only for putting calls in order.
    """

    case: Case
    fronts: Fronts
    waits: Waits
    streams: CallStreams
    presence: Presence
    failures: tuple[Failure, ...]
    stalls: tuple[Stall, ...]
    order: Mapping[Key, float]


def align(case: Case) -> Facts:
    """Lay the ranks side by side."""
    both = fronts(case)
    graph = waits(case, both)
    signs = presence(case)
    order = _order(case, graph, signs)
    streams = CallStreams(case, both)
    excuse = excuses(case, both, streams, signs, graph)
    broken = failures(case, signs)
    left = graph.roots - excuse.excused
    ended = Ranks(r for f in broken for r in f.ranks)
    found = stalls(graph, order, left - (needless(graph, left) - ended))
    ends = tuple(s for s in found if not _passed_on(case, s, signs))
    if excuse.hidden:
        ends = tuple(replace(s, kind=StallKind.HIDDEN) for s in ends if s.kind is StallKind.ABSENT and not broken)
    return Facts(
        case=case,
        fronts=both,
        waits=graph,
        streams=streams,
        presence=signs,
        failures=broken,
        stalls=tuple(replace(_led(case, both, streams, s), guessed=excuse.guessed) for s in ends),
        order=order,
    )


def _passed_on(case: Case, stall: Stall, signs: Presence) -> bool:
    """Whether everybody in the calls of the stall finished after they were issued: a dump shows a call open until its work is
    retired. The zone of a quiet log is not known: a finish counts where it follows within a quarter of an hour's half.
    """
    for call in stall.calls:
        issued = float(case.calls.created_ns[call.row]) / 1e9 if call.row >= 0 else math.nan
        for rank in call.inside:
            own = signs.signs(rank)
            since = (max(map(signs.time, own.phases[-1:]), default=math.nan) - issued) % QUARTER
            if not own.parted or since > QUARTER / 2:
                return False
    return bool(stall.calls)


def _led(case: Case, both: Fronts, streams: CallStreams, stall: Stall) -> Stall:
    """The stall with the call first that its rank would have issued next."""
    if stall.kind is not StallKind.ABSENT or len(stall.calls) < 2:
        return stall
    ordered = in_own_order(case, both, streams, min(stall.ranks), stall.calls)
    return replace(stall, call=ordered[0], calls=tuple(ordered))


def _order(case: Case, graph: Waits, signs: Presence) -> dict[Key, float]:
    """When each stuck call was issued: the recorder's time, else the timeout line less what it ran."""
    out: dict[Key, float] = {}
    printed: dict[tuple[int, int | None], float] = {}
    for event in case.events:
        if isinstance(event, CallTimeout) and event.rank is not None:
            when = signs.time(event) - (event.ran_ms or 0) / 1e3
            if not math.isnan(when):
                printed.setdefault((event.rank, event.seq), when)
    for key, call in graph.calls.items():
        if call.row >= 0:
            out[key] = float(case.calls.created_ns[call.row]) / 1e9
        else:
            out[key] = min(
                (printed[(r, call.seq)] for r in call.inside if (r, call.seq) in printed), default=NEVER_PRINTED
            )
    return out
