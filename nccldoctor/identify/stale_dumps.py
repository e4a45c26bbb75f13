"""Dumps that are not of the run that the lines tell of: left over from an earlier one, or given the name of another rank.

The watchdog of a rank names the call it gave up on. A recorder of the same process holds that call, unless its ring dropped it; one
that holds another call under that number, or ended long before it, is not of that process.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from nccldoctor.events import CollectiveTimeout
from nccldoctor.identify.case import Case
from nccldoctor.identify.identify import identify
from nccldoctor.identify.restarts import newest_attempt
from nccldoctor.identify.separate_dumps import FAR, without_dumps
from nccldoctor.ingest.ingest import Ingested
from nccldoctor.model import Gap
from nccldoctor.model.operations import op_type
from nccldoctor.model.ranks import Ranks

OTHER_NUMBERS = frozenset({"SEND", "RECV", "RECVANYSOURCE", "COALESCED"})
"""Operations whose lines and entries count in ways of their own."""

ONE_TENSOR = frozenset({"ALLREDUCE", "BROADCAST", "REDUCE", "_ALLGATHER_BASE", "_REDUCE_SCATTER_BASE"})
"""Operations on one tensor, whose elements a line and a recorder count alike."""


def newest_case(read: Ingested) -> Case:
    """The newest attempt of what was read, without such dumps."""
    case = newest_attempt(identify(read))
    strange = stale_dumps(case)
    if not strange:
        return case
    gone = [i for i, rank in enumerate(case.dump_rank) if rank is not None and rank in strange]
    left = Ingested(read.parsed, without_dumps(read.batch, gone), (*read.gaps, *stale_gaps(case, strange)))
    return newest_attempt(identify(left))


def stale_dumps(case: Case) -> Ranks:
    """The ranks whose own lines contradict their dump, and none of them agrees."""
    lines: dict[int, list[CollectiveTimeout]] = defaultdict(list)
    for event in case.of(CollectiveTimeout):
        if event.rank is not None and event.seq is not None and event.op is not None:
            lines[event.rank].append(event)
    out = []
    for dump, rows in case.calls.by_dump():
        rank = case.dump_rank[dump]
        if rank in lines and case.dumps[dump].form != "list":
            words = [_word(case, rows, event) for event in lines[rank]]
            if False in words and True not in words:
                out.append(rank)
    return Ranks(out)


def stale_gaps(case: Case, ranks: Ranks) -> tuple[Gap, ...]:
    """What is left out, and why."""
    why = "the call that this rank gave up on by its own lines is not in it, or is another one: a dump of another run or rank; left out"
    return tuple(
        Gap(dump.path, why, Ranks([rank]), dump.source, lost=True)
        for dump, rank in zip(case.dumps, case.dump_rank, strict=True)
        if rank is not None and rank in ranks
    )


def _word(case: Case, rows: slice, event: CollectiveTimeout) -> bool | None:
    """Whether a dump holds the call of a line (True), something else in its place (False), or does not tell."""
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
    found = np.flatnonzero(own & (seqs == event.seq)) + rows.start
    if not len(found):
        return False if event.seq is not None and event.seq > int(seqs[own].max()) + FAR else None
    words = [_alike(case, int(row), event.op, event.numel_in) for row in found]
    return True if True in words else None if None in words else False


def _alike(case: Case, row: int, op: str, numel_in: int | None) -> bool | None:
    """Whether a recorded call is that of a line; None where names or sizes are not written in one way everywhere."""
    recorded = op_type(case.vocabulary.ops[case.calls.op[row]])
    if recorded in OTHER_NUMBERS:
        return None
    if _stem(recorded) != _stem(op):
        return False
    numel = int(case.calls.numel_in[row])
    if numel_in is None or numel in (numel_in, -1):
        return True
    return False if op in ONE_TENSOR else None


def _stem(op: str) -> str:
    """An operation without what sets its variants apart: PyTorch writes REDUCE_SCATTER, older lines and wrappers REDUCESCATTER."""
    return op.replace("_", "").removesuffix("BASE")
