"""Counts the independent observers behind a conclusion."""

from __future__ import annotations

from collections.abc import Iterable

from nccldoctor.model import Evidence
from nccldoctor.model.ranks import Ranks

OF_A_RANK = ("dump", "log", "stack")
"""Records that each rank leaves of itself."""


def observers(evidence: Iterable[Evidence], culprits: Ranks, *, supports: bool = True) -> set[str]:
    """The kinds of observer on one side.

    A rank's own dump and its peers' dumps, a dump and a log, a stack, an exit record, a kernel line; never two lines of one
    watchdog, nor the same signal repeated by every rank.
    """
    out = set()
    for item in evidence:
        if item.supports is not supports or not item.observer:
            continue
        what, _, who = item.observer.partition(":")
        if what in OF_A_RANK and who.isdigit():
            out.add(f"{what}:{'culprit' if int(who) in culprits else 'peers'}")
        else:
            out.add(what)
    return out
