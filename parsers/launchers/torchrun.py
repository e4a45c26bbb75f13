"""What torchrun's agent prints of its workers and its rendezvous, as far as the rows need code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from nccldoctor.events import Event, Note, RendezvousError
from nccldoctor.parsers.base import Line, common, ranks_in
from nccldoctor.parsers.rows import for_rows
from nccldoctor.patterns import lazy

_FAILED = lazy(r"failed \(exitcode: -?\d{1,10}\) local_rank: \d{1,5} \(pid: (?P<pid>\d{1,10})\)")
_LIST = lazy(
    r"\b(?P<name>restart_count|master_addr|group_rank|group_world_size|local_ranks|global_ranks)=(?P<value>.{1,60000})"
)


@for_rows
def agent_line(line: Line, hit: re.Match[str]) -> dict[str, Any] | None:
    """The common fields, with the agent that closes or reports a process. None where the failure table below tells it too."""
    is_of_process = "closing signal" in line.body or "failed (exitcode: " in line.body
    return None if is_in_failure_table(line) else common(line, **({"agent": line.mark.pid} if is_of_process else {}))


@for_rows
def is_in_failure_table(line: Line) -> bool:
    """True of a failure that the table below tells too, which knows the global rank."""
    hit = _FAILED.search(line.body)
    pid = f"(pid: {hit['pid']})" if hit else ""
    return hit is not None and any("exitcode" in below.body and pid in below.body for below in line.following(400))


@for_rows
def ranks_of_node(line: Line, hit: re.Match[str]) -> Iterator[Event]:
    """*note* with the ranks of a node."""
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


_QUOTED = lazy(r"'([^']{1,200})'")


@for_rows
def rendezvous_line(line: Line, hit: re.Match[str]) -> dict[str, Any]:
    """The common fields, the message, and what became of the rendezvous."""
    what = "closed" if re.search("ClosedError| is closed", hit[0]) else "no-store" if "ConnectionE" in hit[0] else ""
    return common(line, message=hit[0][:500], what="store-lost" if _was_running(line, hit[0]) else what)


@for_rows
def removed_nodes(line: Line, hit: re.Match[str]) -> Iterator[Event]:
    """*rendezvous-error* for each node that is gone."""
    for node in _QUOTED.findall(hit["removed"])[:64] or [None]:
        yield RendezvousError(**rendezvous_line(line, hit), node=node)


def _was_running(line: Line, message: str) -> bool:
    """True where an agent lost the store behind a rendezvous that had come up.

    It watched its workers, or its heartbeats, which begin with the end of the rendezvous, no longer arrive.
    """
    return "RendezvousConnectionError" in line.body and (
        "keep-alive heartbeat" in message or any("num_nodes_waiting" in above.body for above in line.preceding(40))
    )
