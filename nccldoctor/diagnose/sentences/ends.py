"""Sentences about ranks that ended: killed, crashed, lost with their host."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from nccldoctor.align.exits import FATAL
from nccldoctor.align.stack_activity import user_frame
from nccldoctor.diagnose.sentences.headline import Headline
from nccldoctor.events import (
    CudaError,
    Event,
    ExceptionRaised,
    OutOfMemory,
    ProcessExit,
    RasStatus,
    SchedulerEvent,
    Stack,
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
from nccldoctor.words.names import ranks_phrase, verb
from nccldoctor.words.sanitize import line

BRIEF = 120
"""Characters of a scheduler's message in a headline."""

_TAKEN = {
    "cancelled": ("was", "cancelled by the scheduler"),
    "evicted": ("was", "evicted by the scheduler"),
    "failed": ("", "failed, according to the scheduler"),
    "node-failure": ("was", "lost to a node failure"),
    "oom": ("was", "killed for running out of memory"),
    "preempted": ("was", "preempted by the scheduler"),
    "requeue": ("was", "requeued by the scheduler"),
    "task-exit": ("was", "reported as failed by the scheduler"),
    "time-limit": ("was", "stopped at the job's time limit"),
}


def process_name(event: Event) -> str:
    """A process whose global rank is unknown, as its launcher calls it: ``local rank 2 (node1, pid 4711)``."""
    name = _called(event) if isinstance(event, ProcessExit) else "a process"
    known = ", ".join(filter(None, (event.host or "", f"pid {event.pid}" if event.pid is not None else "")))
    return f"{name} ({known})" if known else name


def _called(event: ProcessExit) -> str:
    if event.name:
        return event.name
    if event.local_rank is not None:
        return f"local rank {event.local_rank}"
    return f"srun task {event.task}" if event.task is not None else "a process"


def subject_of_end(event: Event) -> str:
    """What ended where no rank is known: a job for the scheduler, else a process."""
    if isinstance(event, SchedulerEvent) and event.is_withdrawal:
        return "a pod" if event.what == "evicted" else "the job"
    return process_name(event)


def signal_of(event: ProcessExit) -> str | None:
    """The signal that ended a process, by its record or its exit code."""
    code = event.exitcode or 0
    return event.signal or FATAL.get(code) or (FATAL.get(128 - code) if code > 128 else None)


def ended(who: str, ranks: Ranks, events: Sequence[Event]) -> Headline:
    """Rank 5 (node2) was killed by SIGKILL. ``events`` record one end, the first of them says how."""
    event = events[0]
    many = verb(ranks, "was", "were") if ranks else "was"
    if isinstance(event, OutOfMemory):
        return Headline(who, "killed because memory ran out", event.process or event.scope, be=many)
    if isinstance(event, SchedulerEvent):
        be, did = _TAKEN.get(event.what, ("", f"ended ({event.what.replace('-', ' ')})"))
        return Headline(who, did, _brief(event.detail), be=many if be else "")
    if isinstance(event, RasStatus):
        return Headline(who, "dead, according to NCCL RAS", be=verb(ranks, "is", "are") if ranks else "is")
    if isinstance(event, ProcessExit):
        name = signal_of(event)
        if is_slurm_out_of_memory(event.text) or any(isinstance(e, SchedulerEvent) and e.what == "oom" for e in events):
            return Headline(who, f"killed by {name or 'a signal'} because memory ran out", be=many)
        if name == "SIGABRT":  # a process does that to itself
            return Headline(who, "aborted (SIGABRT)")
        if name is not None:
            return Headline(who, f"killed by {name}", be=many)
        if event.exitcode is not None:
            return Headline(who, f"exited with code {event.exitcode}")
        if event.is_heartbeat_loss:
            pronoun = verb(ranks, "it", "they") if ranks else "it"
            return Headline(who, "died", f"{pronoun} stopped sending heartbeats")
        return Headline(who, "exited, with no exit code or signal on record")
    return Headline(who, "ended", line(event.text, 80))


def _brief(text: str) -> str:
    """The first sentences of a scheduler's message that fit; a longer first one is cut at a word."""
    flat = " ".join(text.split())
    if len(flat) <= BRIEF:
        return flat
    whole = flat[: BRIEF + 1].rpartition(". ")[0]
    return whole or flat[:BRIEF].rpartition(" ")[0] + "…"


