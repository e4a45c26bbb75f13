"""Where ranks stand, in a short title: ``TP 1 · ALLREDUCE #9``, ``in save_checkpoint``, ``120 ranks``."""

from __future__ import annotations

from nccldoctor.model.findings import Link
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.standings import Standing, WaitedCall
from nccldoctor.words.names import call_title, few, group_title, kind_name, ranks_phrase, verb
from nccldoctor.words.sanitize import line


def ranks_title(ranks: Ranks) -> str:
    """``rank 1``, ``ranks 2, 6``, ``ranks 8-15``, ``480 ranks``."""
    if len(ranks) == 1:
        return f"rank {min(ranks)}"
    spans = ranks.spans()
    return f"ranks {few(ranks)}" if len(spans) <= 4 else f"{len(ranks):,} ranks"


def waited_title(call: WaitedCall | None) -> str:
    """``TP 1 · ALLREDUCE #9``; of many groups of one kind ``84 DP groups · ALLREDUCE #2115``.

    Of a call without a number it is ``ALLREDUCE in step (train.py:40)``.
    """
    if call is None:
        return ""
    name = call_title(call.op, call.seq) + (f" in {line(call.site, 60)}" if call.site else "")
    if not call.groups:
        return name
    groups = (
        group_title(call.groups[0]) if len(call.groups) == 1 else f"{len(call.groups)} {kind_name(call.kind)} groups"
    )
    return f"{groups} · {name}"


def place_title(standing: Standing) -> str:
    """Where ranks stand: in a call, else in the function of their stacks, else what they were last seen at."""
    if standing.call is not None:
        return waited_title(standing.call)
    return f"in {line(standing.frame, 60)}" if standing.frame else line(standing.last, 80) or "at different places"


def wait_in_words(link: Link, suspects: Ranks) -> str:
    """Writes a link as text: ``ranks 0, 2 wait in ALLREDUCE #18 of dp_0 for rank 4``.

    For suspects it ends in ``for one or more of ranks 4-5``.
    """
    waits = verb(link.waiting, "waits", "wait")
    of = f" of {group_title(link.group)}" if link.group else ""
    some = "one or more of " if len(link.for_) > 1 and link.for_ <= suspects else ""
    needs = f" for {some}{ranks_phrase(link.for_)}" if link.for_ else ", and no rank is missing"
    call = call_title(link.op, link.seq)
    return f"{ranks_phrase(link.waiting)} {waits} in {call}{of}{needs}"
