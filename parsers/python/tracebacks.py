"""Python tracebacks in the output of several processes: where one begins, which line ends it, and its frames.

The shape is that of CPython's ``traceback`` module (3.8 to 3.14), of its exception groups, of ``rich`` and of
``torch.utils.data``'s re-raised workers. Tracebacks of processes that share one stream arrive line by line; the first
header is then taken to own the first exception, so that each exception is told once.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import chain, islice, takewhile

from msgspec import Struct

from nccldoctor.model.recorded_calls import Frame
from nccldoctor.parsers.base import Line
from nccldoctor.patterns import lazy

_CHAIN, _MOST_LINKS = 400, 32
"""Lines of a chain of exceptions that are looked at, and of those its exceptions and headers that are kept."""


def chained_lines(header: Line) -> tuple[Line, ...]:
    """The exceptions on top of which the one of this traceback was raised, and their headers: nearest first.

    What was found for the header of one serves the next: a program that tries again and again chains them without end.
    """
    out: list[Line] = []
    awaiting = "separator"
    for line in header.preceding(_CHAIN):
        text = line.body.strip()
        if not text:
            continue
        if awaiting == "separator":
            if not any(separator in text for separator in SEPARATORS):
                break
            awaiting = "exception"
        elif is_header(line):
            out.append(line)
            known = line.window.noted.get(("chain", line.place, line.body))
            if known is not None:
                out += known
                break
            awaiting = "separator"
        elif awaiting == "exception" and exception_in(text):
            out.append(line)
            awaiting = "header"
    header.window.noted["chain", header.place, header.body] = tuple(out[:_MOST_LINKS])
    return tuple(out[:_MOST_LINKS])


def causes(chain: Iterable[Line]) -> Iterator[tuple[str, str]]:
    """Type and message of the exceptions among the lines of a chain."""
    for line in chain:
        if match := exception_in(line.body.strip()):
            yield match["type"], match["message"] or ""


def next_in_chain(found: Raised) -> Line | None:
    """The header of the traceback that was raised on top of this one."""
    separated = False
    for line in found.line.following(12):
        if is_header(line):
            return line if separated else None
        separated = separated or any(separator in line.body for separator in SEPARATORS)
    return None


_FRAMES = (
    lazy(r'File "(?P<file>[^"]{1,1000})", line (?P<line>\d{1,9})(?:, in (?P<function>\S[^\n]{0,200}))?'),
    lazy(r"^[│\s]{0,40}(?P<file>\S{1,1000}\.py):(?P<line>\d{1,9}) in (?P<function>\S{1,200})"),
)


@lru_cache(maxsize=1 << 10)
def frame_in(text: str) -> Frame | None:
    """The frame that a line of a traceback names: (function, file, line)."""
    for pattern in _FRAMES:
        if match := pattern.search(text):
            return ((match["function"] or "<unknown>").strip(), match["file"], int(match["line"]))
    return None


def is_code_in_traceback(line: Line) -> bool:
    """True when a line is code that a traceback shows under a frame, and no output of it.

    Example: ``    raise MemoryError("no room")`` under ``  File "/srv/load.py", line 7, in fill``.
    """
    if not line.body.startswith("    "):
        return False
    above = next(iter(line.preceding(1)), None)
    return above is not None and _FRAMES[0].search(above.body) is not None


_TORCH = (
    r"(?:^|/)torch/(?:nn|distributed|utils|autograd|_\w{1,40}|optim|cuda|multiprocessing|serialization|storage|functional|fx"
    r"|amp|ao|jit|profiler|futures|__init__)\b"
)
_PYTHON = r"/lib(?:64)?/python[\d.]{1,8}/(?!site-packages|dist-packages)|^<frozen |^<string>$|/bin/[\w.-]{1,60}$"

_NOT_USER_CODE = (
    lazy(rf"(?:site|dist)-packages/|/lib(?:64)?/python\d|/Lib/|{_TORCH}|{_PYTHON}"),
    lazy(f"{_TORCH}|{_PYTHON}"),
)
"""What to pass over when looking for the user's code: every package, then torch and Python alone."""


@lru_cache(maxsize=1 << 8)
def user_frame(frames: tuple[Frame, ...]) -> Frame | None:
    """The innermost frame of the user's own code; else of a framework's; None where all is torch's or Python's."""
    for pattern in _NOT_USER_CODE:
        for part in frames:
            if not pattern.search(part[1].replace("\\", "/")):
                return part
    return None


def frame_text(part: Frame) -> str:
    """A frame as events carry it: ``function (file:line)``."""
    function, file, number = part
    return f"{function} ({file}:{number})"


HEADER = "Traceback (most recent call last)"
"""What begins every traceback; ``rich`` prints it without the colon."""

SEPARATORS = (
    "During handling of the above exception, another exception occurred",
    "The above exception was the direct cause of the following exception",
)
"""What CPython prints between an exception and the one that was raised on top of it."""

_LONGEST = 400
_REACH = 3000
_AT_ONCE = 32  # processes whose tracebacks may run into each other; bounds the work on hostile text
_BOX = ("│", "╭", "╰", "❱")


