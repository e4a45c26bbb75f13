"""Scores the diagnosis on simulated jobs: ``score_simulator.py [--by staged] --seeds 0-199 [--only CLASS] [-v] [--write DIR]``.

``--by`` chooses the author of the jobs: ``tests/simulator`` or ``tests/staged``, which share no code.

Every job is written to a folder of its own, analysed in this process, and compared with its truth. A rank set is
right only if every culprit is named and nobody else.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the folder tests/, also when run as a script

from simulator import jobs as simulator
from staged import jobs as staged

AUTHORS = {"simulator": simulator, "staged": staged}


def ranks(text: str | None) -> set[int]:
    """``"0-3,7"`` as a set."""
    out: set[int] = set()
    for part in filter(None, (text or "").split(",")):
        low, _, high = part.partition("-")
        out |= set(range(int(low), int(high or low) + 1))
    return out


def analyse(folder: Path) -> dict[str, Any]:
    """The verdict, as published."""
    from nccldoctor import pipeline

    incident = pipeline.analyze([str(folder)])
    return json.loads(incident.to_json())["verdict"]


class Sheet:
    """Rows of hits and totals, overall and per class, with what went wrong."""

    def __init__(self) -> None:
        self.hits: Counter[tuple[str, str]] = Counter()
        self.totals: Counter[tuple[str, str]] = Counter()
        self.wrong: dict[int, list[str]] = defaultdict(list)
        self.said: dict[int, str] = {}

    def count(self, what: str, job: simulator.Job | staged.Job, right: bool) -> None:
        for scope in ("all", job.truth["class"]):
            self.totals[what, scope] += 1
            self.hits[what, scope] += right
        if not right:
            self.wrong[job.seed].append(what)

    def score(self, job: simulator.Job | staged.Job, verdict: dict[str, Any]) -> None:
        truth = job.truth
        named, sure, answer = ranks(verdict.get("ranks")), verdict["confidence"], verdict["class"]
        culprits = set(truth["culprit_ranks"])
        told_ranks, told_class = truth["determinable_ranks"], truth["determinable_class"]
        sets = [culprits, *map(set, truth["acceptable_rank_sets"])] if told_ranks else [set()]
        exact, right = named in sets, answer in truth["acceptable_classes"]
        stalled, mine = truth["stalled"], verdict.get("stalled") or {}
        self.said[job.seed] = (
            f"{truth['scenario']}: said {verdict.get('ranks')!r} {answer} ({sure}) at {mine.get('op')} "
            f"{mine.get('seq')}; truth "
            f"{sorted(culprits)} {truth['class']} at {(stalled or {}).get('op')} {(stalled or {}).get('seqs')} "
            f"[{job.about}]"
        )
        if told_ranks:
            self.count("culprit exact" if culprits else "nobody blamed", job, exact)
        if told_class:
            self.count("class right", job, right)
        if told_ranks and told_class:
            self.count("high given when determinable", job, sure == "high")
            if stalled and stalled["seen"] and truth["hang"]:
                self.count("stalled seq right", job, mine.get("seq") in stalled["seqs"])
        else:
            careful = exact or (sure == "medium" and named == culprits)
            self.count("cannot-tell respected", job, sure in ("low", "cannot-tell") or (right and careful))
        if named:
            self.count("no innocent named", job, named <= culprits or exact)
        if sure == "high":
            certain = set(truth["acceptable_classes"]) if told_class else {truth["class"], "unfinished", "none"}
            self.count("high confidence right", job, (exact or named == culprits) and answer in certain)

    def show(self, classes: bool, verbose: bool, args: argparse.Namespace) -> None:
        for (what, scope), total in sorted(
            self.totals.items(), key=lambda row: (row[0][1] != "all", row[0][1], row[0][0])
        ):
            if scope == "all" or classes:
                hit = self.hits[what, scope]
                print(f"{scope:16s} {what:30s} {hit:4d} / {total:<4d} {100 * hit / total:5.1f} %")
        if verbose:
            for seed, what in sorted(self.wrong.items()):
                print(f"seed {seed}: {', '.join(what)}\n    {self.said.get(seed, '')}")
            only = f" --by {args.by}" + (f" --only {args.only}" if args.only else "")
            print(f"write one with: python tests/scoring/score_simulator.py --seeds SEED-SEED{only} --write DIR")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--by", choices=AUTHORS, default="simulator", help="who makes the jobs")
    parser.add_argument("--seeds", default="0-99", help="A-B, both included")
    parser.add_argument("--only", help="a class; every seed then plays a scenario of it")
    parser.add_argument("--scenario", help="a scenario; every seed then plays it")
    parser.add_argument("--write", type=Path, help="only write the jobs and their truth below this folder")
    parser.add_argument("-c", "--classes", action="store_true", help="rows per class too")
    parser.add_argument("-v", "--verbose", action="store_true", help="list what is wrong")
    args = parser.parse_args(argv)
    low, _, high = args.seeds.partition("-")
    sheet, spent = Sheet(), 0.0
    for seed in range(int(low), int(high or low) + 1):
        job = AUTHORS[args.by].make(seed, scenario=args.scenario, cls=args.only)
        if args.write:
            folder = job.write(args.write / f"{job.truth['class']}-{seed}")
            (folder / "truth.json").write_text(json.dumps(job.truth, indent=1, sort_keys=True))
            continue
        with tempfile.TemporaryDirectory() as scratch:
            folder = job.write(Path(scratch) / "job")
            begin = time.perf_counter()
            try:
                sheet.score(job, analyse(folder))
                sheet.count("runs", job, True)
            except Exception as error:
                sheet.said[seed] = f"{job.truth['scenario']}: {type(error).__name__}: {error}"
                sheet.count("runs", job, False)
            spent += time.perf_counter() - begin
    if not args.write:
        sheet.show(args.classes, args.verbose, args)
        print(f"{spent:.1f} s in analyses")
    return 0


if __name__ == "__main__":
    sys.exit(main())
