"""Counts how often the properties that need no label are broken: ``measure.py [--jobs N] [--write] [FOLDER…]``.

Tries the jobs of both generators (``--seeds``), as many healthy ones (``--well``), and the jobs in the folders given, which hold
``truth.json`` or ``label.json``. Prints each pair of verdicts that breaks a property, and how many were tried. Which changes a job
gets follows from its name, so that the same arguments give the same counts. ``--write`` puts the counts into ``docs/calibration.md``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the folder tests/, also when run as a script

from builders.documents.page_origin import made_by
from properties.every import PROPERTIES
from properties.jobs import Job, of_generators, of_given, of_well_jobs
from properties.verdicts import KINDS, Tried, tried, verdict

PAGE = Path(__file__).resolve().parents[2] / "docs" / "calibration.md"
HEAD = "## Properties that need no label"

Work = tuple[str, int | Path]
"""What a process is asked for: the jobs of a seed, the healthy jobs of a seed, or those of a folder."""


def jobs_of(work: Work) -> Iterator[Job]:
    """The jobs of one piece of work."""
    kind, what = work
    if isinstance(what, Path):
        return of_given([what])
    return of_well_jobs([what]) if kind == "well" else of_generators([what])


def broken(work: Work, only: tuple[str, ...] = ()) -> list[Tried]:
    """Every pair of verdicts that the properties make of these jobs."""
    return [one for job in jobs_of(work) for one in tried_on(job, only)]


def tried_on(job: Job, only: tuple[str, ...] = ()) -> Iterator[Tried]:
    """Every pair of verdicts that the properties make of a job."""
    before = None
    for name, prop in PROPERTIES.items():
        if only and name not in only:
            continue
        for pair in prop.pairs(Random(f"{name} of {job.name}"), job):
            before = verdict(job.files) if before is None else before
            yield tried(prop, job, pair, before)


def table(found: Iterable[Tried]) -> str:
    """The counts as a table of Markdown: what was tried, what is broken, and how."""
    found = list(found)
    lines = ["| property | change | must be | tried | broken | of these |", "| --- | --- | --- | --- | --- | --- |"]
    for name, prop in PROPERTIES.items():
        mine = [one for one in found if one.property == name]
        kinds = Counter(one.broken for one in mine if one.broken)
        how = ", ".join(f"{kind} {kinds[kind]}" for kind in KINDS if kinds[kind])
        lines.append(f"| {name} | {prop.about} | {prop.must} | {len(mine)} | {kinds.total()} | {how or '-'} |")
    return "\n".join(lines)


def section(page: str) -> str:
    """The section of a page that holds the counts."""
    return HEAD + page.partition(HEAD)[2].partition("\n## ")[0]


def section_of(found: list[Tried], origin: str) -> str:
    """The section with new counts; ``origin`` is what ``made_by`` says."""
    jobs = len({one.job for one in found})
    return (
        f"{HEAD}\n\nCounted over {jobs:,} jobs and {len(found):,} pairs of verdicts, {origin[:1].lower()}{origin[1:]}.\n"
        "Each pair is of a job and of the same job after a change that must not matter; of a broken pair the worst kind is counted.\n\n"
        f"{table(found)}\n\n"
        + "".join(f"- *{kind}*: {what};\n" for kind, what in KINDS.items() if any(one.broken == kind for one in found))
    )


def _span(text: str) -> range:
    low, _, high = text.partition("-")
    return range(int(low), int(high or low) + 1) if text else range(0)


def work_of(seeds: str, well: str, folders: Iterable[Path]) -> list[Work]:
    """The pieces of work that the arguments ask for."""
    seeded: list[Work] = [("made", seed) for seed in _span(seeds)]
    healthy: list[Work] = [("well", seed) for seed in _span(well)]
    given: list[Work] = [("given", folder) for folder in folders]
    return [*seeded, *healthy, *given]


def main(argv: list[str] | None = None) -> int:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, help="labelled jobs")
    parser.add_argument("--seeds", default="0-299", help="of both generators, both included; empty for none")
    parser.add_argument("--well", default="0-299", help="seeds of the healthy jobs")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--only", default="", help="names of properties, with commas")
    parser.add_argument("--write", action="store_true", help="put the counts into docs/calibration.md")
    parser.add_argument("--log", type=Path, help="write each pair as a line of JSON")
    args = parser.parse_intermixed_args(argv)
    only = tuple(filter(None, args.only.split(",")))
    found: list[Tried] = []
    log = args.log.open("w") if args.log else None
    with ProcessPoolExecutor(args.jobs) as pool:
        for some in pool.map(partial(broken, only=only), work_of(args.seeds, args.well, args.folders)):
            found += some
            for one in some:
                if one.broken:
                    print(one, flush=True)
                if log:
                    log.write(json.dumps(asdict(one)) + "\n")
                    log.flush()
    asked = "".join(f" --{name} {getattr(args, name)}" for name in ("seeds", "well") if getattr(args, name))
    counts = section_of(found, made_by(f"python tests/properties/measure.py{asked} --write"))
    print(f"\n{counts}")
    if args.write:
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(page.replace(section(page), counts), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
