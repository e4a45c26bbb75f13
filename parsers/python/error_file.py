"""``error.json``, which a worker under torchrun's ``@record`` writes when it raises.

pytorch ``torch/distributed/elastic/multiprocessing/errors/error_handler.py``: 1.9 to 2.13. ``message`` is an object
with ``extraInfo``, or in a newer form the text alone with ``timestamp`` beside it.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator
from pathlib import PurePosixPath
from typing import Any

from nccldoctor.events import ExceptionRaised
from nccldoctor.model import Gap, Place, Source
from nccldoctor.parsers.base import FileParser, Line, Mark, Parsed, file_parser
from nccldoctor.parsers.line_prefix.timestamps import time_of_seconds
from nccldoctor.parsers.python import tracebacks
from nccldoctor.parsers.python.exceptions import raised

_LARGEST = 16 << 20


class _Callstack:
    """The lines of the traceback inside the file, as neighbours of each other."""

    def __init__(self, source: Source, text: str) -> None:
        mark = Mark()
        self.noted: dict[Hashable, Any] = {}
        numbered = enumerate(text.split("\n")[:2000])
        self.lines = [Line(Place(source.id, source.path, 1, number), raw, raw, mark, self) for number, raw in numbered]

    def after(self, line: Line, limit: int) -> Iterator[Line]:
        at = (line.place.entry or 0) + 1
        return iter(self.lines[at : at + limit])

    def near(self, line: Line, limit: int) -> Iterator[Line]:
        return self.after(line, limit)

    def near_of(self, stream: str, line: Line, limit: int) -> Iterator[Line]:
        return (other for other in self.after(line, limit) if other.mark.stream == stream)

    def has_text(self, line: Line, text: str, within: int) -> bool:
        return any(text in other.raw for other in self.after(line, within))

    def before(self, line: Line, limit: int) -> Iterator[Line]:
        at = line.place.entry or 0
        return iter(self.lines[max(0, at - limit) : at][::-1])


@file_parser
class ErrorFile(FileParser):
    """One *exception*: the last of the call stack, with its frames."""

    def claims(self, head: bytes, path: str) -> bool:
        begin = head.lstrip()[:4096]
        start = b"".join(begin.split()) if begin.startswith(b"{") else b""
        if not start.startswith(b'{"message":'):
            return False
        named = PurePosixPath(path).name.startswith("error") and path.endswith(".json")
        return b'"py_callstack"' in head or start.startswith(b'{"message":{"message":') or named

    def parse(self, source: Source, content: bytes) -> Parsed:
        try:
            if len(content) > _LARGEST:
                raise ValueError(f"larger than {_LARGEST} bytes")
            contents = _message_of(json.loads(content))
        except (ValueError, RecursionError) as error:
            gap = Gap("error file", f"cannot be read as JSON: {error}"[:200], source=source.id)
            return Parsed(source, gaps=(gap,), lines=content.count(b"\n") + 1)
        if contents is None:
            return Parsed(source, gaps=(Gap("error file", "holds no message", source=source.id),), lines=1)
        return Parsed(source, (_exception_event(source, *contents),), lines=1, candidates=1, understood=1)


def _message_of(data: Any) -> tuple[str, str, str] | None:
    """Message, call stack and time stamp, wherever this version keeps them."""
    if not isinstance(data, dict):
        return None
    inner = data.get("message")
    extra: Any = data
    if isinstance(inner, dict):
        extra = inner.get("extraInfo") if isinstance(inner.get("extraInfo"), dict) else {}
        inner = inner.get("message")
    if not isinstance(inner, str):
        return None
    stack = extra.get("py_callstack", data.get("py_callstack", ""))
    stamp = extra.get("timestamp", data.get("timestamp", ""))
    return inner, stack if isinstance(stack, str) else "", str(stamp)


def _exception_event(source: Source, message: str, stack: str, stamp: str) -> ExceptionRaised:
    lines = _Callstack(source, stack or message).lines
    headers = [line for line in lines if tracebacks.is_header(line)]
    header = headers[-1] if headers else lines[0]
    traceback = tracebacks.read_traceback(header) if headers else tracebacks.Raised(header, "", "", ())
    if not traceback.type:
        named = tracebacks.exception_in(message.split("\n")[0])
        name, text = (named["type"], named["message"] or "") if named else ("", message[:2000])
        traceback = tracebacks.Raised(header, name, text, traceback.frames)
    shown = f"{traceback.type}: {traceback.message}" if traceback.type else traceback.message
    causes = tracebacks.causes(tracebacks.chained_lines(header))
    return raised(
        traceback, header, causes, place=Place(source.id, source.path, 1), text=shown[:500], time=time_of_seconds(stamp)
    )
