"""The last COLL lines of each communicator of a large file. Such lines are too many to be read all, and what a process called last in
a communicator that it seldom uses may stand anywhere: without that line it would seem to lag behind its peers.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterator
from functools import cache

import ahocorasick_rs
import numpy as np

from nccldoctor.parsers.window import Buffer

LAST = 32
"""Lines kept of each communicator of a process."""

MOST = 4096
"""Communicators kept of one file."""

_FRONT = 120


@cache
def _sign() -> ahocorasick_rs.BytesAhoCorasick:
    """A search for one literal, which the library does at the speed of memory, ten times as fast as ``bytearray.find``."""
    return ahocorasick_rs.BytesAhoCorasick([b"opCount "])


@cache
def _call() -> re.Pattern[bytes]:
    return re.compile(rb"opCount [0-9a-f]{1,16} [^\n]{0,240}? comm 0x([0-9a-f]{1,16})")


class Newest:
    """Gathers them as the scanner's buffer passes by, for each thread that calls."""

    def __init__(self) -> None:
        self._kept: dict[tuple[bytes, bytes], deque[tuple[int, bytes]]] = defaultdict(lambda: deque(maxlen=LAST))

    def block(self, buffer: Buffer, low: int, high: int, number: int) -> None:
        """Look at whole lines in ``[low, high)``; the first of them has this number."""
        data = buffer.data
        with memoryview(data) as view:
            hits = [low + start for _, start, _ in _sign().find_matches_as_indexes(view[low:high])]
        found: dict[tuple[bytes, bytes], deque[tuple[int, int]]] = defaultdict(lambda: deque(maxlen=LAST))
        for at in hits:
            hit = _call().match(data, at, high)
            if hit is None:
                continue
            key = _thread(data, max(low, at - _FRONT), at), hit[1]
            if key in self._kept or key in found or len(self._kept) + len(found) < MOST:
                found[key].append((hit.start(), hit.end()))
        if not found:
            return
        ends = np.flatnonzero(np.frombuffer(data, np.uint8, high - low, low) == 0x0A) + low
        for key, places in found.items():
            for start, end in places:
                at = int(np.searchsorted(ends, start))
                begin = int(ends[at - 1]) + 1 if at else low
                stop = int(ends[at]) if at < len(ends) else min(high, end + _FRONT)
                self._kept[key].append((number + at, bytes(data[begin:stop])))

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """What was kept, with the numbers of the lines, in their order."""
        yield from sorted({line for kept in self._kept.values() for line in kept})


def _thread(data: bytearray, low: int, at: int) -> bytes:
    """``host:pid:tid`` out of ``host:pid:tid [0] NCCL INFO AllReduce: ``; nothing where the line begins otherwise."""
    message = data.rfind(b" NCCL INFO ", low, at)
    device = data.rfind(b" [", low, message) if message >= 0 else -1
    if device < 0:
        return b""
    start = max(data.rfind(b" ", low, device), data.rfind(b"\n", low, device)) + 1
    return bytes(data[start or low : device])
