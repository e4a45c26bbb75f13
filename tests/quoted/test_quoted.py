"""The quoted jobs: same seed same bytes, the answer is the truth, and each reaches the conclusions and doubts that it is there for."""

from __future__ import annotations

from pathlib import Path

import pytest
from budgets import reach
from builders.jobs.verdicts import read
from quoted import jobs

from nccldoctor.model.ranks import Ranks

jobs.make(0)
ALL = sorted(jobs.SCENES)


@pytest.mark.parametrize("name", ALL)
def test_same_seed_same_bytes(name: str) -> None:
    assert jobs.make(5, scenario=name) == jobs.make(5, scenario=name)


@pytest.mark.parametrize("name", ALL)
def test_the_answer_is_the_truth(name: str) -> None:
    for seed in range(2):
        job = jobs.make(seed, scenario=name)
        ruling = read(job.files)
        assert (ruling.cause, ruling.ranks) == (job.cls, str(Ranks(job.culprits))), f"seed {seed}: {ruling}"


@pytest.mark.parametrize("name", ALL)
def test_a_scene_reaches_what_it_is_there_for(name: str, tmp_path: Path) -> None:
    seen = {place for _, place in reach.reached(jobs.make(2, scenario=name).write(tmp_path / "job"))}
    wanted = jobs.SCENES[name][1]
    assert wanted and not set(wanted) - seen
