"""Proves what SECURITY.md promises: tries thousands of inputs and surroundings in every output, and counts what failed.

python tests/proof/run.py --inputs 3000 --workers 2 --log proof.jsonl --write docs/proof.md

Each input follows from its number alone. With ``--log`` each result is kept as a line, and a run of the same
commit goes on where an earlier one ended.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the folder tests/, also when run as a script

import pandas  # noqa: F401  # loaded here once, and not in each process that is forked for an input
import plotly.graph_objects  # noqa: F401
from builders.documents.page_origin import made_by
from builders.logs.planted_secrets import ALL
from fuzz.surroundings import CASES
from noise.beside import SAMPLES, innocent_files
from proof.judge import ALONE, PROMISES, SURROUNDINGS, Result, tried, tried_alone, tried_surroundings, warm
from proof.trials import FAMILIES, trial

ALONE_EVERY = 50
"""Of so many inputs one is also tried by the command in a process of its own."""

ABOUT = {
    **FAMILIES,
    ALONE: f"one of {ALONE_EVERY} of these inputs, by `python -m nccldoctor` in a process of its own, in the folder of the input",
    SURROUNDINGS: "homes, streams, disks, names, links, archives, bombs and settings, by the command (`tests/fuzz/surroundings.py`)",
}


def work_of(inputs: int, skipped: frozenset[str] = frozenset()) -> Iterator[str]:
    """The names of all that is tried: ``4711``, ``4711 alone``, ``surroundings no-home``."""
    names = [str(number) for number in range(inputs)]
    names += [f"{number} alone" for number in range(0, inputs, ALONE_EVERY)]
    names += [f"{SURROUNDINGS} {name}" for name in CASES]
    return (name for name in names if name not in skipped)


def result_of(name: str) -> Result:
    """Try what has this name."""
    first, _, rest = name.partition(" ")
    if first == SURROUNDINGS:
        return tried_surroundings(rest)
    return (tried_alone if rest else tried)(trial(int(first)))


def main(argv: list[str] | None = None) -> int:
    """Try all that is asked for; 1 where a promise was broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=3000)
    parser.add_argument(
        "--only", default="", help="names of what to try, with commas: 4711, '4711 alone', 'surroundings bomb'"
    )
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--log", type=Path, help="keep each result as a line of JSON, and leave out what it has")
    parser.add_argument("--write", type=Path, help="write the counts as Markdown")
    asked = parser.parse_args(argv)
    origin = made_by(f"python tests/proof/run.py --inputs {asked.inputs} --write docs/proof.md")
    of = origin.partition(" from ")[2].partition(" by ")[0]
    results = kept(asked.log, of)
    known = frozenset(result.name for result in results)
    names = asked.only.split(",") if asked.only else work_of(asked.inputs, known)
    log = asked.log.open("a") if asked.log else None
    with ProcessPoolExecutor(asked.workers, initializer=warm) as pool:
        for result in pool.map(result_of, names, chunksize=8):
            results.append(result)
            if log:
                log.write(json.dumps({"of": of, **asdict(result)}) + "\n")
                log.flush()
            for promise, seen in result.broken.items():
                print(f"{result.name} ({result.about}): {promise}: {'; '.join(seen)[:1500]}", flush=True)
    if asked.write:
        asked.write.write_text(report(results, origin), encoding="utf-8")
    counts = Counter(promise for result in results for promise in result.broken)
    print(f"{len(results)} inputs and surroundings: {dict(counts) or 'no promise was broken'}")
    return int(bool(counts))


def kept(log: Path | None, of: str) -> list[Result]:
    """The results in a log that are ``of`` this commit; those of others say nothing about it."""
    rows = map(json.loads, log.read_text().splitlines() if log is not None and log.exists() else ())
    return [Result(**row) for row in rows if row.pop("of", "") == of]


def report(results: Sequence[Result], origin: str) -> str:
    """The counts as Markdown. The same results give the same bytes; ``origin`` is what ``made_by`` says."""
    counts = Counter(promise for result in results for promise in result.broken)
    slowest, largest = max(results, key=lambda one: one.seconds), max(results, key=lambda one: one.memory)
    lines = [
        "# Proof: what was tried, and what failed",
        "",
        f"{origin}; don't edit it.",
        "",
        f"{len(results):,} inputs and surroundings were tried, and {sum(one.outputs for one in results):,} outputs searched: text, "
        "JSON, tickets, the page, `inspect` and frames; of every sixth input also redacted reports, "
        f"a zip, and a part. Each input holds {len(ALL)} planted secrets, in messages and between lines of logs, in settings, in "
        "the name of a file, and in dumps that are not damaged by bytes. An audit hook in every process tells what code runs and "
        "what speaks with the network.",
        "",
        "| what failed | inputs | meaning |",
        "| --- | --- | --- |",
        *(f"| {name} | {counts[name]} | {meaning} |" for name, meaning in PROMISES.items()),
        "",
        f"The slowest took {slowest.seconds:.0f} s of the processor ({slowest.about}), the largest {largest.memory / (1 << 20):,.0f} MB "
        f"({largest.about}).",
        "",
        "## What was tried",
        "",
        "| family | inputs | outputs | what failed | what it is |",
        "| --- | --- | --- | --- | --- |",
    ]
    for family, about in ABOUT.items():
        own = [one for one in results if one.family == family]
        bad = Counter(promise for one in own for promise in one.broken)
        said = ", ".join(f"{name}: {count}" for name, count in bad.items()) or "nothing"
        lines.append(f"| {family} | {len(own):,} | {sum(one.outputs for one in own):,} | {said} | {about} |")
    lines += [
        "",
        f"{len(innocent_files())} innocent files lay beside each of {len(SAMPLES)} bundled incidents, all at once and in groups.",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
