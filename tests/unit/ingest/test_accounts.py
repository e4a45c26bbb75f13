"""Coverage agrees with the events of each file, in bundled incidents and in simulated jobs."""

from __future__ import annotations

from pathlib import Path

import pytest
from simulator import jobs

from nccldoctor.cli import demo
from nccldoctor.discover.discover import discover
from nccldoctor.events import Note
from nccldoctor.ingest.ingest import ingest
from nccldoctor.parsers.base import Parsed


def parsed_files(folder: Path) -> list[Parsed]:
    return [one for one in ingest(discover([folder])).parsed if one.lines]


def check(files: list[Parsed]) -> None:
    for one in files:
        told = {e.place.line for e in one.events if not (isinstance(e, Note) and e.what == "marked")}
        assert len(told) <= one.understood <= one.candidates, one.source.path
        assert bool(one.first_unknown) == (one.understood < one.candidates), one.source.path
        if one.understood:
            assert not [gap for gap in one.gaps if "nothing in it" in gap.why or "no line of it" in gap.why]


@pytest.mark.parametrize("name", [sample.name for sample in demo.samples()])
def test_samples(name: str, tmp_path: Path) -> None:
    demo.write(name, tmp_path / name)
    check(parsed_files(tmp_path / name))


@pytest.mark.parametrize("seed", range(6))
def test_simulated_jobs(seed: int, tmp_path: Path) -> None:
    jobs.make(seed).write(tmp_path)
    check(parsed_files(tmp_path))
