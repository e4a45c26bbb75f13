"""Every bundled report in a browser: nothing is loaded, nothing scrolls sideways, and no text of a drawing is cut."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from builders.diagnoses import fixtures_diagnoses
from builders.diagnoses.bundled import SAMPLES, incident
from msgspec.structs import replace

from nccldoctor.model import Diagnosis
from nccldoctor.reports import html

pytestmark = pytest.mark.browser

WIDTHS = (390, 1280)

CUT = """() => {
  const found = [];
  for (const svg of document.querySelectorAll("main svg[viewBox]")) {
    const box = svg.viewBox.baseVal;
    for (const text of svg.querySelectorAll("text")) {
      const b = text.getBBox();
      if (b.width && (b.x < -1 || b.y < -1 || b.x + b.width > box.width + 1 || b.y + b.height > box.height + 1))
        found.push(text.textContent);
    }
  }
  for (const part of document.querySelectorAll("main *")) {
    const style = getComputedStyle(part);
    if (part.clientWidth && style.overflowX === "hidden" && part.scrollWidth > part.clientWidth + 1) found.push(part.textContent);
  }
  return found.slice(0, 5);
}"""
"""Texts that leave their drawing, or a box that hides what does not fit."""

UNNAMED = """() => [...document.querySelectorAll("main svg[role=img]")].filter(svg => {
  const ids = (svg.getAttribute("aria-labelledby") || "").split(" ").filter(Boolean);
  const text = ids.map(id => (document.getElementById(id) || {}).textContent || "").join("") || svg.getAttribute("aria-label");
  return !text || document.querySelectorAll("[id='" + ids[0] + "']").length > 1;
}).map(svg => svg.outerHTML.slice(0, 120))"""
"""Drawings without a title of their own."""


def large(world: int) -> Diagnosis:
    return fixtures_diagnoses.large(world)


REPORTS = {
    **{name: lambda name=name: incident(name).diagnosis for name in SAMPLES},
    **{f"{world} ranks": lambda world=world: large(world) for world in (64, 512, 4096)},
    "no times": lambda: replace(fixtures_diagnoses.lagging(), timeline=None),
}


@pytest.fixture(scope="module")
def page(browser: Any) -> Any:
    """One page for all reports."""
    return browser.new_page()


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_loads_nothing_and_loses_nothing(page: Any, tmp_path: Path, name: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    file = tmp_path / "report.html"
    file.write_text(html.page(REPORTS[name]()), encoding="utf-8", newline="\n")
    seen: list[str] = []
    page.on("request", lambda request: seen.append(request.url))
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        page.goto(file.as_uri())
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, f"{width}: the page is {wide} pixels wide"
        assert page.evaluate(CUT) == [], width
    assert page.evaluate(UNNAMED) == []
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        grounds = page.evaluate("[...document.querySelectorAll('main rect.bg')].map(r => getComputedStyle(r).fill)")
        assert len(set(grounds)) <= 1
        assert axe.Axe().run(page).violations_count == 0
    assert {url for url in seen if url != file.as_uri()} == set()
