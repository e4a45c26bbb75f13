"""Figures of an incident, for a notebook."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from builders.diagnoses import fixtures_diagnoses

from nccldoctor.model import Diagnosis
from nccldoctor.reports.plotly.figures import Plots

NAMES = ("progress", "timeline", "lateness", "streams")


LAGGING = fixtures_diagnoses.lagging()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "make",
    [
        fixtures_diagnoses.lagging,
        fixtures_diagnoses.healthy,
        fixtures_diagnoses.hostile,
        fixtures_diagnoses.undetermined,
        fixtures_diagnoses.ring,
    ],
)
def test_every_figure_can_be_made_of_any_diagnosis(name: str, make: Callable[[], Diagnosis]) -> None:
    figure = getattr(Plots(make()), name)()
    assert figure.layout.title.text
    assert figure.layout.template.layout.paper_bgcolor == "#ffffff"


@pytest.mark.parametrize("name", NAMES)
def test_a_dark_figure_says_the_same_on_a_dark_ground(name: str) -> None:
    light, dark = (getattr(plots, name)() for plots in (Plots(LAGGING), Plots(LAGGING).dark))
    assert dark.layout.template.layout.paper_bgcolor == "#11171d"
    assert [trace.hovertext for trace in dark.data if trace.type != "heatmap" and trace.type != "table"] == [
        trace.hovertext for trace in light.data if trace.type != "heatmap" and trace.type != "table"
    ]


@pytest.mark.parametrize(
    ("name", "axis"),
    [("timeline", "time (UTC)"), ("lateness", "call of dp_1"), ("progress", "calls of the group of each row")],
)
def test_axes_have_titles_with_units(name: str, axis: str) -> None:
    assert getattr(Plots(LAGGING), name)().layout.xaxis.title.text == axis


def test_the_late_rank_is_in_the_heat_map() -> None:
    trace = Plots(fixtures_diagnoses.lagging()).lateness().data[0]
    row = trace.z[list(trace.y).index("rank 5")]
    assert row[-1] == 5
    assert list(row) == sorted(row)
    assert "never called" in trace.text[5][-1]


def test_the_timeline_shows_the_culprit_and_for_whom_others_wait() -> None:
    bars = {trace.name: trace for trace in Plots(LAGGING).timeline().data}
    assert list(bars["culprit"].y) == ["rank 5"]
    assert "waits for rank 5" in bars["waiting"].hovertext[0]
    assert "ALLREDUCE #18723" in bars["waiting"].hovertext[0]
    assert bars["waiting"].text[0] == "dp_1 · ALLREDUCE #18723", "the label that the bar has on the page"
    assert any(at.startswith("2026-11-11 03:35:02") for at in bars["timed out"].x)


def test_ranks_and_calls_can_be_chosen() -> None:
    assert [list(trace.y) for trace in Plots(LAGGING).timeline(ranks=[5]).data if trace.type == "bar"] == [["rank 5"]]
    lateness = Plots(LAGGING).lateness(ranks=[4, 5], last=2).data[0]
    assert list(lateness.y) == ["rank 4", "rank 5"]
    assert (len(lateness.x), lateness.z[1][-1]) == (2, 5)
    progress = Plots(LAGGING).progress(ranks=[5]).data[0]
    assert len(progress.y) == 1
    assert Plots(LAGGING).progress(group="none such").layout.annotations[0].text.startswith("Not available")


def test_a_few_rows_of_the_streams_hold_the_first_difference() -> None:
    whole, few = (Plots(LAGGING).streams(last).data[0].cells for last in (None, 2))
    differing = next(n for n, kind in enumerate(whole["values"][1]) if kind)
    assert len(few["values"][0]) == 2
    assert whole["values"][0][differing] in few["values"][0]


def test_progress_tells_states_apart() -> None:
    trace = Plots(fixtures_diagnoses.lagging()).progress().data[0]
    states = {name.split(" · ")[0]: trace.z[number][-1] for number, name in enumerate(trace.y)}
    assert states["rank 5"] == 4
    assert states["rank 0"] == 2


def test_text_of_strangers_holds_no_tag() -> None:
    for figure in (getattr(Plots(fixtures_diagnoses.hostile()), name)() for name in NAMES):
        assert "<script" not in figure.to_json()
        assert "<img" not in figure.to_json()


def test_a_large_job_is_aggregated() -> None:
    figure = Plots(fixtures_diagnoses.large(16384)).lateness()
    assert len(figure.data[0].y) <= 128
    assert 5 in [value for row in figure.data[0].z for value in row]
