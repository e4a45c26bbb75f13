"""The terminal in brief: what to know and to do in a dozen lines; the proof is behind -v."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders.diagnoses import fixtures_diagnoses
from click.testing import CliRunner
from msgspec.structs import replace

from nccldoctor.cli.app import cli
from nccldoctor.model import Place
from nccldoctor.model.findings import OnlyHere
from nccldoctor.model.ranks import Ranks
from nccldoctor.reports import text, ticket
from nccldoctor.reports.dialects import DIALECTS
from nccldoctor.reports.parts.quoted_proof import ProofLine

LINE = (
    "[rank3]:[E1120 11:32:50 ProcessGroupNCCL.cpp:632] [Rank 3] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=18, OpType=ALLREDUCE)"
)


def brief(diagnosis, width=100):
    return text.plain(diagnosis, width=width, ascii_only=False, blocks=text.BRIEF)


@pytest.mark.parametrize("make", [*fixtures_diagnoses.EVERY, lambda: fixtures_diagnoses.large(1024)])
@pytest.mark.parametrize("width", [60, 100, 200])
def test_the_brief_summary_fits_a_terminal_and_says_where_the_rest_is(make, width) -> None:
    rows = brief(make(), width).splitlines()
    assert max(len(row) for row in rows if not row.lstrip().startswith("$")) <= width
    assert len(rows) <= (14 if width >= 100 else 24)
    assert rows[-1].startswith("nccldoctor -v prints ")


def test_it_says_who_since_when_how_many_how_sure_and_what_to_do() -> None:
    rows = " ".join(brief(fixtures_diagnoses.lagging()).split())
    assert rows.startswith("error[not-arrived]: Rank 5 (gpu-a018, GPU 1) never entered ALLREDUCE #18723")
    assert "rank 5 on gpu-a018, pid 48213, GPU 1 · since 2026-11-11 03:25:02 UTC for 10 min 02 s" in rows
    assert "7 of 8 ranks blocked" in rows and "confidence high, 3 sources" in rows
    assert "$ ssh gpu-a018 " in rows and rows.index("help: 1. ") < rows.index("$ ssh gpu-a018 ")


def test_proof_ranks_and_reasons_are_behind_the_option_alone() -> None:
    made = fixtures_diagnoses.lagging()
    whole = text.plain(made, width=100, ascii_only=False)
    for part in ("\nA: ", "\nranks ", "  = job: "):
        assert part in whole and part not in brief(made)


def test_a_second_hang_is_never_hidden() -> None:
    assert "also F2: " in brief(fixtures_diagnoses.two_stalls())


def test_what_the_culprit_alone_printed_is_told_once() -> None:
    made = fixtures_diagnoses.lagging()
    lone = OnlyHere(5, Place(0, "rank_5.log", 4), "step 4 loss=nan", "nan", (), Ranks([0, 5]))
    told = brief(replace(made, findings=(replace(made.verdict, only_here=(lone,)), *made.findings[1:])))
    assert told.count('Of 2 ranks, only rank 5 printed "step 4 loss=nan".') == 1


@pytest.mark.parametrize("room", [50, 70, 90])
def test_a_cropped_line_keeps_its_rank_and_the_longest_value_that_is_marked(room: int) -> None:
    marks = tuple((at := LINE.index(value), at + len(value)) for value in ("SeqNum=18", "ALLREDUCE"))
    shown = ProofLine("7", LINE, marks).cropped(room)
    assert len(shown.text) <= room
    assert shown.text.startswith("[rank3]…") and "SeqNum=18" in shown.text
    assert shown.text[slice(*shown.marks[0])] == "SeqNum=18"
    assert ProofLine("7", LINE, marks).cropped(400).text == LINE


def test_where_nothing_is_readable_there_is_an_error_and_no_verdict(tmp_path: Path) -> None:
    (tmp_path / "hostname").write_text("gpu-a07\n")
    result = CliRunner().invoke(cli, ["analyze", str(tmp_path / "hostname")])
    assert result.exit_code == 2
    assert result.stdout == "" and result.stderr.startswith("error: ")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_ticket_ends_with_the_version_the_report_and_the_command(dialect: str) -> None:
    for made in (fixtures_diagnoses.lagging(), fixtures_diagnoses.large(1024), fixtures_diagnoses.hostile()):
        told = ticket.in_dialect(made, DIALECTS[dialect])
        assert len(told) <= ticket.LIMIT
        last = told.splitlines()[-1]
        assert last.startswith("nccldoctor ") and " · report.html attached · reproduce: " in last
        assert "nccldoctor analyze " in last and last.rstrip("`}").endswith("-o report.html")


def test_a_ticket_quotes_whole_lines() -> None:
    for made in (fixtures_diagnoses.lagging(), fixtures_diagnoses.two_stalls()):
        assert "…" not in ticket.in_dialect(made, DIALECTS["slack"])