class Raised(Struct, frozen=True):
    """How a traceback ended. ``frames`` are innermost first; ``line`` names the exception, or is the last one there
    is where the text is cut (then ``type`` is empty). ``code`` holds the quoted line of each frame, "" where there is none.
    """

    line: Line
    type: str
    message: str
    frames: tuple[Frame, ...]
    code: tuple[str, ...] = ()


_NAME = r"[A-Za-z_]\w{0,100}"
_DOTTED = rf"{_NAME}(?:\.{_NAME}){{0,15}}"
_EXCEPTION = lazy(rf"(?P<type>{_DOTTED}(?:Error\({_DOTTED}\))?)(?::(?:\s(?P<message>.*))?|\s*)$")

_ERROR_NAME = lazy(
    r"(?:Error|Exception|Interrupt|Exit|Expired|Timeout|Warning|StopIteration|StopAsyncIteration|Failure|Fault|Abort(?:ed)?"
    r"|Cancelled|Unavailable|NotFound|Died|ExceptionGroup|RemoteTraceback|Error_\w{1,60})(?:\([\w.]{1,200}\))?$"
)


_TORN = lazy(r"[a-z](?:Er{0,2}|Erro|Ex(?:c(?:e(?:p(?:t(?:io?)?)?)?)?)?)$")
_BUILT_IN = tuple(
    name for name, kind in vars(builtins).items() if isinstance(kind, type) and issubclass(kind, BaseException)
)

NAMED_LINE = lazy(rf"^\s*(?!nccl)[\w.]{{0,1700}}?{_ERROR_NAME.pattern[:-1]}(?::\s|:?\s*$)")
"""What a line looks like that is an exception by its name alone: see :func:`exception_in`."""


def is_header(line: Line) -> bool:
    """True when a traceback begins on this line."""
    return HEADER in line.body


def exception_in(text: str) -> re.Match[str] | None:
    """``type`` and ``message`` of a line that is an exception by its name alone. NCCL's ``ncclRemoteError: …`` is none:
    it stands inside the message of one.
    """
    match = _EXCEPTION.match(text)
    if match is None or text.startswith("nccl") or not _ERROR_NAME.search(match["type"]):
        return None
    return match


@lru_cache(maxsize=1 << 10)
def _unusual(text: str) -> re.Match[str] | None:
    """An exception whose name does not tell (``queue.Empty``, ``LossIsNaN: step 5``); believed below a frame alone."""
    match = _EXCEPTION.match(text)
    if match is None or _is_cut(match):
        return None
    return match if "." in match["type"] or match["type"][0].isupper() else None


def _is_cut(match: re.Match[str]) -> bool:
    """True of a name that a progress bar or the end of the text tore: ``RuntimeErr``, ``torch.OutOfMemoryE``, ``torch.distri``."""
    path, _, last = match["type"].rpartition(".")
    if match["message"] or match[0].rstrip().endswith(":"):
        return False
    is_module = bool(path) and last[:1].islower()
    return is_module or bool(_TORN.search(last)) or any(name.startswith(last) for name in _BUILT_IN if not path)


def _unwrapper(header: Line) -> Callable[[str], str]:
    """A function that removes the front of each line of this traceback: an indent, a group's ``|``, a prefix."""
    before = header.body[: header.body.find(HEADER)].removesuffix("Exception Group ")
    if not before.strip(" |+\t"):
        depth = len(before)
        return lambda text: text[depth:] if not text[:depth].strip(" |+\t") else text
    shape = re.sub(r"\d", "0", before)
    following = _line_behind(header)
    if following is not None and re.sub(r"\d", "0", following.body[: len(before)]) == shape:
        return lambda text: text[len(before) :] if re.sub(r"\d", "0", text[: len(before)]) == shape else text
    # the launcher's table: "  traceback : Traceback …", with its frames indented alike
    depth = len(header.body) - len(header.body.lstrip())
    return lambda text: text[depth:] if not text[:depth].strip() else text


def _line_behind(header: Line) -> Line | None:
    """The next line that is not blank: some collectors put a blank line behind every line."""
    return next((line for line in header.following(2) if line.body.strip()), None)


def _own(header: Line) -> Iterator[Line]:
    """The lines after a header that may belong to its traceback.

    They carry the mark of the line right behind the header: none where the writer prefixes only the first line of a record.
    """
    first = _line_behind(header)
    if first is None:
        return iter(())
    stream = first.mark.stream
    # Of the next lines whoever wrote them: a writer that falls silent would be searched for to the end of the window.
    return islice(header.window.near_of(stream, header, _REACH), _LONGEST)


def _is_part(text: str) -> bool:
    return text[:1].isspace() or text.startswith(_BOX) or frame_in(text) is not None