def host_lost(events: Sequence[Event], ranks: Ranks, call: str) -> Headline | None:
    """Host node2 went down before ALLREDUCE #18 and took ranks 8-15 with it.

    None where no scheduler names a host that failed.
    """
    event = events[0]
    if not isinstance(event, SchedulerEvent) or event.what != "node-failure" or not ranks:
        return None
    host = failed_node(event.detail)
    before = f" before {call}" if call else ""
    return (
        Headline(f"host {line(host, 60)}", f"went down{before} and took {ranks_phrase(ranks)} with it")
        if host
        else None
    )


def before(headline: Headline, call: str) -> Headline:
    """The headline with the call that the ranks did not reach any more."""
    return replace(headline, did=f"{headline.did} before {call}") if call else headline


def with_waiting(headline: Headline, inside: Ranks, call: str) -> Headline:
    """The headline of a process that may belong to a call, with the ranks that wait in it."""
    if not inside:
        return headline
    return replace(
        headline, did=f"{headline.did}, and {ranks_phrase(inside)} {verb(inside, 'is', 'are')} stuck in {call}"
    )


def ended_by_record(event: Event) -> str:
    """What the record of one end shows: ``Rank 3 was killed by SIGKILL.``"""
    ranks = Ranks([event.rank] if event.rank is not None else [])
    return ended(ranks_phrase(ranks) if ranks else process_name(event), ranks, [event]).sure


def exited_early(who: str, call: str) -> Headline:
    """Rank 3 (node0) exited with code 0 before ALLREDUCE #9."""
    return Headline(who, f"exited with code 0 before {call}")


def exited_unlisted(who: str, call: str) -> Headline:
    """Rank 3 (node0) exited without an error before ALLREDUCE #9."""
    return Headline(who, f"exited without an error before {call}")


def connections_broke(who: str, call: str) -> Headline:
    """Rank 3 (node0) disappeared before ALLREDUCE #9: its peers' connections broke."""
    return Headline(who, f"disappeared before {call}", "connections of its peers broke")


def exited_with(rank: int, code: int | None) -> str:
    """What a launcher's record of an exit shows."""
    return (
        f"Rank {rank} exited with code {code}."
        if code is not None
        else f"The launcher recorded the exit of rank {rank}."
    )


def unlisted(host: str | None, listed: int, rank: int) -> str:
    """What a launcher's table shows that lists the processes which it still had."""
    return f"The launcher's table of {host} lists {listed} ranks but not rank {rank}, which had exited with code 0."


def connection_broke(rank: int | None) -> str:
    """What a closed connection shows."""
    return f"A connection of rank {rank} broke." if rank is not None else "A connection broke."


# exceptions


def crashed(who: str, event: Event, *, is_only_logged: bool) -> Headline:
    """Rank 6 (node1) crashed: FileNotFoundError: shard_00004.idx (load_batch, train.py:99)."""
    text = event.message if isinstance(event, ExceptionRaised | CudaError) else getattr(event, "text", "")
    kind = event.type.rpartition(".")[2] if isinstance(event, ExceptionRaised) else ""
    requested = requested_memory(text)
    at = _place(event.frame) if isinstance(event, ExceptionRaised) and event.frame else ""
    memory = "GPU" if kind == "OutOfMemoryError" or is_gpu_full(text) else ""
    memory = memory or ("host" if kind == "MemoryError" or is_host_full(text) else "")
    if memory:
        tried = f"it tried to allocate {requested}" if requested else ""
        where = f"in {at[0]} ({at[1]})" if at and at[1] else f"in {at[0]}" if at else ""
        return Headline(who, f"ran out of {memory} memory", " ".join(filter(None, (tried, where))))
    where = f" ({', '.join(filter(None, at))})" if at else ""
    return Headline(who, "logged an exception" if is_only_logged else "crashed", f"{exception_words(event)}{where}")


def _place(frame: str) -> tuple[str, str]:
    """Function and short file with line of a frame: ``("load_batch", "train.py:99")``."""
    found = parse_frame(innermost((frame,)))
    if found is None:
        return line(frame, 80), ""
    function, file, number = found
    return function, f"{file}:{number}" if number is not None else file


def raised_by_record(event: Event) -> str:
    """What a traceback shows."""
    who = f"Rank {event.rank}" if event.rank is not None else "A rank"
    if isinstance(event, OutOfMemory):
        return f"{who} ran out of memory."
    words = exception_words(event, full=True)
    return f"{who} raised {words}" + ("" if words.endswith((".", "…")) else ".")


def still_there(stack: Stack) -> str:
    """What a stack behind an exception shows: that it did not end its process."""
    user = user_frame(stack.frames)
    return f"Rank {stack.rank} did not exit: its process was in {innermost((user or stack.frames[0],))}."


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


AFTER_EXCEPTION = "that rank logged steps after the exception, or ranks that kept running raised it, too"
