"""Reports keep to the limits of length: words, bytes, and no heading over nothing; screens are measured by the script itself."""

from __future__ import annotations

import pytest
from builders.diagnoses.bundled import FOLDER, SAMPLES, incident
from scoring import measure_reports, page_text


@pytest.mark.parametrize("name", SAMPLES)
def test_no_report_has_an_empty_heading_or_a_quote_that_no_file_holds(name: str) -> None:
    incident(name)
    measured = measure_reports.measure(name, [FOLDER / name])

    assert measured.empty == ()
    assert measured.unlabelled == 0
    assert measured.size <= measured.limits.size
    assert measured.words <= measured.limits.words


def test_words_are_counted_as_a_reader_sees_them() -> None:
    page = (
        "<head><title>no</title></head><body><h1>Three words here</h1><p class='skip'>no</p>"
        "<details><summary>two words</summary><p>none of these</p></details>"
        "<svg><title>no</title><text>drawn</text></svg><script>no()</script></body>"
    )

    assert page_text.read(page).words == 6


def test_a_heading_over_nothing_is_found_and_one_over_a_heading_is_not() -> None:
    page = "<h2>Proof</h2><h3>E1</h3><p>text</p><h2>Empty</h2><div></div><h2>Drawn</h2><svg><rect/></svg><h2>Last</h2>"

    assert page_text.read(page).empty_headings == ("Empty", "Last")


def test_a_report_over_its_limit_is_named() -> None:
    over = measure_reports.Measure("x", measure_reports.HEALTHY, 1.3, 901, ("Proof",), 3, 1, False, 151_000)

    assert over.breaks() == (
        *("1.3 screens", "901 words", "nothing below Proof", "1 quotes that no file holds", "151 kB"),
    )
    assert "healthy         1 reports,   1 over a limit" in "\n".join(measure_reports.table([over], is_verbose=False))
