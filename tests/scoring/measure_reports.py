"""Measures reports: screens, words, exhibits, and answers to "restart?" that decide.

``python tests/scoring/measure_reports.py [FOLDER…]`` measures one report for each folder, without arguments one for each bundled
incident. It needs Chromium.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import nccldoctor
from nccldoctor.cli import demo
from nccldoctor.model import Diagnosis, Family
from nccldoctor.reports import html

SCREEN = (1280, 900)


@dataclass(frozen=True, slots=True)
class Measure:
    """One report: its height in screens, its words, its exhibits by kind, and whether the restart answer decides."""

    name: str
    ranks: int
    screens: float
    words: int
    quoted: int
    formatted: int
    decides: bool


def measures(inputs: dict[str, Path]) -> Iterator[Measure]:
    """One measure for each input."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver, tempfile.TemporaryDirectory() as folder:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": SCREEN[0], "height": SCREEN[1]})
        for name, path in inputs.items():
            diagnosis = nccldoctor.analyze(path).diagnosis
            file = Path(folder) / "report.html"
            file.write_text(html.page(diagnosis), encoding="utf-8")
            page.goto(file.as_uri())
            height = page.evaluate("document.documentElement.scrollHeight")
            words = len(str(page.evaluate("document.body.innerText")).split())
            yield _measure(name, diagnosis, height / SCREEN[1], words)


def _measure(name: str, diagnosis: Diagnosis, screens: float, words: int) -> Measure:
    quoted = sum(exhibit.lines is not None for exhibit in diagnosis.proof)
    open_ = diagnosis.verdict.family in (Family.NONE, Family.UNDETERMINED)
    return Measure(
        name,
        len(diagnosis.ranks),
        screens,
        words,
        quoted,
        len(diagnosis.proof) - quoted,
        open_ or diagnosis.action.restart != "unknown",
    )


def main(arguments: list[str]) -> None:
    """Print one line for each report, and a summary."""
    with tempfile.TemporaryDirectory() as folder:
        inputs = {path: Path(path) for path in arguments}
        for sample in demo.samples() if not arguments else ():
            demo.write(sample.name, Path(folder) / sample.name)
            inputs[sample.name] = Path(folder) / sample.name
        every = list(measures(inputs))
    for one in every:
        restart = "decides" if one.decides else "open"
        exhibits = f"{one.quoted} quoted, {one.formatted} formatted"
        print(
            f"{one.name:28} {one.ranks:5} ranks  {one.screens:4.1f} screens  {one.words:5} words  {exhibits}, {restart}"
        )
    undecided = sum(not one.decides for one in every)
    words = sorted(one.words for one in every)
    screens = sorted(one.screens for one in every)
    print(
        f"{len(every)} reports: screens {statistics.median(screens):.1f} (at most {screens[-1]:.1f}), words "
        f"{statistics.median(words):.0f} (at most {words[-1]}), restart left open in {undecided}"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
