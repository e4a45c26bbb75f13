"""Pages that are built from the catalogue, or that repeat a table of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from builders import fixtures_conditions
from click.testing import CliRunner
from markdown_it import MarkdownIt

from nccldoctor.cli.app import cli
from nccldoctor.events import GpuError, IbError, OutOfMemory, SchedulerEvent
from nccldoctor.model import SourceKind
from nccldoctor.prescribe.catalogue.load import load_catalogue
from nccldoctor.prescribe.catalogue.pages import pages
from nccldoctor.prescribe.conditions import survey_case
from nccldoctor.prescribe.restart import decide

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_no_page_of_a_remedy_is_kept() -> None:
    ids = {entry.remedy.id for entry in load_catalogue().entries}
    assert not [path for path in DOCS.rglob("*.md") if path.stem in ids]


def test_every_remedy_has_a_page_that_the_index_links() -> None:
    held = pages(load_catalogue())
    for entry in load_catalogue().entries:
        name = f"{entry.topic}/{entry.remedy.id}.md"
        assert f"({name})" in held["README.md"]
        assert held[name].startswith(f"# {entry.remedy.title}\n")


def test_nothing_in_a_page_is_taken_for_html() -> None:
    reader = MarkdownIt("commonmark")
    for name, text in pages(load_catalogue()).items():
        for token in reader.parse(text):
            kinds = {token.type, *(child.type for child in token.children or ())}
            assert not kinds & {"html_inline", "html_block"}, f"{name}: {token.content}"


def test_pages_are_built_on_demand(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("mine")
    for _ in range(2):
        result = CliRunner().invoke(cli, ["catalogue", "pages", str(tmp_path)])
        assert result.exit_code == 0, result.output
    assert len(list(tmp_path.rglob("*.md"))) == len(pages(load_catalogue())) + 1


def test_an_index_of_something_else_is_kept(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    result = CliRunner().invoke(cli, ["catalogue", "pages", str(tmp_path)])
    assert result.exit_code == 2
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]


def kernel(cls, text="a line", **fields):
    return cls(place=fixtures_conditions.at("dmesg", 4, 1), text=text, host="node1", **fields)


def at_work(cls, **fields):
    return cls(place=fixtures_conditions.at("train.log", 8), text="a line", **fields)


PORT = kernel(IbError, rank=5, what="port")
ROWS = {
    "nothing wrong": (fixtures_conditions.finding("none", ranks=()), []),
    "undetermined, or low confidence": (fixtures_conditions.finding(confidence="low"), []),
    "a GPU stopped answering, and nothing shows an error of the board": (
        fixtures_conditions.finding("hardware"),
        [kernel(GpuError, message="GPU Hang", weight="hang")],
    ),
    "a device reports errors": (fixtures_conditions.finding("hardware"), []),
    "a host's own port or link failed twice or more": (fixtures_conditions.finding("network"), [PORT, PORT]),
    "any finding whose host shows a device fault in the kernel log": (
        fixtures_conditions.finding("frozen"),
        [kernel(GpuError, xid=79)],
    ),
    "a pod was evicted for what it used itself": (
        fixtures_conditions.finding("died"),
        [at_work(SchedulerEvent, what="evicted", detail="Container a was using 212Gi, request is 0")],
    ),
    "a process died, and the scheduler had preempted it or lost its node": (
        fixtures_conditions.finding("died"),
        [at_work(SchedulerEvent, what="preempted")],
    ),
    "a process was killed because memory ran out": (
        fixtures_conditions.finding("died"),
        [kernel(OutOfMemory, rank=5, scope="host")],
    ),
    "the program raised an exception of its own": (fixtures_conditions.finding("raised"), []),
    "ranks issue different calls": (fixtures_conditions.finding("size-mismatch"), []),
    "everything else (late, frozen, one GPU stopped, one link error, did not come up)": (
        fixtures_conditions.finding(),
        [],
    ),
}


def restart_table() -> dict[str, str]:
    """The rows of the table in docs/restart.md: the finding, and the advice."""
    text = (DOCS / "restart.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    return {row[0]: re.sub(r"[`*]", "", row[1]) for row in rows[2:]}


def test_the_restart_table_has_a_case_for_each_row() -> None:
    assert list(restart_table()) == list(ROWS)


@pytest.mark.parametrize("row", ROWS)
def test_the_restart_table_says_what_is_decided(row: str) -> None:
    finding, events = ROWS[row]
    case = fixtures_conditions.case(events, kinds=(SourceKind.LOG, SourceKind.KERNEL_LOG))
    action = decide((finding,), survey_case(case))
    assert action.restart == restart_table()[row]
    assert bool(action.cordon) is (action.restart == "after-replacing-node")


@pytest.mark.parametrize("cause", ["straggler", "frozen", "device-stalled", "network", "init", "unfinished", "died"])
def test_everything_else_is_unknown(cause: str) -> None:
    assert decide((fixtures_conditions.finding(cause),), survey_case(fixtures_conditions.case())).restart == "unknown"
