"""Reads the watchdog's records of a call that did not end, its counters, and the ends of process groups.

Wordings: pytorch ``ProcessGroupNCCL.cpp`` v1.8 to v2.13; vendors' forks (HCCL, XCCL, MCCL) keep the sentence and
rename the work.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from nccldoctor.events import (
    BlockingWaitTimeout,
    CallTimeout,
    CollectiveTimeout,
    Event,
    FailedStack,
    GroupRef,
    NcclError,
    Note,
    WorkStatus,
)
from nccldoctor.parsers.base import Line, common, ranks_in, reads
from nccldoctor.parsers.process_group.nccl_error import code_and_last_error
from nccldoctor.parsers.process_group.prefix import PATTERN, group_of, grouped, member
from nccldoctor.parsers.rows import for_rows
from nccldoctor.patterns import lazy

_SPAN = 900  # characters that one record takes at most

_TORN = r"collective op(?!eration timeout).{0,200}?timeout: (?=Work\w{1,12}\()"
"""Text of another process may stand inside the words before a record that is whole."""

_CAUGHT = lazy(
    r"[Cc]aught collective operation timeout(?::|\s*$)|Watchdog caught collective(?: o[a-z]{0,8}(?: [a-z]{0,7})?)?\s*$"
    rf"|Watchdog caught {_TORN}"
)
# what follows tells a record from prose that quotes its first words
_WAITED = lazy(r"Work \w{1,16}\((?:SeqNum|OpType)=")
_FIELDS = {
    # each must be followed by what ends it, so that a cut number is not taken for a whole one
    "seq": lazy(r"\(SeqNum=(\d{1,20}), "),
    "op": lazy(r"OpType=(\w{1,60})[,)]"),
    "numel_in": lazy(r"NumelIn=(-?\d{1,20}), "),
    "numel_out": lazy(r"NumelOut=(-?\d{1,20}), "),
    "timeout_ms": lazy(r"Timeout\(ms\)=(\d{1,20})\)"),
    "ran_ms": lazy(r" ran for (\d{1,15}) "),
    "shape": lazy(r"TensorShape=\[([^\]\n]{0,400})\]"),
}
_ECHO = lazy(r"timed out in (?:blocking wait|call to wait)")


def work_fields(text: str) -> dict[str, Any]:
    """The fields of one ``WorkNCCL(…)`` record with its sentence; those that are missing or cut are None.

    Sizes of 2^64 - 1 mean that none were set.
    """
    out: dict[str, Any] = {}
    for name, pattern in _FIELDS.items():
        m = pattern.search(text)
        out[name] = None if m is None else m[1] if name in ("op", "shape") else int(m[1])
    for name in ("numel_in", "numel_out"):
        if out[name] in (2**64 - 1, -1):
            out[name] = None
    return out


_SAME = lazy(r"(?:at work(?: sequence id)?|at NCCL work): (\d{1,20})\b|SeqNum=(\d{1,20}), ")

_BEHIND = (
    "Exception (either an error or timeout) detected by watchdog at work: ",
    "failure detected by watchdog at work sequence id: ",
    "Timeout at NCCL work: ",
)
"""What the watchdog says right after a timeout, with the group in front."""

_TELLING = 6  # characters of it that no other message begins with


def member_around(line: Line, before: str, seq: int | None) -> tuple[GroupRef | None, int | None]:
    """The group and the rank in it before a record, or else those of a later message about its call."""
    group, group_rank = member(before)
    if group is not None:
        return group, group_rank
    group, inside = _group_behind(line, seq)
    return group, inside if inside is not None else group_rank


def _group_behind(line: Line, seq: int | None) -> tuple[GroupRef | None, int | None]:
    """The group of a timeout, which its own line does not name.

    It is that of the next message of this process about the same call: below a timeout of ``SeqNum=18`` stands
    ``[PG ID 2 …] … failure detected by watchdog at work sequence id: 18``.
    """
    if seq is None or not line.window.has_text(line, "[PG ", 16 << 10):
        return None, None
    for other in line.window.near_of(line.mark.stream, line, 60):
        m = PATTERN.search(other.body)
        about = _SAME.search(other.body, m.end()) if m else None
        begun = other.body[m.end() :].strip(" ]") if m and about is None else ""  # cut off before it names the call
        is_cut = len(begun) > _TELLING and any(phrase.startswith(begun) for phrase in _BEHIND)
        if m and (is_cut if about is None else int(about[1] or about[2]) == seq):
            return group_of(m), int(m["rank"])
    return None, None


@reads("aught collective op", "CCL(SeqNum=", "CCL(OpType=", " ProcessGroupNCCL.cpp:", needs=(_CAUGHT, _WAITED))
def watchdog_timeouts(line: Line) -> Iterable[Event]:
    """The timeout of the watchdog or of a blocking wait, with the fields that were not cut off. An exception may repeat it."""
    body = line.body
    if m := _CAUGHT.search(body):
        is_watchdog = "Watchdog" in body[max(0, m.start() - 20) : m.start() + 9]
        yield _timeout_event(line, CollectiveTimeout if is_watchdog else BlockingWaitTimeout, m.start())
    elif (m := _WAITED.search(body)) and _ECHO.search(body):
        yield _timeout_event(line, BlockingWaitTimeout, m.start())


def _timeout_event(line: Line, cls: type[CallTimeout], at: int) -> Event:
    fields = work_fields(line.body[at : at + _SPAN])
    group, group_rank = member_around(line, line.body[:at], fields["seq"])
    return cls(**common(line, group=group, group_rank=group_rank), **fields)


_REASON = lazy(r"Original reason for failure was: |with exception: |due to (?=collective|Process)|with reason: ")


@for_rows
def reason_of_end(line: Line, hit: re.Match[str]) -> dict[str, Any]:
    """The group, and the reason where one is given. The message of the exception below may say whose end it is."""
    before = line.body[: hit.start()]
    if "terminate called" in hit[0]:
        below = next(line.following(1), None)
        before = below.body if below is not None and "what():" in below.body else ""
    reason = _REASON.search(line.body, hit.start())
    return grouped(line, before, detail=line.body[reason.end() if reason else hit.start() :][:300])


_CODE = lazy(r"\bnccl(?:[A-Z][a-z]{1,20}){1,4}(?:Error|Usage|Argument)\b|\bncclInProgress\b")


@for_rows
def async_error(line: Line, m: re.Match[str]) -> Iterator[Event]:
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


@for_rows
def failed_stack(line: Line, hit: re.Match[str]) -> Iterator[Event]:
    """The frames on the next lines, as long as they count up."""
    frames: list[str] = []
    for other in line.following(200):
        m = _FRAME.search(other.body)
        if m is None or int(m[1]) != len(frames):
            break
        frames.append(f"{m[2]} ({m[3]}:{m[4]})")
    yield FailedStack(**common(line), frames=tuple(frames))


_COUNTERS = {
    "last_enqueued": lazy(r"last enqueued (\w{2,6} )?work: (-?\d{1,20})(?!\d)(?P<dot>[.,])?"),
    "last_started": lazy(r"last started (\w{2,6} )?work: (-?\d{1,20})(?!\d)(?P<dot>[.,])?"),
    "last_completed": lazy(r"last completed (\w{2,6} )?work: (-?\d{1,20})(?!\d)(?P<dot>[.,])?"),
}


def counters(text: str) -> dict[str, Any]:
    """The counters of a group, None where the text does not hold one. The wording with ``NCCL work`` ends in a dot,
    and behind every counter but the last stands a comma: without it the number may be cut.
    """
    out: dict[str, Any] = {}
    for name, pattern in _COUNTERS.items():
        m = pattern.search(text)
        out[name] = int(m[2]) if m and (m["dot"] or (name == "last_completed" and not m[1])) else None
    return out


def _is_cut(text: str, completed: int | None, failed: int | None) -> bool:
    """True when the last number lost its end: it begins like the number before the failed call.

    ``last completed work: 14`` at the end of a line about failed call 1402 stands for 1401.
    """
    if completed is None or failed is None or not text.rstrip().endswith(f" {completed}"):
        return False
    return completed < failed - 1 and str(failed - 1).startswith(str(completed))


@for_rows
def counters_before(line: Line, hit: re.Match[str]) -> dict[str, Any]:
    """The group that stands before the words, and its counters."""
    counts = counters(line.body.replace("Last enqueued", "last enqueued"))
    last = {name: counts[name] for name in ("last_enqueued", "last_completed")}
    return grouped(line, line.body[: hit.start()], **last)


@for_rows
def work_counters(line: Line, hit: re.Match[str]) -> Iterator[Event]:
    """*work-status*; a record that is cut before its counters still tells which call failed."""
    failed = int(hit["failed"]) if "failed" in hit.re.groupindex else None
    counts = counters(line.body)
    if _is_cut(line.body, counts["last_completed"], failed):
        counts["last_completed"] = None
    yield WorkStatus(**grouped(line, line.body), failed=failed, **counts)


_OPTIONS = {
    "size": lazy(r"\bsize: (\d{1,9})"),
    "global_rank": lazy(r"\bglobal rank: (\d{1,9})"),
    "timeout_ms": lazy(r"\bTIMEOUT\(ms\): (\d{1,15})"),
    "name": lazy(r"\bPG Name: ([^\s,]{1,200})"),
}


@for_rows
def group_options(line: Line, hit: re.Match[str]) -> Iterator[Event]:
    """The options of a new group, as far as they are told, such as ``size=8 global_rank=3 timeout_ms=600000 name=0``."""
    options = {name: m[1] for name, p in _OPTIONS.items() if (m := p.search(line.body))}
    if options:
        group, group_rank = member(line.body)
        rank = int(options["global_rank"]) if "global_rank" in options else line.mark.rank
        group = group or (GroupRef(uid=options["name"]) if "name" in options else None)
        detail = " ".join(f"{name}={value}" for name, value in options.items())
        yield Note(**common(line, rank=rank, group=group, group_rank=group_rank), what="group-options", detail=detail)


@for_rows
def listed_group(line: Line, hit: re.Match[str]) -> Iterator[Event]:
    """A group with its library and all its members, as ``nccldoctor.capture`` lists it."""
    group = GroupRef(uid=hit["uid"], desc=hit["desc"])
    yield Note(**common(line, group=group), what="backend", detail=f"{hit['backend']}, ranks {ranks_in(hit['ranks'])}")
