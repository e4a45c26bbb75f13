"""Every parser reads a whole file as its program writes it: the head, noise, several records, then the one that matters.

A parser may read every line of its wordings and no file: what a file is, and which lines belong together, is decided before. So
``nccldoctor`` itself reads each file here. ``expected.toml`` says of each which parser gives which events (their line, and whatever
fields are named, as ``inspect`` prints them), what ``analyze`` says, how it exits, and which gaps are told.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from nccldoctor.cli.app import cli
from nccldoctor.parsers import registry
from nccldoctor.parsers.base import FileParser, LineParser, Parsed

FOLDER = Path(__file__).parent
EXPECTED: dict[str, dict[str, Any]] = tomllib.loads((FOLDER / "expected.toml").read_text(encoding="utf-8"))

Told = tuple[str, str, int | None]
"""A parser, the kind of an event that it gave, and the line."""


def name_of(parser: LineParser | FileParser) -> str:
    """``nccl.sockets/socket``: the module and the class, which is the section of a table."""
    return f"{type(parser).__module__.partition('.parsers.')[2]}/{type(parser).__name__}"


def names() -> set[str]:
    own = [name_of(parser) for parser in (*registry.line_parsers(), *registry.file_parsers())]
    return {name for name in own if not name.startswith("/")}  # those of installed packages have tests of their own


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> set[Told]:
    """What parsers tell while the test runs."""
    heard: set[Told] = set()

    def listening(parse: Callable[..., Any], name: str) -> Callable[..., Any]:
        def parse_and_note(*args: Any) -> Any:
            found = parse(*args)
            events = found.events if isinstance(found, Parsed) else (found := list(found))
            heard.update((name, event.kind, event.place.line or None) for event in events)
            return found

        return parse_and_note

    for parser in (*registry.line_parsers(), *registry.file_parsers()):
        monkeypatch.setattr(type(parser), "parse", staticmethod(listening(parser.parse, name_of(parser))))
    return heard


def run(*args: str) -> Result:
    return CliRunner().invoke(cli, args, prog_name="nccldoctor")


def line_of(event: dict[str, Any]) -> int | None:
    """The line that the place of an event names: 12 in ``run.log:12``."""
    line = str(event["where"]).rpartition(":")[2]
    return int(line) if line.isdigit() else None


def missing_in(events: list[dict[str, Any]], told: set[Told], reads: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """What should have been read and was not, or not so."""
    for fact in reads:
        fields = {name: value for name, value in fact.items() if name not in ("by", "line")}
        hits = (event for event in events if line_of(event) == fact.get("line") and fields.items() <= event.items())
        if next(hits, None) is None or (fact["by"], fact["kind"], fact.get("line")) not in told:
            yield fact


@pytest.mark.parametrize("name", EXPECTED)
def test_the_file_is_read(name: str, told: set[Told]) -> None:
    wanted, path = EXPECTED[name], str(FOLDER / name)
    document = json.loads(run("inspect", path, "--format", "json").stdout)
    assert not list(missing_in(document["events"], told, wanted["reads"])), [
        e for e in document["events"] if e["kind"] != "note"
    ]
    assert [gap["why"] for gap in document["gaps"]] == wanted.get("gaps", [])
    answer = run("analyze", path)
    said = " ".join(f"{answer.output} {run('analyze', path, '-v').stdout}".split())
    assert not [words for words in wanted["says"] if words not in said], said
    assert answer.exit_code == wanted["exit"], said


def test_every_parser_has_a_file_and_no_file_names_another() -> None:
    read = {fact["by"] for wanted in EXPECTED.values() for fact in wanted["reads"]}
    assert read == names(), f"without a file: {names() - read}; unknown: {read - names()}"


def test_every_file_is_expected() -> None:
    files = {path.relative_to(FOLDER).as_posix() for path in FOLDER.glob("*/*") if path.parent.name != "__pycache__"}
    assert files == set(EXPECTED)
