"""Functions of the rows of trainers and of monitors beside a job: whose a line is, and lists of ranks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from nccldoctor.events import Event, SlowReport
from nccldoctor.model.errors import NccldoctorError
from nccldoctor.model.ranks import Ranks
from nccldoctor.parsers.base import Line, common
from nccldoctor.parsers.rows import for_rows
from nccldoctor.patterns import lazy

_MONITOR = lazy(r"\[[A-Za-z_]{0,40}\d{1,10}@(?P<host>[\w.-]{1,200}):(?P<rank>\d{1,7})\]")
"""The name of a rank's monitor: its own pid, its host and the rank that it watches."""


@for_rows
def monitor_line(line: Line, hit: re.Match[str]) -> dict[str, Any]:
    """The common fields, with rank and host as the name of the monitor says."""
    named = _MONITOR.search(line.raw[:400])
    return common(line, **({"host": named["host"], "rank": int(named["rank"]), "pid": None} if named else {}))


@for_rows
def printed_rank(line: Line, hit: re.Match[str]) -> dict[str, Any]:
    """The common fields, with the rank that the words name where nothing in front of them does."""
    printed = hit.groupdict().get("printed_rank")
    return common(line) if line.mark.rank is not None or printed is None else common(line, rank=int(printed))


@for_rows
def keyed_ranks(text: str) -> Ranks:
    """The ranks in ``{StragglerId(rank=5, node='n7')}``, the keys of ``{3: 41.2}``."""
    return Ranks(int(first or second) for first, second in re.findall(r"rank=(\d{1,7})|(?:^|, )(\d{1,7}): ", text))


@for_rows
def rank_spans(text: str) -> Ranks:
    """The ranks of ``3, 5-7``; none where the text is no such list."""
    try:
        return Ranks.parse(text.replace(" ", "").strip(",-"))
    except NccldoctorError:
        return Ranks()


@for_rows
def straggler_json(line: Line, hit: re.Match[str]) -> Iterator[Event]:
    """*slow-report* with the numbers up to the bracket that closes the list."""
    text, below = hit["listed"], line.following(64)
    while "]" not in text and (row := next(below, None)) is not None:
        text += f"{row.body.strip()} "
    if slow := rank_spans(text.partition("]")[0]):
        yield SlowReport(**common(line, rank=None), by="FlagScale", slow=slow)


_LOWEST = lazy(r"Ranks with lowest {1,3}Etpt\(TF\): (?P<listed>[\d.:/, ]{1,4000})")
_SPEED = lazy(r"(?P<speed>\d{1,9}\.\d{1,6})/(?P<rank>\d{1,7})\b|\b(?P<named>\d{1,7}):(?P<its>\d{1,9}\.\d{1,6})")


@for_rows
def megatron_report(line: Line, hit: re.Match[str]) -> Iterator[Event]:
    """*slow-report* of ranks less than half as fast as others of the slowest; without their list, of a throttled one."""
    texts = (line.body, *(below.body for below in line.following(2) if "Rtt/Rnk" not in below.body))
    listed = next((found["listed"] for text in texts if (found := _LOWEST.search(text))), "")
    speeds = {int(one["rank"] or one["named"]): float(one["speed"] or one["its"]) for one in _SPEED.finditer(listed)}
    slow = Ranks(rank for rank, speed in speeds.items() if 2 * speed < max(speeds.values()))
    if not speeds and hit["rank"] == hit["coldest"] and float(hit["most"]) >= 3 * float(hit["least"]):
        slow = Ranks([int(hit["rank"])])
    yield SlowReport(**common(line, rank=None), by="Megatron-LM", slow=slow)
