"""TensorRT-LLM's hang detector, and the stacks of all threads that it prints.

Sources: TensorRT-LLM ``_torch/pyexecutor/hang_detector.py``, ``_utils.py`` (``print_all_stacks``) and ``logger.py``, 1.1 to 1.3.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccldoctor.events import AbsenceReport, Event, Stack
from nccldoctor.parsers.base import Line, LineParser, common, line_parser
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
class HangStacks(LineParser):
    """*stack* of each thread, which is printed outermost frame first."""

    literals = (" stack trace:",)

    def parse(self, line: Line) -> Iterator[Event]:
        hit = _THREAD.search(line.body)
        frames = sf.collect(line, sf.faulthandler_frame)[::-1] if hit else ()
        if hit and frames:
            main = not sf.is_started_by_threading(frames)
            yield Stack(**common(line), thread=hit["id"], frames=frames, main=main, tool="TensorRT-LLM")
