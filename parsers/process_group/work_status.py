"""The counters of a process group as its watchdog prints them: which call failed, what was enqueued and completed last.

Wordings: pytorch ``ProcessGroupNCCL.cpp`` v2.3 to v2.13.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from nccldoctor.events import Event, WorkStatus
from nccldoctor.parsers.base import Line, reads
from nccldoctor.parsers.process_group.prefix import grouped
from nccldoctor.patterns import lazy

_FAILED = lazy(r"(?:detected by watchdog at work(?: sequence id)?|Timeout at \w{2,6} work): (\d{1,20})(?=[,. ])")
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


@reads(
    "detected by watchdog at",
    "Timeout at NCCL work",
    "Work update periodically",
    " ProcessGroupNCCL.cpp:",
    needs=(_FAILED, lazy("periodically")),
)
def work_counters(line: Line) -> Iterable[Event]:
    """The counters of the group whose call failed; in some builds also a periodic report.

    The counters; a record that is cut before them still tells which call failed.
    """
    failed = _FAILED.search(line.body)
    if failed is None and "periodically" not in line.body:
        return
    failed_seq = int(failed[1]) if failed else None
    counts = counters(line.body)
    if _is_cut(line.body, counts["last_completed"], failed_seq):
        counts["last_completed"] = None
    yield WorkStatus(**grouped(line, line.body), failed=failed_seq, **counts)
