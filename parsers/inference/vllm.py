"""vLLM's engine, which waits for its workers: they take no more messages, or do not answer.

Sources: vllm ``distributed/device_communicators/shm_broadcast.py``, ``v1/executor/multiproc_executor.py`` and
``v1/engine/utils.py``, 0.6 to 0.20.
The first message is also printed while workers compile; it says nothing more than that one of them is not back yet.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccldoctor.events import AbsenceReport, AbsenceWarning, Event
from nccldoctor.parsers.base import Line, common, line_parser, reads
from nccldoctor.parsers.python import tracebacks
from nccldoctor.parsers.rows import Row, RowParser


@line_parser
class VllmEngine(RowParser):
    """*absence-warning* of a full message queue, *absence-report* of an answer that did not come."""

    event = AbsenceWarning
    rows = (
        Row(
            ("shared memory broadcast block found in", "No available block found in"),
            r"No available (?:shared memory broadcast )?block found in (?P<seconds>\d{1,6}) second",
            by="vLLM",
            what="answer",
        ),
        Row(
            "RPC call to ",
            r"RPC call to (?P<call>\w{1,80}) timed out",
            AbsenceReport,
            by="vLLM",
            what="answer",
        ),
        Row(
            "Timed out waiting for engine",
            r"Timed out waiting for engine(?: core processes to start|s to send initial message)",
            AbsenceReport,
            by="vLLM",
            what="set-up",
        ),
    )


_CALLS = ("worker_response_mq.dequeue(", "get_response(w, dequeue_timeout")
_BELOW = 40


@reads('/multiproc_executor.py", line ')
def cut_wait(line: Line) -> Iterator[Event]:
    """*absence-report* where the traceback of the engine is cut inside its wait for an answer.

    Where the exception is named, its own parser tells it.
    """
    waits = any(call in below.body for below in line.following(2) for call in _CALLS)
    if waits and not any(tracebacks.exception_in(below.body.strip()) for below in line.following(_BELOW)):
        yield AbsenceReport(**common(line), by="vLLM", what="answer")