def count_open_before(line: Line, limit: int = 200) -> int:
    """The number of tracebacks of the same writer that began before this line and have not ended yet.

    Where each rank writes under its own name the count stops at 1. What was counted for a line serves those behind it.
    """
    known, stream = line.window.noted, line.mark.stream
    opened: tuple[int, ...] = ()  # how many lines above each one began, the first one first
    found: list[tuple[int, bool]] = []
    foreign = unusual = 0
    is_frame = False
    for far, earlier in enumerate(line.preceding(limit), 1):
        text = earlier.body
        if unusual and _is_part(text):
            found.append((unusual, False))
        unusual = far if _unusual(text) and not is_frame else 0
        is_frame = frame_in(text) is not None
        if is_header(earlier) or (exception_in(text.strip()) and not is_frame):
            found.append((far, is_header(earlier)))
            before = known.get((stream, earlier.place, text)) if earlier.mark.stream == stream else None
            if before is not None:
                opened = tuple(far + more for more in before if far + more <= limit)
            if before is not None or line.mark.rank is not None:
                break
        elif not _is_part(text) and text.strip():
            foreign += 1
            if foreign > 8:
                break
            continue
        foreign = 0
    for far, begins in reversed(found):
        opened = (*opened, far)[-_AT_ONCE:] if begins else opened[1:]
    known[stream, line.place, line.body] = opened
    return len(opened)


def read_traceback(header: Line) -> Raised:
    """The traceback that begins on ``header``, to its exception."""
    skip = 0 if header.mark.rank is not None else count_open_before(header)
    found = _read_skipping(header, skip)
    return found if found.type or not skip else _read_skipping(header, 0)


def _read_skipping(header: Line, wanted: int) -> Raised:
    skip = wanted
    unwrap = _unwrapper(header)
    frames: list[Frame] = []
    code: list[str] = []
    last = header
    inside = False
    begun = 0
    doubtful: tuple[Line, re.Match[str]] | None = None
    # a stretch in which no exception stands, from a header like this one to a line, and the tracebacks that begin in it
    key = ("barren", header.mark.stream, header.body[: header.body.find(HEADER)])
    start, end, inner = header.window.noted.get(key, (header, header, 0))
    lines, is_barren = _own(header), _line_number(start) < _line_number(header) < _line_number(end)
    if is_barren:
        left = max(0, _LONGEST - _line_number(end) + _line_number(header))
        behind = header.window.near_of(header.mark.stream, end, left)
        lines, begun = chain(takewhile(lambda line: not is_header(line), lines), behind), inner
    line = header
    for line in lines:
        text = unwrap(line.body)
        part = frame_in(text)
        if doubtful is not None and part is None and not skip:
            return _ended(*doubtful, unwrap, frames, code)  # no frame follows it: it was the exception
        doubtful = None
        if part is not None:
            if not frames or frames[-1] != part:
                frames.append(part)
                code.append("")
            inside = True
        elif is_header(line):
            inside = False
            begun += 1
            if begun > _AT_ONCE:
                break
        elif text[:1].isspace() or text.startswith(_BOX) or not text.strip():
            if inside and not code[-1]:
                code[-1] = text.strip(" ^~")[:300]
            inside = inside and bool(text.strip())
        elif match := exception_in(text):
            if not skip:
                return _ended(line, match, unwrap, frames, code)
            skip -= 1
        else:
            match = _unusual(text) if inside else None
            doubtful = (line, match) if match is not None else None
            inside = False
        last = line if text.strip() and not begun else last
    if doubtful is not None:
        return _ended(*doubtful, unwrap, frames, code)
    if skip == wanted and begun and _line_number(line) > _line_number(end):
        header.window.noted[key] = (start if is_barren else header, line, begun - 1)
    return Raised(last, "", "", tuple(reversed(frames)), tuple(reversed(code)))


def _line_number(line: Line) -> int:
    return line.place.line or 0


def _ended(
    line: Line, match: re.Match[str], unwrap: Callable[[str], str], frames: list[Frame], code: list[str]
) -> Raised:
    message = _message(match["message"] or "", line, unwrap)
    return Raised(line, match["type"], message, tuple(reversed(frames)), tuple(reversed(code)))


def _message(first: str, line: Line, unwrap: Callable[[str], str]) -> str:
    """The message with those of its further lines that certainly belong to it.

    These are indented ones; the next one where the first is empty; and every prefixed one in the rank-prefixed style of
    ``init_process_group`` (2.4 and later).
    """
    parts = [first.strip()] if first.strip() else []
    prefixed = line.mark.rank is not None and line.mark.severity is None
    for extra in islice(line.window.near_of(line.mark.stream, line, 200), 12):
        text = unwrap(extra.body)
        if extra.mark.severity is not None or extra.mark.time != line.mark.time:
            break
        if is_header(extra) or frame_in(text) is not None or any(separator in text for separator in SEPARATORS):
            break
        if not text.strip(" =*-") or exception_in(text) or not (text[:1].isspace() or prefixed or not parts):
            break
        parts.append(text.strip())
    return "\n".join(parts)[:2000]


def read_tail(line: Line) -> Raised | None:
    """The exception that this line names, with the frames above it: for text whose beginning is cut off."""
    match = exception_in(line.body)
    if match is None:
        return None
    frames: list[Frame] = []
    for earlier in line.preceding(60):
        if not _is_part(earlier.body):
            break
        part = frame_in(earlier.body)
        if part is not None:
            frames.append(part)
    return Raised(line, match["type"], _message(match["message"] or "", line, str), tuple(frames))
