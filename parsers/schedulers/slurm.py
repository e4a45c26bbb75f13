"""Actions of schedulers on a job, and ends of the tasks of ``srun``.

Sources: Slurm ``src/slurmctld/job_mgr.c`` (the log of the controller, which speaks of all jobs of a cluster),
``src/srun/launch.c``, ``src/api/step_launch.c``, ``src/slurmd/slurmstepd``, ``src/sinfo``, ``sacct`` states (20.11 to 26.05); LSF
``TERM_*`` reasons; PBS ``mom``; Grid Engine ``msg_execd.h``; notices of preemptible machines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from nccldoctor.events import Event, Note, ProcessExit, RendezvousError, SchedulerEvent
from nccldoctor.model.errors import NccldoctorError
from nccldoctor.model.ranks import Ranks
from nccldoctor.parsers.base import Line, common, reads
from nccldoctor.parsers.exit_codes import exit_and_signal, signal_named
from nccldoctor.parsers.rows import Table, first_fit, needs_of
from nccldoctor.patterns import lazy

_TASKS = 4096

_TASK = lazy(
    r"srun: (?:error: |launch/slurm: _task_finish: )?(?P<host>[\w.\[\]-][\w.,\[\]-]{0,400}): "
    r"tasks? (?P<tasks>\d[\d,-]{0,2000}): (?P<end>[A-Z].{0,200})"
)
_WELL = "Completed"
"""How ``srun -v`` calls an end with 0."""

_CODE = lazy(r"Exited with exit code (-?\d{1,6})")
_CANCELLED = lazy(
    r"\*\*\* (?P<what>JOB|STEP) (?P<job>[\w.+]{1,60}) ON (?P<host>[\w.-]{1,200}) CANCELLED AT "
    r"(?P<time>[\dT:-]{19})(?P<why>[^*]{0,200})"
)
_LAUNCH = lazy(
    r"srun: launching \S{1,60} on host (?P<host>[\w.-]{1,200}), \d{1,7} tasks: \[?(?P<tasks>\d[\d,-]{0,2000})"
)
_TABLE = Table(__file__)
_REASONS = _TABLE.list_of("reasons")
_STATES: dict[str, str] = _TABLE.data["states"]
_NAMES = "|".join(re.escape(name) for name in _STATES)
_JOB_STATE = lazy(rf"\bJobState=(?P<state>{_NAMES})\b")
_JOB_ID = lazy(r"\bJobId=(\d{1,12})\b")
_DRAINED = lazy(r"^\s{0,8}REASON\s{1,60}USER\s{1,60}TIMESTAMP\s{1,60}NODELIST\s*$")
_NODES = lazy(
    r"^(?P<why>\S.{0,80}?)\s{1,60}[\w.@+-]{1,40}\s{1,40}\d{4}-\d\d-\d\dT[\d:]{8}\s{1,10}(?P<nodes>[A-Za-z][\w.,\[\]-]{0,200})\s*$"
)
_LISTED = 64
"""Nodes in a list of ``sinfo -R`` that are read."""

_STATE = lazy(
    r"\A\s{0,8}(?P<job>\d{1,12}(?:[_.+]\w{1,20}){0,2})[\s|](?:.{0,300}[\s|])?"
    rf"(?P<state>{_NAMES})(?=[\s|]|$)"
)


_SLURM = "slurm"


@reads(
    *_TABLE.literals,
    *(word for row in _REASONS for word in row.literals),
    needs=(_TASK, _LAUNCH, _CANCELLED, _STATE, _JOB_STATE, _DRAINED, *needs_of(_TABLE.rows), *needs_of(_REASONS)),
)
def scheduler(line: Line) -> Iterator[Event]:
    """*scheduler* for what was done to the job, *process-exit* for each task of ``srun``. A step that is cancelled
    right after a task failed is tear-down, not a cause.
    """
    body = line.raw  # "srun:" looks like a prefix and may have been peeled off
    if match := _TASK.search(body):
        yield from _tasks(line, match)
    elif match := _LAUNCH.search(body):
        tasks = str(_task_set(match["tasks"]))
        yield Note(**_common(line, host=match["host"], rank=None, pid=None), what="tasks-on-host", detail=tasks)
    elif match := _CANCELLED.search(body):
        why = match["why"].strip()
        what = _reason(why) or "cancelled"
        fields: dict[str, Any] = {"host": match["host"], "time": _iso_time(match["time"]) or _common(line)["time"]}
        detail = f"{match['what'].lower()} {why}".strip()
        job, _, step = match["job"].partition(".")
        yield SchedulerEvent(
            **_common(line, **fields), by=_SLURM, what=what, job=job, job_step=step or None, detail=detail
        )
    elif match := _STATE.search(body) or _JOB_STATE.search(body):
        job = _job(match["job"]) if "job" in match.re.groupindex else _job_above(line)
        yield SchedulerEvent(**_common(line), by=_SLURM, what=_STATES[match["state"]], job=job, detail=match["state"])
    elif _DRAINED.search(line.body):
        yield from _drained_nodes(line)
    elif fit := first_fit((*_TABLE.rows, *_REASONS), body):
        row, match = fit
        event = row.event or SchedulerEvent
        told = "message" if event is RendezvousError else "detail"
        who = {"by": _SLURM} if event is SchedulerEvent else {}
        yield event(**_common(line, **{told: body.strip()[:300]}) | who | row.event_fields(match, event))


def _reason(text: str) -> str | None:
    """Why a job was cancelled, by the words behind the time."""
    fit = first_fit(_REASONS, text)
    return str(fit[0].values["what"]) if fit else None


def _job_above(line: Line) -> str | None:
    """The job of ``scontrol show job``, which stands at the head of its block."""
    return next((hit[1] for above in line.preceding(6) if (hit := _JOB_ID.search(above.raw))), None)


def _drained_nodes(line: Line) -> Iterator[Event]:
    """The nodes of ``sinfo -R`` with the reason: taken out of service then or long before."""
    for below in line.following(_LISTED):
        row = _NODES.search(below.body)
        if row is None:
            return
        host = None if set("[,") & set(row["nodes"]) else row["nodes"]
        detail = f"{row['nodes']}: {row['why']}"
        yield Note(**_common(below, host=host, rank=None, pid=None), what="node-drained", detail=detail)


def _common(line: Line, **more: Any) -> dict[str, Any]:
    """As :func:`common`, but ``srun:`` before a line is who wrote it, not where."""
    fields = common(line, **more)
    return fields | {"host": None} if fields["host"] in ("srun", "slurmstepd") else fields


def _job(text: str | None) -> str | None:
    """The job of ``4477.0`` or ``4477.batch``: steps of one job are one job."""
    return text.partition(".")[0] if text else None


def _iso_time(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _tasks(line: Line, match: re.Match[str]) -> Iterator[Event]:
    end = match["end"].strip()
    host = match["host"] if "[" not in match["host"] and "," not in match["host"] else None
    fields = _common(line, host=host, rank=None, pid=None)
    signal, code = None, None
    if "Out Of Memory" in end:
        yield SchedulerEvent(**fields, by=_SLURM, what="oom", detail=match[0][:300])
        signal = "SIGKILL"
    elif exited := _CODE.search(end):
        code = int(exited[1])
    elif end == _WELL:
        code = 0
    else:
        signal = signal_named(end)
    if signal is None and code is None:
        return
    ends = exit_and_signal(code, signal)
    for task in list(_task_set(match["tasks"]))[:_TASKS]:
        yield ProcessExit(**fields, **ends, reporter="srun", task=task)


def _task_set(text: str) -> Ranks:
    """The tasks of ``0-3,5``; none where the text is no such set or would name more than any job has."""
    spans = re.findall(r"(\d{1,7})(?:-(\d{1,7}))?", text)
    if sum(int(high or low) - int(low) for low, high in spans) > 1 << 20:
        return Ranks()
    try:
        return Ranks.parse(text.strip(","))
    except NccldoctorError:
        return Ranks()
