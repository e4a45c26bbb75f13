"""What the first screen says: status, steps, what was checked, what is known, and how sure it is."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from builders.diagnoses import fixtures_diagnoses
from builders.diagnoses.bundled import incident
from msgspec.structs import replace

from nccldoctor.model import Avoid, Confidence, ConfidenceIn, Doubt, Evidence, Reason, RunnerUp
from nccldoctor.model.causes import CauseClass
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.steps import JobEnd, JobState, Step, StepKind
from nccldoctor.reports import html, text, ticket
from nccldoctor.reports.dialects import GITHUB
from nccldoctor.reports.page import view
from nccldoctor.reports.parts import advice
from nccldoctor.reports.parts.independent_sources import sources_words


def lagging(level=Confidence.HIGH, **more):
    made = fixtures_diagnoses.lagging()
    return replace(made, findings=(replace(made.verdict, confidence_in=ConfidenceIn.same(level), **more),))


def healthy(level):
    made = fixtures_diagnoses.healthy()
    return replace(made, findings=(replace(made.verdict, confidence_in=ConfidenceIn.same(level)),))


def test_a_running_job_is_a_live_hang_with_the_time_left():
    seen, fires = datetime(2026, 11, 22, 14, 35, 21, tzinfo=UTC), datetime(2026, 11, 22, 14, 41, tzinfo=UTC)
    made = replace(lagging(), job_end=JobEnd(JobState.RUNNING, None, seen, fires))
    page = view.build(made)
    assert (page.status.kind, page.status.situation) == ("Live hang", "still running")
    assert "The call times out at 2026-11-22 14:41:00 UTC, 5 min 39 s after the last look." in page.lede
    assert view.build(lagging()).status.kind == "Hang"


def test_page_terminal_and_ticket_count_and_name_the_same_sources():
    def seen(observer, supports=True):
        return Evidence(None, "", "it is so", supports, observer)

    seen_by = (seen("dump:5"), seen("log:1"), seen("log:2"), seen("launcher"), seen("kernel:node1", False))
    made = lagging()
    made = replace(made, findings=(replace(made.verdict, evidence=seen_by), *made.findings[1:]))
    told = "3 independent sources: rank 5's flight recorder, peers' logs, exit codes; 1 contradicts"
    assert view.build(made).status.sources == told
    assert told in " ".join(text.plain(made, width=200, ascii_only=False).split())
    assert told in ticket.in_dialect(made, GITHUB)


def test_one_source_is_named_too():
    finding = replace(lagging().verdict, evidence=(Evidence(None, "", "it is so", True, "stack:5"),))
    assert sources_words(finding) == "1 source: rank 5's stacks"


def test_a_command_stands_alone_with_a_button_to_copy_it():
    page = html.page(lagging())
    assert '<pre id="c3">ssh gpu-a018 &#39;ps -o pid,stat,wchan:28,cmd --ppid 48213&#39;</pre>' in page
    assert 'data-copy="c3"' in page


def test_a_healthy_job_needs_nothing_and_says_what_was_checked():
    page = view.build(healthy(Confidence.HIGH))
    assert page.lede.endswith("Nothing to do.")
    assert (page.act, page.steps, page.proof, page.ticket) == ("", (), (), "")
    assert [fact.label for fact in page.facts] == ["Ranks", "Watchdog logs", "Open errors"]
    assert page.checks[0].place == "rank_0.log:90"


@pytest.mark.parametrize(("level", "tone"), [("high", "ok"), ("medium", "ok"), ("low", "open")])
def test_green_is_only_what_is_proved(level, tone):
    assert view.build(healthy(Confidence(level))).status.tone == tone


def test_where_nothing_can_be_judged_the_page_asks_for_files():
    page = view.build(fixtures_diagnoses.undetermined())
    assert page.act == "Collect these two things"
    assert [step.label for step in page.steps] == ["Collect", "Collect"]
    assert page.restart.startswith("Don't restart yet.")
    assert page.status.kind == "Not enough to judge"
    assert [item.label for item in page.known][:2] == ["Known", "Unknown"]
    assert "Rank 0 was in ALLREDUCE #7" in page.known[0].text
    assert "World size" in page.known[1].text
    assert page.first is None


def test_a_list_that_holds_more_than_files_is_not_called_a_collection():
    diagnosis = fixtures_diagnoses.undetermined()
    look = Step(StepKind.CHECK, "Look at all its processes.", "", "nccldoctor live --pid all")
    action = replace(diagnosis.action, steps=(diagnosis.action.steps[0], look, *diagnosis.action.steps[1:]))
    assert view.build(replace(diagnosis, action=action)).act == "Do now"


def test_less_than_high_says_why_and_what_else_it_could_be():
    doubts = tuple(Doubt(f"doubt {number}") for number in range(4))
    other = RunnerUp(CauseClass.FROZEN, Ranks([5]), "Take a second stack.")
    why = (Reason("position", "before", "dump:5", 3.0, 1), Reason("exit", "unknown", "", 0.0))
    page = view.build(lagging(Confidence.MEDIUM, doubts=doubts, runner_up=other, why=why))
    assert page.doubts == ("doubt 0", "doubt 1", "doubt 2")
    (row,) = page.explanations
    assert row.open == "Exit"
    assert row.against == "", "what speaks for both explanations speaks against neither"
    assert row.settles == "Take a second stack."
    sure = view.build(lagging(Confidence.HIGH, runner_up=other, why=why))
    assert (sure.doubts, sure.explanations) == ((), ())


def test_a_setting_seen_in_the_input_stands_apart_from_what_not_to_do():
    made = lagging()
    made = replace(made, avoid=(*made.avoid, Avoid("NCCL_TIMEOUT=1200000", "Twice.", "other.sh:1")))
    page = view.build(made)
    assert [item.what for item in page.settings] == ["NCCL_TIMEOUT=1200000"]
    assert len(page.donts) <= advice.MOST
    assert not {item.what for item in page.donts} & {item.what for item in page.settings}


def test_a_fix_among_the_steps_is_not_repeated():
    made = lagging()
    fix = made.remedies[0].fix[0]
    step = replace(made.action.steps[0], text=fix)
    shown = view.build(replace(made, action=replace(made.action, steps=(step,)))).fixes
    assert fix in view.build(made).fixes
    assert fix not in shown


def test_a_crash_page_tells_the_exception_its_place_and_whom_it_took_down() -> None:
    told = {fact.label: fact for fact in view.build(incident("raised").diagnosis).facts}

    assert (told["Exception"].value, told["Exception"].detail) == (
        "FileNotFoundError",
        "in load_batch (train.py:99) · exit code 1",
    )
    assert told["Took down"].value == "7 of 8 ranks"
    assert "Stalled collective" not in told


def test_a_crash_page_tells_the_exception_where_no_line_of_it_names_the_rank() -> None:
    base = incident("raised").diagnosis
    rows = tuple(replace(row, last="reported step 4") for row in base.standings)
    told = {fact.label: fact for fact in view.build(replace(base, standings=rows)).facts}

    assert (told["Exception"].value, told["Exception"].detail) == (
        "FileNotFoundError",
        "in load_batch (train.py:99) · exit code 1",
    )


def test_columns_of_the_table_that_hold_nothing_are_left_out() -> None:
    page = html.page(incident("unmatched-p2p").diagnosis)
    table = page[page.index('id="h-ranks"') :]
    heads = table[: table.index("</thead>")]

    assert "Where" in heads
    assert "Hosts" not in heads
    assert "Ended by" not in heads
