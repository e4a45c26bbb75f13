"""The documents say what happens. ``python tests/project/test_readme.py`` puts the present summary into the README."""

from __future__ import annotations

import re
import shlex
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from nccldoctor.cli import demo
from nccldoctor.cli.app import cli

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"(?<=```text\n).*?(?=```)", re.DOTALL)
LINES = 24
"""The README shows so many lines of the summary."""


def summary(folder: Path) -> str:
    demo.write(demo.DEFAULT, folder)
    printed = CliRunner().invoke(cli, ["analyze", str(folder)], env={"COLUMNS": "100"}).stdout.splitlines()
    return "".join(f"{line}\n" for line in [*printed[:LINES], "[…]"])


def test_the_summary_shown_is_the_summary_printed(tmp_path: Path) -> None:
    excerpt = BLOCK.search(README.read_text(encoding="utf-8"))
    assert excerpt is not None
    assert excerpt[0] == summary(tmp_path / "logs"), "run python tests/project/test_readme.py"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", document.read_text(encoding="utf-8")):
        assert (document.parent / target).exists(), f"{document.name} links to {target}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_paths_exist(document: Path) -> None:
    """A path in backticks that begins with a folder of the checkout; ``<…>`` and capitals stand for something."""
    folders = "nccldoctor|parsers|reports|sample_logs|tests|benchmarks|docs"
    for path in re.findall(rf"`((?:{folders})/[\w./-]*)`", document.read_text(encoding="utf-8")):
        assert re.search("[A-Z]", path) or (ROOT / path).exists(), f"{document.name} names {path}"


def test_the_action_calls_commands_as_they_are() -> None:
    action = (ROOT / ".github" / "actions" / "analyze" / "action.yml").read_text(encoding="utf-8")
    calls = re.findall(r"\bnccldoctor (analyze [^>|\n]*)", action)
    assert len(calls) == 2, "one prints the summary and writes the report, one the JSON document"
    for call in calls:
        name, *words = shlex.split(call)
        cli.commands[name].make_context(name, words)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        text = summary(Path(scratch) / "logs")
    README.write_text(BLOCK.sub(lambda _: text, README.read_text(encoding="utf-8"), count=1), encoding="utf-8")
