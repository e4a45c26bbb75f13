"""Measures how far the confidences can be believed: ``calibrate.py [--seeds A-B] [--staged A-B] [--write] [FOLDER…]``.

Judges jobs of both generators, the bundled samples, and any folder of labelled jobs (``truth.json`` beside the evidence), and prints
the page ``docs/calibration.md``; ``--write`` writes it. One section is kept, which
``tests/properties/measure.py`` writes. Nothing is fitted: the page measures the doubts that stand in the rules.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import sys
import tempfile
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the folder tests/, also when run as a script

from builders.documents.page_origin import made_by
from properties.measure import section
from scoring.score_simulator import AUTHORS, ranks

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "calibration.md"
LEVELS = ("high", "medium", "low", "cannot-tell")
PROMISED = {"high": 98, "medium": 85, "low": 60}
RULES = ROOT / "nccldoctor" / "diagnose"
NUMBERS = RULES / "judged_jobs.toml"

OTHER_NAMES = {
    "rank_exception": "raised",
    "rank_dead": "died",
    "rank_frozen": "frozen",
    "rank_not_arrived": "not-arrived",
    "p2p_unmatched": "unmatched-p2p",
}
"""Classes of labelled recordings that are not spelled as ours; the others differ in ``_`` alone."""


@dataclass(frozen=True)
class Judged:
    """One labelled job: who made it, what it is, what was said, and which conclusions of the rules were reached."""

    author: str
    evidence: str
    truth: dict[str, Any]
    verdict: dict[str, Any]
    proposals: tuple[tuple[str, str], ...]
    reached: frozenset[str]
    doubts: tuple[tuple[str, str, str], ...]
    """Of the verdict: the key of each, and what it leaves of the ranks and of the class."""

    @property
    def sets(self) -> list[set[int]]:
        """The right answers to *which ranks*."""
        sets = [set(self.truth["culprit_ranks"]), *map(set, self.truth.get("acceptable_rank_sets", []))]
        if "acceptable_ranks" in self.truth:
            sets.append(set(self.truth["acceptable_ranks"]))
        return sets if self.told("ranks") else [*sets, set()]

    @property
    def classes(self) -> set[str]:
        """The right answers to *why*."""
        return {_ours(c) for c in (self.truth["class"], *self.truth.get("acceptable_classes", []))}

    @property
    def is_right_in_ranks(self) -> bool:
        """Exactly the culprits are named; nobody is right too where the files cannot tell."""
        return ranks(self.verdict["ranks"]) in self.sets

    @property
    def is_right_in_class(self) -> bool:
        """The class is accepted."""
        return self.verdict["class"] in self.classes

    @property
    def is_well(self) -> bool:
        """Nothing is wrong with the job."""
        return "none" in self.classes

    @property
    def is_proposed(self) -> bool:
        """The right answer is among the hypotheses."""
        return any(cause in self.classes and ranks(named) in self.sets for cause, named in self.proposals)

    def told(self, what: str) -> bool:
        """Can the files tell the ``ranks``, or the ``class``?"""
        return bool(self.truth.get(f"determinable_{what}", self.truth.get("determinable", True)))


def _ours(name: str) -> str:
    return OTHER_NAMES.get(name, name.replace("_", "-"))


@cache
def conclusions() -> dict[str, tuple[Path, range]]:
    """The places that build a hypothesis, with their lines; a name is like "`rules/absent/died.py`: `judge`, 2 of 3"."""
    out = {}
    for path in sorted(RULES.rglob("*.py")):
        for name, function in _functions(ast.parse(path.read_text(encoding="utf-8")).body):
            built = [node for node in ast.walk(function) if isinstance(node, ast.Call) and _builds(node.func)]
            for number, node in enumerate(sorted(built, key=lambda node: node.lineno), 1):
                which = f", {number} of {len(built)}" if len(built) > 1 else ""
                lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
                out[f"`{path.relative_to(RULES).as_posix()}`: `{name}`{which}"] = (path, lines)
    return out


def _functions(body: list[ast.stmt]) -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from ((f"{node.name}.{name}", function) for name, function in _functions(node.body))
        elif isinstance(node, ast.FunctionDef):
            yield node.name, node


def _builds(called: ast.expr) -> bool:
    return isinstance(called, ast.Name) and called.id == "Hypothesis"


def judge(author: str, truth: dict[str, Any], shown: list[str]) -> Judged:
    """Analyse the files of a job, and note which hypotheses were built and where."""
    from nccldoctor import pipeline
    from nccldoctor.diagnose.confidence import kind_of_evidence
    from nccldoctor.diagnose.hypothesis import Hypothesis
    from nccldoctor.diagnose.rules import load

    load()  # first: rules of one class are asked in the order in which they were imported
    places: set[tuple[str, int]] = set()

    def noted(*args: Any, **fields: Any) -> Hypothesis:
        frame = sys._getframe(1)
        places.add((frame.f_code.co_filename, frame.f_lineno))
        return Hypothesis(*args, **fields)

    with ExitStack() as patched:
        for path in {path for path, _ in conclusions().values()}:
            module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
            patched.enter_context(patch.object(module, "Hypothesis", noted))
        incident = pipeline.analyze(shown)
    reached = (
        name for name, (path, lines) in conclusions().items() if any((str(path), line) in places for line in lines)
    )
    evidence = kind_of_evidence(incident.case.sources)
    proposals = tuple((p.cause.value, str(p.ranks)) for p in incident.diagnosis.proposals)
    verdict = json.loads(incident.to_json())["verdict"]
    doubts = tuple((d.key, d.ranks.value, d.cause.value) for d in incident.diagnosis.findings[0].doubts)
    return Judged(author, evidence, truth, verdict, proposals, frozenset(reached), doubts)


def made(author: str, seed: int) -> Judged:
    """One job of a generator."""
    with tempfile.TemporaryDirectory() as scratch:
        job = AUTHORS[author].make(seed)
        job.write(Path(scratch))
        return judge(f"tests/{author}", job.truth, [scratch])


def bundled() -> Iterator[Judged]:
    """The sample incidents, as their expected.toml has them."""
    from nccldoctor.cli import demo

    for sample in demo.samples():
        with tempfile.TemporaryDirectory() as scratch:
            demo.write(sample.name, Path(scratch) / sample.name)
            wanted = tomllib.loads(demo.expected(sample.name))["verdict"]
            truth = {
                "class": wanted["class"][0],
                "scenario": sample.name,
                "culprit_ranks": sorted(ranks(wanted.get("ranks", ""))),
                "acceptable_classes": wanted["class"],
            }
            yield judge("bundled samples", truth, [str(Path(scratch) / sample.name)])


def labelled(folder: Path) -> Iterator[Judged]:
    """Jobs with a truth.json of their own; the truth is not shown to the tool."""
    for path in sorted(folder.rglob("truth.json")):
        shown = [str(p) for p in sorted(path.parent.iterdir()) if p != path]
        yield judge(folder.name, {"scenario": path.parent.name, **json.loads(path.read_text())}, shown)


def share(hits: int, total: int) -> str:
    """``98 / 100 (98 %)``."""
    return f"{hits} / {total} ({100 * hits / total:.0f} %)" if total else "-"


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A table of Markdown."""
    cells = [list(head), *([str(cell) for cell in row] for row in rows)]
    lines = ["| " + " | ".join(row) + " |" for row in cells]
    return "\n".join([lines[0], "| " + " | ".join("---" for _ in cells[0]) + " |", *lines[1:]])


