"""Measures reports: screens, words, empty headings, quotes that no file holds, contradictions, answers to "restart?", bytes.

``python tests/scoring/measure_reports.py [FOLDER…] [-v]`` measures the report of each folder, and of each job in a folder of labelled
jobs. Without folders it measures every bundled incident. Screens need Chromium.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the folder tests/, also when run as a script

from scoring import page_text
from scoring.pages import page_consistency

import nccldoctor
from nccldoctor.cli import demo
from nccldoctor.model import Diagnosis, Family
from nccldoctor.model.errors import InputError
from nccldoctor.reports import html

SCREEN = (1280, 900)
WORDS = 900
LABELS = ("truth.json", "label.json", "expected.toml")


@dataclass(frozen=True, slots=True)
class Limits:
    """What a report of one kind may take."""

    kind: str
    screens: float
    words: int
    size: int


HEALTHY = Limits("healthy", 1.0, WORDS, 150_000)
OPEN = Limits("cannot tell", 1.5, WORDS, 150_000)
SMALL = Limits("to 8 ranks", 4.0, WORDS, 150_000)
LARGE = Limits("more ranks", 5.0, WORDS, 1_000_000)


@dataclass(frozen=True, slots=True)
class Measure:
    """One report. ``screens`` is None without a browser; ``unlabelled`` quotes stand in no file under their line."""

    name: str
    limits: Limits
    screens: float | None
    words: int
    empty: tuple[str, ...]
    quotes: int
    unlabelled: int
    is_restart_open: bool
    size: int
    contradictions: tuple[page_consistency.Violation, ...] = ()

    def breaks(self) -> tuple[str, ...]:
        """The limits that the report breaks, in words."""
        limits = self.limits
        said = (
            (self.screens is not None and round(self.screens, 1) > limits.screens, f"{self.screens or 0:.1f} screens"),
            (self.words > limits.words, f"{self.words} words"),
            (bool(self.empty), f"nothing below {', '.join(self.empty)}"),
            (self.unlabelled > 0, f"{self.unlabelled} quotes that no file holds"),
            (self.size > limits.size, f"{self.size / 1e3:.0f} kB"),
            *((True, f"{one.check}: {one.detail}") for one in self.contradictions),
        )
        return tuple(text for is_broken, text in said if is_broken)


def measure(name: str, inputs: Sequence[Path], browser: Any = None) -> Measure:
    """The measure of the report on these files; screens only with the page of a ``browser``."""
    incident = nccldoctor.analyze(list(inputs))
    diagnosis = incident.diagnosis
    page = html.page(diagnosis)
    text = page_text.read(page)
    quotes = [e.lines for e in diagnosis.proof if e.lines is not None]
    return Measure(
        name=name,
        limits=_limits(diagnosis),
        screens=_screens(browser, page) if browser is not None else None,
        words=text.words,
        empty=text.empty_headings,
        quotes=len(diagnosis.proof),
        unlabelled=sum(not quote.is_whole for quote in quotes),
        is_restart_open=diagnosis.verdict.family not in (Family.NONE, Family.UNDETERMINED)
        and diagnosis.action.restart == "unknown",
        size=len(page.encode("utf-8")),
        contradictions=page_consistency.violations(name, page, page_consistency.timed_out(incident)),
    )


def _limits(diagnosis: Diagnosis) -> Limits:
    open_kinds = {Family.NONE: HEALTHY, Family.UNDETERMINED: OPEN}
    return open_kinds.get(diagnosis.verdict.family) or (SMALL if len(diagnosis.ranks) <= 8 else LARGE)


def _screens(browser: Any, page: str) -> float:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "report.html"
        file.write_text(page, encoding="utf-8")
        browser.goto(file.as_uri())
        return float(browser.evaluate("document.documentElement.scrollHeight")) / SCREEN[1]


def jobs(arguments: Sequence[str], scratch: Path) -> Iterator[tuple[str, list[Path]]]:
    """Names and inputs: the bundled incidents, or the folders given and the labelled jobs in them."""
    for sample in demo.samples() if not arguments else ():
        demo.write(sample.name, scratch / sample.name)
        yield sample.name, [scratch / sample.name]
    for argument in arguments:
        folder = Path(argument)
        labelled = sorted({path.parent for name in LABELS for path in folder.glob(f"*/{name}")})
        for job in labelled or [folder]:
            inputs = [path for path in sorted(job.iterdir()) if path.name not in LABELS] if job.is_dir() else [job]
            yield f"{folder.name}/{job.name}" if labelled else folder.name, inputs


def table(measures: Sequence[Measure], *, is_verbose: bool) -> Iterator[str]:
    """A line for each report, or for each that breaks a limit; then the summary."""
    for one in measures:
        broken = "; ".join(one.breaks())
        if is_verbose or broken:
            screens = "" if one.screens is None else f"{one.screens:4.1f} screens "
            restart = "restart open" if one.is_restart_open else ""
            shown = f"{one.quotes} exhibits {one.size / 1e3:5.0f} kB"
            yield f"{one.name:40.40} {screens}{one.words:5} words {shown} {restart:12} {broken}".rstrip()
    yield ""
    for limits in (HEALTHY, OPEN, SMALL, LARGE):
        of_kind = [one for one in measures if one.limits is limits]
        if of_kind:
            screens = max((one.screens for one in of_kind if one.screens is not None), default=0.0)
            words, size = (max(getattr(one, name) for one in of_kind) for name in ("words", "size"))
            broken_count = sum(bool(one.breaks()) for one in of_kind)
            yield (
                f"{limits.kind:12} {len(of_kind):4} reports, {broken_count:3} over a limit; at most {screens:.1f} screens "
                f"({limits.screens:g}), {words} words ({limits.words}), {size / 1e3:.0f} kB ({limits.size // 1000})"
            )
    found = Counter(one.check for measure in measures for one in measure.contradictions)
    yield f"{found.total()} contradictions" + "".join(f", {check} {count}" for check, count in found.most_common())
    named = [one for one in measures if one.limits in (SMALL, LARGE)]
    yield (
        f"{sum(len(one.empty) for one in measures)} empty headings, {sum(one.unlabelled for one in measures)} of "
        f"{sum(one.quotes for one in measures)} exhibits that no file holds, restart open in "
        f"{sum(one.is_restart_open for one in named)} of {len(named)}"
    )


def main(arguments: list[str]) -> None:
    """Measure, and print the table."""
    from playwright.sync_api import sync_playwright

    is_verbose = "-v" in arguments
    measures = []
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        driver = stack.enter_context(sync_playwright())
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": SCREEN[0], "height": SCREEN[1]})
        for name, inputs in jobs([a for a in arguments if a != "-v"], scratch):
            try:
                measures.append(measure(name, inputs, page))
            except InputError as error:
                print(f"{name}: {error}", file=sys.stderr)
        browser.close()
    for text in table(measures, is_verbose=is_verbose):
        print(text)


if __name__ == "__main__":
    main(sys.argv[1:])
