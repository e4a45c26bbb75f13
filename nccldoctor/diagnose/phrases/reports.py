"""What to say of reports of other frameworks: Horovod, JAX, XLA, HCCL, torchft, and engines that serve models."""

from __future__ import annotations

from nccldoctor.diagnose.phrases.say import say
from nccldoctor.events import Absence, PeerTimeout
from nccldoctor.model.ranks import Ranks

_OPEN = {
    "answer": "reports.open-answer",
    "tokens": "reports.open-tokens",
    "collective": "reports.open-collective",
    "barrier": "reports.open-barrier",
    "device": "reports.open-device",
    "leader": "reports.open-leader",
    "quorum": "reports.open-quorum",
    "set-up": "reports.open-init",
}
"""Headlines by what a report that names no rank waits for."""


def open_report(event: Absence) -> str:
    """A headline for a report that names no rank."""
    return say(_OPEN.get(event.what, "reports.open"), by=event.by, call=event.call, came=_arrivals(event))


def _arrivals(event: Absence) -> str:
    if event.is_unfinished:
        return say("reports.all-arrived", size=event.size)
    return say(
        "reports.some-arrived",
        reached=event.reached if event.size is None else None,
        arrived=event.arrived,
        size=event.size,
        is_last=event.what == "quorum",
    )


def report_words(event: Absence) -> str:
    """What one report says: ``Horovod is missing rank 2 in grad_conv4.``"""
    if event.missing:
        return say("reports.is-missing", by=event.by, missing=event.missing, call=event.call)
    if event.reached and event.arrived == len(event.reached):
        return say("reports.waits-with", by=event.by, call=event.call, reached=event.reached)
    if event.what == "step":
        return say("reports.made-no-step", rank=event.rank, seconds=event.seconds or None)
    return say("reports.waits", by=event.by, call=event.call)


def peer_timed_out(event: PeerTimeout, waiting: Ranks = Ranks()) -> str:
    """A headline for ranks that waited in vain for a peer; ``waiting`` counts inside their group."""
    if event.peer is None:
        call = event.op or say("reports.call-of", by=event.by)
        return say("reports.peer-timed-out", rank=event.rank, device=event.device, call=call)
    return say(
        "reports.waited-for-peer",
        rank=event.rank,
        device=event.device,
        waiting=waiting if event.rank is None else None,
        peer=event.peer,
        group=event.group.spoken if event.group is not None else None,
        op=event.op,
    )
