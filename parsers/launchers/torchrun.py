"""Lines of torchrun's agent: the first failure, the processes told to stop, the ranks of each node.

pytorch ``torch/distributed/run.py``, ``elastic/agent/server/api.py``, ``elastic/multiprocessing/api.py``: 1.9 to 2.13.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from nccldoctor.events import Event, Note, ProcessExit, TearDown
from nccldoctor.parsers.base import Line, common, line_parser, ranks_in
from nccldoctor.parsers.exit_codes import exit_and_signal, signal_named
from nccldoctor.parsers.rows import RowParser, Table, needs_of
from nccldoctor.patterns import lazy

_TABLE = Table(__file__)
_FAILED = lazy(r"failed \(exitcode: (?P<code>-?\d{1,10})\) local_rank: (?P<local>\d{1,5}) \(pid: (?P<pid>\d{1,10})\)")
_LIST = lazy(
    r"\b(?P<name>restart_count|master_addr|group_rank|group_world_size|local_ranks|global_ranks)=(?P<value>.{1,60000})"
)


def _detail(hit: re.Match[str]) -> str:
    groups = hit.groupdict()
    if "signal" in groups:
        return signal_named(hit["signal"] or "") or hit["signal"] or ""
    if "left" in groups:
        return f"{hit['left']} attempts left" if hit["left"] else f"{hit['nodes']} new nodes"
    return hit.string.strip()[:500]


@line_parser
class Agent(RowParser):
    """Exits, stops and restarts as the agent of one node prints them; its ranks are local ones."""

    event = TearDown
    literals = _TABLE.literals
    rows = _TABLE.rows
    needs = (_FAILED, lazy("Rendezvous complete for workers"), *needs_of(rows))

    def row_fields(self, line: Line, hit: re.Match[str]) -> dict[str, Any]:
        return common(line, detail=_detail(hit), **({"agent": line.mark.pid} if "closing signal" in line.body else {}))

    def parse(self, line: Line) -> Iterator[Event]:
        """A failure that the table below tells too is left to the table, which knows the global rank."""
        if match := _FAILED.search(line.body):
            if not _is_in_table(line, match["pid"]):
                yield _exit(line, match)
        elif "Rendezvous complete for workers" in line.body:
            yield from _rank_map(line)
        else:
            yield from super().parse(line)

    def is_told_elsewhere(self, line: Line) -> bool:
        """True of a failure that the table below tells."""
        match = _FAILED.search(line.body)
        return match is not None and _is_in_table(line, match["pid"])


def _exit(line: Line, match: re.Match[str]) -> Event:
    return ProcessExit(
        **common(line, pid=int(match["pid"])),
        **exit_and_signal(int(match["code"])),
        local_rank=int(match["local"]),
        first=True,
        reporter="torchrun",
        agent=line.mark.pid,
    )


def _is_in_table(line: Line, pid: str) -> bool:
    """True when the table below has a row for this process, with its global rank."""
    return any("exitcode" in below.body and f"(pid: {pid})" in below.body for below in line.following(400))


def _rank_map(line: Line) -> Iterator[Event]:
    settings: dict[str, str] = {}
    for below in line.following(14):
        if match := _LIST.search(below.body):
            settings.setdefault(match["name"], match["value"].strip())
    ranks = settings.get("global_ranks")
    if ranks is not None:
        settings["global_ranks"] = str(ranks_in(ranks))
        shown = ("global_ranks", "group_rank", "master_addr", "restart_count")
        detail = " ".join(f"{name}={settings[name]}" for name in shown if name in settings)
        yield Note(**common(line, what="rank-map", detail=detail[:500]))
