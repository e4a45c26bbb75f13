"""What dumps of gloo leave open about a rank outside a call: they note no sends and receives, and count failed calls as done."""

from __future__ import annotations

from nccldoctor.align import Facts
from nccldoctor.ranks import Ranks
from nccldoctor.rules.motion import on_gloo
from nccldoctor.stalls import Stall


def may_wait_unseen(facts: Facts, ranks: Ranks) -> bool:
    """Whether nothing but dumps of gloo speaks of them: those note no sends and receives, so that they may wait in one."""
    seen = any(facts.presence.signs(r).stacks or facts.presence.signs(r).logged for r in ranks)
    return on_gloo(facts) and not seen


def in_doubtful_company(facts: Facts, ranks: Ranks) -> bool:
    """Whether the last call of one of them was in a group that a rank without a dump belongs to, or may belong to: it may have failed
    because that one was gone, and counts as done.
    """
    silent = facts.case.world - facts.presence.dumped
    for rank in ranks:
        row = facts.fronts.last_row.get(rank)
        group = facts.case.groups[facts.case.call_group[row]] if row is not None else None
        if group is None or group.desc == "default_pg":
            continue
        sisters = [g.members for g in facts.case.groups if g.desc == group.desc]
        unplaced = silent - (r for members in sisters for r in members)
        if silent & group.members or (group.learned == "entries" and unplaced):
            return True
    return False


def split_evenly(facts: Facts, stall: Stall, ranks: Ranks) -> bool:
    """Whether as many members are outside the call as in it, and both may be where they should not: no majority tells."""
    group = facts.case.groups[stall.call.group].members if stall.call is not None else Ranks()
    return len(group) > 2 and 2 * len(ranks) >= len(group)
