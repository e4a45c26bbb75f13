"""The report of every bundled incident, as its own HTML page."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from nccldoctor import analyze
from nccldoctor.cli import demo


@dataclass(frozen=True)
class Reported:
    """A bundled incident and what the analysis said of it."""

    sample: demo.Sample
    headline: str


def write(folder: Path) -> tuple[Reported, ...]:
    """Analyse every bundled incident and write its report to ``folder``."""
    folder.mkdir(parents=True)
    out = []
    for sample in demo.samples():
        with tempfile.TemporaryDirectory() as scratch:
            files = Path(scratch, sample.name)
            demo.write(sample.name, files)
            incident = analyze(files)
            (folder / f"{sample.name}.html").write_text(incident.to_html(), encoding="utf-8")
        out.append(Reported(sample, incident.verdict.headline))
    return tuple(out)


def table(reported: tuple[Reported, ...]) -> str:
    """One row for each incident, with a link to its report. Headlines come from files, so they stand as code."""
    lines = ["| incident | what happened | what the report says |", "| --- | --- | --- |"]
    for one in reported:
        about = one.sample.about.replace("|", "\\|")
        headline = one.headline.replace("|", "\\|").replace("`", "'")
        lines.append(
            f'| <a href="../incidents/{one.sample.name}.html">{one.sample.name}</a> | {about} | `{headline}` |'
        )
    return "\n".join(lines)
