"""Processes that report their own crash: CPython's fatal errors, crash handlers, glibc.

Sources: libc++abi, CPython ``Python/pylifecycle.c`` and ``Modules/faulthandler.c``,
glibc ``malloc/malloc.c``, ray ``src/ray/util/logging.cc``, UCX ``ucs/debug``, Open MPI, c10 ``SignalHandler.cpp``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from nccldoctor.events import Event, ProcessExit, TearDown
from nccldoctor.parsers.base import Line, LineParser, common, line_parser
from nccldoctor.parsers.exit_codes import WORDS, exit_and_signal, signal_named
from nccldoctor.patterns import lazy

_TERMINATE = lazy(
    r"terminating (?:due to|with) uncaught exception of type (?P<other>(?:[^:\n]|::){1,200})"
    r"(?:: (?P<text>.{0,500}))?"
    r"|Unhandled exception: (?P<ray>\S{1,200}?)\.? what\(\): ?(?P<says>.{0,500})"
)
_WHAT = lazy(r"what\(\):\s{0,4}(.{0,500})")
_FATAL = lazy(rf"Fatal Python error: (?P<what>(?P<signal>{WORDS})|[^\n]{{1,200}})")
_CRASHED = lazy(
    rf"[Cc]aught signal \d{{1,2}} \((?P<ucx>{WORDS})|\bSignal: (?P<mpi>{WORDS}) \(\d{{1,2}}\)|"
    r"(?P<heap>double free or corruption"
    r"|(?:malloc|free|realloc|munmap_chunk|corrupted)\(?\)?: (?:invalid|corrupted|unaligned|size vs)[^\n]{0,80}"
    r"|corrupted (?:size|double-linked)[^\n]{0,60}|\*\*\* stack smashing detected \*\*\*)"
    rf"|\*\*\* (?P<sig>SIG[A-Z]{{2,6}}) (?:\(@|received by PID)|!{{3,20}} (?P<old>Segfault) encountered"
)


@line_parser
class Crashes(LineParser):
    """An abort by ``terminate`` is *tear-down*: its reason is elsewhere (libstdc++'s wording is read with the
    watchdog's). A segmentation fault, a bus error or a broken heap is this process's own end: *process-exit* with
    reporter ``process``.
    """

    literals = (
        "uncaught exception of type",
        "Unhandled exception: ",
        "Fatal Python error: ",
        "aught signal ",
        "Signal: ",
        "double free or corruption",
        "malloc(): ",
        "free(): ",
        "munmap_chunk(): ",
        "corrupted size",
        "corrupted double-linked",
        "stack smashing detected",
        "*** SIG",
        "Segfault encountered",
    )

    def parse(self, line: Line) -> Iterator[Event]:
        if match := _TERMINATE.search(line.body):
            yield TearDown(**common(line, what="terminate-called", detail=_reason(line, match)[:500]))
        elif match := _FATAL.search(line.body):
            signal = signal_named(match["signal"] or "")
            if signal in ("SIGABRT", None):
                yield TearDown(**common(line, what="fatal-python-error", detail=match["what"].strip()))
            else:
                yield _crash(line, signal)
        elif match := _CRASHED.search(line.body):
            words = next(word for word in match.groups() if word is not None) if any(match.groups()) else ""
            signal = "SIGABRT" if match["heap"] else "SIGSEGV" if match["old"] else signal_named(words)
            if signal in ("SIGTERM", "SIGINT", "SIGHUP") or (signal == "SIGABRT" and not match["heap"]):
                yield TearDown(**common(line, what="death-signal", detail=signal))
            elif signal is not None:
                yield _crash(line, signal)


def _reason(line: Line, match: re.Match[str]) -> str:
    said = match["says"] or match["text"] or ""
    if not said:
        said = next((what[1] for below in line.following(3) if (what := _WHAT.search(below.body))), "")
    return f"{match['ray'] or match['other']}: {said}".rstrip(": ")


def _crash(line: Line, signal: str | None) -> Event:
    return ProcessExit(**common(line), **exit_and_signal(None, signal), reporter="process")
