"""Counts how many labelled jobs reach each conclusion and doubt, and writes it to ``reach.toml``.

A conclusion is a place of ``nccldoctor/diagnose`` that builds a hypothesis, named by module, function and what it says, for lines
move: ``rules/absent/died._lost_node: absent.host-down``. A doubt is a row of ``doubts.toml``, reached where a hypothesis has it. The
jobs are the bundled samples and those of 300 seeds by each generator; ``tests/quoted`` has one for each conclusion that the jobs of
the others do not come to.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from datetime import date
from functools import cache
from importlib import import_module
from itertools import islice
from pathlib import Path
from pkgutil import walk_packages
from typing import Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the folder tests/, also when run as a script

from scoring.same_verdicts import write_jobs
from scoring.verdict_lines import shown

from nccldoctor.diagnose.phrases.say import read_book

DIAGNOSE = Path(__file__).resolve().parents[2] / "nccldoctor" / "diagnose"
COUNTS = Path(__file__).with_name("reach.toml")
SEEDS = range(300)
KINDS = ("conclusions", "doubts")

Spot = tuple[str | int | None, ...]
"""A file, and there the first line, the last, the first column and the one behind the last; or the key of a doubt."""


@cache
def places(folder: Path = DIAGNOSE) -> dict[tuple[str, str], Spot]:
    """The spot of each place below this folder, by kind and name, in the order of the code, and each doubt."""
    found: dict[tuple[str, str], Spot] = {}
    for path in sorted(folder.rglob("*.py")):
        module = path.relative_to(folder).with_suffix("").as_posix()
        for call, function in _calls(ast.parse(path.read_text(encoding="utf-8")), ""):
            said = [*call.args, *(keyword.value for keyword in call.keywords)][0]
            name = f"{module}.{function}: {_words(said)}"
            while ("conclusions", name) in found:
                name += " again"
            found["conclusions", name] = (
                str(path), call.lineno, call.end_lineno, call.col_offset, call.end_col_offset,
            )  # fmt: skip
    return found | {("doubts", f"doubts.{key}"): (key,) for key in read_book("doubts")}


def _calls(node: ast.AST, function: str) -> Iterator[tuple[ast.Call, str]]:
    """The calls that build a hypothesis below a node, each with the function around it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call) and ast.unparse(child.func) == "Hypothesis":
            yield child, function
        name = f".{child.name}" if isinstance(child, ast.FunctionDef | ast.ClassDef) else ""
        yield from _calls(child, f"{function}{name}".lstrip("."))


def _words(node: ast.expr) -> str:
    """What an expression says, by the key of its sentence or its name: ``absent.host-down`` of ``say("absent.host-down")``."""
    match node:
        case ast.Call(func=ast.Name(id="say" | "headline_of"), args=[key, *_]):
            return _words(key)
        case ast.Call(func=said):
            return _words(said)
        case ast.Name(id=said) | ast.Attribute(attr=said) | ast.Constant(value=str(said)):
            return said
        case ast.IfExp(body=one, orelse=other):
            return f"{_words(one)} or {_words(other)}"
    return "text"


class Noted:
    """Stands in a module for what builds hypotheses, and notes the spots that call it and the doubts that they have."""

    def __init__(self, built: Any, spots: set[Spot]) -> None:
        self.built = built
        self.spots = spots

    def __call__(self, *args: Any, **fields: Any) -> Any:
        frame = sys._getframe(1)
        *_, span = islice(frame.f_code.co_positions(), frame.f_lasti // 2 + 1)
        made = self.built(*args, **fields)
        self.spots |= {(frame.f_code.co_filename, *span), *((doubt.key,) for doubt in made.doubts)}
        return made


def reached(job: Path) -> set[tuple[str, str]]:
    """The places that the analysis of a job comes to."""
    from nccldoctor import diagnose, pipeline

    modules = [import_module(found.name) for found in walk_packages(diagnose.__path__, f"{diagnose.__name__}.")]
    spots: set[Spot] = set()
    with ExitStack() as patches:
        for module in modules:
            if "Hypothesis" in vars(module):
                patches.enter_context(patch.object(module, "Hypothesis", Noted(module.Hypothesis, spots)))
        findings = pipeline.analyze(shown(job)).unquoted.findings
    spots |= {(doubt.key,) for finding in findings for doubt in finding.doubts}
    return {place for place, spot in places().items() if spot in spots}


def main() -> None:
    """Count over all jobs, and write the counts."""
    cores = os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as scratch, ProcessPoolExecutor(cores) as pool:
        jobs = [Path(scratch) / path for path in write_jobs(Path(scratch), SEEDS, cores).values()]
        counts = Counter(place for seen in pool.map(reached, jobs, chunksize=8) for place in seen)
    git = ["git", "-C", str(DIAGNOSE), "rev-parse", "--short=8", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True).stdout.strip()
    lines = ["# How many labelled jobs reach each conclusion and doubt: written by tests/budgets/reach.py."]
    lines += [f"date = {date.today()}", f'commit = "{commit}"', f"jobs = {len(jobs)}"]
    for kind in KINDS:
        mine = [place for place in places() if place[0] == kind]
        lines += ["", f"[{kind}]", *(f"{json.dumps(place[1])} = {counts[place]}" for place in mine)]
        print(
            f"{sum(not counts[place] for place in mine)} of {len(mine)} {kind} are reached by none of {len(jobs)} jobs"
        )
    COUNTS.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
