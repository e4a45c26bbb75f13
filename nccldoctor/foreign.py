"""Dumps that are not of the run that the lines tell of: left over from an earlier one, or given the name of another rank.

The watchdog of a rank names the call it gave up on. A recorder of the same process holds that call, unless its ring dropped it; one
that holds another call under that number, or ended long before it, is not of that process.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from nccldoctor.attempts import newest
from nccldoctor.case import Case
from nccldoctor.dump_runs import FAR, without
from nccldoctor.events import CollectiveTimeout
from nccldoctor.identify import identify
from nccldoctor.ingest import Ingested
from nccldoctor.model import Gap
from nccldoctor.operations import op_type
from nccldoctor.ranks import Ranks


def newest_case(read: Ingested) -> Case:
    """The newest attempt of what was read, without such dumps."""
    case = newest(identify(read))
    strange = foreign_dumps(case)
    if not strange:
        return case
    gone = [i for i, rank in enumerate(case.dump_rank) if rank is not None and rank in strange]
    left = Ingested(read.parsed, without(read.batch, gone), (*read.gaps, *foreign_gaps(case, strange)))
    return newest(identify(left))


def foreign_dumps(case: Case) -> Ranks:
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


def foreign_gaps(case: Case, ranks: Ranks) -> tuple[Gap, ...]:
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
    return any(_alike(case, int(row), event) for row in found)


def _alike(case: Case, row: int, event: CollectiveTimeout) -> bool:
    numel = int(case.calls.numel_in[row])
    named = op_type(case.words.ops[case.calls.op[row]])
    return named == event.op and (event.numel_in is None or numel in (event.numel_in, -1))
