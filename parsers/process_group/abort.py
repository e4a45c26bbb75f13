"""Reads how a process ends after its watchdog failed, and the errors that its communicators report on the way.

Also the stack of the call that failed. Wordings: pytorch ``ProcessGroupNCCL.cpp`` v1.8 to v2.13.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from nccldoctor.events import Event, FailedStack, NcclError, Note, TearDown, WorkStatus
from nccldoctor.parsers.base import Line, common, line_parser, reads
from nccldoctor.parsers.process_group.nccl_error import code_and_last_error
from nccldoctor.parsers.process_group.prefix import grouped, member
from nccldoctor.parsers.process_group.watchdog import member_around, work_fields
from nccldoctor.parsers.rows import RowParser, Table
from nccldoctor.patterns import lazy

_REASON = lazy(r"Original reason for failure was: |with exception: |due to (?=collective|Process)|with reason: ")


@line_parser
class ProcessGoesDown(RowParser):
    """Lines of a process that is being taken down: consequences, never causes."""

    general = True
    event = TearDown
    rows = Table(__file__).rows

    def row_fields(self, line: Line, hit: re.Match[str]) -> dict[str, Any]:
        """With the group, and the reason where one is given."""
        before = _exception_below(line) if "terminate called" in hit[0] else line.body[: hit.start()]
        reason = _REASON.search(line.body, hit.start())
        return grouped(line, before, detail=line.body[reason.end() if reason else hit.start() :][:300])


def _exception_below(line: Line) -> str:
    """The next line, where it is the message of the exception that ends the process: it may say whose."""
    below = next(line.following(1), None)
    return below.body if below is not None and "what():" in below.body else ""


@reads("group has NOT been destroyed", "destroy_process_group() was not", general=True)
def exit_without_destroy(line: Line) -> Iterable[Event]:
    """A process left its groups open as it ended. It says so on any way out, so it shows neither a good end nor a bad one."""
    if "arning" in line.body or "WARNING" in line.body or "process group has" in line.body:
        yield Note(**common(line), what="exit-without-destroy", detail="the program ended with its groups open")


_ASYNC = lazy(
    r"raised the following async exception: |found async exception when checking for NCCL errors: "
    r"|Received NCCL errors for communicators"
)
_ABORTED = lazy(r"Found key in store: NCCLABORTEDCOMM:(\S{1,300}?), from rank: (\d{1,7})")
_REMOTE = lazy(r"remote error detected from rank: (\d{1,7})")
_CODE = lazy(r"\bnccl(?:[A-Z][a-z]{1,20}){1,4}(?:Error|Usage|Argument)\b|\bncclInProgress\b")


@reads(
    "following async exception",
    "found async exception",
    "Received NCCL errors for",
    "NCCLABORTEDCOMM",
    "remote error detected from",
    general=True,
)
def communicator_errors(line: Line) -> Iterable[Event]:
    """Errors that a communicator, or another rank through the store, reports to the watchdog.

    An asynchronous error with NCCL's code from the next lines, or the rank that another one named.
    """
    body = line.body
    m = _ABORTED.search(body) or _REMOTE.search(body)
    if m:
        what = "aborted-comm" if "ABORTED" in m[0] else "remote-error"
        yield Note(**grouped(line, body[: m.start()]), what=what, detail=f"rank {m[m.lastindex or 1]}")
        return
    m = _ASYNC.search(body)
    if m:
        yield from _async_error(line, m)


def _async_error(line: Line, m: re.Match[str]) -> Iterator[Event]:
    """The error, and the call that it names: this rank had issued that call, and it did not end."""
    body = line.body
    group, group_rank = member(body[: m.start()])
    code, last = code_and_last_error(line)
    more = [body[m.end() :], *(x.body for x in line.following(4))]
    here = next((c for c in map(_CODE.search, more) if c), None)
    yield NcclError(
        **common(line, group=group, group_rank=group_rank),
        code=code or (here[0] if here else None),
        message=next((text for text in more if "NCCL error in" in text), more[0]).strip()[:300],
        last_error=last,
    )
    work = work_fields(body[: m.start()]) if "WorkNCCL(" in body[: m.start()] else {}
    seq = work.get("seq")
    if seq is not None:
        names = ("op", "numel_in", "numel_out", "timeout_ms")
        group, group_rank = member_around(line, body[: m.start()], seq)
        yield WorkStatus(
            **common(line, group=group, group_rank=group_rank), failed=seq, **{name: work[name] for name in names}
        )


_FRAME = lazy(r"#(\d{1,4}) (.{1,300}?) from (\S.{0,400}?):(\d{1,7})\s*$")


@reads("Stack trace of the failed collective", general=True)
def failed_call_stack(line: Line) -> Iterable[Event]:
    """The Python stack of the call that failed, which the recorder had kept.

    The frames on the next lines, as long as they count up.
    """
    if "collective not found" in line.body:
        yield Note(
            **common(line), what="recorder-off", detail="the stack of the failed call is not in the flight recorder"
        )
        return
    frames: list[str] = []
    for other in line.following(200):
        m = _FRAME.search(other.body)
        if m is None or int(m[1]) != len(frames):
            break
        frames.append(f"{m[2]} ({m[3]}:{m[4]})")
    yield FailedStack(**common(line), frames=tuple(frames))
