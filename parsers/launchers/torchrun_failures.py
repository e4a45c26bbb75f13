"""The table that torchrun prints when a worker failed: one row for each process of that node.

pytorch ``torch/distributed/elastic/multiprocessing/errors/__init__.py``: 1.9 (``Root Cause:`` first, a ``msg`` row),
1.10 to 2.12, 2.13 (the signal's name behind the pid). ``rank`` is the global rank. The root cause of one node is
that node's first failure only; rows with ``-15`` are siblings that the agent closed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from typing import Any

from nccldoctor.events import Event, ProcessExit
from nccldoctor.parsers.base import Line, common, reads
from nccldoctor.parsers.exit_codes import exit_and_signal
from nccldoctor.parsers.python import tracebacks
from nccldoctor.parsers.python.exceptions import raised
from nccldoctor.patterns import lazy

_DEEPEST = 16

_EXIT = lazy(r"\bexitcode\s{0,4}: {1,3}(?P<code>-?\d{1,10}|<N/A>) \(pid: (?P<pid>\d{1,10})\)")
_FIELD = lazy(r"\b(?P<name>time|host|rank|error_file|msg|traceback)\s{0,6}: {1,3}(?P<value>\S.{0,4000})")
_TIME = lazy(r"\d{4}-\d\d-\d\d[_ ]\d\d:\d\d:\d\d")
_RANK = lazy(r"(\d{1,7}) \(local_rank: (\d{1,5})\)")
_FLAT = lazy(
    r"\btime {0,6}: (?P<time>\S{8,30}) host {0,6}: (?P<host>\S{1,200}) rank {0,6}: (?P<rank>\d{1,7} \(local_rank: \d{1,5}\)) exitcode"
)
"""A row that a log service put on one line."""

_ROW = lazy(r"^\s{0,40}\[\d{1,6}\]:\s*$")


def _is_repeated_signal(line: Line) -> bool:
    """True of the field that repeats the signal of the exit code above it."""
    field = _FIELD.search(line.body)
    return field is not None and field["name"] == "traceback" and field["value"].startswith("Signal ")


@reads(
    "exitcode  : ",
    "exitcode: ",
    " exitcode : ",
    ") received by PID ",
    needs=(_EXIT,),
    told_elsewhere=_is_repeated_signal,
)
def failure_table(line: Line) -> Iterator[Event]:
    """One *process-exit* for each row, and the *exception* that a row quotes."""
    match = _EXIT.search(line.body)
    if match is None:
        return
    above, first = _above(line)
    if flat := _FLAT.search(line.body):
        above = flat.groupdict()
    fields: dict[str, Any] = {"pid": int(match["pid"]), "host": above.get("host", line.mark.host), "rank": None}
    fields["time"] = _table_time(above.get("time", "")) or common(line)["time"]
    local = None
    if rank := _RANK.search(above.get("rank", "")):
        fields["rank"], local = int(rank[1]), int(rank[2])
    text = " ".join(f"{name}: {above[name]}" for name in ("rank", "host", "time") if name in above)
    code = None if match["code"] == "<N/A>" else int(match["code"])
    yield ProcessExit(
        **common(line, **fields) | {"text": f"{text} {line.body.strip()}".strip()[:500]},
        **exit_and_signal(code),
        local_rank=local,
        first=first,
        reporter="torchrun",
    )
    yield from _quoted_exception(line, {**fields, "local_rank": local})


def _above(line: Line) -> tuple[dict[str, str], bool]:
    """The fields of the row above its exit code, and whether the row stands under *Root Cause*."""
    fields: dict[str, str] = {}
    inside = True
    for earlier in line.preceding(9):
        if _EXIT.search(earlier.body):
            break  # of another row: this one lost its head
        if inside and (match := _FIELD.search(earlier.body)):
            fields.setdefault(match["name"], match["value"].strip())
        elif inside and _ROW.match(earlier.body):
            inside = False
        elif "Root Cause" in earlier.body:
            return fields, True
        elif not inside:
            break
    return fields, False


def _table_time(text: str) -> datetime | None:
    with suppress(ValueError):
        return datetime.fromisoformat(text) if _TIME.fullmatch(text) else None
    return None


def _quoted_exception(line: Line, fields: dict[str, Any]) -> Iterator[Event]:
    """The exception a row quotes from the worker's error file."""
    for below in line.following(4):
        match = _FIELD.search(below.body)
        if match is None or match["name"] not in ("error_file", "msg", "traceback"):
            return
        if tracebacks.HEADER in match["value"]:
            yield from _quoted_chain(below, fields)
            return
        if match["name"] == "msg" and (named := tracebacks.exception_in(match["value"].strip('" '))):
            text = (named["message"] or "").strip()
            yield raised(tracebacks.Raised(below, named["type"], text, ()), below, **fields, logged=False)
            return


def _quoted_chain(header: Line | None, fields: dict[str, Any]) -> Iterator[Event]:
    """The exceptions of a quoted traceback, each told with what it was raised on top of."""
    causes: list[tuple[str, str]] = []
    while header is not None and len(causes) < _DEEPEST:
        traceback = tracebacks.read_traceback(header)
        if not traceback.type:
            return
        yield raised(traceback, header, tuple(causes), **fields, logged=False)
        causes.append((traceback.type, traceback.message))
        header = tracebacks.next_in_chain(traceback)
