"""The page projects one model: what the headline says, every picture shows, and every quote holds what it is cited for."""

from __future__ import annotations

import atexit
import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from html import unescape
from pathlib import Path

import pytest
from builders import fixtures_diagnoses

import nccldoctor
from nccldoctor.cli import demo
from nccldoctor.incident import Incident
from nccldoctor.model import Confidence, Diagnosis, Family
from nccldoctor.model.exhibits import Exhibit
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.standings import Involvement
from nccldoctor.reports import html
from nccldoctor.reports.charts.chain import chain_picture
from nccldoctor.reports.charts.crossed import crossed_calls
from nccldoctor.reports.charts.rank_map import rank_map
from nccldoctor.reports.charts.stall import stall_picture
from nccldoctor.reports.page import view
from nccldoctor.words import names

SAMPLES = [sample.name for sample in demo.samples()]


FOLDER = Path(tempfile.mkdtemp(prefix="nccldoctor-page-"))
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)


@cache
def incident(name: str) -> Incident:
    demo.write(name, FOLDER / name)
    return nccldoctor.analyze(FOLDER / name)


def shown_text(exhibit: Exhibit) -> str:
    if exhibit.calls is not None:
        head = " ".join(f"{side.rank} {side.path}" for side in exhibit.calls.sides)
        rows = " ".join(f"#{row.seq} {row.cells}" for row in exhibit.calls.rows)
        return f"{head} {rows}"
    if exhibit.lines is not None:
        return "\n".join(line.text for line in exhibit.lines.shown)
    rows = exhibit.counts.rows if exhibit.counts is not None else ()
    return "\n".join(f"{names.few(row.ranks)} {row.cells}" for row in rows)


@pytest.mark.parametrize("name", SAMPLES)
def test_every_exhibit_holds_the_values_that_it_is_cited_for(name: str) -> None:
    for exhibit in incident(name).diagnosis.proof:
        text = shown_text(exhibit)
        assert text.strip() or exhibit.order is not None
        for value in exhibit.cites:
            assert re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text), (value, text[:200])


@pytest.mark.parametrize("name", SAMPLES)
def test_quoted_lines_are_those_of_the_file(name: str) -> None:
    for exhibit in incident(name).diagnosis.proof:
        if exhibit.lines is None or not exhibit.lines.is_whole:
            continue
        file = (FOLDER / name) / exhibit.lines.path
        content = file.read_bytes().decode("utf-8", "backslashreplace").split("\n")
        for line in (*exhibit.lines.before, *exhibit.lines.shown, *exhibit.lines.after):
            assert line.text[:200] in content[line.number - 1]


@pytest.mark.parametrize("name", SAMPLES)
def test_every_picture_shows_every_culprit(name: str) -> None:
    diagnosis = incident(name).diagnosis
    culprits = diagnosis.verdict.ranks
    blamed = Ranks(r for s in diagnosis.standings if s.involvement is Involvement.CULPRIT for r in s.ranks)
    assert culprits <= blamed
    page = view.build(diagnosis)
    for keys in (
        [box.key for box in page.chain.boxes] if page.chain else None,
        [bar.key for bar in page.stall.bars] if page.stall else None,
        [row.ranks for row in page.ranks] if page.ranks else None,
    ):
        assert keys is None or culprits <= Ranks(r for key in keys for r in Ranks.parse(key))


@pytest.mark.parametrize("name", SAMPLES)
def test_every_rank_stands_in_one_row(name: str) -> None:
    diagnosis = incident(name).diagnosis
    ranks = [rank for standing in diagnosis.standings for rank in standing.ranks]

    assert sorted(ranks) == [state.rank for state in diagnosis.ranks]


@pytest.mark.parametrize("name", [n for n in SAMPLES if n.endswith("-mismatch")])
def test_a_mismatch_shows_no_equal_calls_under_the_stalled_number(name: str) -> None:
    verdict = incident(name).verdict
    tables = [e.calls for e in incident(name).diagnosis.proof if e.calls is not None]

    assert verdict.stalled is not None
    for table in tables:
        assert any(row.differs for row in table.rows)


