"""Names and first sentences say what they mean. ``python tests/project/test_names.py [FOLDER]`` counts, or lists, what does not.

Four rules: a function name means one thing in the whole package; a function that answers yes or no is named so; the
first sentence of a docstring is short; no docstring or comment uses an idiom that an engineer would not.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from project.parsed import parsed

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("nccldoctor", "parsers", "reports")

PROTOCOL_NAMES = {
    "judge": "every rule of diagnose/rules has it: findings for the facts",
    "parse": "every parser has it: a line, or a file, to events",
    "claims": "every file parser has it: True when the head of a file is of its format",
    "row_fields": "parsers that are tables of rows have it: the fields that every row gives",
    "main": "what a console script or `python -m` runs",
    "near": "parsers.base.Window: the next lines of a log, whoever wrote them",
    "near_of": "parsers.base.Window: those of the next lines that one writer wrote",
    "before": "parsers.base.Window: the lines of the same writer before this one",
    "after": "parsers.base.Window: the lines of the same writer behind this one",
    "has_text": "parsers.base.Window: True when a text stands in the next bytes",
    "readinto": "io.RawIOBase",
    "close": "io.RawIOBase",
    "calls": "a table of Incident, and what makes it",
    "events": "a table of Incident, and what makes it",
    "ranks": "a table of Incident, and what makes it",
    "groups": "a table of Incident, and what makes it",
    "coverage": "a table of Incident, and what makes it",
    "to_json": "a document as JSON text",
    "verdict": "the first finding: of a diagnosis, of an incident, of a saved report",
}
"""Names that stand in many modules because they mean the same in each, with what they mean."""

MOST_HOMES = 2
"""Modules that may define a function of the same name, unless it is a protocol name."""

PREDICATE = re.compile(r"_?(is|has|can|needs|was|are)_")
OTHER_PREDICATES = {"claims", "eof", "readable"}
"""Functions that answer yes or no under another name: ``eof`` and ``readable`` are those of streams of the standard library."""

MOST_WORDS = 20
"""Words of the first sentence of a docstring."""

IDIOMS = (
    "what was read does not tell",
    "comes to",
    "leaves through",
    "who came to",
    "another than",
    "bears out",
)
"""Turns of phrase of which the meaning must be guessed. Texts for users are not looked at here."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Breach:
    """One place where a rule does not hold."""

    rule: str
    folder: str
    place: str
    what: str


@cache
def modules() -> dict[Path, ast.Module]:
    """Every product module, parsed; the links in ``nccldoctor/`` are not followed."""
    out = {}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            inside = path.relative_to(ROOT)
            if folder != "nccldoctor" or inside.parts[1] not in ("parsers", "reports", "samples"):
                out[path] = parsed(path)
    return out


def _breach(rule: str, path: Path, line: int, what: str) -> Breach:
    inside = path.relative_to(ROOT)
    folder = "/".join(inside.parts[: -1 if inside.parts[0] == "nccldoctor" else 1][:2])
    return Breach(rule, folder, f"{inside.as_posix()}:{line}", what)


@cache
def _classes() -> dict[str, tuple[set[str], set[str]]]:
    """Each class by name, with the names of its bases and of its methods."""
    return {
        node.name: (
            {base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "") for base in node.bases},
            {item.name for item in node.body if isinstance(item, Function)},
        )
        for tree in modules().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }


def _is_override(method: str, owner: str) -> bool:
    """True when a base class has the method: its name was chosen there. Bases outside are those of ``io``."""
    for base in _classes().get(owner, (set(), set()))[0]:
        if method in _classes().get(base, (set(), set()))[1] or hasattr(getattr(io, base, None), method):
            return True
        if base != owner and _is_override(method, base):
            return True
    return False


def _functions() -> Iterator[tuple[Path, Function]]:
    """Functions and methods that choose their name: none inside functions, no ``__dunder__``, no override."""
    for path, tree in modules().items():
        for top in tree.body:
            owner = top.name if isinstance(top, ast.ClassDef) else ""
            for node in top.body if isinstance(top, ast.ClassDef) else (top,):
                if isinstance(node, Function) and not node.name.startswith("__") and not _is_override(node.name, owner):
                    yield path, node


