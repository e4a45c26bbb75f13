"""Do two checkouts give the same verdicts? ``same_verdicts.py A B [--seeds 0-299] [--jobs 2] [FOLDER…]``.

Both analyse the bundled samples, the jobs of these seeds by all generators (``tests/simulator``, ``tests/staged``, ``tests/quoted``), and
the jobs in the folders given. Every difference in class, ranks, confidence, headline, first remedy, classes of the findings or exit
code is one line on standard output: ``staged/17: class: died -> frozen``. Ends with 0 where there is none, with 1 where there are some,
and with 2 where it cannot compare.

Samples and generators are those of the checkout that this file stands in. A and B may be older than this file.

A folder given is a job, or holds jobs: ``truth.json``, ``label.json`` or ``expected.toml`` marks a job, and is not shown to the
checkouts. A folder without labels is one job where files of its own lie in it, else each folder in it is one.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the folder tests/, also when run as a script

from scoring.verdict_lines import LABELS

TESTS = Path(__file__).resolve().parents[1]

Verdicts = dict[str, dict[str, Any]]
"""What a checkout says of each job, by its name."""

MARKS = tuple(label for label in LABELS if label != "README.md")


class Unusable(Exception):
    """A checkout or a folder that cannot be compared."""


def jobs_in(folder: Path) -> Iterator[Path]:
    """The folders of jobs in a folder given; the folder itself where it is one."""
    if not folder.is_dir():
        raise Unusable(f"{folder} is no folder")
    entries = [path for path in sorted(folder.iterdir()) if not path.name.startswith(".") and path.name not in LABELS]
    folders = [path for path in entries if path.is_dir()]
    if any((folder / mark).exists() for mark in MARKS):
        yield folder
    elif any(_is_labelled_below(path) for path in folders):
        for path in folders:
            yield from jobs_in(path)
    elif len(folders) < len(entries):
        yield folder
    else:
        yield from folders


def _is_labelled_below(folder: Path) -> bool:
    return any(True for mark in MARKS for _ in folder.rglob(mark))


def given_jobs(folders: list[Path]) -> dict[str, Path]:
    """The jobs in the folders given, by their paths as they were given."""
    jobs: dict[str, Path] = {}
    for folder in folders:
        found = list(jobs_in(folder))
        if not found:
            raise Unusable(f"no job in {folder}")
        jobs |= {str(job): job.resolve() for job in found}
    return jobs


def write_made(author: str, into: Path, seed: int) -> str:
    """Write one job of a generator; its name."""
    from quoted import jobs as quoted
    from scoring.score_simulator import AUTHORS

    name = f"{author}/{seed}"
    (quoted if author == "quoted" else AUTHORS[author]).make(seed).write(into / name)
    return name


def write_jobs(into: Path, seeds: range, processes: int) -> dict[str, Path]:
    """Write the bundled samples and the jobs of all generators; their folders below ``into``, which are their names too."""
    for sample in sorted((TESTS.parent / "sample_logs").iterdir()):
        if sample.is_dir():
            shutil.copytree(sample, into / "samples" / sample.name)
    names = [str(path.relative_to(into)) for path in sorted((into / "samples").iterdir())]
    with ProcessPoolExecutor(processes) as pool:
        for author in ("simulator", "staged", "quoted"):
            names += pool.map(partial(write_made, author, into), seeds, chunksize=8)
    return {name: Path(name) for name in names}


def python_of(checkout: Path) -> str:
    """The Python that a checkout was set up with, else the one that runs."""
    for folder in (".venv-check", ".venv"):
        own = checkout / folder / "bin" / "python"
        if own.exists():
            return str(own)
    return sys.executable


def verdicts_of(checkout: Path, jobs: dict[str, Path], beside: Path) -> Verdicts:
    """What a checkout says of these jobs, whose relative paths begin in ``beside``.

    A job that ends the process is an answer too, and the next process goes on behind it. Raises :class:`Unusable` where the package
    of the checkout does not load.
    """
    checkout = checkout.resolve()
    names = list(jobs)
    answers: list[dict[str, Any]] = []
    while len(answers) < len(names):
        paths = "".join(f"{jobs[name]}\n" for name in names[len(answers) :])
        done = subprocess.run(
            [python_of(checkout), "-P", str(TESTS / "scoring" / "verdict_lines.py")],
            input=paths,
            capture_output=True,
            text=True,
            cwd=beside,
            env={**os.environ, "PYTHONPATH": str(checkout), "PYTHONHASHSEED": "0"},
        )
        head, *said = [json.loads(line) for line in done.stdout.splitlines()] or [{}]
        package = head.get("package")
        if package is None or Path(package).resolve().parents[1] != checkout:
            raise Unusable(f"{checkout} has no nccldoctor that loads\n{done.stderr.strip()}")
        answers += said
        if len(answers) < len(names):
            answers.append({"error": f"the process ended with {done.returncode}"})
    return dict(zip(names, answers, strict=True))


def differences(before: Verdicts, after: Verdicts) -> Iterator[str]:
    """One line for each field of each job in which two checkouts differ."""
    for job, old in before.items():
        new = after[job]
        fields = ["error"] if "error" in old or "error" in new else [field for field in old if field in new]
        for field in fields:
            was, becomes = old.get(field), new.get(field)
            if was != becomes:
                yield f"{job}: {field}: {_shown(was)} -> {_shown(becomes)}"


def _shown(value: object) -> str:
    return json.dumps(value, ensure_ascii=False) if not isinstance(value, str) or value in ("", "none") else value


def compare(a: Path, b: Path, jobs: dict[str, Path], beside: Path, processes: int) -> list[str]:
    """The differences between two checkouts over these jobs."""
    names, piece, began = list(jobs), 40, time.monotonic()
    pieces = [{name: jobs[name] for name in names[at : at + piece]} for at in range(0, len(names), piece)]
    found: list[str] = []
    with ThreadPoolExecutor(processes) as pool:
        both = [
            (pool.submit(verdicts_of, a, part, beside), pool.submit(verdicts_of, b, part, beside)) for part in pieces
        ]
        for at, (before, after) in enumerate(both, 1):
            try:
                found += differences(before.result(), after.result())
            except Unusable:
                pool.shutdown(cancel_futures=True)
                raise
            many = min(at * piece, len(names))
            print(
                f"{many} of {len(names)} jobs, {len(found)} differences, {time.monotonic() - began:.0f} s",
                file=sys.stderr,
            )
    return found


def main(arguments: list[str] | None = None) -> int:
    """Compare, and print the differences."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("a", type=Path, help="a checkout, before")
    parser.add_argument("b", type=Path, help="a checkout, after")
    parser.add_argument("folders", nargs="*", type=Path, help="folders of jobs")
    parser.add_argument("--seeds", default="0-299", help="of all generators, both ends included")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at a time")
    args = parser.parse_intermixed_args(arguments)
    try:
        low, _, high = args.seeds.partition("-")
        seeds = range(int(low), int(high or low) + 1)
    except ValueError:
        parser.error(f"--seeds {args.seeds}: give A-B")
    with tempfile.TemporaryDirectory() as scratch:
        try:
            given = given_jobs(args.folders)
            made = write_jobs(Path(scratch), seeds, args.jobs)
            found = compare(args.a, args.b, made | given, Path(scratch), args.jobs)
        except Unusable as error:
            parser.error(str(error))
    for line in found:
        print(line)
    print(f"{len(made)} + {len(given)} jobs, {len(found)} differences")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
