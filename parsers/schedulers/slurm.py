"""What schedulers do to a job, and how the tasks of ``srun`` ended.

Sources: Slurm ``src/srun/libsrun/launch.c``, ``src/slurmd/slurmstepd``, ``sacct`` states (20.11 to 24.05); LSF
``TERM_*`` reasons; PBS ``mom``; notices of preemptible machines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from typing import Any

from nccldoctor.events import Event, ProcessExit, SchedulerEvent
from nccldoctor.model.errors import NccldoctorError
from nccldoctor.model.ranks import Ranks
from nccldoctor.parsers.base import Line, LineParser, common, line_parser
from nccldoctor.parsers.exit_codes import number_of, signal_named, signal_of

_TASKS = 4096


@cache
def _task() -> re.Pattern[str]:
    return re.compile(
        r"srun: error: (?P<host>[\w.\[\]-][\w.,\[\]-]{0,400}): tasks? (?P<tasks>\d[\d,-]{0,2000}): "
        r"(?P<end>[A-Z].{0,200})"
    )


@cache
def _code() -> re.Pattern[str]:
    return re.compile(r"Exited with exit code (-?\d{1,6})")


@cache
def _cancelled() -> re.Pattern[str]:
    return re.compile(
        r"\*\*\* (?P<what>JOB|STEP) (?P<job>[\w.+]{1,60}) ON (?P<host>[\w.-]{1,200}) CANCELLED AT "
        r"(?P<time>[\dT:-]{19})(?P<why>[^*]{0,200})"
    )


@cache
def _slurm_oom() -> re.Pattern[str]:
    return re.compile(
        r"Detected \d{1,9} oom[-_]kill events? ?(?:\(s\))? ?in (?:step |StepId=)(?P<job>\w{1,30}(?:\.\w{1,30})?)"
        r"|Exceeded (?:job|step) memory limit"
        r"|killed by the cgroup out-of-memory handler"
    )


@cache
def _killing() -> re.Pattern[str]:
    return re.compile(r"Killing step (?P<job>\d{1,12}[\w.+]{0,30})")


@cache
def _node_failure() -> re.Pattern[str]:
    return re.compile(r"(?:Node failure on (?P<on>[\w.-]{1,200})|\bNode (?P<host>[\w.-]{1,200}) has failed)")


_REASONS = (
    ("time-limit", r"DUE TO TIME LIMIT|TERM_RUNLIMIT|PBS: job killed: walltime"),
    (
        "preempted",
        r"DUE TO (?:\w{1,20} )?PREEMPT|TERM_PREEMPT|[Ii]nstance was preempted"
        r"|[Ss]pot [Ii]nstance (?:interruption|termination)",
    ),
    ("node-failure", r"DUE TO NODE FAIL"),
    ("requeue", r"DUE TO JOB REQUEUE|TERM_REQUEUE"),
    ("oom", r"TERM_MEMLIMIT|PBS: job killed: mem"),
    ("cancelled", r"TERM_OWNER|TERM_ADMIN"),
)

_STEP_ENDS = ("Job step aborted", "forcing job termination", "error: Killing step ")

_STATES = {
    "OUT_OF_MEMORY": "oom",
    "OUT_OF_ME+": "oom",
    "NODE_FAIL": "node-failure",
    "BOOT_FAIL": "node-failure",
    "PREEMPTED": "preempted",
    "TIMEOUT": "time-limit",
    "DEADLINE": "time-limit",
    "CANCELLED": "cancelled",
    "REQUEUED": "requeue",
}


@cache
def _reasons() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((what, re.compile(pattern)) for what, pattern in _REASONS)


@cache
def _state() -> re.Pattern[str]:
    names = "|".join(re.escape(name) for name in _STATES)
    return re.compile(
        rf"^\s{{0,8}}(?P<job>\d{{1,12}}(?:[_.+]\w{{1,20}}){{0,2}})[\s|](?:.{{0,300}}[\s|])?(?P<state>{names})(?=[\s|]|$)"
    )


@line_parser
class Scheduler(LineParser):
    """*scheduler* for what was done to the job, *process-exit* for each task of ``srun``. A step that is cancelled
    right after a task failed is tear-down, not a cause.
    """

    literals = (
        "srun: error: ",
        " CANCELLED AT ",
        "oom-kill event",
        "oom_kill event",
        "memory limit",
        "cgroup out-of-memory handler",
        "Node failure on",
        "Job step aborted",
        "forcing job termination",
        "error: Killing step ",
        "TERM_",
        "PBS: job killed",
        "nstance was preempted",
        "pot Instance ",
        "pot instance ",
        *(name for name in _STATES if name != "DEADLINE"),
    )

    def parse(self, line: Line) -> Iterator[Event]:
        """See :class:`LineParser`."""
        body = line.raw  # "srun:" looks like a prefix and may have been peeled off
        if match := _task().search(body):
            yield from _tasks(line, match)
        elif match := _cancelled().search(body):
            why = match["why"].strip()
            what = next((name for name, pattern in _reasons() if pattern.search(why)), "cancelled")
            fields: dict[str, Any] = {"host": match["host"], "time": _time(match["time"]) or _common(line)["time"]}
            detail = f"{match['what'].lower()} {why}".strip()
            yield SchedulerEvent(**_common(line, **fields), what=what, job=_job(match["job"]), detail=detail)
        elif match := _slurm_oom().search(body):
            yield SchedulerEvent(**_common(line), what="oom", job=_job(match["job"]), detail=body.strip()[:300])
        elif "srun: error: " in body or "Node failure on" in body:
            if match := _node_failure().search(body):
                host = match["on"] or match["host"]
                yield SchedulerEvent(**_common(line, host=host), what="node-failure", detail=body.strip()[:300])
        elif any(words in body for words in _STEP_ENDS):
            match = _killing().search(body)
            job = _job(match["job"]) if match else None
            yield SchedulerEvent(**_common(line), what="cancelled", job=job, detail=body.strip()[:300])
        elif match := _state().search(body):
            yield SchedulerEvent(
                **_common(line), what=_STATES[match["state"]], job=_job(match["job"]), detail=match["state"]
            )
        elif named := next((name for name, pattern in _reasons() if pattern.search(body)), None):
            yield SchedulerEvent(**_common(line), what=named, detail=body.strip()[:300])


def _common(line: Line, **more: Any) -> dict[str, Any]:
    """As :func:`common`, but ``srun:`` before a line is who wrote it, not where."""
    fields = common(line, **more)
    return fields | {"host": None} if fields["host"] in ("srun", "slurmstepd") else fields


def _job(text: str | None) -> str | None:
    """The job of ``4477.0`` or ``4477.batch``: steps of one job are one job."""
    return text.partition(".")[0] if text else None


def _time(text: str) -> datetime | None:
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
        yield SchedulerEvent(**fields, what="oom", detail=match[0][:300])
        signal = "SIGKILL"
    elif exited := _code().search(end):
        code = int(exited[1])
        signal = signal_of(code)
    else:
        signal = signal_named(end)
    if code is None and signal is not None:
        code = -(number_of(signal) or 0) or None
    if signal is None and code is None:
        return
    for task in list(_numbers(match["tasks"]))[:_TASKS]:
        yield ProcessExit(**fields, exitcode=code, signal=signal, reporter="srun", task=task)


def _numbers(text: str) -> Ranks:
    """The tasks of ``0-3,5``; none where the text is no such set or would name more than any job has."""
    spans = re.findall(r"(\d{1,7})(?:-(\d{1,7}))?", text)
    if sum(int(high or low) - int(low) for low, high in spans) > 1 << 20:
        return Ranks()
    try:
        return Ranks.parse(text.strip(","))
    except NccldoctorError:
        return Ranks()
