"""The charts of the pictures in numbers: what must be seen is in them, at any size."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import pytest
from builders import fixtures_diagnoses, fixtures_diagnosis_parts
from hypothesis import given
from hypothesis import strategies as st

from nccldoctor.model import RankState, Role
from nccldoctor.model.figures import SEVERITY, Mark, Stretch, Timeline, TimeRow
from nccldoctor.model.ranks import Ranks
from nccldoctor.reports import html
from nccldoctor.reports.charts import cells, heat, progress, streams, symbols, timeline
from nccldoctor.reports.page import view
from nccldoctor.reports.parts import rank_rows

FIVE = Ranks([5])


@given(
    st.lists(st.lists(st.integers(0, 6), min_size=3, max_size=3).map(bytes), min_size=1, max_size=60),
    st.integers(1, 20),
)
def test_merged_rows_keep_the_worst(rows: list[bytes], most: int) -> None:
    few, step = cells.merged(rows, most, SEVERITY)

    assert len(few) <= most
    for number, row in enumerate(few):
        inside = rows[number * step : (number + 1) * step]
        for column in range(3):
            assert SEVERITY[row[column]] == max(SEVERITY[r[column]] for r in inside)


@given(st.lists(st.lists(st.integers(0, 3), min_size=4, max_size=4).map(bytes), min_size=1, max_size=8))
def test_paths_cover_every_cell_once(rows: list[bytes]) -> None:
    area = 0.0
    for path in cells.paths(rows, 0, 0, 2, 3).values():
        area += sum(float(w) * float(h) for w, h in re.findall(r"h([\d.]+)v([\d.]+)h", path))
    assert area == len(rows) * 4 * 6


def test_one_odd_rank_of_many_is_in_the_picture() -> None:
    d = fixtures_diagnoses.large(1024)
    states = tuple(
        RankState(r, Role.VICTIM, group="g", completed=9, enqueued=9 if r == 700 else 10) for r in range(16384)
    )
    picture = progress.picture(replace(d, ranks=states), rank_rows.SINGLES)

    assert picture is not None
    never = dict(picture.paths)["never"]
    assert never.count("M") == 1
    assert float(re.findall(r"M([\d.]+) ", never)[0]) == pytest.approx(700 // picture.step * 1024 / 256)
    assert "1 ranks with a call not issued" in picture.text


def test_small_jobs_need_no_picture_of_all() -> None:
    assert progress.picture(fixtures_diagnoses.lagging(), rank_rows.SINGLES) is None
    assert progress.picture(fixtures_diagnoses.healthy(), 2) is None


def test_the_heat_map_marks_the_culprit_and_what_never_came() -> None:
    chart = heat.heat_map(fixtures_diagnosis_parts.drifting(8, 5), FIVE)

    assert chart is not None
    assert [label.text for label in chart.labels if label.kind == "culprit"] == ["rank 5"]
    assert sum(label.kind == "never" for label in chart.labels) == 1
    assert "last in 19 of 24" in {label.text for label in chart.labels}
    assert "rank 5" in chart.text
    assert "never issued #18723" in chart.text
    assert chart.overview is None


def test_the_overview_keeps_a_single_late_rank_of_thousands() -> None:
    chart = heat.heat_map(fixtures_diagnosis_parts.drifting(16384, 12345), Ranks([12345]))

    assert chart is not None
    assert chart.overview is not None
    assert chart.overview.step == 128
    assert dict(chart.overview.paths)[5].count("M") == 1


def test_quiet_times_are_cut_and_named() -> None:
    chart = timeline.time_chart(fixtures_diagnosis_parts.stalling(8, 5), FIVE)

    assert chart is not None
    assert len(chart.cuts) == 1
    assert any("cut out" in word.text for word in chart.words)
    assert all(timeline.LEFT <= bar.x <= timeline.LEFT + timeline.WIDTH for bar in chart.bars)


def test_symbols_at_the_end_of_a_timeline_stay_in_the_picture_and_apart() -> None:
    base = fixtures_diagnosis_parts.stalling(8, 5)
    marks = tuple(Mark("timeout", base.end, f"event {n}") for n in range(8))
    chart = timeline.time_chart(replace(base, rows=(replace(base.rows[0], marks=marks), *base.rows[1:])), FIVE)

    assert chart is not None
    places = [sign.x for sign in chart.symbols if sign.y == chart.symbols[0].y][:8]
    assert all(b - a >= timeline.SYMBOL for a, b in pairwise(places))
    assert places[-1] + timeline.SYMBOL / 2 <= chart.width
    assert [kind for kind, _ in chart.kinds] == ["work", "call", "waiting", "outside"]


def test_the_order_on_the_axis_is_the_order_of_time() -> None:
    marks = tuple(Mark("timeout", at, "x") for at in (0.0, 1.0, 50.0, 1000.0))
    chart = timeline.time_chart(
        Timeline((TimeRow(FIVE, (Stretch("work", 0.0, 1000.0),), marks),), 0.0, 1000.0, ""), Ranks()
    )

    assert chart is not None
    places = [sign.x for sign in chart.symbols]
    assert places == sorted(places)
    assert len(set(places)) == 4


def test_symbols_of_one_moment_do_not_hide_each_other() -> None:
    marks = tuple(Mark(kind, 5.0, kind) for kind in symbols.PATHS)
    chart = timeline.time_chart(Timeline((TimeRow(FIVE, (), marks),), 0.0, 10.0, ""), Ranks())

    assert chart is not None
    assert len({sign.x for sign in chart.symbols}) == len(symbols.PATHS)


def test_a_missing_call_is_a_hole_and_is_said() -> None:
    chart = streams.stream_chart(fixtures_diagnosis_parts.skipping("ALLREDUCE"))

    assert chart is not None
    assert [box.kind for box in chart.boxes if box.kind == "gap"] == ["gap", "gap"]
    assert chart.text == "the first difference: rank 5 issued nothing where rank 4 issued ALLREDUCE #7"
    assert [sign for _, sign in chart.signs] == ["", "missing", "≠", "extra"]


def test_stacks_show_where_they_part() -> None:
    sides = view.build(fixtures_diagnoses.lagging()).stacks

    assert [title for title, _ in sides] == ["Where rank 5 is", "Where its peer rank 4 is"]
    assert [[frame.parts for frame in side.frames] for _, side in sides] == [[False, True, False], [False, True, False]]


def test_every_block_has_an_empty_state() -> None:
    page = html.page(replace(fixtures_diagnoses.healthy(), ranks=()))

    for words in (
        "No rank is shown to wait",
        "No rank left a trace",
        "No remedy of the catalogue",
        "it takes flight-recorder entries of several",
        "it takes flight-recorder entries of a rank",
        "Nothing that was read has a time",
        "No stack of a rank at fault",
        "No other hypothesis",
        "Nothing that this input does not have",
    ):
        assert words in page


@pytest.mark.parametrize(("world", "most"), [(8, 150_000), (64, 300_000), (1024, 1_000_000), (16384, 1_000_000)])
def test_pages_stay_small(world: int, most: int) -> None:
    found = fixtures_diagnoses.lagging() if world == 8 else fixtures_diagnoses.large(world)
    assert len(html.page(found).encode()) <= most


def test_the_blocks_stand_in_their_order() -> None:
    ids = re.findall(r'<(?:section|div)[^>]* id="(\w+)"', html.page(fixtures_diagnoses.lagging()))
    order = [
        "verdict",
        "first",
        "why",
        "chain",
        "progress",
        "do",
        "runup",
        "streams",
        "story",
        "timeline",
        "stacks",
        "evidence",
        "ruled",
        "coverage",
        "capture",
        "ticket",
    ]
    assert [
        i.replace("id=", "")
        for i in sorted(set(ids) | {"stacks"}, key=lambda i: html.page(fixtures_diagnoses.lagging()).index(f'id="{i}"'))
    ] == order


def test_a_culprit_whose_mates_are_folded_still_shows_what_it_did_not_issue() -> None:
    rows = {str(row.row.ranks): row for row in view.build(fixtures_diagnoses.large(1024)).progress.shown}

    assert rows["107"].cells[-1].state == "never"
    assert rows["0"].cells[-1].state == "waiting"
