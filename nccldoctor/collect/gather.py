"""Gathers the evidence of a running job: finds its nodes, asks all of them, and writes one bundle."""

from __future__ import annotations

import json
import tarfile
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from nccldoctor.collect.bundle import Answer, BundleResult, write_bundle
from nccldoctor.collect.node_options import NodeOptions
from nccldoctor.collect.node_stream import node_files
from nccldoctor.collect.one_file import collector_source
from nccldoctor.collect.reach.ask import Limits, ask_all, look_up
from nccldoctor.collect.reach.way import Command, Target, Way, command_lines
from nccldoctor.model.errors import OutputError
from nccldoctor.model.hosts import JobHere, chosen_job, jobs_of, merged

COLLECTOR = "on_node.py"
"""The name of the file that is sent to nodes."""

PYTHON = "python3"
"""The Python of a node, by the ``PATH`` that a command finds there."""


def python_command(options: NodeOptions, python: str = PYTHON) -> Command:
    """What a node runs: ``-I`` keeps modules in its working directory and its variables out."""
    return python, "-I", "-", *options.words


def gather_bundle(
    way: Way,
    options: NodeOptions,
    target: Path,
    *,
    python: str = PYTHON,
    told: str = "nccldoctor collect",
    on_targets: Callable[[Sequence[Target]], None] = lambda targets: None,
    on_answer: Callable[[Answer], None] = lambda answer: None,
) -> BundleResult:
    """Ask every node that ``way`` finds, and write their answers to ``target``; ``told`` is the command that the manifest names.

    ``on_targets`` is called once with all nodes, ``on_answer`` when one of them is done. Answers wait beside ``target`` until they are
    packed.

    Raises :class:`~nccldoctor.model.errors.NccldoctorError` where there is no node to ask, or ``target`` cannot be written.
    """
    command = python_command(options, python)
    targets = way.find_targets(look_up, command)
    on_targets(targets)
    limits = Limits(options.patience, (options.limit_mb + 16) << 20)
    with ExitStack() as stack:
        try:
            waiting = tempfile.TemporaryDirectory(
                prefix=f".{target.name}.", dir=target.parent, ignore_cleanup_errors=True
            )
            folder = Path(stack.enter_context(waiting))
            collector = folder / COLLECTOR
            collector.write_text(collector_source(), encoding="utf-8")
        except OSError as error:
            raise OutputError(f"cannot write {target}: {error.strerror}", "choose another place with -o") from error
        if _needs_survey(way, options) and len(targets) > 1:
            surveyed = way.find_targets(look_up, (*command, OPTION))
            job = job_to_look_at(surveyed, collector, folder / "survey")
            targets = way.find_targets(look_up, (*command, "--job", job)) if job else targets
        return write_bundle(target, ask_all(targets, collector, folder, limits, on_answer), told)


def planned_commands(way: Way, options: NodeOptions, python: str = PYTHON) -> list[str]:
    """Every command that :func:`gather_bundle` would run on this machine, as lines for a shell; none is run.

    ``NODE`` stands for the nodes where only the first commands list them.
    """
    written = f"nccldoctor collect --print-collector > {COLLECTOR}"
    command = python_command(options, python)
    targets = way.planned_targets(command)
    if _needs_survey(way, options) and len(targets) > 1:
        targets = (*way.planned_targets((*command, OPTION)), *targets)
    return [written, *command_lines(way, targets, Path(COLLECTOR))]


def _needs_survey(way: Way, options: NodeOptions) -> bool:
    """True where nothing tells the job from others on its nodes."""
    return way.reaches_all_jobs and not options.where


OPTION = "--survey"
"""Asks the collector for the processes of all jobs, and for nothing else."""

LIMITS = Limits(30.0, 64 << 20, silence=12.0)
"""A survey reads small files of ``/proc``. A host that is silent is asked for its evidence all the same."""


def job_to_look_at(targets: Sequence[Target], collector: Path, folder: Path) -> str:
    """The name of the job with the most ranks on all targets. Empty where they hold no job, or one alone."""
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
