"""A parser is rows unless it needs code, and what rows name is there."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nccldoctor.events import KINDS
from nccldoctor.parsers import registry
from nccldoctor.parsers.rows import FUNCTIONS, RowParser

PARSERS = Path(__file__).resolve().parents[2] / "parsers"
FEWEST_LINES = 40
"""A parser of fewer lines is rows of a table."""

SMALL = {
    "inference/engines.py": "functions for the tables of two engines",
    "nccl/topics.py": "asked by parsers of three families",
}
"""Modules that are smaller, each with the reason."""

REGISTERS = {"reads", "finds", "for_rows"}


def registers(source: str) -> bool:
    """True of a module that registers a parser of lines, or a function of rows."""
    for node in ast.walk(ast.parse(source)):
        for decorator in getattr(node, "decorator_list", ()):
            name = decorator.func if isinstance(decorator, ast.Call) else decorator
            if isinstance(name, ast.Name) and name.id in REGISTERS:
                return True
    return False


def too_small(folder: Path) -> list[str]:
    """The modules of a folder of families that register something in fewer lines than a module is worth."""
    out = []
    for path in sorted(folder.glob("*/*.py")):
        source = path.read_text(encoding="utf-8")
        if registers(source) and len(source.splitlines()) < FEWEST_LINES:
            out.append(path.relative_to(folder).as_posix())
    return out


def test_a_parser_of_few_lines_is_rows() -> None:
    assert too_small(PARSERS) == sorted(SMALL), "make it rows, or move it to the module of its source of lines"
    assert all(SMALL.values())


def test_a_small_module_is_found(tmp_path: Path) -> None:
    family = tmp_path / "launchers"
    family.mkdir()
    short = '@finds(_END, "ended")\ndef ends(line, hit):\n    yield Note(what="end")\n'
    (family / "small.py").write_text(short)
    (family / "long.py").write_text(short + "\n" * FEWEST_LINES)
    (family / "words.py").write_text("WORDS = ()\n")
    assert too_small(tmp_path) == ["launchers/small.py"]


TABLES = sorted(PARSERS.glob("*/*_rows.toml"))


@pytest.mark.parametrize("path", TABLES, ids=[path.stem.removesuffix("_rows") for path in TABLES])
def test_what_a_table_names_is_there(path: Path) -> None:
    registry.load_parsers()
    for name, section in tomllib.loads(path.read_text(encoding="utf-8")).items():
        about = {"rows", "each", "around", "literals", *RowParser.__annotations__, "sampled", "general"}
        assert set(section) <= about, f"{name}: {set(section) - about}"
        for key in ("fields", "pieces", "told"):
            assert section.get(key, "nothing") in FUNCTIONS, f"{name}: {section[key]}"
        for row in section["rows"]:
            event = row.get("event", section.get("each", {}).get("event", section.get("event", "note")))
            own = set(row) - OF_ROWS
            known = {*KINDS[event].__struct_fields__}
            assert own <= known, f"{name}: {event} has no {own - known}"
            assert set(row.get("choose", ())) <= known, f"{name}: {row['choose']}"
            assert row.get("make", "nothing") in FUNCTIONS, f"{name}: {row['make']}"
            for reader, group in placeholders([row, section.get("each", {})]):
                assert not reader or reader in FUNCTIONS, f"{name}: {reader}"
                assert group in groups([row, section]), f"{name}: no pattern has a group {group}"


OF_ROWS = {"literal", "pattern", "event", "also", "near", "choose", "make", "without"}
"""What a row has besides values of its event."""


def unused_of_each(section: dict[str, Any]) -> set[str]:
    """What a section gives to each of its rows, and no event of them has."""
    each: dict[str, Any] = section.get("each", {})
    kinds = {row.get("event", each.get("event", section.get("event", "note"))) for row in section["rows"]}
    known = {name for kind in kinds for name in KINDS[kind].__struct_fields__}
    return ({*each, *each.get("choose", ())} - OF_ROWS) - known


@pytest.mark.parametrize("path", TABLES, ids=[path.stem.removesuffix("_rows") for path in TABLES])
def test_what_each_row_of_a_section_has_is_a_field_of_an_event(path: Path) -> None:
    unused = {name: unused_of_each(about) for name, about in tomllib.loads(path.read_text(encoding="utf-8")).items()}
    assert not [(name, lost) for name, lost in unused.items() if lost]


def test_a_wrong_name_in_each_is_found() -> None:
    section = {"event": "note", "each": {"what": "x", "detial": "{match}"}, "rows": [{"event": "store-error"}, {}]}
    assert unused_of_each(section) == {"detial"}


def unread_groups(section: dict[str, Any], code: str) -> set[str]:
    """Groups of a section that no field, text, line near them or function in this code has a use for."""
    each, around = section.get("each", {}), section.get("around", {})
    out, of_lines_near, read_by_rows = set(), set(), set()
    for row in section["rows"]:
        about = each | row
        near = around[about["near"]] if isinstance(about.get("near"), str) else about.get("near", [])
        nears = [near] if isinstance(near, dict) else near
        read = {*KINDS[about.get("event", section.get("event", "note"))].__struct_fields__}
        read |= {group for _, group in placeholders(about)}
        read |= {cases["by"] for cases in about.get("choose", {}).values()}
        read |= {name for one in nears for name in (*one.get("until", ()), one.get("beside", ""))}
        read |= {
            name for name in groups(about) if re.search(rf"[\"']{name}[\"']", code) or f"(?P={name})" in str(about)
        }
        out |= groups([about.get("pattern"), about.get("also")]) - read
        of_lines_near |= groups(nears)
        read_by_rows |= read
    return (out | (of_lines_near - read_by_rows)) - {"match", "rest", "line"}


@pytest.mark.parametrize("path", TABLES, ids=[path.stem.removesuffix("_rows") for path in TABLES])
def test_every_group_of_a_table_is_read(path: Path) -> None:
    code = "".join(module.read_text(encoding="utf-8") for module in path.parent.glob("*.py"))
    unread = {
        name: unread_groups(about, code) for name, about in tomllib.loads(path.read_text(encoding="utf-8")).items()
    }
    assert not [(name, lost) for name, lost in unread.items() if lost]


def test_a_group_that_nobody_reads_is_found() -> None:
    row = {"pattern": r"(?P<peer>a)(?P<said>b)(?P<lost>c)(?P<asked>d)", "message": "{said}"}
    assert unread_groups({"event": "socket-error", "rows": [row]}, 'hit["asked"]') == {"lost"}


def placeholders(value: Any) -> Iterator[tuple[str, str]]:
    """Function and group of each placeholder in the texts of a table, its patterns apart."""
    if isinstance(value, dict):
        for key, part in value.items():
            if key not in ("pattern", "patterns", "also", "literal", "near"):
                yield from placeholders(part)
    elif isinstance(value, list):
        for part in value:
            yield from placeholders(part)
    elif isinstance(value, str):
        for hit in re.finditer(r"\{([a-z_]+)(?::(\w+))?(?:\|[^{}]*)?\}", value):
            yield hit[2] or "", hit[1]


def groups(value: Any) -> set[str]:
    """The groups of all patterns in a part of a table, and those that every row has."""
    return {"match", "rest", "line", *re.findall(r"\(\?P<(\w+)>", str(value))}


def test_every_function_of_rows_is_used() -> None:
    registry.load_parsers()
    text = "".join(path.read_text(encoding="utf-8") for path in TABLES)
    named = set(re.findall(r"(?:make|fields|pieces|told) = '(\w+)'|:(\w+)[|}]", text))
    used = {name for pair in named for name in pair if name}
    code = "".join(path.read_text(encoding="utf-8") for path in PARSERS.glob("**/*.py"))
    assert not [name for name in FUNCTIONS if name not in used and f'"{name}"' not in code]
