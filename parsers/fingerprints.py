"""The fingerprints by which PyTorch's debug wrapper names a call (``ProcessGroupWrapper.cpp``, 1.10 to 2.13)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What the debug wrapper knows of one call; None where the text lacks it."""

    op: str | None
    seq: int | None
    shape: str | None
    dtype: str | None

    def __str__(self) -> str:
        parts = (self.op, f"#{self.seq}" if self.seq is not None else None, self.shape, self.dtype)
        return " ".join(part for part in parts if part)


@cache
def _fingerprint() -> re.Pattern[str]:
    return re.compile(
        r"CollectiveFingerPrint\((?:SequenceNumber=(?P<seq>\d{1,20}))?,? ?(?:OpType=(?P<op>\w{1,60}))?"
        r"(?:, TensorShape=(?P<shape>\[[\d, ]{0,1000}\]))?(?:, TensorDtypes=(?P<dtype>[\w,]{1,200}?)(?=, Tensor|\)|$))?"
    )


@cache
def _end() -> re.Pattern[str]:
    return re.compile(r"Rank (?P<rank>\d{1,7}) is running (?:inconsistent )?collective: ")


def fingerprints(text: str) -> list[tuple[int | None, Fingerprint]]:
    """The calls that a text names, with the rank in the group that runs each."""
    found = []
    for match in _fingerprint().finditer(text):
        before = text[max(0, match.start() - 60) : match.start()]
        rank = next((int(m["rank"]) for m in _end().finditer(before)), None)
        seq = int(match["seq"]) if match["seq"] else None
        found.append((rank, Fingerprint(match["op"], seq, match["shape"], match["dtype"])))
        if len(found) == 2:
            break
    return found
