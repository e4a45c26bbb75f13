"""Sentences about ranks that are not in the call that their peers wait in."""

from __future__ import annotations

from nccldoctor.diagnose.sentences.headline import Headline


def never_reached(who: str, call: str, doing: str = "") -> Headline:
    """Rank 1 (node0, pid 17081) never reached ALLREDUCE #9: it was in refresh_expert_table (train.py:121)."""
    return Headline(who, f"never reached {call}", doing)
