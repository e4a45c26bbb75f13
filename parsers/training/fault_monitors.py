"""Reads the watchdogs and checks of NVRx, DLRover, xpu_timer, FlagScale and Ray, which look at a job from beside it.

Sources: NVIDIA/nvidia-resiliency-ext ``fault_tolerance/rank_monitor_server.py``, ``inprocess/attribution.py`` and
``ptl_resiliency/straggler_det_callback.py`` (0.3 to 0.6); DLRover ``master/elastic_training/rdzv_manager.py``,
``master/node/dist_job_manager.py``, ``common/event/reporter.py`` and xpu_timer (0.4 to 0.7); FlagScale
``runner/elastic/monitor_service.py`` and the straggler reports of its ``train`` (0.9, 1.0); ray
``gcs_node_manager.cc`` and ``exceptions.py`` (0.8 to 2.50). In DLRover a rank is that of a node.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from nccldoctor.events import AbsenceReport, Event, SlowReport
from nccldoctor.model.errors import NccldoctorError
from nccldoctor.model.ranks import Ranks
from nccldoctor.parsers.base import Line, common, finds, line_parser
from nccldoctor.parsers.rows import RowParser, Table
from nccldoctor.patterns import lazy

_MONITOR = lazy(r"\[[A-Za-z_]{0,40}\d{1,10}@(?P<host>[\w.-]{1,200}):(?P<rank>\d{1,7})\]")
"""The name of a rank's monitor: its own pid, its host and the rank that it watches."""


def _keys(text: str) -> Ranks:
    """The ranks in ``{StragglerId(rank=5, node='n7')}``, the keys of ``{3: 41.2}``."""
    return Ranks(int(first or second) for first, second in re.findall(r"rank=(\d{1,7})|(?:^|, )(\d{1,7}): ", text))


def _spans(text: str) -> Ranks:
    """The ranks of ``3, 5-7``; none where the text is no such list."""
    try:
        return Ranks.parse(text.replace(" ", "").strip(",-"))
    except NccldoctorError:
        return Ranks()


_LISTED = lazy(r"\"straggler_ranks\": ?\[(?P<listed>.{0,2000})")
_RANKS = 64
"""Rows of a list of slow ranks that are read."""

_READ = {"told": ("slow", _keys), "listed": ("slow", _spans), "gone": ("missing", _spans)}
"""For groups that hold several ranks the field and how it is read."""


@line_parser
class FaultMonitor(RowParser):
    """*absence-report* of a rank without steps, *scheduler* for a node that is gone or failed its check, *slow-report*."""

    event = AbsenceReport
    rows = Table(__file__).rows
    longest = 4_000
    raw = True

    def row_fields(self, line: Line, hit: re.Match[str]) -> dict[str, Any]:
        """Rank and host as the name of the monitor says."""
        fields, named = common(line), _MONITOR.search(line.raw[:400])
        if named:
            fields |= {"host": named["host"], "rank": int(named["rank"]), "pid": None}
        held = [group for group in _READ if group in hit.re.groupindex]
        return fields | {_READ[group][0]: _READ[group][1](hit[group]) for group in held}


@finds(_LISTED, '"straggler_ranks"')
def straggler_json(line: Line, hit: re.Match[str]) -> Iterator[Event]:
    """*slow-report* of the JSON that FlagScale writes beside its text, on one line or one number a line.

    The numbers up to the bracket that closes the list.
    """
    text, below = hit["listed"], line.following(_RANKS)
    while "]" not in text and (row := next(below, None)) is not None:
        text += f"{row.body.strip()} "
    slow = _spans(text.partition("]")[0])
    if slow:
        yield SlowReport(**common(line, rank=None), by="FlagScale", slow=slow)
