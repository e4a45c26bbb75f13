"""Computes the facts that rules reason from, once for each Case: progress, waits, sequences, liveness, failures, stalls."""

from __future__ import annotations

import math
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from nccldoctor.align.call_sequences import CallSequences, in_issue_order
from nccldoctor.align.failures import Failure, failures
from nccldoctor.align.lateness.late_ranks import Lateness, measure_lateness
from nccldoctor.align.liveness import Liveness, collect_liveness
from nccldoctor.align.progress.from_lines import with_counted_members
from nccldoctor.align.progress.table import ProgressTable, build_progress_table
from nccldoctor.align.progress.unnamed_lines import place_unnamed_lines
from nccldoctor.align.stalls import Stall, StallKind, stalls
from nccldoctor.align.standing.looks import Looks, collect_looks
from nccldoctor.align.tracks import Tracks
from nccldoctor.align.unrecorded_waits import find_unrecorded_waits, redundant_roots
from nccldoctor.align.wait_graph import Key, WaitGraph, build_wait_graph
from nccldoctor.align.world.hosts import Hosts, find_hosts
from nccldoctor.align.world.ledger import Ledger, build_ledger
from nccldoctor.identify.case import Case
from nccldoctor.identify.event_times import QUARTER
from nccldoctor.model.ranks import Ranks


class Facts(Struct, frozen=True):
    """The aligned job.

    ``issued_at`` says when each stuck call was first issued, in seconds; it puts calls in order and is on no common clock.
    ``lateness`` says which ranks are late again and again. ``tracks`` say what each rank did, and when.
    """

    case: Case
    progress: ProgressTable
    wait_graph: WaitGraph
    sequences: CallSequences
    liveness: Liveness
    failures: tuple[Failure, ...]
    stalls: tuple[Stall, ...]
    issued_at: Mapping[Key, float]
    lateness: Lateness
    ledger: Ledger
    hosts: Hosts
    looks: Looks
    tracks: Tracks


def align(case: Case) -> Facts:
    """Lay the ranks side by side."""
    case = with_counted_members(place_unnamed_lines(case))
    progress = build_progress_table(case)
    liveness = collect_liveness(case)
    graph = build_wait_graph(case, progress, liveness)
    tracks = Tracks(case, progress, graph, liveness)
    issued_at = {key: tracks.issued_first(call) for key, call in graph.calls.items()}
    sequences = CallSequences(case, progress)
    unrecorded = find_unrecorded_waits(sequences, liveness, graph)
    hosts = find_hosts(case)
    broken = failures(case, liveness, hosts)
    roots = graph.roots - unrecorded.excused
    failed = Ranks(r for f in broken for r in f.ranks)
    ends = stalls(graph, issued_at, roots - (redundant_roots(graph, roots) - failed))
    ends = tuple(s for s in ends if not _was_finished(case, s, liveness))
    if unrecorded.hidden:
        ends = tuple(replace(s, kind=StallKind.HIDDEN) for s in ends if s.kind is StallKind.ABSENT and not broken)
    ends = tuple(replace(_in_order(sequences, s), inferred=unrecorded.inferred) for s in ends)
    late, ledger = measure_lateness(case, progress), build_ledger(case, graph, liveness)
    looks = collect_looks(case, liveness)
    return Facts(
        case, progress, graph, sequences, liveness, broken, ends, issued_at, late, ledger, hosts, looks, tracks
    )


def _was_finished(case: Case, stall: Stall, liveness: Liveness) -> bool:
    """True when every rank inside the calls of the stall finished its work after they were issued.

    A dump shows a call as open until its work is retired, so that a finished job may look stuck. The time zone of a quiet log is
    not known: a finish counts when it follows the call by less than 7.5 minutes, modulo a quarter of an hour.
    """
    for call in stall.calls:
        issued = float(case.calls.created_ns[call.row]) / 1e9 if call.row >= 0 else math.nan
        for rank in call.inside:
            own = liveness.activity(rank)
            since = (max(map(liveness.time, own.phases[-1:]), default=math.nan) - issued) % QUARTER
            if not own.has_finished_cleanly or since > QUARTER / 2:
                return False
    return bool(stall.calls)


def _in_order(sequences: CallSequences, stall: Stall) -> Stall:
    """The stall with its calls in the order in which its absent rank would have issued them."""
    if stall.kind is not StallKind.ABSENT or len(stall.calls) < 2:
        return stall
    calls = in_issue_order(sequences, min(stall.ranks), stall.calls)
    return replace(stall, call=calls[0], calls=tuple(calls))
