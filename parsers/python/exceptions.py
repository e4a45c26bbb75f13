"""Python exceptions: tracebacks, exceptions that a logger prints on one line, and those whose traceback is cut off."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from nccldoctor.events import Event, ExceptionRaised, Note
from nccldoctor.parsers.base import Line, common, reads
from nccldoctor.parsers.exit_codes import exit_and_signal
from nccldoctor.parsers.python import tracebacks
from nccldoctor.parsers.python.secondary_exceptions import is_echo, origin
from nccldoctor.parsers.python.tracebacks import Raised, frame_text, user_frame
from nccldoctor.patterns import lazy

_IGNORED = lazy(r"Exception ignored (?:in|on|while)|Error in (?:atexit|sys\.excepthook)")

_LAST_WORDS = lazy(r"WorkerProc (?:hit an exception|failed)|EngineCore (?:encountered a fatal|failed to)")
"""How engines announce an exception that ends them, though a logger prints it (vllm ``v1/executor``, ``v1/engine/core.py``)."""

_FRAMES = 60

_DEEPEST = 200
"""Lines of a traceback at most."""

_NAMED = lazy(
    r"(?<![\w.])(?P<type>(?:[A-Za-z_]\w{0,60}\.){0,12}(?:[A-Z]\w{0,60}(?:Error|Exception|Interrupt|Expired)|Exception))"
    r"(?:\([\w.]{1,120}\))?: (?P<message>\S.{0,2000})"
)
_LEVEL = lazy(r"\b(?:ERROR|CRITICAL|FATAL|SEVERE|EXCEPTION|[Ee]rror|[Ff]ailed|[Uu]nhandled|[Uu]ncaught)\b")
_WORKER = lazy(r"Caught \S{1,200} in (?:DataLoader worker process (?P<worker>\d{1,6})|pin memory thread|replica \d)")
_SPAWNED = lazy(r"-- Process (\d{1,7}) terminated with the following error:")
_SIGNAL = lazy(r"got signal: (\d{1,2})\b")
_OTHER_RANK = lazy(re.escape(tracebacks.HEADER) + r": \(RANK (\d{1,7})\)")
"""Whose traceback it is where a rank prints that of another (torch ``distributed/checkpoint/api.py``)."""


_SNIPPET, _SHORT = lazy(r"\[Rank (\d{1,7}) Error Snippet\]:\s*$"), 24
"""Above the end of a traceback that Ray Train quotes of one worker (ray ``train/v2/_internal/execution/worker_group/poll.py``)."""

_UNREDUCED = "Expected to have finished reduction in the prior iteration"
_NO_GRADIENT = lazy(
    r"Parameter(?:s which did not receive grad for rank (?P<rank>\d{1,7}): (?P<names>.{1,300})| indices which did not receive"
    r" grad for rank (?P<index_rank>\d{1,7}):)"
)
"""What DDP adds (pytorch ``c10d/reducer.cpp``, 1.9 to 2.13): names at ``TORCH_DISTRIBUTED_DEBUG``, else indices."""


_POINTS_ELSEWHERE = lazy(
    r"\. Check \S{1,200} line:[\d-]{1,20}\s*$|log file not updated for over \d| to read data item .{0,200}going to sleep"
    r"|` is detected by the operating system"
)
"""A line that sums up another log (FlagScale ``diagnostic.py`` and ``monitor_service.py``), a read that Megatron tries again, or the
signal that Paddle prints below it (``paddle/fluid/platform/init.cc``)."""


def _is_told_by_logger(line: Line) -> bool:
    """True of the first and the last line of a traceback whose exception the logger's line above it tells."""
    if tracebacks.is_header(line):
        return _is_told_above(line, tracebacks.read_traceback(line))
    if tracebacks.exception_in(line.body.strip()) is None:
        return False
    header = next(filter(tracebacks.is_header, line.preceding(_DEEPEST)), None)
    if header is None:
        return False
    traceback = tracebacks.read_traceback(header)
    return traceback.line.place == line.place and _is_told_above(header, traceback)


