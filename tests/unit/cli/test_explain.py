"""What ``explain`` says of what people type, and what ``catalogue search`` finds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nccldoctor.cli.explain import UnknownNameError, answers, explanation, remedy
from nccldoctor.model import CauseClass
from nccldoctor.prescribe.catalogue.load import load_catalogue
from nccldoctor.prescribe.catalogue.pages import condition_sentence
from nccldoctor.prescribe.catalogue.remedy import BLOCKS
from nccldoctor.reports.terminal.document import unmarked

DOCS = Path(__file__).resolve().parents[3] / "docs"


@pytest.mark.parametrize(
    ("typed", "title"),
    [
        ("not-arrived", "not-arrived"),
        ("Not Arrived", "not-arrived"),
        ("high", "high"),
        ("ALLREDUCE", "ALLREDUCE"),
        ("all_reduce", "ALLREDUCE"),
        ("79", "Xid 79"),
        ("xid-79", "Xid 79"),
        ("Xid 31", "Xid 31"),
        ("-11", "SIGSEGV"),
        ("exit code 137", "SIGKILL"),
        ("watchdog timeout", "Watchdog caught collective operation timeout"),
        ("[rank1]:[E] [PG 0 Rank 1] Watchdog caught collective operation timeout: WorkNCCL(", "Watchdog caught"),
        ("NET/IB: Got completion from peer 10.0.0.3<41234> with status=12 opcode=0", "NET/IB: Got completion"),
        ("NCCL_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"),
        ("nccl_timeout", "NCCL_TIMEOUT"),
        ("dataloader-stall", "Data loader stall"),
        ("NVRM: Xid (PCI:0000:18:00): 79, pid=1, GPU has fallen off the bus.", "As a line of a log: GPU 0000:18:00"),
        ("GPU has fallen off the bus", "hardware"),
        ("watchdog got stuck for 480 seconds", "As a line of a log: heartbeat monitor"),
        ("NCCL communicator was aborted on rank 3", "As a line of a log: aborted its communicator"),
        ("tokenizers fork", "Remedies that mention tokenizers fork"),
    ],
)
def test_what_people_type_is_explained(typed: str, title: str) -> None:
    assert explanation(typed).startswith(f"# {title}")


def test_a_number_of_two_meanings_has_both() -> None:
    assert re.findall("^# (.*)", explanation("137"), re.MULTILINE) == ["SIGKILL", "Xid 137"]


def test_the_weight_of_an_xid_decides_what_to_do() -> None:
    assert "Drain the host" in explanation("79")
    assert "nccldoctor explain gpu-fell-off-bus" in explanation("79")
    assert "Drain the host" not in explanation("31")


def test_a_line_that_no_answer_holds_is_analysed() -> None:
    told = explanation("[rank3]: RuntimeError: CUDA error: an illegal memory access was encountered")
    assert "Rank 3" in told
    assert "nccldoctor explain illegal-access" in told


@pytest.mark.parametrize("typed", ["straggeler", "NCLL_SOCKET_IFNAME", "foo", "", "12345678901234567890"])
def test_what_nothing_knows_is_said_with_what_is_near(typed: str) -> None:
    with pytest.raises(UnknownNameError, match="nothing is known") as raised:
        explanation(typed)
    near = {"straggeler": "did you mean straggler", "NCLL_SOCKET_IFNAME": "did you mean NCCL_SOCKET_IFNAME"}
    assert raised.value.hint.startswith(near.get(typed, "give a whole line"))


def test_each_answer_names_remedies_and_pages_that_exist() -> None:
    known = {entry.remedy.id for entry in load_catalogue().entries}
    named = [name for answer in answers().values() for name in answer.read]
    assert [name for name in named if name not in known and not (DOCS / name).is_file()] == []
    pages = {name.removeprefix("symptoms/") for name in named if name.startswith("symptoms/")}
    assert pages == {path.name for path in (DOCS / "symptoms").glob("*.md")} - {"index.md"}


def test_each_class_has_an_answer() -> None:
    assert set(CauseClass) <= set(answers())
    assert "## What else it could be\n\n- `frozen`: Check" in explanation("not-arrived")


def test_stars_of_a_command_are_no_marks() -> None:
    page = "# A\n\nRun `grep . /sys/*/ports/*/x`, **not** `*`, and *then* wait\\*."
    assert unmarked(page) == "A\n\nRun grep . /sys/*/ports/*/x, not *, and then wait*."


def test_a_search_finds_words_of_the_steps() -> None:
    assert "left-in-debugger" in [entry.remedy.id for entry in load_catalogue().search("pdb")]


def test_a_condition_reads_like_the_question_that_a_report_shows() -> None:
    page = remedy("dataloader-stall")
    assert "- The rank at fault waits for the data loader or reads data." in page
    assert "(only if the input holds no stacks of the rank at fault)" in page
    assert "Offered when" not in explanation("dataloader-stall")


def test_conditions_are_told_without_the_syntax_of_the_catalogue() -> None:
    remedies = [entry.remedy for entry in load_catalogue().entries]
    clauses = {str(clause): clause for remedy in remedies for block in BLOCKS for clause in remedy.clauses(block)}
    sentences = [condition_sentence(clause) for clause in clauses.values()]
    assert not [text for text in sentences if re.search(r"None|\bof rank_|such a|_=|, ,|to ,", text)]
