"""Signs that a job still moved when its dumps were written: its unfinished calls were merely in flight."""

from __future__ import annotations

from nccldoctor.align.divergence.mismatches import rows_at
from nccldoctor.align.facts import Facts
from nccldoctor.align.stalls import Stall, StallKind
from nccldoctor.align.unrecorded_waits import has_hidden_transfers
from nccldoctor.model.operations import NEEDS_ALL, op_type
from nccldoctor.model.ranks import Ranks


def is_overtaken(facts: Facts) -> bool:
    """True when nobody complains, and a rank went on behind calls that a member had not issued when it dumped.

    Such dumps are of different moments of a job that ran. Example: the dump of rank 3 ends at ALLREDUCE #81, rank 2 completed #83 and
    waits in #84.
    """
    if facts.liveness.first_alarm is not None or facts.failures:
        return False
    words, calls, progress = facts.case.vocabulary, facts.case.calls, facts.progress
    least: dict[int, int] = {}
    for (group, rank), own in progress.by_group_rank.items():
        if own.known_by == "dump" and rank not in progress.damaged_ranks:
            least[group] = min(own.enqueued, least.get(group, own.enqueued))
    fronts = [(rank, own, least.get(group, own.enqueued)) for (group, rank), own in progress.by_group_rank.items()]
    ahead = [(rank, own) for rank, own, lowest in fronts if lowest + 1 < own.completed < own.enqueued]
    rows = (rows_at(facts.case, progress, own.group, own.completed).get(rank) for rank, own in ahead)
    return any(row is not None and op_type(words.ops[calls.op[row]]) in NEEDS_ALL for row in rows)


def is_scattered(facts: Facts) -> bool:
    """True when dumps are of different moments, or the waiting ends in several places without common members.

    Nobody complains, and all ranks there left dumps.

    Example: one pair of 8 ranks waits in a call of its own and another pair in a third one: each would need a cause of its own. Only for
    gloo and the like, because a network that all of them share may stop several NCCL calls at once.
    """
    is_proven = all(
        s.kind is StallKind.FULL or (s.kind is StallKind.ABSENT and s.proven_absent == s.ranks) for s in facts.stalls
    )
    quiet = facts.liveness.first_alarm is None and not facts.failures
    # calls with a common member are one part
    members = {g.index: g.members for g in facts.case.groups}
    parts: list[Ranks] = []
    for stall in facts.stalls:
        whole = Ranks(r for c in stall.calls for r in members[c.group])
        whole = Ranks(r for part in (whole, *(p for p in parts if p & whole)) for r in part)
        parts = [p for p in parts if not p & whole] + [whole]
    is_apart = has_hidden_transfers(facts.case) and quiet and is_proven and len(parts) > 1
    return is_apart or is_overtaken(facts)


def has_open_call(facts: Facts, stall: Stall) -> bool:
    """True when a dump holds a call of the stall as unfinished. On gloo and the like a failed call is only inferred from others."""
    fronts = (facts.progress.by_group_rank.get((c.group, r)) for c in stall.calls for r in c.inside)
    rows = [front.row for front in fronts if front is not None]
    return any(row < 0 or not facts.case.calls.retired[row] for row in rows) or any(c.pair for c in stall.calls)