@reads(
    tracebacks.HEADER,
    "Error: ",
    "Exception: ",
    "Error:",
    "Exception:",
    "Interrupt",
    "Expired: ",
    _UNREDUCED,
    needs=(tracebacks.NAMED_LINE, _NAMED, lazy(re.escape(tracebacks.HEADER)), lazy(_UNREDUCED)),
    told_elsewhere=_is_told_by_logger,
)
def exceptions(line: Line) -> Iterator[Event]:
    """Tracebacks end in one *exception* each; the place is that of the line that names it."""
    if tracebacks.is_header(line):
        yield from _traceback(line)
        return
    if tracebacks.exception_in(line.body.strip()) is None:
        found = list(_logged_exception(line))
    elif tracebacks.count_open_before(line) or _POINTS_ELSEWHERE.search(line.body):
        return
    else:
        found = list(_cut_traceback(line))
    yield from found or _torn_message(line)


def raised(traceback: Raised, header: Line, causes: Iterable[tuple[str, str]] = (), **more: Any) -> ExceptionRaised:
    """The event of a traceback that began on ``header``.

    ``causes`` are type and message of the exceptions it was raised on top of; ``more`` overrides fields (``rank``, ``time`` …).
    """
    user = user_frame(traceback.frames)
    fields: dict[str, Any] = {
        "type": traceback.type,
        "message": traceback.message,
        "frame": frame_text(user) if user else None,
        "code": dict(zip(traceback.frames, traceback.code, strict=False)).get(user, "") if user else "",
        "frames": tuple(frame_text(part) for part in traceback.frames[:_FRAMES]),
        "origin": origin(traceback.type, traceback.message, traceback.frames, causes),
        "logged": header.mark.severity is not None,
    }
    if (signal := _SIGNAL.search(traceback.message)) and traceback.type.endswith("SignalException"):
        fields["signal"] = exit_and_signal(-int(signal[1]), None)["signal"]
    base = common(traceback.line)
    for name in ("rank", "time", "host", "pid"):
        base[name] = base[name] if base[name] is not None else common(header)[name]
    if _UNREDUCED in traceback.message:
        fields |= _without_gradient(traceback, base["rank"])
    return ExceptionRaised(**{**base, **fields, **more})


def _without_gradient(traceback: Raised, rank: int | None) -> dict[str, Any]:
    """The rank that DDP names on the lines below its error, and the parameters as far as it lists them."""
    below = (hit for line in traceback.line.following(8) if (hit := _NO_GRADIENT.search(line.body)))
    hit = next(below, None)
    if hit is None:
        return {}
    named = f": no gradient for {hit['names'].strip(', ')}" if hit["names"] else traceback.message[len(_UNREDUCED) :]
    own = int(hit["rank"] or hit["index_rank"]) if rank is None else rank
    return {"rank": own, "message": f"{_UNREDUCED}{named}"[:500]}


def _traceback(header: Line) -> Iterator[Event]:
    above = next((line for line in header.preceding(4) if line.body.strip()), None)
    before = above.body.strip() if above is not None else ""
    if "Original " + tracebacks.HEADER in header.body and _WORKER.search(before):
        return  # told with the exception that carries it
    if "Error waiting on exit barrier" in before:
        return  # the agent's workers are done and the store has left before it: its parser tells it as tear-down
    chained = any(separator in before for separator in tracebacks.SEPARATORS)
    below = tracebacks.chained_lines(header) if chained else ()
    if any("traceback : " in line.body for line in (header, *below)):
        return  # a row of torchrun's table: its parser knows whose it is
    traceback = tracebacks.read_traceback(header)
    if _is_told_above(header, traceback):
        return  # told with the logger's line, which knows the rank and the time
    if _POINTS_ELSEWHERE.search(traceback.message):
        return
    # PyTorch's debug server is a process of its own: what it logs ends no rank
    if _IGNORED.match(before) or "torch/distributed/debug/" in (header.mark.file or ""):
        detail = f"{traceback.type}: {traceback.message}"[:500]
        yield Note(**common(traceback.line, what="exception-ignored", detail=detail))
        return
    more: dict[str, Any] = {}
    if spawned := _SPAWNED.search(before):
        more["local_rank"] = int(spawned[1])
    if other := _OTHER_RANK.search(header.body):
        more["rank"] = int(other[1])
    if _LAST_WORDS.search(before):
        more["logged"] = False
    elif before.startswith("Exception in thread ") or _is_announced(above, traceback):
        more["logged"] = True  # the thread is gone, or the exception was caught: the process goes on
    if wrapped := _WORKER.search(traceback.message):
        traceback = _inner(traceback)
        more["worker"] = int(wrapped["worker"]) if wrapped["worker"] else None
    # a cut one of torchrun's agent, behind its line about a worker, and of a driver of Ray
    is_driver = any(code.strip().startswith("ray.get(") for code in traceback.code[:1])
    if not traceback.type and (is_driver or any("failed (exitcode: " in above.body for above in header.preceding(6))):
        more["origin"] = "echo"
    yield raised(traceback, header, tracebacks.causes(below), **more)


