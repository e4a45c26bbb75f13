"""The verdict about a bundled incident with innocent files laid beside it. Every file beside every incident, alone (some 15 minutes):

python tests/noise/beside.py
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from builders.files.packing import as_bytes, write
from noise import printed, written

import nccldoctor
from nccldoctor.cli import demo
from nccldoctor.model import Diagnosis

SAMPLES = tuple(sample.name for sample in demo.samples())


class Verdict(NamedTuple):
    """What must stay the same whatever lies beside a job."""

    cause: str
    ranks: str
    confidence_in_ranks: str
    confidence_in_cause: str
    headline: str
    suspects: str
    remedy: str | None


@cache
def innocent_files() -> Mapping[str, bytes]:
    """What people and other programs leave in the folders of jobs, by name; reports of another incident are among them."""
    texts = (
        written.CODE,
        written.SETTINGS,
        written.TALK,
        printed.METRICS,
        printed.MACHINES,
        printed.BUILDS,
        printed.DATA,
    )
    files = {name: content for group in texts for name, content in group.items()} | _reports_of("hardware")
    return as_bytes(files)


def _reports_of(sample: str) -> dict[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        demo.write(sample, Path(folder) / "logs")
        other = nccldoctor.analyze(Path(folder) / "logs")
        return {
            "last-week/report.html": other.to_html(),
            "last-week/report.json": other.to_json(),
            "last-week/report.md": other.to_full_markdown(),
            "last-week/report.txt": other.to_text(),
            "last-week/ticket.jira": other.to_ticket("jira"),
            "last-week/ticket.slack": other.to_ticket("slack"),
        }


def verdict(sample: str, beside: Mapping[str, bytes]) -> Verdict:
    """The verdict about the incident with these files in its folder."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "incident"
        demo.write(sample, folder)
        return verdict_of(nccldoctor.analyze(write(folder, beside)).unquoted)


def verdict_of(diagnosis: Diagnosis) -> Verdict:
    """What must stay the same of a diagnosis."""
    found = diagnosis.verdict
    return Verdict(
        found.cause.value,
        str(found.ranks),
        found.confidence_in.ranks.value,
        found.confidence_in.cause.value,
        found.headline,
        str(found.suspects),
        next((remedy.id for remedy in diagnosis.remedies), None),
    )


def changed(sample: str) -> list[str]:
    """The files that change the verdict about the incident, each alone."""
    alone = verdict(sample, {})
    return [name for name, content in innocent_files().items() if verdict(sample, {name: content}) != alone]


if __name__ == "__main__":
    wrong = {sample: names for sample in SAMPLES if (names := changed(sample))}
    for sample, names in wrong.items():
        print(f"{sample}: {', '.join(names)}")
    print(
        f"{len(innocent_files())} files beside each of {len(SAMPLES)} incidents: {sum(map(len, wrong.values()))} changes"
    )
    sys.exit(bool(wrong))
