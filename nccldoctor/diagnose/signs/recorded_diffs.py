"""Recorded calls that differ between members of a group under one sequence number."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from msgspec.structs import replace

from nccldoctor.align.divergence.mismatches import Mismatch, first_mismatch
from nccldoctor.align.facts import Facts
from nccldoctor.align.progress.from_lines import group_of
from nccldoctor.align.stalls import Stall
from nccldoctor.align.wait_graph import StuckCall
from nccldoctor.events import CollectiveMismatch
from nccldoctor.model.operations import has_varying_sizes, op_type, plain_op
from nccldoctor.model.ranks import Ranks, ranks_by


def disagreement(facts: Facts, stall: Stall) -> Mismatch | None:
    """The first number up to the stalled one under which recorded entries of the members differ."""
    for call in (*stall.calls, *_job_wide_calls(facts, stall)):
        if call.pair is None:
            found = first_mismatch(facts.case, facts.progress, call.group, call.seq)
            if found is not None:
                return _outvoted(facts, found) if found.is_tie else found
    return _uneven(facts)


def _outvoted(facts: Facts, found: Mismatch) -> Mismatch:
    """Returns the mismatch with its tie broken by lines of ranks without a dump.

    What those ranks gave up on under that number is what one side recorded. Example: ranks 0 and 1 recorded ALLREDUCE
    #18 and BROADCAST #18, and rank 2 gave up on ALLREDUCE #18: rank 1 differs.
    """
    calls, ops = facts.case.calls, facts.case.vocabulary.ops
    is_op = found.aspect == "op"
    told: list[tuple[object, int]] = [
        (op_type(plain_op(ops[calls.op[row]])) if is_op else int(calls.numel_in[row]), rank)
        for rank, row in found.rows.items()
    ]
    lines = facts.case.timeouts(found.seq) if found.aspect in ("op", "size") else ()
    others = [e for e in lines if e.rank not in found.rows and group_of(facts.case, e) == found.group]
    told += ((e.op if is_op else e.numel_in, e.rank) for e in others if e.rank is not None)
    ordered = sorted(ranks_by(told).values(), key=lambda side: (-len(side), min(side)))
    voters = sum(map(len, ordered))
    odd = Ranks(r for side in ordered[1:] for r in side)
    if voters == len(found.rows) or 2 * len(ordered[0]) <= voters or not odd <= set(found.rows):
        return found
    return replace(found, minority=odd, majority=ordered[0] & found.rows, sides=tuple(ordered))


def _job_wide_calls(facts: Facts, stall: Stall) -> list[StuckCall]:
    """Returns the stuck calls of the default group when the stalled calls are of groups with unknown members.

    The ranks that others wait for in those calls are not known.
    """
    groups, calls = facts.case.groups, facts.wait_graph.calls.values()
    if not stall.calls or any(len(groups[c.group].members) > 1 for c in stall.calls):
        return []
    return sorted((c for c in calls if groups[c.group].desc == "default_pg"), key=lambda c: c.key)


def _uneven(facts: Facts) -> Mismatch | None:
    """Returns an all-to-all in which few members moved another amount than all of them always did.

    Only where a library received a size that it did not expect: the amounts may differ legally, so that they show
    nothing without such a line.
    """
    calls, names_ = facts.case.calls, facts.case.vocabulary.ops
    if not size_complaints(facts) or not len(calls):
        return None
    varying = np.array([has_varying_sizes(n) for n in names_], dtype=bool)
    found: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
    for row in np.flatnonzero(facts.progress.collective & varying[calls.op]).tolist():
        found[int(facts.case.call_group[row]), int(calls.seq[row])][int(facts.case.call_rank[row])] = row
    usual: dict[int, set[tuple[int, int]]] = defaultdict(set)
    for (group, seq), rows in sorted(found.items()):
        amounts = {rank: (int(calls.numel_in[row]), int(calls.numel_out[row])) for rank, row in rows.items()}
        odd = Ranks(r for r, amount in amounts.items() if amount not in usual[group])
        rest = Ranks(rows) - odd
        if len(usual[group]) == 1 and odd and len(rest) > max(1, len(odd)):
            return Mismatch(group, seq, "size", odd, rest, (rest, odd), rows)
        usual[group] |= set(amounts.values())
    return None


def size_complaints(facts: Facts) -> list[CollectiveMismatch]:
    """The lines of a library that received a message of a size that it did not expect."""
    return [event for event in facts.case.of(CollectiveMismatch) if "size" in event.aspects]
