"""Sentences about ranks that ended: killed, crashed, lost with their host."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from nccldoctor.align.exits import ending_signal
from nccldoctor.diagnose.phrases.headline import Headline
from nccldoctor.diagnose.phrases.say import headline_of, say
from nccldoctor.events import (
    CudaError,
    Event,
    ExceptionRaised,
    OutOfMemory,
    ProcessExit,
    RasStatus,
    SchedulerEvent,
)
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.stack_frames import innermost, parse_frame
from nccldoctor.parsers.event_details import (
    failed_node,
    is_gpu_full,
    is_host_full,
    is_slurm_out_of_memory,
    requested_memory,
)
from nccldoctor.words.names import ranks_phrase
from nccldoctor.words.sanitize import line
from nccldoctor.words.sentences import essentials

_TAKEN = {
    "cancelled": "ends.cancelled",
    "evicted": "ends.evicted",
    "failed": "ends.failed",
    "node-failure": "ends.node-failed",
    "oom": "ends.out-of-memory-by-scheduler",
    "preempted": "ends.preempted",
    "requeue": "ends.requeued",
    "task-exit": "ends.task-failed",
    "time-limit": "ends.time-limit",
}
"""What a scheduler did with a job, by the kind of its event."""


def process_name(event: Event) -> str:
    """A process whose global rank is unknown, as its launcher calls it: ``local rank 2 (node1, pid 4711)``."""
    name = "a process"
    if isinstance(event, ProcessExit):
        task = f"srun task {event.task}" if event.task is not None else name
        name = event.name or (f"local rank {event.local_rank}" if event.local_rank is not None else task)
    known = ", ".join(filter(None, (event.host or "", f"pid {event.pid}" if event.pid is not None else "")))
    return f"{name} ({known})" if known else name


def subject_of_end(event: Event) -> str:
    """What ended where no rank is known: a job for the scheduler, else a process."""
    if isinstance(event, SchedulerEvent) and event.is_withdrawal:
        return "a pod" if event.what == "evicted" else "the job"
    return process_name(event)


def ended(who: str, ranks: Ranks, events: Sequence[Event]) -> Headline:
    """Rank 5 (node2) was killed by SIGKILL. ``events`` record one end, the first of them says how."""
    event, many = events[0], len(ranks) > 1
    if isinstance(event, OutOfMemory):
        return headline_of("ends.out-of-memory", who=who, many=many, what=event.process or event.scope)
    if isinstance(event, SchedulerEvent):
        key, how = _TAKEN.get(event.what, "ends.ended-otherwise"), event.what.replace("-", " ")
        detail = " ".join(event.detail.split())
        return replace(headline_of(key, who=who, many=many, how=how, detail=detail), briefs=(*essentials(detail), ""))
    if isinstance(event, RasStatus):
        return headline_of("ends.dead-by-ras", who=who, many=many)
    if isinstance(event, ProcessExit):
        name = ending_signal(event)
        if is_slurm_out_of_memory(event.text) or any(isinstance(e, SchedulerEvent) and e.what == "oom" for e in events):
            return headline_of("ends.killed-for-memory", who=who, many=many, signal=name)
        if name == "SIGABRT":  # a process does that to itself
            return headline_of("ends.aborted", who=who)
        if name is not None:
            return headline_of("ends.killed", who=who, many=many, signal=name)
        if event.exitcode is not None:
            return headline_of("ends.exited-with-code", who=who, code=event.exitcode)
        if event.is_heartbeat_loss:
            return headline_of("ends.heartbeats-stopped", who=who, many=many)
        return headline_of("ends.exited", who=who)
    return headline_of("ends.ended", who=who, text=line(event.text, 80))


def host_lost(events: Sequence[Event], ranks: Ranks, call: str) -> Headline | None:
    """Host node2 went down before ALLREDUCE #18 and took ranks 8-15 with it. None where no scheduler names a host that failed."""
    event = events[0]
    if not isinstance(event, SchedulerEvent) or event.what != "node-failure" or not ranks:
        return None
    host = failed_node(event.detail)
    return headline_of("ends.host-lost", host=line(host, 60), call=call, ranks=ranks) if host else None


