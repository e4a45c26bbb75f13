"""Finds out which of several jobs on many hosts is meant.

Each host alone sees only its part of them, and stacks are read of one job.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from nccldoctor.collect.bundle import Answer
from nccldoctor.collect.node_stream import node_files
from nccldoctor.collect.reach.ask import Limits, ask_all
from nccldoctor.collect.reach.way import Target
from nccldoctor.model.hosts import JobHere, chosen_job, jobs_of, merged

OPTION = "--survey"
"""Asks the collector for the processes of all jobs, and for nothing else."""

LIMITS = Limits(30.0, 64 << 20)
"""A survey reads small files of ``/proc``."""


def job_to_look_at(targets: Sequence[Target], collector: Path, folder: Path) -> str:
    """The name of the job with the most ranks on all targets.

    Empty where they hold no job, or one alone.
    """
    folder.mkdir()
    jobs = merged(job for answer in ask_all(targets, collector, folder, LIMITS) for job in _jobs_in(answer))
    chosen = chosen_job(jobs)
    return chosen.name if chosen is not None and len(jobs) > 1 else ""


def _jobs_in(answer: Answer) -> tuple[JobHere, ...]:
    """The jobs of one answer; none of one that is damaged."""
    if answer.stream is None:
        return ()
    newest: Mapping[str, Any] = {}
    with answer.stream.open("rb") as stream, suppress(tarfile.TarError, EOFError, ValueError, RecursionError):
        for name, data, _ in node_files(stream):
            read = json.loads(data) if name == "node.json" else None
            newest = read if isinstance(read, dict) else newest
    rows = newest.get("processes")
    return jobs_of(row for row in rows if isinstance(row, dict)) if isinstance(rows, list) else ()
