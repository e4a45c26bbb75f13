"""Pictures without signal are left out, and one line names them."""

from __future__ import annotations

from builders.diagnoses import fixtures_diagnoses
from builders.diagnoses.bundled import incident
from msgspec.structs import replace

from nccldoctor.model.figures import NEVER, Lateness
from nccldoctor.reports import html
from nccldoctor.reports.charts.late_calls import late_calls
from nccldoctor.reports.page import view


def drifting_by(offset: float) -> Lateness:
    """The lateness of the made-up job, with all times of rank 5 later by ``offset``, and no drift."""
    found = fixtures_diagnoses.lagging().run_up
    assert found is not None
    rows = [row if row.rank != 5 else replace(row, late_ms=(*(offset,) * 23, NEVER)) for row in found.rows]
    return replace(found, rows=tuple(rows))


def test_a_rank_that_falls_behind_call_by_call_is_drawn_with_its_last_call_never_issued() -> None:
    drawing = late_calls(fixtures_diagnoses.lagging())

    assert drawing is not None
    assert [head.seq for head in drawing.heads][-1] == "#18723"
    assert [text for _, text, _, is_culprit in drawing.labels if is_culprit] == ["rank 5"]
    culprit = drawing.boxes[len(drawing.heads) :]
    assert (culprit[-1].text, culprit[-1].kind) == ("never", "differs")
    assert culprit[-2].kind == "differs"


def test_a_clock_that_is_off_is_no_lateness() -> None:
    base = fixtures_diagnoses.lagging()

    assert late_calls(replace(base, run_up=drifting_by(400.0))) is None


def test_a_rank_that_was_on_time_until_the_stall_has_no_strip() -> None:
    assert late_calls(replace(fixtures_diagnoses.lagging(), run_up=drifting_by(0.4))) is None
    assert late_calls(incident("late-rank-three-groups").diagnosis) is None


def test_calls_in_which_a_peer_is_as_late_are_no_lateness() -> None:
    """Rank 5 is 14 ms late in every second call, and so is one of its peers in turn: that is noise."""
    found = drifting_by(0.0)
    noisy = {5: [14.0 * (n % 2) for n in range(23)], 0: [15.0 * (n % 2) for n in range(23)]}
    rows = tuple(
        replace(row, late_ms=(*noisy[row.rank], *row.late_ms[23:])) if row.rank in noisy else row for row in found.rows
    )
    base = fixtures_diagnoses.lagging()
    assert late_calls(replace(base, run_up=replace(found, rows=rows))) is None
    alone = tuple(row if row.rank != 0 else kept for row, kept in zip(rows, found.rows, strict=True))
    assert late_calls(replace(base, run_up=replace(found, rows=alone))) is not None


def test_what_is_not_drawn_is_named_with_its_reason() -> None:
    base = fixtures_diagnoses.lagging()
    bare = replace(base, run_up=None, last_lines=(), standings=(), timeline=None)

    assert view.build(base).not_drawn == ""
    assert view.build(bare).not_drawn == (
        "Not available: who waits for whom (no record of the waits), the stall to scale (no time after it began), "
        "last lines (no log of a rank involved), lateness (no times of earlier calls)."
    )
    assert view.build(fixtures_diagnoses.undetermined()).not_drawn == ""
    assert view.build(fixtures_diagnoses.healthy()).not_drawn == ""


def test_the_card_holds_the_first_picture_and_two_cards_share_no_id() -> None:
    cards = [html.card(incident(name).diagnosis) for name in ("late-rank-three-groups", "order-inversion")]
    ids = [{part.split('"')[0] for part in card.split(' id="')[1:]} for card in cards]

    assert all("<svg" in card for card in cards)
    assert all(ids)
    assert not ids[0] & ids[1]
