"""Two ends of one call differ: fingerprints of the debug wrapper, transports that got another size, DDP's checks.

pytorch ``torch/csrc/distributed/c10d/ProcessGroupWrapper.cpp`` (1.10 to 2.13; without ``SequenceNumber`` up to 1.13,
without the comma behind it for calls that have no tensors), ``c10d/reducer.cpp``, ``c10d/Utils.cpp``; gloo
``transport/tcp/pair.cc``; NCCL ``transport/net_socket.cc``, ``net_ib.cc`` (2.3 to 2.19), ``bootstrap.cc``, ``init.cc``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from nccldoctor.events import CollectiveMismatch, Event, MonitoredBarrier
from nccldoctor.parsers.base import Line, common, ranks_in
from nccldoctor.parsers.rows import for_rows
from nccldoctor.patterns import lazy


class Fingerprint(Struct, frozen=True):
    """One call as the debug wrapper describes it; None where the text lacks a part."""

    op: str | None = None
    seq: int | None = None
    shape: str | None = None
    dtype: str | None = None

    def __str__(self) -> str:
        parts = (self.op, f"#{self.seq}" if self.seq is not None else None, self.shape, self.dtype)
        return " ".join(part for part in parts if part)


_FINGERPRINT = lazy(
    r"CollectiveFingerPrint\((?:SequenceNumber=(?P<seq>\d{1,20}))?,? ?(?:OpType=(?P<op>\w{1,60}))?"
    r"(?:, TensorShape=(?P<shape>\[[\d, ]{0,1000}\]))?(?:, TensorDtypes=(?P<dtype>[\w,]{1,200}?)(?=, Tensor|\)|$))?"
)
_END = lazy(r"Rank (?P<rank>\d{1,7}) is running (?:inconsistent )?collective: ")


def fingerprints(text: str) -> list[tuple[int | None, Fingerprint]]:
    """The calls that a text names, with the rank in the group that runs each."""
    calls = []
    for match in _FINGERPRINT.finditer(text):
        before = text[max(0, match.start() - 60) : match.start()]
        rank = next((int(m["rank"]) for m in _END.finditer(before)), None)
        seq = int(match["seq"]) if match["seq"] else None
        calls.append((rank, Fingerprint(match["op"], seq, match["shape"], match["dtype"])))
        if len(calls) == 2:
            break
    return calls


_JOINED = 6000

_ASPECTS = (
    ("sequence", lazy(r"Sequence number:")),
    ("op", lazy(r"Op type:")),
    ("shape", lazy(r"[Tt]ensor shapes?:")),
    ("dtype", lazy(r"[Tt]ensor dtypes?:")),
    ("device", lazy(r"[Tt]ensor devices?:")),
)


def joined(line: Line, until: str) -> str:
    """The record with its next lines, for as long as ``until`` has not come: fingerprints get wrapped by terminals."""
    text = line.body
    for below in line.following(6) if until not in text else ():
        if below.mark.severity is not None or below.mark.stream != line.mark.stream or "Traceback (" in below.body:
            break
        if len(text) > _JOINED:
            break
        text += below.body
        if until in below.body:
            break
    return text[: _JOINED * 2]


@for_rows
def differing_fingerprints(line: Line, hit: re.Match[str]) -> Iterator[Event]:
    """*collective-mismatch*: the two calls as far as readable, and what differs. Who says so need not differ."""
    text = joined(line, "Collectives differ in the following aspects")
    calls = fingerprints(text)
    unread = (None, Fingerprint())
    (left_rank, left), (right_rank, right) = [*calls, unread, unread][:2]
    alone = len(calls) < 2
    listed = text.partition("differ in the following aspects")[2]
    aspects = tuple(name for name, pattern in _ASPECTS if pattern.search(listed))
    fields: dict[str, Any] = {
        "left_rank": left_rank,
        "left": str(left),
        "left_op": left.op,
        "left_seq": left.seq,
        "right_rank": right_rank,
        "right": str(right),
        "right_op": right.op,
        "right_seq": right.seq,
        "aspects": aspects or (() if alone else _differing_aspects(left, right)),
        "op": left.op if alone or left.op == right.op else None,
        "seq": left.seq if alone or left.seq == right.seq else None,
    }
    yield CollectiveMismatch(**common(line, **fields))


def _differing_aspects(left: Fingerprint, right: Fingerprint) -> tuple[str, ...]:
    pairs = (
        ("sequence", left.seq, right.seq),
        ("op", left.op, right.op),
        ("shape", left.shape, right.shape),
        ("dtype", left.dtype, right.dtype),
    )
    return tuple(name for name, a, b in pairs if a != b and (name in ("sequence", "op") or None not in (a, b)))


_FAILED = lazy(
    r"(?:\[Rank (?P<root>\d{1,7})\]: )?Ranks? (?P<ranks>\d[\d, ]{0,60000}?) failed to pass monitoredBarrier in "
    r"(?P<ms>\d{1,12}) ms"
)


@for_rows
def guarded_call(line: Line, hit: re.Match[str]) -> Iterator[Event]:
    """*monitored-barrier* of the debug wrapper: its call, with the barrier's verdict from this line or the next ones."""
    call = next((found for _, found in fingerprints(line.body)), Fingerprint())
    texts = (line.body, *(below.body for below in line.following(3)))
    failed = next((match for text in texts if (match := _FAILED.search(text))), None)
    fields: dict[str, Any] = {}
    if failed:
        root = int(failed["root"]) if failed["root"] else None
        fields = {"group_rank": root, "missing": ranks_in(failed["ranks"]), "timeout_ms": int(failed["ms"])}
    yield MonitoredBarrier(**common(line, **fields), op=call.op, seq=call.seq)
