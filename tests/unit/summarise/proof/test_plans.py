"""Which records prove each class: the bundled incidents show all three parts of the argument, or name the one that is missing."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from builders.jobs.verdicts import gave_up, play, read, step_line, taken_down, torchrun

import nccldoctor
from nccldoctor.cli import demo
from nccldoctor.model import Diagnosis, EventRole, Family
from nccldoctor.model.exhibits import Exhibit, Part
from nccldoctor.model.ranks import Ranks
from nccldoctor.words import names

SAMPLES = [sample.name for sample in demo.samples()]
UNSHOWN = {
    "comm-dumps": {Part.CONDITION},
    "hardware": {Part.CULPRIT},
    "init": {Part.CONDITION},
    "raised": {Part.CULPRIT},
    "ras-queries": {Part.CONDITION},
    "two-rank-loader": {Part.CULPRIT},
}
"""Bundled incidents that hold no record of a part: NCCL's counters alone, a dmesg without a log of its rank, one step on all ranks."""


@cache
def proved(name: str, folder: Path) -> Diagnosis:
    demo.write(name, folder / name)
    return nccldoctor.analyze(folder / name).diagnosis


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("proof")


@pytest.mark.parametrize("name", SAMPLES)
def test_the_three_parts_are_shown_or_named(name: str, folder: Path) -> None:
    diagnosis = proved(name, folder)
    if diagnosis.verdict.family in (Family.NONE, Family.UNDETERMINED):
        return
    shown = {part for exhibit in diagnosis.proof for part in exhibit.parts}

    assert shown == {*Part} - UNSHOWN.get(name, set())
    assert {one.part for one in diagnosis.unshown} == UNSHOWN.get(name, set())
    assert all(one.says.endswith(".") for one in diagnosis.unshown)


def about(exhibit: Exhibit) -> set[int]:
    """The ranks that an exhibit is about: those of its table that are marked, else the first that its claim names."""
    if exhibit.order is not None:
        return {exhibit.order.left, exhibit.order.right}
    if exhibit.calls is not None:
        return {side.rank for side in exhibit.calls.sides}
    if exhibit.counts is not None:
        return {rank for row in exhibit.counts.rows for rank in row.ranks}
    named = re.search(r"\b[Rr]anks? ([\d, -]*\d)", exhibit.claim)
    return set(Ranks.parse(named[1])) if named else set()


@pytest.mark.parametrize("name", SAMPLES)
def test_how_the_culprit_was_is_shown_by_a_record_about_it(name: str, folder: Path) -> None:
    diagnosis = proved(name, folder)
    blamed = diagnosis.verdict.ranks or diagnosis.verdict.suspects
    hosts = {row.host for row in diagnosis.ranks if row.rank in blamed}
    for exhibit in diagnosis.proof:
        if {Part.CULPRIT, Part.CONDITION} & {*exhibit.parts}:
            is_of_host = any(host and host in exhibit.claim for host in hosts)
            is_report = Part.PEER in exhibit.parts and Part.CULPRIT in exhibit.parts
            assert about(exhibit) & blamed or is_of_host or is_report, exhibit.claim


@pytest.mark.parametrize("name", SAMPLES)
def test_the_tear_down_proves_nothing_unless_a_rule_cites_it(name: str, folder: Path) -> None:
    diagnosis = proved(name, folder)
    closing = {event.where for event in diagnosis.story if event.role is EventRole.TEAR_DOWN}
    for exhibit in diagnosis.proof:
        assert exhibit.evidence or not closing & {*exhibit.places}, exhibit.claim


def test_the_kill_of_a_frozen_rank_shows_that_it_had_not_exited() -> None:
    waiting = {f"logs/rank_{r}.log": gave_up(r, 50) + taken_down(r, 50) for r in range(3)}
    ruling = read(
        waiting
        | {
            "logs/rank_3.log": step_line(3, 48, "09:59:59"),
            "logs/launcher.log": torchrun(0, -6, {1: -6, 2: -6, 3: -9}),
        }
    )
    shown = [exhibit["claim"] for exhibit in ruling.document["proof"] if "condition" in exhibit["shows"]]

    assert (ruling.cause, ruling.ranks) == ("frozen", "3")
    assert shown == ["Rank 3 was still running when its launcher killed it with SIGKILL."]