def before(headline: Headline, call: str) -> Headline:
    """The headline with the call that the ranks did not reach any more."""
    return replace(headline, did=say("ends.before", did=headline.did, call=call)) if call else headline


def with_waiting(headline: Headline, inside: Ranks, call: str) -> Headline:
    """The headline of a process that may belong to a call, with the ranks that wait in it."""
    if not inside:
        return headline
    return replace(headline, did=say("ends.with-waiting", did=headline.did, inside=inside, call=call))


def ended_by_record(event: Event) -> str:
    """What the record of one end shows: ``Rank 3 was killed by SIGKILL.``"""
    ranks = Ranks([event.rank] if event.rank is not None else [])
    return ended(ranks_phrase(ranks) if ranks else process_name(event), ranks, [event]).sure


def crashed(who: str, event: Event, *, is_only_logged: bool) -> Headline:
    """Rank 6 (node1) crashed: FileNotFoundError: shard_00004.idx (load_batch, train.py:99)."""
    text = event.message if isinstance(event, ExceptionRaised | CudaError) else getattr(event, "text", "")
    kind = event.type if isinstance(event, ExceptionRaised) else ""
    kind = kind.replace("ray.exceptions.OutOf", "").rpartition(".")[2]  # Ray counts the memory of a node
    requested = requested_memory(text)
    at = _place(event.frame) if isinstance(event, ExceptionRaised) and event.frame else ""
    memory = "GPU" if kind == "OutOfMemoryError" or is_gpu_full(text) else ""
    memory = memory or ("host" if kind == "MemoryError" or is_host_full(text) else "")
    if memory:
        where = (f"{at[0]} ({at[1]})" if at[1] else at[0]) if at else ""
        return headline_of("ends.ran-out", who=who, memory=memory, requested=requested, at=where)
    where = f" ({', '.join(filter(None, at))})" if at else ""
    what = exception_words(event)
    name, _, message = what.partition(": ")
    briefs = [f"{name}: {said}" for said in essentials(message)] if message else []
    briefs += [f"{name} at {at[1]}"] if at and at[1] else []
    headline = headline_of("ends.crashed", who=who, is_only_logged=is_only_logged, what=f"{what}{where}")
    return replace(headline, briefs=(*briefs, name))


def _place(frame: str) -> tuple[str, str]:
    """Function and short file with line of a frame: ``("load_batch", "train.py:99")``."""
    found = parse_frame(innermost((frame,)))
    if found is None:
        return line(frame, 80), ""
    function, file, number = found
    return function, f"{file}:{number}" if number is not None else file


def raised_by_record(event: Event) -> str:
    """What a traceback shows."""
    if isinstance(event, OutOfMemory):
        return say("ends.raised-memory", rank=event.rank)
    words = exception_words(event, full=True)
    return say("ends.raised", rank=event.rank, what=words, is_open=not words.endswith((".", "…")))


def exception_words(event: object, *, full: bool = False) -> str:
    """An exception with the beginning of its message: ``FileNotFoundError: shard_00004.idx``."""
    if isinstance(event, ExceptionRaised):
        message = _first_words(event.message.split("\n", 1)[0])
        kind = event.type if full else event.type.rpartition(".")[2]
        return f"{kind}: {message}" if message else kind
    if isinstance(event, CudaError):
        return f"a CUDA error: {_first_words(event.message)}" if full else f"CUDA error: {_first_words(event.message)}"
    return "an exception"


def _first_words(message: str) -> str:
    """The first 120 characters of a message, to the end of the last word."""
    end = message.find(" ", 120)
    return message[:200] if end < 0 else f"{message[: min(end, 200)].rstrip(' ,;:')} …"
