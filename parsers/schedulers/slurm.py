"""Ends of the tasks of ``srun``, and lists of Slurm, as far as the rows of schedulers need code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from nccldoctor.events import Event, Note, ProcessExit, SchedulerEvent
from nccldoctor.model.errors import NccldoctorError
from nccldoctor.model.ranks import Ranks
from nccldoctor.parsers.base import Line, common
from nccldoctor.parsers.exit_codes import exit_and_signal, signal_named
from nccldoctor.parsers.line_prefix.timestamps import iso_time
from nccldoctor.parsers.rows import first_fit, for_rows, parser_of_rows
from nccldoctor.patterns import lazy

_CODE = lazy(r"Exited with exit code (-?\d{1,6})")

_NODES = lazy(
    r"^(?P<why>\S.{0,80}?)\s{1,60}[\w.@+-]{1,40}\s{1,40}\d{4}-\d\d-\d\dT[\d:]{8}\s{1,10}(?P<nodes>[A-Za-z][\w.,\[\]-]{0,200})\s*$"
)


@for_rows
def slurm_line(line: Line, hit: re.Match[str] | None = None, **more: Any) -> dict[str, Any]:
    """The common fields, but ``srun:`` before a line is who wrote it, not where."""
    fields = common(line, **more)
    return fields | {"host": None} if fields["host"] in ("srun", "slurmstepd") else fields


@for_rows
def cancelled(line: Line, hit: re.Match[str]) -> Iterator[Event]:
    """*scheduler* with why a job, or a step of it, was cancelled. Other rows know the words behind the time."""
    why = hit["why"].strip()
    fit = first_fit(parser_of_rows("scheduler").rows, why)
    job, _, step = hit["job"].partition(".")
    yield SchedulerEvent(
        **slurm_line(line, host=hit["host"], time=iso_time(hit["time"]) or common(line)["time"]),
        by="slurm",
        what=fit[0].values.get("what", "cancelled") if fit else "cancelled",
        job=job,
        job_step=step or None,
        detail=f"{hit['what'].lower()} {why}".strip(),
    )


@for_rows
def drained_nodes(line: Line, hit: re.Match[str]) -> Iterator[Event]:
    """The nodes of ``sinfo -R`` with the reason: taken out of service then or long before."""
    for below in line.following(64):
        row = _NODES.search(below.body)
        if row is None:
            return
        host = None if set("[,") & set(row["nodes"]) else row["nodes"]
        detail = f"{row['nodes']}: {row['why']}"
        yield Note(**slurm_line(below, host=host, rank=None, pid=None), what="node-drained", detail=detail)


@for_rows
def job_of_step(text: str) -> str:
    """The job of ``4477.0`` or ``4477.batch``: steps of one job are one job."""
    return text.partition(".")[0]


@for_rows
def ended_tasks(line: Line, match: re.Match[str]) -> Iterator[Event]:
    """*process-exit* for each task of ``srun``, *scheduler* for memory that ran out."""
    end = match["end"].strip()
    host = match["host"] if "[" not in match["host"] and "," not in match["host"] else None
    fields = slurm_line(line, host=host, rank=None, pid=None)
    signal, code = None, None
    if "Out Of Memory" in end:
        yield SchedulerEvent(**fields, by="slurm", what="oom", detail=match[0][:300])
        signal = "SIGKILL"
    elif exited := _CODE.search(end):
        code = int(exited[1])
    else:
        code, signal = (0, None) if end == "Completed" else (None, signal_named(end))
    if signal is None and code is None:
        return
    for task in list(task_set(match["tasks"]))[:4096]:
        yield ProcessExit(**fields, **exit_and_signal(code, signal), reporter="srun", task=task)


def task_set(text: str) -> Ranks:
    """The tasks of ``0-3,5``; none where the text is no such set or would name more than any job has."""
    spans = re.findall(r"(\d{1,7})(?:-(\d{1,7}))?", text)
    if sum(int(high or low) - int(low) for low, high in spans) > 1 << 20:
        return Ranks()
    try:
        return Ranks.parse(text.strip(","))
    except NccldoctorError:
        return Ranks()


@for_rows
def listed_tasks(text: str) -> str:
    """The tasks of ``0-3,5`` as ranks are written."""
    return str(task_set(text))
