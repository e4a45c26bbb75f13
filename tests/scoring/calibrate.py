"""Measures how reliable the confidence is: ``calibrate.py [--seeds A-B] [FOLDER…]`` prints the table of docs/calibration.md.

Runs simulated jobs (``tests/simulator/jobs.py``), the bundled samples, and any folder of labelled jobs (``truth.json``
beside evidence), and counts for each confidence how many verdicts named exactly the culprits with an accepted class.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the folder tests/, also when run as a script

from scoring import score_simulator
from simulator import jobs

OTHER_NAMES = {
    "rank_exception": "raised",
    "rank_dead": "died",
    "rank_frozen": "frozen",
    "rank_not_arrived": "not-arrived",
}
"""Classes of labelled recordings that are not spelled as ours; the others differ in ``_`` alone."""

LEVELS = ("high", "medium", "low", "cannot-tell")


def simulated(first: int, last: int) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Simulated jobs: (set, truth, verdict)."""
    for seed in range(first, last + 1):
        with tempfile.TemporaryDirectory() as scratch:
            job = jobs.make(seed)
            job.write(Path(scratch))
            yield "simulated jobs", job.truth, score_simulator.analyse(Path(scratch))


def bundled() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """The sample incidents, as their expected.toml has them."""
    from nccldoctor.cli import demo

    for sample in demo.samples():
        name = sample.name
        with tempfile.TemporaryDirectory() as scratch:
            demo.write(name, Path(scratch) / name)
            wanted = tomllib.loads(demo.expected(name))["verdict"]
            truth = {
                "class": wanted["class"][0],
                "culprit_ranks": sorted(score_simulator.ranks(wanted.get("ranks", ""))),
                "acceptable_classes": wanted["class"],
            }
            yield "bundled samples", truth, score_simulator.analyse(Path(scratch) / name)


def labelled(folders: list[Path]) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Jobs with a truth.json of their own; the truth is not shown to the tool."""
    for folder in folders:
        for truth in sorted(folder.rglob("truth.json")):
            shown = [str(p) for p in sorted(truth.parent.iterdir()) if p != truth]
            from nccldoctor import pipeline

            verdict = json.loads(pipeline.analyze(shown).to_json())["verdict"]
            yield folder.name, json.loads(truth.read_text()), verdict


def right(truth: dict[str, Any], verdict: dict[str, Any]) -> bool:
    """Exactly the culprits, and an accepted class."""
    named = score_simulator.ranks(verdict["ranks"])
    sets = [set(truth["culprit_ranks"]), *map(set, truth.get("acceptable_rank_sets", []))]
    if not truth.get("determinable_ranks", True):
        sets.append(set())
    accepted = {truth["class"], *truth.get("acceptable_classes", [])}
    return named in sets and verdict["class"] in {OTHER_NAMES.get(c, c.replace("_", "-")) for c in accepted}


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0-599")
    parser.add_argument("folders", nargs="*", type=Path)
    args = parser.parse_args()
    first, _, last = args.seeds.partition("-")
    hits: Counter[tuple[str, str]] = Counter()
    total: Counter[tuple[str, str]] = Counter()
    for source in (simulated(int(first), int(last or first)), bundled(), labelled(args.folders)):
        for name, truth, verdict in source:
            total[name, verdict["confidence"]] += 1
            hits[name, verdict["confidence"]] += right(truth, verdict)
    names = list(dict.fromkeys(name for name, _ in total))
    print("| set | " + " | ".join(LEVELS) + " |\n| --- |" + " --- |" * len(LEVELS))
    for name in names:
        cells = [f"{hits[name, c]} / {total[name, c]}" if total[name, c] else "-" for c in LEVELS]
        print(f"| {name} | " + " | ".join(cells) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
