"""Scores tools on labelled jobs, and writes a page of results.

    python benchmarks/hangbench/run.py -o docs/hangbench.md             # nccldoctor, and torchfrtrace and nvrx where installed
    python benchmarks/hangbench/run.py --command 'mytool {folder}'      # any command that prints its answer as JSON
    python benchmarks/hangbench/run.py --adapter mytool.py:MyTool       # any class like those of adapters.py
    python benchmarks/hangbench/run.py --write jobs/                    # only write the jobs and their truth

README.md beside this file says what an answer looks like. Without -o the page is printed.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # this package
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))  # the simulators

from builders.documents.page_origin import made_by

from hangbench import jobs as labelled
from hangbench.adapters import BUILT_IN, Adapter, PrintsJson, load_adapter
from hangbench.answers import NoAnswerError
from hangbench.jobs import BenchJob
from hangbench.processes import run_command
from hangbench.results import Results, ToolResult
from hangbench.scores import Outcome

SIMULATED = 40
"""Simulated jobs of each simulator, unless asked for others."""


def tried(job: BenchJob, adapter: Adapter, limit_s: float) -> Outcome:
    """Let one tool look at one job, in a folder of its own whose name tells nothing."""
    with tempfile.TemporaryDirectory(prefix="hangbench-") as place:
        folder, scratch = Path(place, "job"), Path(place, "scratch")
        scratch.mkdir()
        job.write(folder)
        command = adapter.command(job, folder, scratch)
        if command is None:
            return Outcome(job, "no input")
        try:
            finished = run_command(command, scratch, limit_s)
        except OSError as error:
            return Outcome(job, "crashed", complaint=f"cannot start: {error.strerror}")
        if finished.code is None:
            return Outcome(job, "timed out", cpu_s=finished.cpu_s, complaint=f"no answer in {limit_s:g} s")
        try:
            answer = adapter.answer(finished)
        except NoAnswerError as error:
            complaint = str(error).replace(place, "...")
            return Outcome(job, "crashed", cpu_s=finished.cpu_s, complaint=complaint)
    if answer is None:
        return Outcome(job, "no input", cpu_s=finished.cpu_s)
    return Outcome(job, "answered", answer, finished.cpu_s)


def compare(
    jobs: Sequence[BenchJob], adapters: Sequence[Adapter], limit_s: float, processes: int
) -> tuple[ToolResult, ...]:
    """All tools over all jobs. The order of the results is that of the jobs, however many processes run."""
    tools = []
    for adapter in adapters:
        with ThreadPoolExecutor(processes) as pool:
            outcomes = tuple(pool.map(partial(tried, adapter=adapter, limit_s=limit_s), jobs))
        tools.append(ToolResult(adapter.name, adapter.version(), adapter.about, outcomes))
        print(
            f"{adapter.name}: {sum(one.ending == 'answered' for one in outcomes)} of {len(jobs)} answered",
            file=sys.stderr,
        )
    return tuple(tools)


def write_jobs(jobs: Sequence[BenchJob], folder: Path) -> None:
    """Write ``NAME/files/`` and ``NAME/truth.json`` for each job."""
    for job in jobs:
        job.write(folder / job.name / "files")
        truth = json.dumps(job.truth.as_json(), indent=1) + "\n"
        (folder / job.name / "truth.json").write_text(truth, encoding="utf-8")


def chosen_adapters(named: Sequence[str], commands: Sequence[str]) -> list[Adapter]:
    """The adapters that were asked for; without any, those whose tool is installed. Raises ValueError where one cannot be had."""
    chosen = [load_adapter(name) for name in named] + [PrintsJson(command) for command in commands]
    for adapter in chosen:
        if not adapter.version():
            raise ValueError(f"{adapter.name} is not installed here")
        if not adapter.name:
            raise ValueError("a command is empty")
    return chosen or [adapter for adapter in (known() for known in BUILT_IN) if adapter.version()]


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument(
        "--adapter",
        action="append",
        default=[],
        metavar="NAME",
        help="nccldoctor, torchfrtrace, nvrx or FILE.py:CLASS; repeat for more",
    )
    options.add_argument(
        "--command", action="append", default=[], help="a command that prints JSON; {folder} is the job's"
    )
    options.add_argument(
        "--jobs",
        type=int,
        default=SIMULATED,
        metavar="N",
        help=f"simulated jobs of each simulator (default {SIMULATED})",
    )
    options.add_argument("--limit", type=float, default=120.0, metavar="SECONDS", help="time for one job (default 120)")
    options.add_argument("--processes", type=int, default=1, metavar="N", help="jobs looked at at once (default 1)")
    options.add_argument("--write", type=Path, metavar="FOLDER", help="only write the jobs and their truth")
    options.add_argument(
        "-o",
        "--output",
        type=Path,
        action="append",
        default=[],
        help="a page (.md) or all results (.json); repeat for both",
    )
    return options.parse_args(arguments)


def command_line(asked: argparse.Namespace) -> str:
    """The command that makes the page again, without where it goes to and how many processes it may take."""
    named = [word for name in asked.adapter for word in ("--adapter", name)]
    named += [word for command in asked.command for word in ("--command", command)]
    size = [] if asked.jobs == SIMULATED else ["--jobs", str(asked.jobs)]
    return shlex.join(["python", "benchmarks/hangbench/run.py", *named, *size, "-o", "docs/hangbench.md"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is asked for; 2 where it cannot be."""
    asked = parsed(arguments)
    jobs = list(labelled.labelled_jobs(max(0, asked.jobs)))
    if asked.write:
        write_jobs(jobs, asked.write)
        print(f"{len(jobs)} jobs, fingerprint {labelled.fingerprint(jobs)}")
        return 0
    try:
        adapters = chosen_adapters(asked.adapter, asked.command)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    origin = made_by(command_line(asked))
    tools = compare(jobs, adapters, asked.limit, max(1, asked.processes))
    results = Results(origin, labelled.fingerprint(jobs), tools)
    for path in asked.output:
        path.write_text(results.as_json() if path.suffix == ".json" else results.as_markdown(), encoding="utf-8")
    if not asked.output:
        print(results.as_markdown(), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
