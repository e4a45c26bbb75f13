"""Figures and the page that holds them."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Callable

import pytest
from builders import fixtures_diagnoses
from plotly.offline import get_plotlyjs

from nccldoctor.model import Diagnosis
from nccldoctor.reports import html
from nccldoctor.reports.plotly import interactive
from nccldoctor.reports.plotly.figures import Plots, all_figures

NAMES = ("progress", "timeline", "lateness", "wait_graph", "streams")


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


def test_the_late_rank_is_in_the_heat_map() -> None:
    trace = Plots(fixtures_diagnoses.lagging()).lateness().data[0]
    row = trace.z[list(trace.y).index("rank 5")]
    assert row[-1] == 5
    assert list(row) == sorted(row)
    assert "never issued" in trace.text[5][-1]


def test_the_timeline_shows_who_is_outside() -> None:
    bars = {trace.name: trace for trace in Plots(fixtures_diagnoses.lagging()).timeline().data}
    assert list(bars["outside"].y) == ["rank 5"]
    assert bars["outside"].x[0] == 600_000
    assert bars["timeout"].x[0].startswith("2026-11-11 03:35:02")


def test_progress_tells_states_apart() -> None:
    trace = Plots(fixtures_diagnoses.lagging()).progress().data[0]
    states = {name: trace.z[number][-1] for number, name in enumerate(trace.y)}
    assert states["rank 5"] == 4
    assert states["rank 0"] == 2


def test_text_of_strangers_holds_no_tag() -> None:
    for figure in all_figures(fixtures_diagnoses.hostile()).values():
        assert "<script" not in figure.to_json()
        assert "<img" not in figure.to_json()


def test_a_large_job_is_aggregated() -> None:
    figure = Plots(fixtures_diagnoses.large(16384)).lateness()
    assert len(figure.data[0].y) <= 128
    assert 5 in [value for row in figure.data[0].z for value in row]


@pytest.mark.parametrize(("world", "most"), [(8, 2_500_000), (64, 2_500_000), (1024, 3_000_000)])
def test_the_page_is_one_small_file(world: int, most: int) -> None:
    found = fixtures_diagnoses.lagging() if world == 8 else fixtures_diagnoses.large(world)
    assert len(interactive.page(found).encode()) <= most


def test_the_policy_lists_what_is_unpacked() -> None:
    page = interactive.page(fixtures_diagnoses.lagging())
    packed = re.search(r'id="plotly-gz">([^<]*)<', page)
    assert packed is not None
    source = gzip.decompress(base64.b64decode(packed.group(1)))
    policy = page[: page.index("viewport")]

    assert source.decode() == get_plotlyjs()
    for script in (source, *(s.encode() for s in re.findall(r"<script>(.*?)</script>", page, re.DOTALL))):
        assert f"'sha256-{base64.b64encode(hashlib.sha256(script).digest()).decode()}'" in policy
    assert "style-src 'unsafe-inline'" in policy
    assert "unsafe-inline" not in html.page(fixtures_diagnoses.lagging())


def test_the_figures_are_data_that_ends_no_element() -> None:
    page = interactive.page(fixtures_diagnoses.hostile())
    data = re.search(r'id="figures">(.*?)</script>', page, re.DOTALL)
    assert data is not None
    assert "<" not in data.group(1)
    assert set(json.loads(data.group(1))) <= set(NAMES)


def test_same_diagnosis_same_bytes() -> None:
    assert interactive.page(fixtures_diagnoses.lagging()) == interactive.page(fixtures_diagnoses.lagging())


def test_nothing_to_draw_is_the_plain_page() -> None:
    from dataclasses import replace

    bare = replace(fixtures_diagnoses.healthy(), ranks=())
    assert interactive.page(bare) == html.page(bare)
