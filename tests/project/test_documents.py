"""Pages that are built from the catalogue, or that repeat a table of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from builders.remedies import fixtures_conditions
from click.testing import CliRunner
from markdown_it import MarkdownIt

from nccldoctor.cli.app import cli
from nccldoctor.events import (
    ExceptionRaised,
    GpuError,
    IbError,
    Note,
    OutOfMemory,
    Phase,
    ProcessExit,
    ProcessState,
    Progress,
    RasStatus,
    SchedulerEvent,
    SocketError,
)
from nccldoctor.model import SourceKind
from nccldoctor.prescribe.catalogue.load import load_catalogue
from nccldoctor.prescribe.catalogue.pages import pages
from nccldoctor.prescribe.restart import decide

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_no_page_of_a_remedy_is_kept() -> None:
    held = pages(load_catalogue())
    kept = [path for path in DOCS.rglob("*.md") if path.relative_to(path.parents[1]).as_posix() in held]
    assert not kept, "nccldoctor explain prints it"
    titles = {text.partition("\n")[0] for text in held.values()}
    assert not [path for path in DOCS.rglob("*.md") if path.read_text(encoding="utf-8").partition("\n")[0] in titles]


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


HEARD = at_work(Progress, rank=5, step=7)
PORT = kernel(IbError, rank=5, what="port")
OWN = (
    fixtures_conditions.stack(5, "refresh (/opt/train/train.py:121)"),
    fixtures_conditions.stack(0, "step (/opt/train/train.py:114)"),
)
ROWS = {
    "nothing wrong": (fixtures_conditions.finding("none", ranks=()), []),
    "a device reports errors": (fixtures_conditions.finding("hardware"), []),
    "a host's own port or link failed twice or more": (fixtures_conditions.finding("network"), [PORT, PORT]),
    "any finding whose host shows a device fault in the kernel log": (
        fixtures_conditions.finding("frozen"),
        [kernel(GpuError, xid=79)],
    ),
    "undetermined": (fixtures_conditions.finding("undetermined", ranks=()), []),
    "a GPU stopped answering, and nothing shows an error of the board": (
        fixtures_conditions.finding("hardware"),
        [kernel(GpuError, message="GPU Hang", weight="hang")],
    ),
    "a pod was evicted for what it used itself": (
        fixtures_conditions.finding("died"),
        [at_work(SchedulerEvent, what="evicted", detail="Container a was using 212Gi, request is 0")],
    ),
    "the scheduler preempted the job, lost its node, or its time ran out": (
        fixtures_conditions.finding("died"),
        [at_work(SchedulerEvent, what="preempted")],
    ),
    "a pod was evicted, and no line says why": (
        fixtures_conditions.finding("died"),
        [at_work(SchedulerEvent, what="evicted", detail="Evicted")],
    ),
    "a process died because memory ran out": (
        fixtures_conditions.finding("died"),
        [kernel(OutOfMemory, rank=5, scope="host")],
    ),
    "a process died or never joined, and disk, shared memory or file handles had run out": (
        fixtures_conditions.finding("died"),
        [at_work(Note, rank=5, what="shm-exhausted")],
    ),
    "somebody stopped the process": (
        fixtures_conditions.finding("died"),
        [at_work(ProcessExit, rank=5, signal="SIGINT", exitcode=-2)],
    ),
    "ranks make different calls, with low confidence": (
        fixtures_conditions.finding("size-mismatch", confidence="low"),
        [],
    ),
    "a hang that still stands, of which no stack or dump was taken": (
        fixtures_conditions.finding(),
        [HEARD, at_work(RasStatus)],
    ),
    "a rank is late in a function of its own, with low confidence": (
        fixtures_conditions.finding(confidence="low"),
        OWN,
    ),
    "a rank fell silent, and neither an exit code nor a stack was kept": (
        fixtures_conditions.finding("frozen", confidence="low"),
        [HEARD],
    ),
    "anything else with low confidence": (fixtures_conditions.finding("unfinished", ranks=(), confidence="low"), []),
    "the program failed on a remote service": (
        fixtures_conditions.finding("raised"),
        [at_work(ExceptionRaised, rank=5, type="ReadTimeoutError", origin="own")],
    ),
    "the program raised an exception of its own": (fixtures_conditions.finding("raised"), []),
    "ranks make different calls": (fixtures_conditions.finding("size-mismatch"), []),
    "a whole host died, and others are left": (fixtures_conditions.finding("died", ranks=(4, 5, 6, 7)), []),
    "a process was killed, and no kernel log was read": (
        fixtures_conditions.finding("died"),
        [at_work(ProcessExit, rank=5, signal="SIGKILL", exitcode=-9)],
    ),
    "a process was killed, and nothing shows why": (
        fixtures_conditions.finding("died"),
        [at_work(ProcessExit, rank=5, signal="SIGTERM", exitcode=-15)],
    ),
    "a process died of SIGBUS": (
        fixtures_conditions.finding("died"),
        [at_work(ProcessExit, rank=5, signal="SIGBUS", exitcode=-7)],
    ),
    "a process crashed in native code": (
        fixtures_conditions.finding("died"),
        [at_work(ProcessExit, rank=5, signal="SIGSEGV", exitcode=-11)],
    ),
    "a process exited by itself": (
        fixtures_conditions.finding("died"),
        [at_work(ProcessExit, rank=5, exitcode=1)],
    ),
    "a process died, and nothing shows how": (fixtures_conditions.finding("died"), []),
    "a process was stopped by a signal": (
        fixtures_conditions.finding("frozen"),
        [at_work(ProcessState, rank=5, state="stopped")],
    ),
    "a process froze on one of several hosts": (fixtures_conditions.finding("frozen"), []),
    "a process froze, and its host is unknown or the only one": (fixtures_conditions.finding("frozen", ranks=(9,)), []),
    "one GPU stopped while its process went on": (fixtures_conditions.finding("device-stalled"), []),
    "one GPU stopped, and its host is unknown": (fixtures_conditions.finding("device-stalled", ranks=(9,)), []),
    "a network connection could never be made": (
        fixtures_conditions.finding("network"),
        [at_work(IbError, rank=5, what="setup")],
    ),
    "one link error": (fixtures_conditions.finding("network"), [PORT]),
    "a rank never joined, busy in a function of its own": (fixtures_conditions.finding("init"), OWN),
    "a rank never joined, and an address wasn't reached": (
        fixtures_conditions.finding("init"),
        [at_work(SocketError, rank=0, peer="10.0.0.1")],
    ),
    "a rank never joined, and no log of it was read": (fixtures_conditions.finding("init"), []),
    "a rank never joined, for no known reason": (fixtures_conditions.finding("init"), [HEARD]),
    "all ranks entered and none finished": (fixtures_conditions.finding("unfinished", ranks=()), []),
    "a rank was late in work that takes longer than the timeout": (
        fixtures_conditions.finding("straggler"),
        [at_work(Phase, rank=5, what="checkpoint", detail="done: saved", seconds=700.0)],
    ),
    "a rank waits for a person": (fixtures_conditions.finding(), [at_work(Note, rank=5, what="debugger")]),
    "a rank was late in a line that no waiting rank is in": (fixtures_conditions.finding(), OWN),
    "a rank was late, and neither a log nor a stack of it was read": (fixtures_conditions.finding(), []),
    "a rank was late, its stack was read, and no line of its own is in it": (
        fixtures_conditions.finding(),
        [fixtures_conditions.stack(5, "_try_get_data (torch/utils/data/dataloader.py:1291)")],
    ),
    "a rank was late for no known reason": (fixtures_conditions.finding(), [HEARD]),
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
    has_kernel_log = any(event.place.source == 1 for event in events)
    case = fixtures_conditions.case(events, kinds=(SourceKind.LOG, SourceKind.KERNEL_LOG)[: 1 + has_kernel_log])
    action = decide((finding,), fixtures_conditions.survey(case))
    assert action.restart == restart_table()[row]
    assert bool(action.cordon) is (action.restart == "after-replacing-node")
