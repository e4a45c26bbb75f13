"""Runs all benchmarks over this checkout, and writes ``docs/performance.md``.

    python benchmarks/all.py                     # 20 minutes to some hours; needs 15 GB of disk in the folder for temporary files
    python benchmarks/all.py --quick             # smaller inputs, a quarter of an hour
    python benchmarks/all.py --only start_up rank_growth --page /tmp/page.md

What a benchmark needs and the machine lacks (torch, ripgrep, a cluster of dask, root) is named on the page instead of its figures.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from yardstick import numpy_seconds

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from builders.documents.page_origin import made_by

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
PACKAGES = ("numpy", "ahocorasick_rs", "isal", "zstandard", "jinja2", "msgspec", "torch", "distributed")


CPU_S, CPU_MS = "CPU-s", "ms of processor time"
REFERENCE = 0.1
"""CPU-s of ``python -c "import numpy"`` on the machine for which the targets in seconds were set."""


@dataclass(frozen=True)
class Figure:
    """A number in what a benchmark prints, and its target: at most ``most``, or at least ``least``."""

    name: str
    pattern: str
    unit: str
    most: float | None = None
    least: float | None = None

    def row(self, output: str, numpy: float) -> str:
        """The row of the table: name, figure, target, whether the figure meets it, and what the figure would be on the reference machine.

        The largest of several numbers counts, or the least. ``numpy`` is what numpy's import takes here, in CPU-s.
        """
        found = [float(number) for number in re.findall(self.pattern, output, re.MULTILINE)]
        target = (f"at most {self.most:g}" if self.most is not None else f"at least {self.least:g}") + f" {self.unit}"
        if not found:
            return f"| {self.name} | not measured | {target} | | |"
        value = max(found) if self.most is not None else min(found)
        scaled = f"{value * REFERENCE / numpy:.3g} {self.unit}" if self.unit in (CPU_S, CPU_MS) else ""
        is_met = value <= self.most if self.most is not None else value >= (self.least or 0.0)
        return f"| {self.name} | {value:g} {self.unit} | {target} | {'met' if is_met else '**missed**'} | {scaled} |"


@dataclass(frozen=True)
class Measurement:
    """One run of a benchmark: its question, its arguments, those of a quick run (None: it is left out of one), and what it needs."""

    script: str
    question: str
    arguments: tuple[str, ...] = ()
    quick: tuple[str, ...] | None = ()
    figures: tuple[Figure, ...] = ()
    modules: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    as_root: bool = False

    @property
    def missing(self) -> str:
        """What the machine lacks for it; empty where nothing."""
        gone = [name for name in self.modules if importlib.util.find_spec(name) is None]
        gone += [name for name in self.programs if shutil.which(name) is None]
        gone += ["root"] if self.as_root and os.geteuid() != 0 else []
        return ", ".join(gone)


def files_case(case: str, most: float) -> Figure:
    """The processor time of one case of ``many_files.py``."""
    return Figure(f"logs, files x kB: {case}", rf"^{case}\s+([\d.]+)", CPU_S, most=most)


MEASUREMENTS = (
    Measurement(
        "start_up",
        "How long does the command take for its help, and for eight ranks with a report?",
        ("--repeat", "15"),
        ("--repeat", "5"),
        (
            Figure("`--help`", r"^--help\s+\d+ ms\s+(\d+) ms", CPU_MS, most=80),
            Figure("eight ranks with a report, against importing numpy", r"take ([\d.]+) times", "times", most=4.5),
        ),
    ),
    Measurement(
        "many_files",
        "What do the logs of many ranks cost, and how does that grow?",
        ("--repeat", "3"),
        ("--only", "100x230", "1000x3", "400x230"),
        (
            files_case("100x230", 1.5),
            files_case("1000x230", 12),
            Figure("1000x230, memory", r"^1000x230(?:\s+[\d.]+){3}\s+(\d+)", "MB", most=400),
            files_case("10000x3", 12),
            Figure(
                "64 x 16 MB, against the same lines in one file", r"^64x16000 takes ([\d.]+) times", "times", most=1.3
            ),
        ),
    ),
    Measurement(
        "text_scan",
        "How fast is a merged log of steps read, in which a watchdog speaks?",
        ("--megabytes", "1000"),
        ("--megabytes", "200"),
        (
            Figure("1 GB of steps, times ripgrep", r"([\d.]+) \(same\)$", "", most=2),
            Figure("the same, times ripgrep with sixteen literals", r"([\d.]+) \(few\)", "", most=12),
        ),
        programs=("rg",),
    ),
    Measurement(
        "noisy_text",
        "What does noisy text cost: look-alike lines, 1 and 10 % relevant lines?",
        (),
        ("--only", "one", "--repeat", "1"),
        (
            Figure(
                "1 GB with 4 % look-alikes, times ripgrep",
                r"(?s)^look.*?same literals.*?takes\s+([\d.]+)",
                "",
                most=1.6,
            ),
            Figure(
                "the same, times ripgrep with sixteen literals",
                r"(?s)^look.*?sixteen.*?takes\s+([\d.]+)",
                "",
                most=11.7,
            ),
            Figure("150 MB with 10 % relevant lines", r"(?s)^ten:.*?nccldoctor\s+([\d.]+) CPU-s", CPU_S, most=8),
        ),
        programs=("rg",),
    ),
    Measurement(
        "noisy_text",
        "And 10 GB of text?",
        ("--only", "huge", "--repeat", "1"),
        None,
        (Figure("10 GB of text", r"nccldoctor\s+[\d.]+ CPU-s\s+(\d+) MB", "MB", most=400),),
        programs=("rg",),
    ),
    Measurement(
        "noisy_text",
        "And a million relevant lines?",
        ("--only", "million", "--repeat", "1"),
        None,
        (Figure("a million relevant lines", r"nccldoctor\s+[\d.]+ CPU-s\s+(\d+) MB", "MB", most=400),),
        programs=("rg",),
    ),
    Measurement(
        "recorder_load",
        "What do dumps with full rings cost?",
        ("--ranks", "256"),
        ("--ranks", "64"),
        (Figure("256 x 2,000: torchfrtrace's processor time", r"takes ([\d.]+) times", "times ours", least=8),),
        modules=("torch",),
    ),
    Measurement(
        "recorder_load",
        "And those of 512 ranks?",
        ("--ranks", "512"),
        None,
        (
            Figure("512 x 2,000: torchfrtrace's processor time", r"takes ([\d.]+) times", "times ours", least=8),
            Figure("512 x 2,000: torchfrtrace's memory", r"and ([\d.]+) times", "times ours", least=6),
        ),
        modules=("torch",),
    ),
    Measurement(
        "rank_growth",
        "How does the cost of dumps grow with the number of ranks?",
        (),
        ("--ranks", "64", "256", "1024", "4096"),
        (
            Figure("16,384 ranks", r"^ *16384\s+([\d.]+)", CPU_S, most=8),
            Figure("16,384 ranks, memory", r"^ *16384(?:\s+[\d.]+){3}\s+(\d+)", "MB", most=600),
        ),
    ),
    Measurement(
        "wait_graph",
        "How long do the wait-for graph and the verdict take at 16,384 ranks?",
        (),
        ("--ranks", "4096"),
        (Figure("wait-for graph and verdict", r"^verdict after ([\d.]+) s", "s", most=10),),
    ),
    Measurement(
        "reduce_and_merge",
        "What do parts of 8,192 ranks cost, and their merge?",
        ("--compare", "0"),
        None,
        (
            Figure("8,192 x 2,000: each part", r"at most (\d+) MB", "MB", most=400),
            Figure("8,192 x 2,000: the merge", r"^merge\s+[\d.]+ CPU-s\s+[\d.]+ s\s+(\d+) MB", "MB", most=1000),
        ),
    ),
    Measurement(
        "reduce_and_merge",
        "What do parts and a dask cluster cost more than one run?",
        ("--ranks", "0", "--dask"),
        ("--ranks", "0", "--compare", "64", "--dask"),
        (
            Figure(
                "dask with two workers and their start, against one run",
                r"dask takes ([\d.]+) times",
                "times",
                most=1.6,
            ),
            Figure(
                "the same on a cluster that runs already",
                r"without the start of the cluster ([\d.]+) times",
                "times",
                most=1.6,
            ),
        ),
        modules=("distributed",),
    ),
    Measurement(
        "catalogue_load",
        "What do the remedies cost?",
        figures=(Figure("the remedies", r"^difference (\d+) ms", "ms", most=150),),
    ),
    Measurement(
        "capture_overhead",
        "What does capture cost a training step?",
        (),
        ("--seconds", "5"),
        (Figure("capture, of the time of a step", r"^processor time\s+([\d.]+)%", "% of processor time", most=0.5),),
        modules=("torch",),
    ),
    Measurement(
        "collect_impact",
        "What does a collection do to the job that it looks at?",
        ("--realtime",),
        None,
        (
            Figure("step rate of a job that is looked at", r"^step rate .*?without: ([\d.]+)", "times", least=0.98),
            Figure("processor time of its steps", r"^CPU of a step .*?without: ([\d.]+)", "times", most=1.02),
        ),
        modules=("torch",),
        as_root=True,
    ),
    *(
        Measurement(
            "fan_out",
            f"How long does a collection from 64 hosts take by {way}?",
            ("--way", way),
            None,
            (Figure(f"64 hosts by {way}", rf"^{way}: ([\d.]+) s", "s", most=30),),
        )
        for way in ("slurm", "k8s", "ssh")
    ),
)


@dataclass(frozen=True)
class Run:
    """What a benchmark printed, and when: on which day, at which commit of the product, at which load, on how fast a machine."""

    command: str
    load: float
    numpy: float
    day: str
    commit: str
    output: str

    def section(self, question: str) -> str:
        """The run as a section of the page, which :func:`runs_in` reads."""
        made = f"load average {self.load:.1f}, numpy {self.numpy:.2f} CPU-s, {self.day}, {self.commit}"
        return f"### {question}\n\n`{self.command}`, {made}\n\n```text\n{self.output}\n```\n"


def runs_in(page: str) -> dict[str, Run]:
    """The runs that a page holds, by their questions."""
    section = r"^### ([^\n]+)\n\n`([^`\n]+)`, load average ([\d.]+), numpy ([\d.]+) CPU-s, (\S+), (\w+)\n\n```text\n(.*?)\n```$"
    found = re.findall(section, page, re.MULTILINE | re.DOTALL)
    return {
        question: Run(command, float(load), float(numpy), day, commit, output)
        for question, command, load, numpy, day, commit, output in found
    }


def table_of(runs: dict[str, Run]) -> str:
    """Every target with the figure that was printed for it."""
    rows = [
        figure.row(run.output if run else "", run.numpy if run else REFERENCE)
        for one in MEASUREMENTS
        for run in (runs.get(one.question),)
        for figure in one.figures
    ]
    return "\n".join(("## Targets", "", HEADS, *rows, ""))


def page_of(runs: dict[str, Run], origin: str, is_quick: bool) -> str:
    """The whole page. A quick run judges no target, for its inputs are smaller."""
    told = ("", "This was a quick run, with smaller inputs: it judges no target.") if is_quick else ()
    sections = [runs[one.question].section(one.question) for one in MEASUREMENTS if one.question in runs]
    return "\n".join(
        (
            "# Performance",
            "",
            f"{origin}: whole commands over inputs that the benchmarks make.",
            "[benchmarks/README.md](../benchmarks/README.md) says what each asks and how to read it. `CPU-s` are seconds of",
            "processor time, user and system, of a whole process tree; a ratio compares two commands of the same minutes.",
            "Each section says on which day and at which commit it ran, and what numpy's import took; `--only` renews some of them.",
            *told,
            "",
            "## Machine",
            "",
            *machine(),
            "- The table judges every figure as it was measured. *Scaled* stands beside it: what it would be on a machine where",
            f"  `python -c 'import numpy'` takes {REFERENCE} CPU-s, for which the targets in seconds were set.",
            "",
            *(() if is_quick else (table_of(runs),)),
            "## What each benchmark printed",
            "",
            *sections,
        )
    )


HEADS = "| what | figure | target | | scaled |\n| --- | --- | --- | --- | --- |"


def judged_again(page: str) -> str:
    """A stored page with the verdicts of today's targets on what it says that the benchmarks printed."""
    table = f"{table_of(runs_in(page))}\n"
    return re.sub(r"^## Targets\n.*?(?=^## )", lambda _: table, page, count=1, flags=re.MULTILINE | re.DOTALL)


