"""The page projects one model: what the headline says, every picture shows, and every quote holds what it is cited for."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape

import pytest
from builders.diagnoses import fixtures_diagnoses
from builders.diagnoses.bundled import FOLDER, SAMPLES, incident
from msgspec.structs import replace

from nccldoctor.model import Confidence, Diagnosis, Family
from nccldoctor.model.exhibits import Exhibit
from nccldoctor.model.ranks import Ranks
from nccldoctor.reports import html
from nccldoctor.reports.page import facts, view
from nccldoctor.reports.parts import incident_facts, wording
from nccldoctor.words import names


def shown_text(exhibit: Exhibit) -> str:
    if exhibit.calls is not None:
        head = " ".join(f"{side.rank} {side.path}" for side in exhibit.calls.sides)
        rows = " ".join(f"#{row.seq} {row.cells}" for row in exhibit.calls.rows)
        return f"{head} {rows}"
    if exhibit.lines is not None:
        return "\n".join(line.text for line in exhibit.lines.shown)
    if exhibit.order is not None:
        calls = [call for row in exhibit.order.rows for call in (row.left, row.right) if call is not None]
        return " ".join(names.call_title(call.op, call.seq) for call in calls)
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


@pytest.mark.parametrize("name", SAMPLES)
def test_all_views_count_the_same_blocked_ranks(name: str) -> None:
    diagnosis = incident(name).diagnosis
    count = len(wording.waiting_ranks(diagnosis))
    fact = next((fact for fact in facts.four(diagnosis) if fact.label == "Blocked"), None)
    if fact is not None and fact.value[:1].isdigit():
        assert int(fact.value.split()[0].replace(",", "")) == count
    if " blocked in" in (said := wording.summary(diagnosis)) and said[:1].isdigit():
        assert int(said.split()[0].replace(",", "")) == count
    assert bool(incident_facts.blocked(diagnosis)) == bool(count)


def test_suspects_that_are_in_the_call_are_blocked() -> None:
    diagnosis = replace(fixtures_diagnoses.lagging(), standings=(), ranks=())
    stalled, victims = diagnosis.verdict.stalled, diagnosis.verdict.victims
    assert stalled is not None
    verdict = replace(diagnosis.verdict, suspects=Ranks([0, 1]), stalled=replace(stalled, entered=Ranks([0])))
    waiting = wording.waiting_ranks(replace(diagnosis, findings=(verdict,)))
    assert (0 in victims, 0 in waiting, 1 in waiting) == (True, True, False)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_hang_without_a_culprit_is_proved_too(name: str) -> None:
    diagnosis = incident(name).diagnosis
    if diagnosis.verdict.family not in (Family.NONE, Family.UNDETERMINED) and diagnosis.verdict.evidence:
        assert diagnosis.proof
