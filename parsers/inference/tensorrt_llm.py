"""TensorRT-LLM's hang detector with the stacks of all threads that it prints, and the words of its C++ runtime.

Sources: TensorRT-LLM ``_torch/pyexecutor/hang_detector.py``, ``_utils.py`` (``print_all_stacks``) and ``logger.py``, 1.1 to 1.3;
``cpp/tensorrt_llm/common/assert.h`` and ``cpp/tensorrt_llm/runtime/utils/mpiUtils.cpp``, 0.12 to 1.2.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccldoctor.events import AbsenceReport, Event, ExceptionRaised, Note, Stack
from nccldoctor.parsers.base import Line, common, line_parser, reads
from nccldoctor.parsers.rows import Row, RowParser
from nccldoctor.parsers.stacks import frames as sf
from nccldoctor.patterns import lazy

_THREAD = lazy(r"Thread (?P<id>\d{1,20}) stack trace:\s*$")


@line_parser
class HangDetector(RowParser):
    """*absence-report*: the executor loop of this rank made no step."""

    event = AbsenceReport
    rows = (
        Row(
            "Hang detected ",
            r"\bHang detected (?:on rank (?P<rank>\d{1,7}) in PyExecutor|after (?P<seconds>\d{1,9}) seconds\.)",
            by="TensorRT-LLM",
            what="step",
        ),
    )


@line_parser
class EngineLines(RowParser):
    """*exception* of the C++ runtime that no Python code sees, and how many processes MPI started."""

    rows = (
        Row(
            "[TensorRT-LLM][ERROR] Assertion failed: ",
            r"\[TensorRT-LLM\]\[ERROR\] Assertion failed: (?P<message>.{0,80}\bNCCL error .{1,300})",
            ExceptionRaised,
            type="TllmException",
            origin="echo",
        ),
        Row(
            "[TensorRT-LLM][ERROR] Assertion failed: ",
            r"\[TensorRT-LLM\]\[ERROR\] Assertion failed: (?P<message>.{1,300})",
            ExceptionRaised,
            type="TllmException",
            origin="own",
        ),
        Row(
            "MPI size: ",
            r"\bMPI size: (?P<detail>\d{1,6}), MPI local size: \d{1,6}, rank: (?P<rank>\d{1,7})",
            Note,
            what="world-size",
        ),
    )


@reads(" stack trace:")
def hang_stacks(line: Line) -> Iterator[Event]:
    """*stack* of each thread, which is printed outermost frame first."""
    hit = _THREAD.search(line.body)
    frames = sf.collect(line, sf.faulthandler_frame)[::-1] if hit else ()
    if hit and frames:
        main = not sf.is_started_by_threading(frames)
        yield Stack(**common(line), thread=hit["id"], frames=frames, main=main, tool="TensorRT-LLM")