def _is_announced(above: Line | None, traceback: Raised) -> bool:
    """True when the line above is a logger's, about this exception: then the code caught it.

    Without its name an error is about it where the traceback begins inside a function: who catches an exception sees no frame further out.
    """
    if above is None or above.mark.severity is None or not traceback.type:
        return False
    is_error = above.mark.severity == "E" and not above.mark.is_native
    outermost = traceback.frames[-1][0] if traceback.frames else "<module>"
    if is_error and outermost != "<module>" and "bootstrap" not in outermost and not outermost.startswith("_wrap"):
        return True  # neither a program's first frame nor a thread's or a process's
    name = traceback.type.rpartition(".")[2]
    return name in above.body or (len(traceback.message) > 8 and traceback.message[:40] in above.body)


def _inner(outer: Raised) -> Raised:
    """The exception that was raised inside the worker, with the place and the type of the one that carried it."""
    for line in outer.line.following(6):
        if tracebacks.is_header(line):
            inner = tracebacks.read_traceback(line)
            message = f"{outer.message} {inner.type}: {inner.message}" if inner.type else outer.message
            return Raised(outer.line, outer.type, message, inner.frames + outer.frames, inner.code + outer.code)
    return outer


def _torn_message(line: Line) -> Iterator[Event]:
    """DDP's complaint where its type went to another line, as when two ranks write at once."""
    if _UNREDUCED in line.body and not _NAMED.search(line.body):
        message = line.body[line.body.index(_UNREDUCED) :]
        yield raised(Raised(line, "RuntimeError", message[:500], ()), line)


def _cut_traceback(line: Line) -> Iterator[Event]:
    traceback = tracebacks.read_tail(line)
    if traceback is not None and traceback.message and _NAMED.match(line.body):
        short = line.preceding(_SHORT) if traceback.frames else ()
        hits = (hit for above in short if (hit := _SNIPPET.search(above.body)))
        more: dict[str, Any] = {"rank": int(hit[1])} if (hit := next(hits, None)) else {}
        yield raised(traceback, line, logged=line.mark.severity is not None, **more)


def _logged_exception(line: Line) -> Iterator[Event]:
    match = _named_in(line)
    if match is None or _POINTS_ELSEWHERE.search(line.body):
        return
    name, message = match["type"], match["message"].strip()
    below = next(line.following(1), None)
    if below is not None and tracebacks.is_header(below):
        traceback = tracebacks.read_traceback(below)
        if _named_above(line, traceback) is not None:
            # The logger's line knows the rank and the time, the unmarked traceback below it the frames.
            yield raised(Raised(line, name, message, traceback.frames, traceback.code), below, logged=True)
            return
    verdict = "echo" if is_echo(name, message) else "own"
    yield ExceptionRaised(**common(line, type=name, message=message, origin=verdict, logged=True))


def _named_in(line: Line) -> re.Match[str] | None:
    """The exception that a logger names in one line about a failure; None in any other line."""
    match = _NAMED.search(line.body)
    return match if match and match["type"] != "Error" and _is_about_failure(line, match.start()) else None


def _named_above(above: Line, traceback: Raised) -> re.Match[str] | None:
    """The same exception in the logger's line above the traceback; None where that line names none, or another one."""
    match = _named_in(above) if tracebacks.exception_in(above.body.strip()) is None else None
    if match is None or not traceback.type.endswith(match["type"]):
        return None
    return match if match["message"].strip().startswith(traceback.message.split("\n")[0]) else None


def _is_told_above(header: Line, traceback: Raised) -> bool:
    """True where the line directly above the traceback is a logger's, and names its exception."""
    above = next(header.preceding(1), None)
    return above is not None and _named_above(above, traceback) is not None


def _is_about_failure(line: Line, end: int) -> bool:
    mark = line.mark
    if mark.file is not None and mark.file.endswith((".cpp", ".hpp", ".h", ".cc", ".cu")):
        return False
    if mark.severity is not None:
        return mark.severity in "EFC"
    return _LEVEL.search(line.raw[: len(line.raw) - len(line.body) + end]) is not None