def homonyms() -> Iterator[Breach]:
    """Functions whose name is defined in three or more modules."""
    homes: dict[str, list[tuple[Path, int]]] = defaultdict(list)
    for path, node in _functions():
        if node.name not in PROTOCOL_NAMES:
            homes[node.name].append((path, node.lineno))
    for name, places in homes.items():
        if len({path for path, _ in places}) > MOST_HOMES:
            others = len({path for path, _ in places}) - 1
            yield from (_breach("homonym", path, line, f"{name}: also in {others} others") for path, line in places)


def predicates() -> Iterator[Breach]:
    """Functions that answer yes or no under a name that does not say so."""
    for path, node in _functions():
        answers = isinstance(node.returns, ast.Name) and node.returns.id == "bool"
        if answers and not PREDICATE.match(node.name) and node.name not in OTHER_PREDICATES:
            yield _breach("predicate", path, node.lineno, node.name)


def first_sentence(text: str) -> str:
    """The first sentence of a docstring: to its full stop, or to the end of the paragraph."""
    paragraph = " ".join(text.strip().split("\n\n")[0].split())
    return re.split(r"(?<=[^.])\.(?: (?=[A-Z`(])|$)", paragraph, maxsplit=1)[0]


def long_sentences() -> Iterator[Breach]:
    """Docstrings with a first sentence that nobody reads to its end."""
    for path, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | Function):
                words = first_sentence(ast.get_docstring(node) or "").split()
                if len(words) > MOST_WORDS:
                    line = getattr(node, "lineno", 1)
                    yield _breach("sentence", path, line, f"{len(words)} words: {' '.join(words[:8])} …")


def _own_words(path: Path, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Comments and free-standing strings, which are docstrings, each with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value
    for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def idioms() -> Iterator[Breach]:
    """Idioms in docstrings and comments."""
    for path, tree in modules().items():
        for line, text in _own_words(path, tree):
            flat = " ".join(text.lower().split())
            yield from (_breach("idiom", path, line, idiom) for idiom in IDIOMS if idiom in flat)


RULES = {"homonym": homonyms, "predicate": predicates, "sentence": long_sentences, "idiom": idioms}


@pytest.mark.parametrize("rule", RULES)
def test_no_rule_is_broken(rule: str) -> None:
    breaches = [f"{breach.place}  {breach.what}" for breach in RULES[rule]()]
    assert not breaches, "\n".join(breaches)


def test_names_of_protocols_are_in_use() -> None:
    known = {node.name for _, node in _functions()}
    assert set(PROTOCOL_NAMES) <= known


def test_a_first_sentence_ends_at_its_full_stop() -> None:
    assert first_sentence("True when rank 3 waits. An example.\nMore.") == "True when rank 3 waits"
    assert first_sentence("Reads nccl.h 2.19 and older\nones\n\nMore.") == "Reads nccl.h 2.19 and older ones"


def main() -> None:
    """Print a table of counts, or the breaches of the folders that were named."""
    every = [breach for rule in RULES.values() for breach in rule()]
    if len(sys.argv) > 1:
        for breach in every:
            if breach.place.startswith(tuple(sys.argv[1:])):
                print(f"{breach.rule:10s} {breach.place}  {breach.what}")
        return
    counts = Counter((breach.folder, breach.rule) for breach in every)
    print(f"{'':24s}", *(f"{kind:>10s}" for kind in RULES))
    for folder in sorted({folder for folder, _ in counts}):
        print(f"{folder:24s}", *(f"{counts[folder, kind]:10d}" for kind in RULES))
    print(f"{'all':24s}", *(f"{sum(counts[f, k] for f, k in counts if k == kind):10d}" for kind in RULES))
    names = len({breach.what.split(":")[0] for breach in every if breach.rule == "homonym"})
    print(f"{names} names are defined in more than {MOST_HOMES} modules")


if __name__ == "__main__":
    main()
