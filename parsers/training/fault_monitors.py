"""What the rows of monitors beside a job need code for: the name of a monitor, and lists of ranks."""

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