@pytest.mark.parametrize("name", SAMPLES)
def test_green_is_for_a_job_that_is_shown_to_be_well(name: str) -> None:
    page = html.page(incident(name).diagnosis)
    well = incident(name).verdict.family is Family.NONE and incident(name).verdict.confidence is not Confidence.LOW

    assert ('class="status ok"' in page) is well


def test_calls_that_two_ranks_issued_in_another_order_are_drawn_as_crossing_lines() -> None:
    exhibit = next(e for e in incident("order-inversion").diagnosis.proof if e.order is not None)
    assert exhibit.order is not None
    drawing = crossed_calls(exhibit.order)

    assert [joint.crosses for joint in drawing.joints].count(True) == 2
    assert len({box.text.removesuffix(" · waiting") for box in drawing.boxes if box.differs}) == 2


def test_the_chain_points_at_the_ranks_that_are_waited_for() -> None:
    drawing = chain_picture(fixtures_diagnoses.lagging().standings)

    assert drawing is not None
    assert [box.title for box in drawing.boxes if box.x == 0] == ["rank 5"]
    assert len(drawing.arrows) == 3
    assert "Ranks 1, 3, 7 wait for rank 5" in drawing.says


def test_two_that_wait_for_each_other_have_two_arrows() -> None:
    drawing = chain_picture(fixtures_diagnoses.ring().standings)

    assert drawing is not None
    assert len(drawing.arrows) == 2


def test_nobody_waits_no_chain() -> None:
    assert chain_picture(fixtures_diagnoses.healthy().standings) is None


def test_the_bars_of_a_stall_begin_at_the_first_arrival() -> None:
    drawing = stall_picture(fixtures_diagnoses.lagging())

    assert drawing is not None
    assert min(bar.x for bar in drawing.bars) == pytest.approx(150)
    assert drawing.ticks[0].label == "0"
    assert drawing.bars[0].label == "rank 5"
    assert "waits for rank 5" in drawing.bars[1].text


def test_a_stall_without_times_is_not_drawn() -> None:
    base = fixtures_diagnoses.lagging()
    untimed = replace(base, standings=tuple(replace(s, since=None, until=None) for s in base.standings))

    assert stall_picture(untimed) is None
    assert "to scale" not in html.page(untimed)


def test_one_culprit_of_thousands_has_its_cell() -> None:
    drawing = rank_map(fixtures_diagnoses.large(1024))

    assert drawing is not None
    blamed = [cell.ranks for cell in drawing.cells if cell.involvement is Involvement.CULPRIT]
    assert blamed == [str(rank) for rank in range(7, 1024, 100)]
    assert len(drawing.cells) == 1024


def test_in_a_very_large_job_a_cell_is_a_host_and_takes_its_worst_rank() -> None:
    drawing = rank_map(fixtures_diagnoses.large(16384))

    assert drawing is not None
    assert len(drawing.cells) == 2048
    assert sum(cell.involvement is Involvement.CULPRIT for cell in drawing.cells) == 164


def test_a_small_job_needs_no_map() -> None:
    assert rank_map(fixtures_diagnoses.lagging()) is None


@pytest.mark.parametrize("make", [*fixtures_diagnoses.EVERY, lambda: fixtures_diagnoses.large(512)])
def test_no_heading_stands_over_nothing(make: Callable[[], Diagnosis]) -> None:
    page = html.page(make())
    for body in re.findall(r"<h2[^>]*>[^<]*</h2>(.*?)(?=<h2|</section>|</main>)", page, re.DOTALL):
        assert re.sub(r"<[^>]+>|\s", "", unescape(body)) or "<svg" in body


def _sides(diagnosis: Diagnosis) -> list[str]:
    return [side.gap for side in view.build(diagnosis).last_lines]


def test_the_gap_between_the_last_lines_is_named() -> None:
    assert _sides(fixtures_diagnoses.lagging()) == ["10 min", ""]
    assert "written in 639.2 s" in html.page(incident("straggler").diagnosis)
