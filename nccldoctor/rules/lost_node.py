"""A whole host without a sign of life: one lost node, not as many dead ranks."""

from __future__ import annotations

from nccldoctor.align import Facts
from nccldoctor.draft import Draft, names, quote
from nccldoctor.model import CauseClass, Confidence, Evidence
from nccldoctor.ranks import Ranks
from nccldoctor.rules.outside import lives, one_host, others_wait
from nccldoctor.stalls import Stall, StallKind

CAUSE = CauseClass.DIED


def silence(facts: Facts, rank: int) -> list[Evidence]:
    """That nothing of the rank contradicts its end: its log simply stops."""
    signs = facts.presence.signs(rank)
    if signs.dump != "none" or signs.answered or signs.alarms or signs.last_event is None:
        return []
    return [quote(signs.last_event, f"the last line of rank {rank}; no complaint, no dump after it")]


def block(ranks: Ranks) -> bool:
    """Whether the ranks are those that one node may hold: a block of 4, 8 or 16 at a multiple of its size."""
    return len(ranks) in (4, 8, 16) and max(ranks) - min(ranks) + 1 == len(ranks) and min(ranks) % len(ranks) == 0


def lost_node(facts: Facts, stall: Stall) -> Draft | None:
    """All ranks of one host, and nobody else, left nothing."""
    call, gone = stall.call, _left_nothing(facts, stall)
    if call is None or not gone:
        return None
    host = one_host(facts, gone)
    named = host is not None
    evidence = others_wait(facts, stall)
    collected = bool(gone & facts.presence.logged) or any(
        s.host == host and (s.rank is None or s.rank in gone) for s in facts.case.sources
    )
    sure = named and collected  # else its files may merely not have been fetched
    fell_silent = not named and _fell_silent(facts, gone)
    where = f" on {host}" if named else ", a block that one node may have held,"
    return Draft(
        CAUSE,
        f"{names(gone).capitalize()}{where} left no sign of life: the node may be lost",
        (*evidence, *(e for r in list(gone)[:2] for e in silence(facts, r))) if fell_silent else tuple(evidence),
        Confidence.MEDIUM if sure else Confidence.LOW,
        "a dump or a log of any of them",
        ranks=gone if sure or fell_silent else Ranks(),
        suspects=gone,
        call=call,
    )


def _left_nothing(facts: Facts, stall: Stall) -> Ranks:
    """The ranks of a host, or of a block that one may hold, that this stall, or all stalls together, wait for in vain."""
    call = stall.call
    if call is None or stall.shown:
        return Ranks()
    few = len(call.entered) < max(2, len(call.unknown) // 2)
    together = facts.waits.roots if all(s.kind is StallKind.ABSENT and not s.shown for s in facts.stalls) else Ranks()
    for gone in (Ranks() if few else call.unknown, together):
        if len(gone) < 2 or 2 * len(gone) > len(facts.case.world) or any(lives(facts, r) for r in gone):
            continue
        if one_host(facts, gone) is not None or block(gone):
            return gone
    return Ranks()


def _fell_silent(facts: Facts, gone: Ranks) -> bool:
    """Whether these ranks wrote lines before, and every other rank of the job gave up after they had stopped."""
    others = facts.case.world - gone
    return gone <= facts.presence.logged and all(facts.presence.signs(r).alarms for r in others)
