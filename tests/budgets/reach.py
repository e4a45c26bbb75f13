"""Counts how many labelled jobs reach each conclusion and doubt, and writes it to ``reach.toml``.

A conclusion is a place of ``nccldoctor/diagnose`` that builds a hypothesis, a doubt one that builds a doubt; both are named by
module, function and what they say, for lines move: ``rules/absent/died._lost_node: doubts.no-record-of-host``. A doubt that a module
builds once is reached where a finding has it. The jobs are the bundled samples and those of 300 seeds by each
generator; ``tests/quoted`` has one for each conclusion that the jobs of the others do not come to.
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
from types import FrameType
from typing import Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the folder tests/, also when run as a script

from scoring.same_verdicts import write_jobs
from scoring.verdict_lines import shown

DIAGNOSE = Path(__file__).resolve().parents[2] / "nccldoctor" / "diagnose"
COUNTS = Path(__file__).with_name("reach.toml")
SEEDS = range(300)
KINDS = ("conclusions", "doubts")
BUILDERS = {"Hypothesis": ("conclusions", 0), "Doubt": ("doubts", 0), "Doubt.at_most": ("doubts", 1)}
"""What builds a conclusion or a doubt, and the number of the argument that says it."""

Spot = tuple[str | int | None, ...]
"""A file, and there the first line, the last, the first column and the one behind the last; or the name of a constant."""


@cache
def places(folder: Path = DIAGNOSE) -> dict[tuple[str, str], Spot]:
    """The spot of each place below this folder, by kind and name, in the order of the code."""
    found: dict[tuple[str, str], Spot] = {}
    for path in sorted(folder.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        module = path.relative_to(folder).with_suffix("").as_posix()
        constants = {node.value: ast.unparse(node.targets[0]) for node in tree.body if isinstance(node, ast.Assign)}
        for call, function in _calls(tree, ""):
            kind, number = BUILDERS[ast.unparse(call.func)]
            said = [*call.args, *(keyword.value for keyword in call.keywords)][number]
            taken = constants.get(call)
            name = f"{module}.{taken or function}: {_words(said)}"
            while (kind, name) in found:
                name += " again"
            span = (call.lineno, call.end_lineno, call.col_offset, call.end_col_offset)
            found[kind, name] = (str(path), *((taken,) if taken else span))
    return found


def _calls(node: ast.AST, function: str) -> Iterator[tuple[ast.Call, str]]:
    """The calls of builders below a node, each with the function around it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call) and ast.unparse(child.func) in BUILDERS:
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
    """Stands in a module for what builds conclusions or doubts, and notes the spots that call it."""

    def __init__(self, built: Any, spots: set[Spot]) -> None:
        self.built = built
        self.spots = spots

    def _note(self, frame: FrameType) -> None:
        *_, span = islice(frame.f_code.co_positions(), frame.f_lasti // 2 + 1)
        self.spots.add((frame.f_code.co_filename, *span))

    def __call__(self, *args: Any, **fields: Any) -> Any:
        self._note(sys._getframe(1))
        return self.built(*args, **fields)

    def at_most(self, *args: Any) -> Any:
        self._note(sys._getframe(1))
        return self.built.at_most(*args)


def reached(job: Path) -> set[tuple[str, str]]:
    """The places that the analysis of a job comes to."""
    from nccldoctor import diagnose, pipeline
    from nccldoctor.model import Doubt

    modules = [import_module(found.name) for found in walk_packages(diagnose.__path__, f"{diagnose.__name__}.")]
    spots: set[Spot] = set()
    with ExitStack() as patches:
        for module in modules:
            for name in {"Hypothesis", "Doubt"} & vars(module).keys():
                patches.enter_context(patch.object(module, name, Noted(getattr(module, name), spots)))
        findings = pipeline.analyze(shown(job)).unquoted.findings
    said = {doubt.says for finding in findings for doubt in finding.doubts}
    for module in modules:
        taken = [name for name, value in vars(module).items() if isinstance(value, Doubt) and value.says in said]
        spots |= {(str(module.__file__), name) for name in taken}
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
