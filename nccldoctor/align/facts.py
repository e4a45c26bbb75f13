"""Facts: the ranks laid side by side. Everything that rules reason from, computed once from a Case."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from nccldoctor.align.call_sequences import CallSequences, in_issue_order
from nccldoctor.align.failures import Failure, failures
from nccldoctor.align.first_pending import Key
from nccldoctor.align.liveness import Liveness, collect_liveness
from nccldoctor.align.progress.table import ProgressTable, build_progress_table
from nccldoctor.align.stalls import Stall, StallKind, stalls
from nccldoctor.align.unrecorded_waits import find_unrecorded_waits, redundant_roots
from nccldoctor.align.wait_graph import WaitGraph, build_wait_graph
from nccldoctor.events import CallTimeout
from nccldoctor.identify.case import Case
from nccldoctor.identify.clocks import QUARTER
from nccldoctor.model.ranks import Ranks

NEVER_PRINTED = 4e18
"""When a call that no line gave up on was issued: after all others."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The aligned job: fronts, who waits for whom, call streams, signs of life, failures, and where waiting ends.

    ``issued_at`` says when each stuck call was first issued, in seconds on any one clock: only for putting calls in order.
    """

    case: Case
    progress: ProgressTable
    wait_graph: WaitGraph
    sequences: CallSequences
    liveness: Liveness
    failures: tuple[Failure, ...]
    stalls: tuple[Stall, ...]
    issued_at: Mapping[Key, float]


def align(case: Case) -> Facts:
    """Lay the ranks side by side."""
    both = build_progress_table(case)
    graph = build_wait_graph(case, both)
    signs = collect_liveness(case)
    order = _order(case, graph, signs)
    streams = CallSequences(case, both)
    excuse = find_unrecorded_waits(case, both, streams, signs, graph)
    broken = failures(case, signs)
    left = graph.roots - excuse.excused
    ended = Ranks(r for f in broken for r in f.ranks)
    found = stalls(graph, order, left - (redundant_roots(graph, left) - ended))
    ends = tuple(s for s in found if not _passed_on(case, s, signs))
    if excuse.hidden:
        ends = tuple(replace(s, kind=StallKind.HIDDEN) for s in ends if s.kind is StallKind.ABSENT and not broken)
    return Facts(
        case=case,
        progress=both,
        wait_graph=graph,
        sequences=streams,
        liveness=signs,
        failures=broken,
        stalls=tuple(replace(_led(case, both, streams, s), inferred=excuse.inferred) for s in ends),
        issued_at=order,
    )


def _passed_on(case: Case, stall: Stall, signs: Liveness) -> bool:
    """Whether everybody in the calls of the stall finished after they were issued: a dump shows a call open until its work is
    retired. The zone of a quiet log is not known: a finish counts where it follows within a quarter of an hour's half.
    """
    for call in stall.calls:
        issued = float(case.calls.created_ns[call.row]) / 1e9 if call.row >= 0 else math.nan
        for rank in call.inside:
            own = signs.activity(rank)
            since = (max(map(signs.time, own.phases[-1:]), default=math.nan) - issued) % QUARTER
            if not own.has_finished_cleanly or since > QUARTER / 2:
                return False
    return bool(stall.calls)


def _led(case: Case, both: ProgressTable, streams: CallSequences, stall: Stall) -> Stall:
    """The stall with the call first that its rank would have issued next."""
    if stall.kind is not StallKind.ABSENT or len(stall.calls) < 2:
        return stall
    ordered = in_issue_order(case, both, streams, min(stall.ranks), stall.calls)
    return replace(stall, call=ordered[0], calls=tuple(ordered))


def _order(case: Case, graph: WaitGraph, signs: Liveness) -> dict[Key, float]:
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