@pytest.mark.parametrize(("own_step", "is_shown"), [(48, True), (49, False)])
def test_a_step_that_all_ranks_reported_shows_nothing_of_one(own_step: int, is_shown: bool) -> None:
    waiting = {f"logs/rank_{r}.log": step_line(r, 49, "09:59:59") + gave_up(r, 50) for r in range(3)}
    ruling = read(waiting | {"logs/rank_3.log": step_line(3, own_step, "09:59:59")})
    claims = [exhibit["claim"] for exhibit in ruling.document["proof"]]

    assert ruling.ranks == "3"
    assert ("Rank 3 last reported step 48." in claims) is is_shown
    assert not any("step 49" in claim for claim in claims)


@pytest.mark.parametrize("evidence", ["fr+log", "log"])
def test_a_culprit_of_a_mismatch_is_shown_by_its_own_call(evidence: str) -> None:
    """Rank 7 called BROADCAST; the timeouts of its peers show nothing about it."""
    ruling = play("other_op", 2, evidence=evidence)
    shown = [e["claim"] for e in ruling.document["proof"] if {"culprit", "condition"} & {*e["shows"]}]

    assert ruling.truth["culprit_ranks"] == [7]
    assert shown
    assert all(re.match(r"Rank 7 timed out in BROADCAST|Ranks 0 and 7 both issued", claim) for claim in shown), shown


def cells(exhibit: Exhibit) -> str:
    if exhibit.calls is not None:
        heads = " ".join(f"rank {side.rank}" for side in exhibit.calls.sides)
        rows = (f"#{row.seq} {names.op_name(cell.op)}" for row in exhibit.calls.rows for cell in row.cells if cell)
        return " ".join([heads, *rows])
    rows = exhibit.counts.rows if exhibit.counts is not None else ()
    return " ".join(f"{names.ranks_phrase(row.ranks)} {' '.join(row.cells)}" for row in rows)


@pytest.mark.parametrize("name", SAMPLES)
def test_the_cells_of_a_table_hold_the_numbers_of_its_claim(name: str, folder: Path) -> None:
    for exhibit in proved(name, folder).proof:
        if exhibit.lines is None and exhibit.order is None:
            held = cells(exhibit)
            assert all(number in held for number in re.findall(r"#\d+", exhibit.claim)), (exhibit.claim, held)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_quote_is_of_the_file_and_every_other_exhibit_is_labelled(name: str, folder: Path) -> None:
    for exhibit in proved(name, folder).proof:
        kinds = [exhibit.lines, exhibit.calls, exhibit.order, exhibit.counts]
        assert sum(kind is not None for kind in kinds) == 1
        assert exhibit.lines is None or exhibit.lines.is_whole


def test_a_stack_is_quoted_down_to_the_frame_that_is_named(folder: Path) -> None:
    exhibit = next(e for e in proved("late-rank-three-groups", folder).proof if e.lines and e.lines.frame)
    assert exhibit.lines is not None
    marked = [line.text for line in exhibit.lines.shown if line.number in exhibit.lines.marked]

    assert marked == ['  File "/opt/train/train.py", line 121 in refresh_expert_table']


def test_an_exception_is_quoted_from_the_frame_that_raised_it(folder: Path) -> None:
    exhibit = next(e for e in proved("raised", folder).proof if e.lines and e.lines.raised_in)
    assert exhibit.lines is not None

    assert exhibit.lines.shown[0].text.endswith("line 99, in load_batch")
    assert "FileNotFoundError" in exhibit.lines.shown[-1].text


def test_the_missing_end_of_a_transfer_is_an_empty_slot(folder: Path) -> None:
    table = next(e.calls for e in proved("unmatched-p2p", folder).proof if e.calls is not None)
    waiting = table.rows[0]

    assert waiting.cells[0] is not None
    assert waiting.cells[0].op == "RECV from rank 3 + SEND to rank 3"
    assert waiting.cells[1] is None
    assert waiting.differs == ("entry",)


def test_counters_are_a_table_of_ranks(folder: Path) -> None:
    table = next(e.counts for e in proved("straggler", folder).proof if e.counts is not None)

    assert table.heads == ("last issued", "last completed")
    assert [(str(row.ranks), row.cells, row.lags) for row in table.rows] == [
        ("1-7", ("#17084", "#17083"), False),
        ("0", ("#17083", "#17083"), True),
    ]


def test_ranks_of_which_the_same_is_on_record_are_one_exhibit(folder: Path) -> None:
    exhibit = next(e for e in proved("dtype-mismatch", folder).proof if e.lines is not None)

    assert exhibit.lines is not None
    assert "SeqNum=7" in exhibit.lines.shown[0].text
    assert str(exhibit.alike) == "0-2"
