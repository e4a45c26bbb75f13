"""Leaves out dumps that contradict the lines of their rank: left over from an earlier run, or of another rank.

The watchdog of a rank names the call it gave up on. The recorder of the same process holds that call, unless its ring dropped it; a
dump that holds another call under that number, or ended long before it, is not of that process. Example: rank 3 gave up on
ALLREDUCE #5018 and its dump ends at #200. Nor is one that ends before the first step that the rank prints, where the dumps of most ranks
go on behind theirs.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from nccldoctor.events import CollectiveTimeout, Progress
from nccldoctor.identify.case import Case
from nccldoctor.identify.identify import identify
from nccldoctor.identify.runs.restarts import newest_attempt
from nccldoctor.identify.runs.separate_dumps import FAR, TWICE, without_dumps
from nccldoctor.ingest.ingest import Ingested
from nccldoctor.model import Gap
from nccldoctor.model.operations import op_type
from nccldoctor.model.ranks import Ranks

OTHER_NUMBERS = frozenset({"SEND", "RECV", "RECVANYSOURCE", "COALESCED"})
"""Operations that lines and recorder entries number differently."""

ONE_TENSOR = frozenset({"ALLREDUCE", "BROADCAST", "REDUCE", "_ALLGATHER_BASE", "_REDUCE_SCATTER_BASE"})
"""Operations on one tensor, whose elements lines and recorder entries count alike."""


def newest_case(read: Ingested) -> Case:
    """The newest attempt of what was read, without stale dumps."""
    case = newest_attempt(identify(read))
    stale = stale_dumps(case)
    if not stale:
        return case
    gone = [i for i, rank in enumerate(case.dump_rank) if rank in stale]
    why = "the calls that this rank logs are missing or different here, so it's from a different run or rank; left out"
    heads = ((case.dumps[i], case.dump_rank[i] or 0) for i in gone)
    gaps = (*read.gaps, *(Gap(head.path, why, Ranks([rank]), head.source, lost=True) for head, rank in heads))
    return newest_attempt(identify(Ingested(read.parsed, without_dumps(read.batch, gone), gaps)))


def stale_dumps(case: Case) -> Ranks:
    """The ranks whose lines contradict the dump, none agreeing with it, or whose steps all come later."""
    lines: dict[int, list[CollectiveTimeout]] = defaultdict(list)
    for event in case.of(CollectiveTimeout):
        if event.rank is not None and event.seq is not None and event.op is not None:
            lines[event.rank].append(event)
    ranks = []
    for dump, rows in case.calls.by_dump():
        rank = case.dump_rank[dump]
        if rank in lines and case.dumps[dump].form != "list":
            agreements = [_has_call(case, rows, event) for event in lines[rank]]
            if False in agreements and True not in agreements:
                ranks.append(rank)
    return Ranks(ranks) | _older_than_steps(case)


def _older_than_steps(case: Case) -> Ranks:
    """The few ranks whose newest recorded call comes before their first step. That of most ranks comes later, whatever the zone."""
    steps: dict[int, float] = {}
    for place, event in zip(case.events.places_of(Progress), case.events.of_kind(Progress), strict=True):
        if event.rank is not None and event.is_step and not np.isnan(case.seconds[place]):
            steps[event.rank] = min(steps.get(event.rank, np.inf), float(case.seconds[place]))
    behind = {
        rank: steps[rank] - case.calls.created_ns[rows].max() / 1e9
        for dump, rows in case.calls.by_dump()
        if (rank := case.dump_rank[dump]) in steps and case.calls.created_ns[rows].max() > 0
    }
    older = Ranks(rank for rank, seconds in behind.items() if seconds > TWICE)
    return older if 2 * len(older) < len(behind) else Ranks()


def _has_call(case: Case, rows: slice, event: CollectiveTimeout) -> bool | None:
    """True when a dump holds the call of a line, False when another one instead, None if unknown."""
    calls = case.calls
    if event.op is None or event.op in OTHER_NUMBERS:
        return None
    group = case.naming.find(event.group, event.rank)
    own = ~calls.is_p2p[rows]
    if group is not None:
        own &= case.call_group[rows] == group
    elif event.group is not None:
        return None
    if not own.any():
        return None
    seqs = calls.seq[rows]
    same_number = np.flatnonzero(own & (seqs == event.seq)) + rows.start
    if not len(same_number):
        return False if event.seq is not None and event.seq > int(seqs[own].max()) + FAR else None
    matches = [_is_call_of_line(case, int(row), event.op, event.numel_in) for row in same_number]
    return True if True in matches else None if None in matches else False


def _is_call_of_line(case: Case, row: int, op: str, numel_in: int | None) -> bool | None:
    """True when a recorded call is that of a line; None where names or sizes are not written alike everywhere."""
    recorded = op_type(case.vocabulary.ops[case.calls.op[row]])
    if not recorded or recorded in OTHER_NUMBERS:
        return None
    if _stem(recorded) != _stem(op):
        return False
    numel = int(case.calls.numel_in[row])
    if numel_in is None or numel in (numel_in, -1) or not case.vocabulary.sizes[case.calls.sizes[row]][0]:
        return True
    return False if op in ONE_TENSOR else None


def _stem(op: str) -> str:
    """One spelling for the variants of an operation: REDUCE_SCATTER, and REDUCESCATTER of older lines and wrappers."""
    return op.replace("_", "").removesuffix("BASE")
