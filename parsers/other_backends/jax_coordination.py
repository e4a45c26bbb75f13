"""JAX's coordination service, and the digest of Megascale's hang detector, as far as rows need code.

Sources: XLA ``coordination_service.cc``, ``coordination_service_agent.cc`` and ``pjrt/distributed/client.h`` of jaxlib 0.4
to 0.10, TensorFlow ``tsl/distributed_runtime`` 2.15; jax ``_src/distributed.py``. Tasks are named
``/job:jax_worker/replica:0/task:4``, since jaxlib 0.9 by their number alone. The number is JAX's process id.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from nccldoctor.events import AbsenceReport, Event, GpuError, ProcessExit, SocketError
from nccldoctor.model.ranks import Ranks
from nccldoctor.parsers.base import Line, common, ranks_in
from nccldoctor.parsers.rows import for_rows
from nccldoctor.patterns import lazy

_TASK = r"(?:/job:[\w.-]{1,80}/replica:\d{1,7}/task:)?(?P<task>\d{1,7})"
_BARRIER = lazy(
    r"Barrier timed out\. (?:Barrier_id|Id): (?P<id>[^\s\\]{1,200}?)\.?(?:\s|$)"
    r"(?:.{0,600}?reached the barrier: (?P<arrived>\d{1,7})/(?P<size>\d{1,7}))?"
    rf"(?:.{{0,60}}?first task at the barrier: {_TASK.replace('task>', 'first>')}\.)?",
    re.DOTALL,
)
_NAMES = lazy(r"[Tt]imed out task names:\s{0,3}(?P<names>.*)")
_NAME = lazy(rf"^{_TASK}$")
_SET_UP = lazy(r"Connect|[Ii]nit|register")
_BEAT = lazy(rf"\bTask {_TASK} heartbeat timeout\. This indicates")
_MOST = 4096
"""Names of tasks that are read below a message."""

_SENTENCES = 4
"""Lines of a message before the names at most."""


@for_rows
def jax_barrier(line: Line, begin: re.Match[str]) -> Iterator[Event]:
    """*absence-report* of a barrier that timed out, with the tasks that it lists; at most 20 of them are printed."""
    text = _whole_report(line)
    hit = _BARRIER.search(text)
    if hit is None:
        return
    yield AbsenceReport(
        **common(line),
        by="JAX",
        what="set-up" if _SET_UP.search(hit["id"]) else "barrier",
        call=hit["id"],
        missing=_listed(text),
        reached=Ranks([int(hit["first"])] if hit["first"] else []),
        arrived=int(hit["arrived"]) if hit["arrived"] else None,
        size=int(hit["size"]) if hit["size"] else None,
    )


def _whole_report(line: Line) -> str:
    """The message with the lines below it, up to the end of the list of tasks."""
    parts = [line.body.replace("\\n", "\n")]
    for below in line.following(_MOST):
        text = below.body.strip()
        if not text or text.startswith("RPC:") or (len(parts) > _SENTENCES and not _NAME.match(text)):
            break
        parts.append(text)
    return "\n".join(parts)


def _listed(text: str) -> Ranks:
    named = _NAMES.search(text)
    if named is None:
        return Ranks()
    tasks = []
    for name in text[named.start("names") :].split("\n"):
        task = _NAME.match(name.strip())
        if task is None:
            break
        tasks.append(int(task["task"]))
    return Ranks(tasks)


@for_rows
def silent_tasks(line: Line, begin: re.Match[str]) -> Iterator[Event]:
    """*process-exit* of each task that sends no heartbeats any more; how it ended, nobody knows."""
    tasks = [hit["task"] for hit in _BEAT.finditer(line.body)]
    if "stopped sending heartbeats):" in line.body:
        for below in line.following(_MOST):
            name = _NAME.match(below.body.strip())
            if name is None:
                break
            tasks.append(name["task"])
    for task in sorted({int(task) for task in tasks}):
        yield ProcessExit(**common(line, rank=task, pid=None), reporter="jax")


@for_rows
def silent_nodes(line: Line, hit: re.Match[str]) -> Iterator[Event]:
    """*process-exit* of each node that MindSpore's scheduler misses, as above."""
    for node in ranks_in(hit["nodes"]):
        yield ProcessExit(**common(line, rank=node, pid=None), reporter="mindspore")


@for_rows
def jax_registration(line: Line, hit: re.Match[str]) -> Iterator[Event]:
    """*absence-report* of a start that took too long, as the line or one around it says."""
    late = [one for one in (*line.preceding(3), line, *line.following(3)) if "DEADLINE_EXCEEDED" in one.body]
    if late:
        time = line.mark.time or late[0].mark.time
        yield AbsenceReport(**common(line, time=time), by="JAX", what="set-up", call="RegisterTask")


_CAUSE = lazy(
    r"hang that is likely caused by (?:(?P<chip>bad TPU)|(?P<link>a networking issue)|(?P<input>data input stall)"
    r"|(?P<program>running different modules|inconsistent))"
)
_HOSTS = lazy(r"(?:have bad TPUs are|The hosts are|input stalls are): (?P<hosts>[\w.:/, -]{1,2000})")
_BELOW = 6
_CALLS = {"input": "the data input", "program": "a program that differs between hosts", "": "a graph"}


@for_rows
def hang_digest(line: Line, hit: re.Match[str]) -> Iterator[Event]:
    """*gpu-error* or *socket-error* with the hosts that Megascale's digest names, else *absence-report*."""
    found = _CAUSE.search(line.body)
    cause = (found.lastgroup if found else "") or ""
    below = next((told for other in line.following(_BELOW) if (told := _HOSTS.search(other.body))), None)
    hosts = [host.strip() for host in below["hosts"].split(",") if host.strip()] if below else []
    fields = common(line, rank=None, pid=None)
    if cause == "chip":
        for host in hosts or [None]:
            yield GpuError(**fields | {"host": host}, message="bad TPU chip, says Megascale", board="TPU")
    elif cause == "link":
        where = {"host": hosts[0]} if hosts else {}
        yield SocketError(
            **fields | where,
            peer=hosts[1] if len(hosts) > 1 else None,
            message="a networking issue, says Megascale",
            how="other",
        )
    else:
        yield AbsenceReport(**fields, by="Megascale", what="collective", call=_CALLS.get(cause))