def machine() -> list[str]:
    """The machine and the versions, as lines of a list."""
    try:
        cpu = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    except OSError:
        cpu = None
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    versions = [f"Python {platform.python_version()}"]
    for name in PACKAGES:
        try:
            versions.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    if shutil.which("rg"):
        told = subprocess.run(["rg", "--version"], capture_output=True, text=True, check=False).stdout
        versions.append(told.partition("\n")[0])
    return [
        f"- {time.strftime('%B %Y')}, {platform.system()} {platform.machine()}, {cpu[1] if cpu else platform.processor()}, "
        f"{os.cpu_count()} cores, {memory:.0f} GB",
        f"- {', '.join(versions)}",
    ]


def environment() -> dict[str, str]:
    """The variables of a benchmark: this checkout first, and bytecode as usual."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return kept | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}


def output_of(one: Measurement, arguments: tuple[str, ...], variables: dict[str, str]) -> str:
    """What a benchmark prints; of one that fails, that too."""
    command = [sys.executable, str(HERE / f"{one.script}.py"), *arguments]
    done = subprocess.run(
        command, cwd=HERE, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    ended = [] if done.returncode == 0 else [f"ended with {done.returncode}"]
    text = "\n".join([*lines, *ended]).replace(str(HERE), "benchmarks")
    return re.sub(rf"{re.escape(tempfile.gettempdir())}/tmp\w+", "/tmp/job", text)


def main() -> None:
    """Run what is asked for, then write the page."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--quick", action="store_true", help="smaller inputs, and without what takes long")
    options.add_argument("--judge-again", action="store_true", help="run nothing: only judge what the page holds anew")
    options.add_argument(
        "--only",
        nargs="*",
        choices=sorted({one.script for one in MEASUREMENTS}),
        help="renew these sections of the page",
    )
    options.add_argument("--page", type=Path, default=ROOT / "docs" / "performance.md")
    asked = options.parse_args()
    if asked.judge_again:
        asked.page.write_text(judged_again(asked.page.read_text(encoding="utf-8")), encoding="utf-8")
        return
    is_part = bool(asked.only) and asked.page.exists()
    runs = runs_in(asked.page.read_text(encoding="utf-8")) if is_part else {}
    variables, origin, numpy = environment(), made_by("python benchmarks/all.py"), numpy_seconds()
    day, commit = re.findall(r"on (\S+) from commit (\w+)", origin)[0]
    for one in MEASUREMENTS:
        arguments = one.quick if asked.quick else one.arguments
        if arguments is None or (asked.only and one.script not in asked.only):
            continue
        begun, load = time.perf_counter(), os.getloadavg()[0]
        output = f"not run: needs {one.missing}" if one.missing else output_of(one, arguments, variables)
        command = " ".join(("python", f"benchmarks/{one.script}.py", *arguments))
        runs[one.question] = Run(command, load, numpy, day, commit, output)
        text = page_of(runs, origin, asked.quick)  # what is measured stays where a later one is stopped
        asked.page.write_text(text, encoding="utf-8")
        print(f"{one.script} {' '.join(arguments)}: {time.perf_counter() - begun:.0f} s", flush=True)
    print(f"wrote {asked.page}")


if __name__ == "__main__":
    main()
