"""The sentences of a diagnosis and the code that says them fit: every key and every place to fill in, and the form of each kind."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from project.parsed import parsed

from nccldoctor.diagnose.phrases.say import Choice, Field, Text, compiled

DIAGNOSE = Path(__file__).resolve().parents[2] / "nccldoctor" / "diagnose"
GROUPS = {"headlines", "parts", "claims", "doubts"}
PARTS = {"who", "be", "did", "detail", "brief", "hedge", "basis"}
SAY = {"say", "headline_of", "doubt_of"}
LEVEL = re.compile(r"(?:high|medium|low|cannot-tell|[\[\]|]|\{\?\w+\})+")


@cache
def rows() -> dict[str, tuple[str, dict[str, str]]]:
    """Every row by its key: its group, and its texts by part; a row of one text has the part ""."""
    found: dict[str, tuple[str, dict[str, str]]] = {}
    for path in sorted((DIAGNOSE / "phrases").glob("*.toml")):
        for group, names in tomllib.loads(path.read_text(encoding="utf-8")).items():
            for name, row in names.items():
                assert f"{path.stem}.{name}" not in found, f"{path.stem}.{name} stands in two groups"
                parts = {"": row} if isinstance(row, str) else {"who": "{who}", **row} if isinstance(row, dict) else {}
                if isinstance(row, list):
                    parts = dict(zip(("ranks", "cause", ""), row, strict=True))
                found[f"{path.stem}.{name}"] = "doubts" if path.stem == "doubts" else group, parts
    return found


def _fields(text: Text, *, inside: bool = False) -> Iterator[tuple[str, bool]]:
    """The values that a text names, and whether each is inside brackets, where it may be missing."""
    for part in text:
        if isinstance(part, Field):
            yield part.name, inside
        elif isinstance(part, Choice):
            for choice in part.texts:
                yield from _fields(choice, inside=True)


def _values(key: str) -> tuple[set[str], set[str]]:
    """The values that a row needs, and all that it names."""
    named = [field for text in rows()[key][1].values() for field in _fields(compiled(text))]
    return {name for name, inside in named if not inside}, {name for name, _ in named}


def _keys_in(node: ast.AST) -> set[str]:
    """The keys that stand in a piece of code: every string that names a row of a file."""
    books = {key.partition(".")[0] for key in rows()}
    texts = {n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    sentences = {text for text in texts if re.fullmatch(r"\w+\.[a-z0-9-]+", text) and text.partition(".")[0] in books}
    return sentences | {f"doubts.{text}" for text in texts if f"doubts.{text}" in rows()}


@cache
def _modules() -> dict[Path, ast.Module]:
    return {path: parsed(path) for path in sorted(DIAGNOSE.rglob("*.py"))}


def _calls(node: ast.AST, around: ast.AST) -> Iterator[tuple[ast.Call, ast.AST]]:
    """Each place that says a sentence, with the function around it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call) and isinstance(child.func, ast.Name) and child.func.id in SAY:
            yield child, around
        yield from _calls(child, child if isinstance(child, ast.FunctionDef) else around)


def _keys_of(call: ast.Call, function: ast.AST, module: ast.Module) -> set[str]:
    """The keys that a call may say: those it names, or those that its variables may hold."""
    before = (n for n in ast.walk(function) if isinstance(n, ast.Assign) and n.lineno < call.lineno)
    local = sorted(before, key=lambda node: node.lineno)
    found, said = set(), [call.args[0]]
    if isinstance(call.args[0], ast.Name):
        said = [node.value for node in local if call.args[0].id in _names(*node.targets)][-1:]
    for node in said:
        constants = [n.value for n in module.body if isinstance(n, ast.Assign) and _names(*n.targets) & _names(node)]
        found |= set().union(*map(_keys_in, (node, *constants)))
    if not said and isinstance(function, ast.FunctionDef):  # the key is an argument: what callers hand over
        for other in (node for tree in _modules().values() for node in ast.walk(tree)):
            if isinstance(other, ast.Call) and ast.unparse(other.func).rpartition(".")[2] == function.name:
                found |= set().union(*map(_keys_in, other.args))
    return found


def _names(*nodes: ast.AST) -> set[str]:
    return {name.id for node in nodes for name in ast.walk(node) if isinstance(name, ast.Name)}


def test_each_call_names_rows_and_gives_their_values() -> None:
    wrong = []
    for path, module in _modules().items():
        if path.name == "say.py":
            continue
        for call, function in _calls(module, module):
            place = f"{path.relative_to(DIAGNOSE)}:{call.lineno}"
            keys, given = _keys_of(call, function, module), {str(keyword.arg) for keyword in call.keywords}
            wrong += [f"{place} says nothing that is written"] if not keys or len(call.args) != 1 else []
            wrong += [f"{place}: no row {key}" for key in sorted(keys - set(rows()))]
            known = keys & set(rows())
            wrong += [f"{place}: {key} needs {name}" for key in known for name in sorted(_values(key)[0] - given)]
            named: set[str] = set().union(*(_values(key)[1] for key in known))
            wrong += [f"{place}: no row names {name}" for name in sorted(given - named) if known]
            for key in known:
                is_table = "" not in rows()[key][1] or (rows()[key][0] == "doubts") != (
                    ast.unparse(call.func) == "doubt_of"
                )
                if ast.unparse(call.func) != "headline_of" and is_table:
                    wrong.append(f"{place}: {key} is of another kind")
                if ast.unparse(call.func) == "headline_of" and rows()[key][0] != "headlines":
                    wrong.append(f"{place}: {key} is no headline")
    assert not wrong, "\n".join(wrong)


def test_each_row_is_said_somewhere() -> None:
    used = set().union(*map(_keys_in, _modules().values()))
    assert sorted(set(rows()) - used) == []
    assert sorted(used - set(rows())) == []


@pytest.mark.parametrize("key", sorted(rows()))
def test_a_row_has_the_form_of_its_kind(key: str) -> None:
    group, parts = rows()[key]
    assert set(parts) <= {""} or (group == "headlines" and set(parts) <= PARTS) or group == "doubts"
    for text in parts.values():
        compiled(text)
    assert all(LEVEL.fullmatch(parts[level]) for level in ("ranks", "cause") if level in parts)
    text = parts.get("", "")
    if key.startswith("refuted."):
        assert not text.endswith(".") and not text[0].isupper(), "it completes *We'd be wrong if …*"
        return
    assert group in GROUPS
    if group in ("claims", "doubts"):
        assert re.match(r"[A-Z{\[]", text) and re.search(r"\.$|\.\]$|\. \{\w+\}$", text), (
            "a full sentence with a full stop"
        )
    if group == "headlines" and text:
        assert re.search(r"\.$|\.\]$|\.\[ \{\w+\}\]$", text), "a full sentence with a full stop"
