"""Reads the watchdog's records of a call that did not end.

Wordings: pytorch ``ProcessGroupNCCL.cpp`` v1.8 to v2.13; vendors' forks (HCCL, XCCL, MCCL) keep the sentence and
rename the work.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from nccldoctor.events import BlockingWaitTimeout, CallTimeout, CollectiveTimeout, Event, GroupRef
from nccldoctor.parsers.base import Line, common, reads
from nccldoctor.parsers.process_group.prefix import PATTERN, group_of, member
from nccldoctor.patterns import lazy

_UNSET = 2**64 - 1
_SPAN = 900  # characters that one record takes at most
_NEAR = 16 << 10  # bytes behind a timeout in which its group is looked for

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
        if out[name] in (_UNSET, -1):
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
    if seq is None or not line.window.has_text(line, "[PG ", _NEAR):
        return None, None
    for other in line.window.near_of(line.mark.stream, line, 60):
        m = PATTERN.search(other.body)
        about = _SAME.search(other.body, m.end()) if m else None
        if m and (_is_cut_follow_up(other.body[m.end() :]) if about is None else int(about[1] or about[2]) == seq):
            return group_of(m), int(m["rank"])
    return None, None


def _is_cut_follow_up(text: str) -> bool:
    """True when a message begins like one that follows a timeout but is cut off before it names the call."""
    begun = text.strip(" ]")
    return len(begun) > _TELLING and any(phrase.startswith(begun) for phrase in _BEHIND)


@reads("aught collective op", "CCL(SeqNum=", "CCL(OpType=", " ProcessGroupNCCL.cpp:", needs=(_CAUGHT, _WAITED))
def watchdog_timeouts(line: Line) -> Iterable[Event]:
    """The watchdog's, or a blocking wait's, timeout: also inside the exception that repeats it.

    A record with all its fields, or with those that were not cut off.
    """
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
