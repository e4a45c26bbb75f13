"""Sentences about what other frameworks report: Horovod, JAX, XLA, HCCL, torchft, and engines that serve models."""

from __future__ import annotations

from nccldoctor.diagnose.sentences.headline import Headline
from nccldoctor.events import Absence, PeerTimeout
from nccldoctor.model.ranks import Ranks
from nccldoctor.words.names import ranks_phrase, verb

_OPEN = {
    "answer": "The engine of {by} is waiting for its workers to answer{to}. No line names the slow worker.",
    "tokens": "The engine of {by} has requests but makes no tokens. No line names the worker that holds it up.",
    "collective": "{by} is waiting in {where}: {came}.",
    "barrier": "{by} is waiting at barrier {where}: {came}.",
    "device": "{by} timed out on a device that never finished its work. It was waiting for a peer, or its kernel hangs.",
    "leader": "A task lost the {where} of {by}: task 0 runs it and has exited or restarted, or the network to it failed.",
    "quorum": "{by} is waiting for a quorum: {came}. No line names the missing replica groups.",
    "set-up": "The job never got through init: {by} waited for processes that never joined, and no line names them.",
}
_OTHER = "{by} is waiting for missing ranks, and no line names them."


def framework_misses(who: str, what: str, call: str | None, by: str, *, is_late: bool = False) -> Headline:
    """Rank 2 never reached the barrier checkpoint_saved, according to JAX; or not in time."""
    where = f"the {what} {call or ''}".rstrip()
    if is_late:
        return Headline(who, f"reach {where} in time, according to {by}", be="didn't", hedge="")
    return Headline(who, f"never reached {where}, according to {by}")


def framework_own_timeout(rank: int | None, what: str) -> str:
    """A claim: ``Rank 1 raised the same timeout, so it called the barrier as well, but too late.``"""
    return f"Rank {rank} raised the same timeout, so it called the {what} as well, but too late."


def misses_most(by: str, missing: Ranks) -> str:
    """A headline where a coordinator misses most of the job."""
    return f"{by} is missing {ranks_phrase(missing)}, most of the job: ranks disagree about what to do next."


def devices_wait(by: str, call: str | None, arrived: Ranks, silent: Ranks) -> str:
    """A headline for a clique of devices of XLA."""
    return f"{by} is waiting in {call}: {_devices(arrived)} arrived, {_devices(silent)} did not report."


def _devices(ranks: Ranks) -> str:
    return f"device{'s' if len(ranks) > 1 else ''} {ranks}"


def no_step(stuck: Ranks, seconds: int | None, by: str) -> str:
    """A headline for a watchdog that sees no step."""
    who = ranks_phrase(stuck).capitalize() if stuck else "A process"
    limit = f" for {seconds:,} s" if seconds else ""
    them = verb(stuck, "it", "them")
    return f"{who} made no step{limit}, according to the watchdog of {by}. No line names the rank that holds {them} up."


def open_report(event: Absence) -> str:
    """A headline for a report that names no rank."""
    return _OPEN.get(event.what, _OTHER).format(
        by=event.by,
        to=f" to {event.call}" if event.call else "",
        where=event.call or "a collective",
        came=_arrivals(event),
    )


def _arrivals(event: Absence) -> str:
    if event.is_unfinished:
        return f"all {event.size} arrived and it never finished"
    if event.size is None and event.reached:
        arrived = f"{ranks_phrase(event.reached)} arrived"
    elif event.arrived is not None and event.size is not None:
        arrived = f"{event.arrived} of {event.size} arrived"
    else:
        arrived = "some never arrived"
    return arrived if event.what == "quorum" else f"{arrived}, and no line names the rest"


def report_words(event: Absence) -> str:
    """What one report says: ``Horovod is missing rank 2 in grad_conv4.``"""
    where = f" in {event.call}" if event.call else ""
    if event.missing:
        return f"{event.by} is missing {ranks_phrase(event.missing)}{where}."
    if event.reached and event.arrived == len(event.reached):
        return (
            f"{event.by} waits{where}: only {ranks_phrase(event.reached)} {verb(event.reached, 'has', 'have')} arrived."
        )
    if event.what == "step":
        who = f"Rank {event.rank}" if event.rank is not None else "A process"
        return f"{who} made no step" + (f" for {event.seconds:,} s." if event.seconds else ".")
    return f"{event.by} waits{where}."


def peer_timed_out(event: PeerTimeout, waiting: Ranks = Ranks()) -> str:
    """A headline for ranks that waited in vain for a peer; ``waiting`` counts inside their group."""
    who = f"Rank {event.rank}" if event.rank is not None else "A rank"
    who += f" (device {event.device} of its node)" if event.rank is None and event.device is not None else ""
    if event.peer is None:
        return f"{who} timed out in {event.op or f'a call of {event.by}'}. No line names the rank it waited for."
    group = f"group {event.group.spoken}" if event.group is not None else "its group"
    if event.rank is None and waiting:
        who, group = f"{ranks_phrase(waiting).capitalize()} of a group", "the same group"
    call = f" in {event.op}" if event.op else ""
    return f"{who} waited in vain for rank {event.peer} of {group}{call}. That rank may itself be waiting for another."


def branches_apart(odd: Ranks, odd_call: str | None, rest: Ranks, rest_call: str | None) -> Headline:
    """Deadlock: rank 3 waits in loss, ranks 0-2 in conv1; they took different branches."""
    waits = verb(odd, "waits", "wait")
    return Headline(
        "",
        "deadlock",
        f"{ranks_phrase(odd)} {waits} in {odd_call}, {ranks_phrase(rest)} in {rest_call}",
        hedge="probable",
    )


def submitted(ranks: Ranks) -> str:
    """What one row of a coordinator's report shows."""
    return f"{ranks_phrase(ranks).capitalize()} submitted this call, and no other rank did."


def only_this_report(by: str) -> str:
    """A doubt: one coordinator alone says so."""
    return f"Only {by} says so, and no stack shows the line of code."


NO_WORLD_SIZE = "The world size is unknown."
NO_MAJORITY = "Neither side is a clear majority."
ONE_LINE_OF_CODE = "all ranks were at the same line of code"