def by_level(jobs: list[Judged], level: Callable[[Judged], str], right: Callable[[Judged], bool]) -> list[str]:
    """For each level how many of those given it are right."""
    out = []
    for name in LEVELS:
        given = [job for job in jobs if level(job) == name]
        out.append(share(sum(map(right, given)), len(given)))
    return out


def _is_right(job: Judged) -> bool:
    return job.is_right_in_ranks and job.is_right_in_class


def reliability(jobs: list[Judged]) -> str:
    """The verdict, and its two halves."""
    rows = [
        ("verdict", *by_level(jobs, lambda j: j.verdict["confidence"], _is_right)),
        ("ranks", *by_level(jobs, lambda j: j.verdict["confidence_in"]["ranks"], lambda j: j.is_right_in_ranks)),
        ("class", *by_level(jobs, lambda j: j.verdict["confidence_in"]["class"], lambda j: j.is_right_in_class)),
        ("promised", *(f"{PROMISED[level]} %" if level in PROMISED else "-" for level in LEVELS)),
    ]
    return table(("confidence in", *LEVELS), rows)


def split(jobs: list[Judged], key: Callable[[Judged], str], head: str) -> str:
    """Reliability of the verdict and what is given, for each part of the jobs."""
    parts: dict[str, list[Judged]] = defaultdict(list)
    for job in jobs:
        parts[key(job)].append(job)
    rows = []
    for name, mine in sorted(parts.items(), key=lambda part: -len(part[1])):
        settled = [j for j in mine if j.told("ranks") and j.told("class")]
        who = [j for j in mine if j.told("ranks")]
        given = sum(j.verdict["confidence"] == "high" for j in settled)
        named = sum(j.verdict["confidence_in"]["ranks"] == "high" for j in who)
        row = by_level(mine, lambda j: j.verdict["confidence"], _is_right)
        rows.append((name, len(mine), *row, share(given, len(settled)), share(named, len(who))))
    return table((head, "jobs", *LEVELS, "high where settled", "ranks high where settled"), rows)


def by_doubt(jobs: list[Judged]) -> str:
    """How often verdicts with each doubt are right in what it lowers, where no other doubt lowers it as far."""
    found: dict[str, dict[str, list[bool]]] = defaultdict(lambda: {"ranks": [], "class": []})
    for job in jobs:
        for key, *levels in job.doubts:
            for half, level, right in zip(
                ("ranks", "class"), levels, (job.is_right_in_ranks, job.is_right_in_class), strict=True
            ):
                same = [each for each in job.doubts if LEVELS.index(each[1 + (half == "class")]) >= LEVELS.index(level)]
                if level != "high" and len(same) == 1:
                    found[key][half].append(right)
    rows = sorted(found.items(), key=lambda row: (-sum(map(len, row[1].values())), row[0]))
    shown = ((key, *(share(sum(half), len(half)) for half in halves.values())) for key, halves in rows)
    return table(("doubt", "right in ranks", "right in class"), shown)


