"""Counts how many labelled jobs reach each conclusion and doubt, and writes it to ``reach.toml``.

A conclusion is a place of ``nccldoctor/diagnose`` that builds a hypothesis, a doubt one that builds a doubt; both are named by
module, function and what they say, for lines move: ``rules/absent/died._lost_node: NO_RECORD_OF_HOST``. A doubt that a module
builds once is reached where one of its functions takes it. The jobs are the bundled samples and those of 300 seeds by each
generator.
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
from datetime import date
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the folder tests/, also when run as a script

from scoring.same_verdicts import write_jobs
from scoring.verdict_lines import shown

DIAGNOSE = Path(__file__).resolve().parents[2] / "nccldoctor" / "diagnose"
COUNTS = Path(__file__).with_name("reach.toml")
SEEDS = range(300)
KINDS = ("conclusions", "doubts")
BUILDERS = {"Hypothesis": ("conclusions", 0), "Doubt": ("doubts", 0), "Doubt.at_most": ("doubts", 1)}
"""What builds a conclusion or a doubt, and the number of the argument that says it."""

Spot = tuple[str, int | None, int | None, int | None, int | None]
"""A file, and there the first line, the last, the first column, and the one behind the last: a piece of code."""


@cache
def places(folder: Path = DIAGNOSE) -> dict[tuple[str, str], set[Spot]]:
    """The spots of each place below this folder, by kind and name, in the order of the code."""
    found: dict[tuple[str, str], set[Spot]] = {}
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
            nodes = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == taken] if taken else [call]
            found[kind, name] = {(str(path), n.lineno, n.end_lineno, n.col_offset, n.end_col_offset) for n in nodes}
    return found


def _calls(node: ast.AST, function: str) -> Iterator[tuple[ast.Call, str]]:
    """The calls of builders below a node, each with the function around it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call) and ast.unparse(child.func) in BUILDERS:
            yield child, function
        name = f".{child.name}" if isinstance(child, ast.FunctionDef | ast.ClassDef) else ""
        yield from _calls(child, f"{function}{name}".lstrip("."))


def _words(node: ast.expr) -> str:
    """What an expression says, by its name: ``host_down`` for ``absent.host_down(host, gone)``."""
    match node:
        case ast.Call(func=said):
            return _words(said)
        case ast.Name(id=said) | ast.Attribute(attr=said) | ast.Constant(value=str(said)):
            return said
        case ast.IfExp(body=one, orelse=other):
            return f"{_words(one)} or {_words(other)}"
    return "text"


def reached(job: Path) -> set[tuple[str, str]]:
    """The places that the analysis of a job comes to."""
    from nccldoctor import pipeline

    at = {spot: place for place, spots in places().items() for spot in spots}
    seen: set[tuple[str, str]] = set()

    @cache
    def steps(code: CodeType) -> dict[int, tuple[str, str]]:
        """The places in a function, by the offset of the instruction that comes to them."""
        spots = ((code.co_filename, *span) for span in code.co_positions())
        return {2 * number: at[spot] for number, spot in enumerate(spots) if spot in at}

    def step(frame: FrameType, event: str, arg: Any) -> Any:
        if not frame.f_code.co_filename.startswith(str(DIAGNOSE)) or not steps(frame.f_code):
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        if event == "opcode" and frame.f_lasti in steps(frame.f_code):
            seen.add(steps(frame.f_code)[frame.f_lasti])
        return step

    before = sys.gettrace()
    sys.settrace(step)
    try:
        pipeline.analyze(shown(job))
    finally:
        sys.settrace(before)
    return seen


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
