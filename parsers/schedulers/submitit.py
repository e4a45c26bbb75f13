"""Reads what submitit logs when Slurm signals a task: preemption, the time limit, a requeue.

Source: facebookincubator/submitit ``core/job_environment.py`` and ``slurm/slurm.py`` (1.0 to 1.5). The host of such a line is
where the signal was caught; the scheduler takes the whole job.
"""

from __future__ import annotations

from typing import Any

from nccldoctor.events import SchedulerEvent
from nccldoctor.parsers.base import Line, common, line_parser
from nccldoctor.parsers.rows import Row, RowParser


@line_parser
class Submitit(RowParser):
    """*scheduler* with what Slurm is about to do; *tear-down* where submitit lets a closing signal pass."""

    event = SchedulerEvent
    longest = 8_000
    rows = (
        Row(
            ": this job is preempted",
            r"Caught signal \S{1,12} on \S{1,200}: this job is preempted",
            what="preempted",
            by="slurm",
            detail="submitit caught its signal",
        ),
        Row(
            ": this job is timed-out",
            r"Caught signal \S{1,12} on \S{1,200}: this job is timed-out",
            what="time-limit",
            by="slurm",
        ),
        Row(
            "Job not requeued because: ",
            r"Job not requeued because: timed-out [\w ]{1,60}",
            what="time-limit",
            by="slurm",
        ),
        Row(
            "Requeued job ",
            r"Requeued job (?P<job>\d{1,12}) \(\d{1,6} remaining timeouts\)",
            what="requeue",
            by="slurm",
        ),
        Row(
            "Bypassing signal SIGTERM",
            r"submitit WARNING .{0,60}Bypassing signal SIGTERM",
            "tear-down",
            what="death-signal",
            detail="SIGTERM",
        ),
    )

    def searched_text(self, line: Line) -> str:
        return line.raw[:8_000]

    def row_fields(self, line: Line, hit: Any) -> dict[str, Any]:
        """Without a host: the line names the one that was told, not one at fault."""
        return common(line, host=None)
