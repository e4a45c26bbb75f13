"""Damages jobs and counts what gives way: ``python tests/damage/measure.py [--simulated 0-59] [FOLDER…] [--write docs/reliability.md]``.

Folders hold labelled jobs (``truth.json`` or ``label.json``). Without them the bundled samples and simulated jobs are damaged. Which
kinds each job gets follows from its name, so that the same arguments give the same counts.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import partial
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the folder tests/, also when run as a script

from builders.documents.page_origin import made_by
from damage.harness import FINDINGS, Answer, Effect, damaged, effect, seen_here
from damage.kinds.every import KINDS
from damage.kinds.registry import Kind
from damage.labelled import Labelled, of_folders, of_samples, of_simulator, of_stage


def jobs_of(args: argparse.Namespace) -> Iterator[Labelled]:
    """The jobs that the arguments ask for."""
    if args.samples:
        yield from of_samples()
    yield from of_simulator(_numbers(args.simulated))
    yield from of_stage(_numbers(args.staged))
    yield from of_folders(args.folders)


def _numbers(text: str) -> range:
    low, _, high = text.partition("-")
    return range(int(low), int(high or low) + 1) if text else range(0)


def chosen(job: Labelled, count: int, only: str, whole: str = "") -> list[Kind]:
    """The kinds that a job gets: those of ``whole`` families, and ``count`` drawn by its name, of those that change anything."""
    names = [name for name in sorted(KINDS) if not only or name in only.split(",")]
    random.Random(f"kinds of {job.name}").shuffle(names)
    every = [KINDS[name] for name in names if KINDS[name].family in whole.split(",")]
    others = (kind for kind in map(KINDS.__getitem__, names) if kind not in every and damaged(kind, job) is not None)
    return [*(kind for kind in every if damaged(kind, job) is not None), *islice(others, count)]


def effects_of(job: Labelled, count: int, only: str, whole: str) -> tuple[Answer, list[Effect]]:
    """The answer about the whole job, and the effects of the kinds drawn for it."""
    before = seen_here(job.files)
    effects = [effect(kind, job, before) for kind in chosen(job, count, only, whole)]
    return before, [one for one in effects if one is not None]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, help="labelled jobs")
    parser.add_argument("--no-samples", dest="samples", action="store_false", help="leave the bundled samples out")
    parser.add_argument("--simulated", default="0-59", help="seeds of tests/simulator, both included; empty for none")
    parser.add_argument("--staged", default="0-59", help="seeds of tests/staged")
    parser.add_argument("--kinds", type=int, default=12, help="kinds for each job")
    parser.add_argument("--only", default="", help="names of kinds, with commas")
    parser.add_argument("--whole", default="", help="families of which a job gets every kind besides, with commas")
    parser.add_argument("--part", default="1/1", help="2/3: the second third of the jobs")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--log", type=Path, help="write each effect as a line of JSON")
    parser.add_argument("--write", type=Path, help="write the counts as Markdown")
    parser.add_argument("-v", "--verbose", action="store_true", help="list what failed")
    args = parser.parse_args(argv)
    asked = f"--simulated {args.simulated or chr(34) * 2} --staged {args.staged or chr(34) * 2} --kinds {args.kinds}"
    asked += f" --whole {args.whole}" if args.whole else ""
    asked += f" {len(args.folders)} FOLDERS" if args.folders else ""
    origin = made_by(f"python tests/damage/measure.py {asked} --write docs/reliability.md")
    part, of = map(int, args.part.split("/"))
    jobs = [job for n, job in enumerate(jobs_of(args)) if n % of == part - 1]
    effects: list[Effect] = []
    log = args.log.open("w") if args.log else None
    with ProcessPoolExecutor(args.workers) as pool:
        for _, found in pool.map(partial(effects_of, count=args.kinds, only=args.only, whole=args.whole), jobs):
            effects += found
            for one in found:
                if log:
                    log.write(json.dumps(asdict(one)) + "\n")
                    log.flush()
                bad = [word for word in one.findings if word != "wrong high"]
                if args.verbose and bad:
                    print(f"{', '.join(bad)}: {one.kind} on {one.job}\n    {one.before}\n    {one.after}", flush=True)
                    print("".join(f"    {line}\n" for line in one.after.crash.splitlines()[-4:]), end="")
    if args.write:
        args.write.write_text(report(len(jobs), effects, origin), encoding="utf-8")
    counts = Counter(word for one in effects for word in one.findings)
    print(f"{len(jobs)} jobs, {len({one.kind for one in effects})} kinds, {len(effects)} analyses: {dict(counts)}")
    return 0


def report(jobs: int, effects: list[Effect], origin: str) -> str:
    """The counts as Markdown, by kind. The same arguments give the same bytes; ``origin`` is what ``made_by`` says."""
    counts = Counter(word for one in effects for word in one.findings)
    lines = [
        "# Reliability: what damage does to verdicts",
        "",
        f"{origin}; don't edit it.",
        "",
        f"{jobs} jobs with known truth were analysed whole, and {len(effects)} times damaged, by {len({one.kind for one in effects})} of "
        f"{len(KINDS)} kinds of damage. "
        "Which kinds a job gets follows from its name. "
        "More kinds and seeds, and folders of labelled jobs, are arguments of the same command.",
        "",
        "| what failed | times | meaning |",
        "| --- | --- | --- |",
        *(f"| {word} | {counts[word]} | {meaning} |" for word, meaning in FINDINGS.items()),
        "",
        "To name nobody, and to be less sure, is no defect: a part of the evidence is gone.",
        "",
        "## By kind",
        "",
        f"| kind | damage | times | {' | '.join(FINDINGS)} |",
        f"| --- | --- | --- | {' | '.join('---' for _ in FINDINGS)} |",
    ]
    for name, kind in sorted(KINDS.items(), key=lambda item: (item[1].family, item[0])):
        own = [one for one in effects if one.kind == name]
        told = Counter(word for one in own for word in one.findings)
        lines.append(f"| {name} | {kind.about} | {len(own)} | {' | '.join(str(told[w] or '') for w in FINDINGS)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
