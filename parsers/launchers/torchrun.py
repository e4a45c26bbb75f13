"""Lines of torchrun's agent: who failed first, who was told to stop, which node holds which ranks.

pytorch ``torch/distributed/run.py``, ``elastic/agent/server/api.py``, ``elastic/multiprocessing/api.py``: 1.9 to 2.13.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from nccldoctor.events import Event, Note, ProcessExit, TearDown
from nccldoctor.parsers.base import Line, LineParser, common, line_parser, ranks_in
from nccldoctor.parsers.exit_codes import signal_named, signal_of
from nccldoctor.patterns import lazy

_FAILED = lazy(r"failed \(exitcode: (?P<code>-?\d{1,10})\) local_rank: (?P<local>\d{1,5}) \(pid: (?P<pid>\d{1,10})\)")
_CLOSING = lazy(r"Sending process (?P<pid>\d{1,10}) closing signal (?P<signal>[\w.]{1,20})")
_FORCED = lazy(r"Unable to shutdown process (?P<pid>\d{1,10}) via (?P<signal>[\w.]{1,20}), forcefull?y exitt?ing via")
_ABANDONED = lazy(r"Process (?P<pid>\d{1,10}) did not exit after .{1,60}; abandoning")
_STOPPED = lazy(r"Received (?P<signal>[\w.]{1,20}) death signal, shutting down workers")
_RESTART = lazy(
    r"Worker group (?P<state>\w{1,20})\. (?P<left>\d{1,6})/\d{1,6} attempts left; will restart"
    r"|Detected (?P<nodes>\d{1,6}) new nodes from group_rank=\d{1,6}; will restart"
)
_LIST = lazy(
    r"\b(?P<name>restart_count|master_addr|group_rank|group_world_size|local_ranks|global_ranks)=(?P<value>.{1,60000})"
)


@line_parser
class Agent(LineParser):
    """Exits, stops and restarts as the agent of one node tells them; its ranks are local ones."""

    literals = (
        "failed (exitcode: ",
        " closing signal ",
        "Unable to shutdown process ",
        " did not exit after ",
        " death signal, shutting down",
        "will restart worker group",
        "Error waiting on exit barrier",
        "Setting OMP_NUM_THREADS environment variable",
        "Rendezvous complete for workers",
    )

    def parse(self, line: Line) -> Iterator[Event]:
        """See :class:`LineParser`."""
        body = line.body
        if match := _FAILED.search(body):
            if not _is_in_table(line, match["pid"]):
                yield _exit(line, match)
        elif match := _CLOSING.search(body):
            yield TearDown(**common(line, what="closing-signal", pid=int(match["pid"]), detail=_signal(match)))
        elif match := _FORCED.search(body):
            yield TearDown(**common(line, what="forced-kill", pid=int(match["pid"]), detail=_signal(match)))
        elif match := _ABANDONED.search(body):
            yield Note(**common(line, what="abandoned-process", pid=int(match["pid"]), detail=body.strip()[:500]))
        elif match := _STOPPED.search(body):
            yield TearDown(**common(line, what="death-signal", detail=_signal(match)))
        elif "Error waiting on exit barrier" in body:
            yield TearDown(**common(line, what="exit-barrier", detail=body.strip()[:200]))
        elif match := _RESTART.search(body):
            left = f"{match['left']} attempts left" if match["left"] else f"{match['nodes']} new nodes"
            yield Note(**common(line, what="restart", detail=left))
        elif "Setting OMP_NUM_THREADS environment variable" in body:
            yield Note(**common(line, what="launch", detail="the launcher starts its workers"))
        elif "Rendezvous complete for workers" in body:
            yield from _rank_map(line)


def _signal(match: re.Match[str]) -> str:
    return signal_named(match["signal"]) or match["signal"]


def _exit(line: Line, match: re.Match[str]) -> Event:
    code = int(match["code"])
    return ProcessExit(
        **common(line, pid=int(match["pid"])),
        exitcode=code,
        signal=signal_of(code),
        local_rank=int(match["local"]),
        first=True,
        reporter="torchrun",
    )


def _is_in_table(line: Line, pid: str) -> bool:
    """Whether the table below tells of this process too, with its global rank."""
    return any("exitcode" in below.body and f"(pid: {pid})" in below.body for below in line.following(400))


def _rank_map(line: Line) -> Iterator[Event]:
    found: dict[str, str] = {}
    for below in line.following(14):
        if match := _LIST.search(below.body):
            found.setdefault(match["name"], match["value"].strip())
    ranks = found.get("global_ranks")
    if ranks is not None:
        found["global_ranks"] = str(ranks_in(ranks))
        shown = ("global_ranks", "group_rank", "master_addr", "restart_count")
        detail = " ".join(f"{name}={found[name]}" for name in shown if name in found)
        yield Note(**common(line, what="rank-map", detail=detail[:500]))