def recall(jobs: list[Judged]) -> str:
    """How often the right answer is among the hypotheses, by class and author."""
    authors = list(dict.fromkeys(job.author for job in jobs))
    settled = [j for j in jobs if j.told("ranks") and j.told("class") and not j.is_well]
    rows = []
    for cause in [*sorted({_ours(j.truth["class"]) for j in settled}), "all"]:
        cells = []
        for author in authors:
            mine = [j for j in settled if j.author == author and cause in ("all", _ours(j.truth["class"]))]
            cells.append(share(sum(j.is_proposed for j in mine), len(mine)))
        rows.append((cause, *cells))
    return table(("class", *authors), rows)


def unreached(jobs: list[Judged]) -> list[str]:
    """The conclusions that no judged job reaches."""
    seen = {name for job in jobs for name in job.reached}
    return [name for name in conclusions() if name not in seen]


def wrong(jobs: list[Judged]) -> str:
    """Scenarios with wrong verdicts, and how sure those were."""
    count: Counter[tuple[str, str, str, str]] = Counter()
    for job in jobs:
        if not _is_right(job):
            verdict = job.verdict
            count[job.author, job.truth.get("scenario", ""), verdict["class"], verdict["confidence"]] += 1
    rows = [(*key, number) for key, number in sorted(count.items(), key=lambda row: (-row[1], row[0]))]
    return table(("author", "scenario", "said", "confidence", "jobs"), rows)


def numbers(jobs: list[Judged]) -> str:
    """The judged jobs of each kind of evidence, as the product reads them."""
    head = "# Labelled jobs that were judged with each kind of evidence. Written by tests/scoring/calibrate.py --write.\n[jobs]\n"
    return head + "".join(
        f'"{kind}" = {number}\n' for kind, number in sorted(Counter(j.evidence for j in jobs).items())
    )


def page(jobs: list[Judged], origin: str) -> str:
    """The whole page; ``origin`` says when, from which commit and by which command it is made."""
    from nccldoctor.diagnose.confidence import ENOUGH

    counts = Counter(job.evidence for job in jobs)
    few = [f"{kind} ({number})" for kind, number in counts.most_common() if number < ENOUGH]
    sizes = [len(set(job.proposals)) for job in jobs]  # the same class and ranks for two stalls are one answer
    clear = sum(j.verdict["class"] == "none" and not j.is_well for j in jobs)
    blamed = sum(bool(ranks(j.verdict["ranks"])) and not j.truth["culprit_ranks"] for j in jobs)
    silent = unreached(jobs)
    text = (ROOT / "tests" / "scoring" / "calibration.md.txt").read_text(encoding="utf-8")
    return text.format(
        origin=origin,
        jobs=len(jobs),
        reliability=reliability(jobs),
        authors=split(jobs, lambda j: j.author, "author"),
        evidence=split(jobs, lambda j: j.evidence, "evidence"),
        few=", ".join(few) or "none",
        enough=ENOUGH,
        recall=recall(jobs),
        doubts=by_doubt(jobs),
        mean=f"{sum(sizes) / len(sizes):.1f}",
        most=max(sizes),
        clear=clear,
        blamed=blamed,
        silent="\n".join(f"- {name}" for name in silent) or "none",
        silent_number=len(silent),
        all_number=len(conclusions()),
        wrong=wrong(jobs),
        properties=section(PAGE.read_text(encoding="utf-8")),
    )


def _span(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def collect(args: argparse.Namespace) -> list[Judged]:
    """Every labelled job there is, each judged."""
    jobs: list[Judged] = []
    with ProcessPoolExecutor(args.processes) as pool:
        for author, text in (("simulator", args.seeds), ("staged", args.staged)):
            jobs += pool.map(partial(made, author), _span(text), chunksize=8)
    jobs += bundled()
    for folder in args.folders:
        jobs += labelled(folder)
    return jobs


def main() -> int:
    """Print the page, or write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0-399", help="of tests/simulator, both included")
    parser.add_argument("--staged", default="1000-1399", help="of tests/staged, both included")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--write", action="store_true", help="write docs/calibration.md")
    parser.add_argument("folders", nargs="*", type=Path)
    args = parser.parse_args()
    more = "".join(f" {folder.name}" for folder in args.folders)
    origin = made_by(f"python tests/scoring/calibrate.py --seeds {args.seeds} --staged {args.staged} --write{more}")
    jobs = collect(args)
    text = page(jobs, origin)
    print(text)
    if args.write:
        PAGE.write_text(text, encoding="utf-8")
        NUMBERS.write_text(numbers(jobs), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
