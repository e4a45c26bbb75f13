"""One event has one time: in the facts, the order of events, the timeline, the table of ranks and the ticket."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from builders.diagnoses.bundled import SAMPLES, incident
from msgspec.structs import replace

from nccldoctor.model import Diagnosis, Stalled
from nccldoctor.model.figures import Timeline
from nccldoctor.model.standings import WaitedCall
from nccldoctor.reports.dialects import MD
from nccldoctor.reports.page import facts
from nccldoctor.reports.parts import incident_facts, incident_time
from nccldoctor.words import times

MARGIN = 0.002
"""Seconds by which two times of one event may differ: floats hold microseconds of this century badly."""

SHOWN = 0.01
"""Seconds of a start that no page shows: the picture counts from the first rank that waits, the facts from the first that enters."""


def printed(seconds: float, timeline: Timeline, like: datetime) -> datetime:
    """A moment of the timeline as the source of ``like`` prints it: logs run ahead of the job's clock, and may lack the year."""
    ahead = timeline.ahead if like.tzinfo is None else 0.0
    shown = datetime.fromtimestamp(seconds + ahead, UTC)
    return shown.replace(year=like.year) if like.year == 1900 else shown


def differ(left: datetime, right: datetime, margin: float = MARGIN) -> bool:
    return abs((left.replace(tzinfo=left.tzinfo or UTC) - right).total_seconds()) > margin


def marks_by_place(timeline: Timeline | None) -> list[tuple[str, float]]:
    rows = [mark for row in timeline.rows for mark in row.marks] if timeline is not None else []
    flags = timeline.flags if timeline is not None else ()
    return [(mark.where, mark.at) for mark in (*flags, *rows) if mark.where]


@pytest.mark.parametrize("name", SAMPLES)
def test_an_event_of_the_story_stands_at_its_time_in_the_timeline(name: str) -> None:
    diagnosis = incident(name).diagnosis
    story = {str(event.where): event.time for event in diagnosis.story if event.time is not None}
    for where, at in marks_by_place(diagnosis.timeline):
        told = story.get(where)
        if told is not None and diagnosis.timeline is not None:
            assert not differ(told, printed(at, diagnosis.timeline, told)), where


def is_of(waited: WaitedCall, call: Stalled) -> bool:
    """True where ranks wait in this very call, and in no call of another group with the same number."""
    return not waited.groups or any(str(call.group) in label.split() for label in waited.groups)


@pytest.mark.parametrize("name", SAMPLES)
def test_the_stall_begins_at_one_time_in_facts_timeline_and_table(name: str) -> None:
    diagnosis = incident(name).diagnosis
    call, timeline = diagnosis.verdict.stalled, diagnosis.timeline
    if call is None or call.since is None:
        return
    began = times.instant(call.since).removesuffix(" UTC")

    assert began in incident_time.when(diagnosis)
    assert any(began in f"{fact.value} {fact.detail}" for fact in facts.four(diagnosis))
    if timeline is not None and timeline.began is not None:
        assert not differ(call.since, printed(timeline.began, timeline, call.since), SHOWN)
        in_call = [
            s.since
            for s in diagnosis.standings
            if s.call is not None and s.call.seq == call.seq and is_of(s.call, call) and s.since
        ]
        for since in in_call:
            assert not printed(since, timeline, call.since) < printed(timeline.began - SHOWN, timeline, call.since)


@pytest.mark.parametrize("name", SAMPLES)
def test_terminal_ticket_and_report_tell_the_same_time(name: str) -> None:
    found = incident(name)
    when = incident_time.when(found.diagnosis)
    told = {fact.label: fact.text for fact in incident_facts.facts(found.diagnosis)}

    assert told.get("when", "") == when
    assert when in found.to_full_text(width=400)
    assert MD.words(when, 400) in found.to_ticket("md")
    assert MD.words(when, 400) in found.to_full_markdown()


def test_the_samples_hold_events_to_compare() -> None:
    """The tests above compare nothing where no event is in both places."""
    compared = sum(
        where in {str(event.where) for event in diagnosis.story if event.time is not None}
        for diagnosis in (incident(name).diagnosis for name in SAMPLES)
        for where, _ in marks_by_place(diagnosis.timeline)
    )
    assert compared > 40


def test_a_time_that_is_off_would_be_seen() -> None:
    diagnosis: Diagnosis = incident("died").diagnosis
    assert diagnosis.timeline is not None
    event = next(event for event in diagnosis.story if event.time is not None)
    assert event.time is not None
    right = (event.time if event.time.tzinfo else event.time.replace(tzinfo=UTC)).timestamp()

    assert not differ(event.time, printed(right, diagnosis.timeline, event.time))
    assert differ(event.time, printed(right + 1, diagnosis.timeline, event.time))


def test_logs_of_another_zone_are_told_beside_the_time() -> None:
    """An engineer looks for 20:44 UTC in logs that print 13:44."""
    base = incident("late-rank-three-groups").diagnosis
    assert base.timeline is not None
    away = replace(base, timeline=replace(base.timeline, ahead=-7 * 3600.0))
    assert incident_time.when(away).endswith("; the logs print UTC-7")
    assert "the logs print" not in incident_time.when(replace(base, timeline=replace(base.timeline, ahead=0.0)))
    assert times.zone_name(5.5 * 3600) == "UTC+5:30"
