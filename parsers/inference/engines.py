"""What the rows of the engines need code for: stacks, and a wait whose traceback is cut."""

from __future__ import annotations

import re
from collections.abc import Iterator

from nccldoctor.events import AbsenceReport, Event, Stack
from nccldoctor.parsers.base import Line, common
from nccldoctor.parsers.python import tracebacks
from nccldoctor.parsers.rows import for_rows
from nccldoctor.parsers.stacks import frames as sf

_CALLS = ("worker_response_mq.dequeue(", "get_response(w, dequeue_timeout")
_BELOW = 40


@for_rows
def cut_wait(line: Line, hit: re.Match[str]) -> Iterator[Event]:
    """*absence-report* of a wait of vLLM for an answer, where no exception follows."""
    waits = any(call in below.body for below in line.following(2) for call in _CALLS)
    if waits and not any(tracebacks.exception_in(below.body.strip()) for below in line.following(_BELOW)):
        yield AbsenceReport(**common(line), by="vLLM", what="answer")


@for_rows
def hang_stack(line: Line, hit: re.Match[str]) -> Iterator[Event]:
    """*stack* of a thread, which TensorRT-LLM prints outermost frame first."""
    if frames := sf.collect(line, sf.faulthandler_frame)[::-1]:
        main = not sf.is_started_by_threading(frames)
        yield Stack(**common(line), thread=hit["id"], frames=frames, main=main, tool="TensorRT-LLM")
