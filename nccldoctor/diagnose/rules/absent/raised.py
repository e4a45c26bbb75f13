"""A rank ended with an exception of its own.

What it means: user code or a library raised on this rank, before anybody timed out; the others wait for a rank that has left its
loop, even if its process lingers in clean-up.
How we know: a traceback whose exception is not an echo of a failed collective, store or connection, or an error that CUDA returns to a
faulty program, of a rank that is not waiting in a call itself; the launcher's exit record where there is one.
What would refute it: steps of that rank after the exception, or the same exception on ranks that went on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from nccldoctor.align.exits import SLACK, has_ended_badly
from nccldoctor.align.facts import Facts
from nccldoctor.align.failures import Failure
from nccldoctor.align.stalls import StallKind
from nccldoctor.diagnose.citations import Citation, Line, Waiting
from nccldoctor.diagnose.hypothesis import Hypothesis
from nccldoctor.diagnose.observations import ObservedStall
from nccldoctor.diagnose.registry import rule
from nccldoctor.diagnose.signs.absence import are_only_ones_left
from nccldoctor.diagnose.signs.silence import ranks_without_alarm, show_lost_connections
from nccldoctor.events import CudaError, ExceptionRaised, OutOfMemory
from nccldoctor.model import CauseClass, Confidence, Doubt
from nccldoctor.model.ranks import Ranks
from nccldoctor.parsers.event_details import is_gpu_full, is_host_full, requested_memory
from nccldoctor.words.names import ranks_phrase

CAUSE = CauseClass.RAISED


@rule(CAUSE, refuted_by="steps of that rank after the exception, or the same exception on ranks that went on")
def judge(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
    """The earliest exception of a rank that others wait for, or that nothing else explains."""
    waits_in = facts.wait_graph.waits_in
    failures = [f for f in facts.failures if f.cause is CAUSE and not any(waits_in.get(r) for r in f.ranks)]
    if stall.kind is StallKind.ABSENT:
        failures = [f for f in failures if f.ranks & stall.ranks] or [f for f in failures if f.certain and not f.ranks]
    elif stall.kind is not StallKind.CRASH:
        return None
    if not failures:
        return None
    only_left = _only_rank_left(facts, stall) if not failures[0].ranks else Ranks()
    if only_left:
        failures = [replace(failures[0], ranks=only_left, certain=False)]
    first = failures[0]
    if stall.kind is StallKind.CRASH:
        failures = [f for f in failures if _is_same_failure(f, first)]
    return _failed(facts, stall, failures, is_inferred=bool(only_left))


def _only_rank_left(facts: Facts, stall: ObservedStall) -> Ranks:
    """Returns the only rank that can have raised an exception whose line names no rank.

    It is the only absent rank, unless another one exited with 1 first; after a crash it is the only one that did so.
    """
    activities = facts.liveness.by_rank.items()
    failed = Ranks(r for r, activity in activities if any(e.exitcode == 1 and e.first for e in activity.exits))
    if stall.kind is StallKind.CRASH:
        return failed if len(failed) == 1 else Ranks()
    ranks = stall.named if stall.ranks == facts.wait_graph.roots else Ranks()  # one exception is not that of several
    return ranks if len(ranks) == 1 and (not failed or ranks <= failed) else Ranks()


def _failed(facts: Facts, stall: ObservedStall, failures: Sequence[Failure], *, is_inferred: bool) -> Hypothesis:
    ranks = Ranks(r for f in failures for r in f.ranks)
    citations: list[Citation] = [
        Line(e, f"{_rank_words(e.rank)} {_raised_words(e)}") for f in failures[:4] for e in f.events
    ]
    for rank in list(ranks)[:2]:
        for event in facts.liveness.activity(rank).exits[:1]:
            ended = f"the launcher saw rank {rank} end with exit code {event.exitcode}"
            citations.append(Line(event, ended, observer="launcher"))
        citations += stall.outside[rank]
    was_last = all(_was_silent_after(facts, f) for f in failures)
    lost = show_lost_connections(facts, ranks) if was_last else []
    error = failures[0].events[0]
    where = f" at {error.frame}" if isinstance(error, ExceptionRaised) and error.frame else ""
    wait = f"; the others wait for it in {stall.what}" if stall.call is not None else ""
    who = ranks_phrase(ranks) if ranks else "a rank"
    return Hypothesis(
        f"{who[0].upper()}{who[1:]} {_what_happened(error, _is_only_logged(facts, failures[0]))}{where}{wait}",
        [*citations, Waiting(stall.call), *lost],
        [*_doubts_of_failure(facts, stall, failures[0], bool(lost), is_inferred)],
        ranks=ranks,
        suspects=Ranks() if ranks else ranks_without_alarm(facts),
        call=stall.call,
    )


def _doubts_of_failure(
    facts: Facts, stall: ObservedStall, first: Failure, has_broken_connection: bool, is_inferred: bool
) -> Iterator[Doubt]:
    """Doubts that the exception belongs to the rank, and that it came before the stall."""
    if not first.ranks:
        yield Doubt.at_most(Confidence.LOW, "no line ties the exception to a rank")
    elif isinstance(first.events[0], ExceptionRaised) and first.events[0].is_of_mpi:
        says = "a call of MPI can fail on one rank because of a peer, or of the network"
        yield Doubt.at_most(Confidence.MEDIUM, says)
    elif isinstance(first.events[0], OutOfMemory):
        yield Doubt.at_most(Confidence.LOW, "a line about full memory ends no process by itself")
    elif is_inferred:
        failed = all(any(e.exitcode == 1 for e in facts.liveness.activity(r).exits) for r in first.ranks)
        if not failed or stall.kind is not StallKind.ABSENT:
            known = Confidence.HIGH if are_only_ones_left(facts, first.ranks) else Confidence.MEDIUM
            says = "the exception names no rank: this is the only one left that can have raised it"
            yield Doubt(says, known, Confidence.MEDIUM)
    elif _is_only_logged(facts, first) and not has_broken_connection:
        known = Confidence.HIGH if are_only_ones_left(facts, first.ranks) else Confidence.MEDIUM
        known = known if stall.kind is StallKind.ABSENT else Confidence.LOW
        yield Doubt("code caught the exception and logged it: the rank may have gone on", known, Confidence.LOW)
    elif not (first.certain or has_broken_connection or stall.kind is StallKind.ABSENT):
        yield Doubt.at_most(Confidence.MEDIUM, "the exception was caught, and nobody is seen to wait for the rank")


def _is_only_logged(facts: Facts, failure: Failure) -> bool:
    """True when code caught the exception, and no exit or abort of its rank is on record."""
    return not failure.certain and not all(has_ended_badly(facts.liveness.activity(r)) for r in failure.ranks)


def _was_silent_after(facts: Facts, failure: Failure) -> bool:
    """True when the ranks of a failure wrote nothing after it but its traceback."""
    return all(
        facts.liveness.activity(r).last_event in (*failure.events, *facts.liveness.activity(r).own_exceptions)
        for r in failure.ranks
    )


def _rank_words(rank: int | None) -> str:
    return f"rank {rank}" if rank is not None else "a rank"


def _what_happened(event: object, is_only_logged: bool) -> str:
    """Describes the end of the rank in words.

    For a reader, out of memory is no exception but a full GPU or host.
    """
    text = event.message if isinstance(event, ExceptionRaised | CudaError) else getattr(event, "text", "")
    kind = event.type.rpartition(".")[2] if isinstance(event, ExceptionRaised) else ""
    requested = requested_memory(text)
    detail = f" (it tried to allocate {requested})" if requested else ""
    if kind == "OutOfMemoryError" or is_gpu_full(text):
        return f"ran out of GPU memory{detail}"
    if kind == "MemoryError" or is_host_full(text):
        return f"ran out of host memory{detail}"
    return f"{'logged' if is_only_logged else 'ended with'} {_exception_words(event)}"


def _raised_words(event: object) -> str:
    return "ran out of memory" if isinstance(event, OutOfMemory) else f"raised {_exception_words(event)}"


def _exception_words(event: object) -> str:
    if isinstance(event, ExceptionRaised):
        message = _first_words(event.message.split("\n", 1)[0])
        return f"{event.type}: {message}" if message else event.type
    if isinstance(event, CudaError):
        return f"a CUDA error: {_first_words(event.message)}"
    return "an exception"


def _first_words(message: str) -> str:
    """The first 120 characters of a message, to the end of the last word."""
    end = message.find(" ", 120)
    return message[:200] if end < 0 else f"{message[: min(end, 200)].rstrip(' ,;:')} …"


def _is_same_failure(failure: Failure, first: Failure) -> bool:
    """True when two ranks failed together.

    They did so at the same time, at an unknown time, or with one error a few seconds apart.
    """
    same = _exception_words(failure.events[0]) == _exception_words(first.events[0])
    return failure.when == first.when or failure.when != failure.when or (same and failure.when - first.when <= SLACK)
