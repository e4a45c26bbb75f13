"""Processes that report their own crash: CPython's fatal errors, crash handlers, glibc.

Sources: libc++abi, CPython ``Python/pylifecycle.c`` and ``Modules/faulthandler.c``,
glibc ``malloc/malloc.c``, ray ``src/ray/util/logging.cc``, UCX ``ucs/debug``, Open MPI, c10 ``SignalHandler.cpp``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from nccldoctor.events import Event, ProcessExit, TearDown
from nccldoctor.parsers.base import Line, common, reads
from nccldoctor.parsers.exit_codes import WORDS, exit_and_signal, signal_named
from nccldoctor.parsers.rows import Row, first_fit, needs_of
from nccldoctor.patterns import lazy

_TERMINATE = lazy(
    r"terminating (?:due to|with) uncaught exception of type (?P<other>(?:[^:\n]|::){1,200})"
    r"(?:: (?P<text>.{0,500}))?"
    r"|Unhandled exception: (?P<ray>\S{1,200}?)\.? what\(\): ?(?P<says>.{0,500})"
)
_WHAT = lazy(r"what\(\):\s{0,4}(.{0,500})")
_FATAL = lazy(rf"Fatal Python error: (?P<what>(?P<signal>{WORDS})|[^\n]{{1,200}})")
_CRASHED = (
    Row("aught signal ", rf"[Cc]aught signal \d{{1,2}} \((?P<signal>{WORDS})"),
    Row("Signal: ", rf"\bSignal: (?P<signal>{WORDS}) \(\d{{1,2}}\)"),
    Row(
        (
            *("double free or corruption", "corrupted size", "corrupted double-linked", "stack smashing detected"),
            *("malloc(): ", "free(): ", "munmap_chunk(): ", "pure virtual method called"),
        ),
        r"double free or corruption|corrupted (?:size|double-linked)|\*\*\* stack smashing detected \*\*\*"
        r"|pure virtual method called|(?:malloc|free|realloc|munmap_chunk|corrupted)\(?\)?: (?:invalid|corrupted|unaligned|size vs)",
        signal="SIGABRT",
    ),
    Row("*** SIG", r"\*\*\* (?P<signal>SIG[A-Z]{2,6}) (?:\(@|received (?:by PID|at time=))"),
    Row("Segfault encountered", r"!{3,20} Segfault encountered", signal="SIGSEGV"),
)


@reads(
    "uncaught exception of type",
    "Unhandled exception: ",
    "Fatal Python error: ",
    *(literal for row in _CRASHED for literal in row.literals),
    needs=(_TERMINATE, _FATAL, *needs_of(_CRASHED)),
)
def crashes(line: Line) -> Iterator[Event]:
    """An abort by ``terminate`` is *tear-down*: its reason is elsewhere (libstdc++'s wording is read with the
    watchdog's). A segmentation fault, a bus error or a broken heap is this process's own end: *process-exit* with
    reporter ``process``.
    """
    if match := _TERMINATE.search(line.body):
        yield TearDown(**common(line, what="terminate-called", detail=_reason(line, match)[:500]))
    elif match := _FATAL.search(line.body):
        signal = signal_named(match["signal"] or "")
        if signal in ("SIGABRT", None):
            yield TearDown(**common(line, what="fatal-python-error", detail=match["what"].strip()))
        else:
            yield _crash(line, signal)
    elif fit := first_fit(_CRASHED, line.body):
        row, match = fit
        own = row.values.get("signal")
        signal = own or signal_named(match["signal"])
        if signal == "SIGABRT" and own is None:
            yield TearDown(**common(line, what="terminate-called", detail=signal))
        elif signal in ("SIGTERM", "SIGINT", "SIGHUP") and own is None:  # others send these
            yield TearDown(**common(line, what="death-signal", detail=signal))
        elif signal is not None:
            yield _crash(line, signal)


def _reason(line: Line, match: re.Match[str]) -> str:
    reason = match["says"] or match["text"] or ""
    if not reason:
        reason = next((what[1] for below in line.following(3) if (what := _WHAT.search(below.body))), "")
    return f"{match['ray'] or match['other']}: {reason}".rstrip(": ")


def _crash(line: Line, signal: str | None) -> Event:
    return ProcessExit(**common(line), **exit_and_signal(None, signal), reporter="process")
