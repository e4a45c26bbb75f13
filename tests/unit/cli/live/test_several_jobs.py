"""Several jobs on one host: which one is looked at, why, and how to look at another one; and what is missing, in plain words."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from nccldoctor.cli.live.collecting import heading, several_jobs, summary
from nccldoctor.collect.bundle import BundleResult, NodeResult
from nccldoctor.model.hosts import JobHere, chosen_job, jobs_of
from nccldoctor.model.ranks import Ranks

SMALL = JobHere("MASTER_ADDR=n1 MASTER_PORT=1 WORLD_SIZE=2", Ranks((0, 1)), (11, 12))
LARGE = JobHere("MASTER_ADDR=n1 MASTER_PORT=2 WORLD_SIZE=4", Ranks(range(4)), (21, 22, 23, 24))
DEAD = JobHere("MASTER_ADDR=n1 MASTER_PORT=3 WORLD_SIZE=8", Ranks(range(8)))


def result(*jobs: JobHere, missing: tuple[tuple[str, str], ...] = (), nodes: int = 1) -> BundleResult:
    each = (NodeResult(f"n{n + 1}", f"n{n + 1}", Ranks(range(4)), 9, missing, None, 1.0, jobs) for n in range(nodes))
    return BundleResult(Path("b.tar.zst"), 10, tuple(each))


@pytest.mark.parametrize(
    ("jobs", "chosen", "why"),
    [
        ((SMALL, LARGE), LARGE, "it has 4 ranks here, more than any other that runs"),
        ((SMALL, DEAD), SMALL, "all ranks of the other jobs have ended"),
        ((SMALL, LARGE, DEAD), LARGE, "it has 4 ranks here, more than any other that runs"),
        (
            (SMALL, JobHere("MASTER_ADDR=n1 MASTER_PORT=9 WORLD_SIZE=2", Ranks((0, 1)), (31,))),
            SMALL,
            "another one has 2 ranks here too",
        ),
    ],
)
def test_the_largest_job_that_runs_is_looked_at(jobs: tuple[JobHere, ...], chosen: JobHere, why: str) -> None:
    assert chosen_job(jobs) == chosen
    first = next(several_jobs(result(*jobs)))
    assert first.startswith(f"{len(jobs)} jobs run here. We look at the one with {chosen.name.split()[1]}: {why}")


def test_the_command_for_another_job_is_the_one_that_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["nccldoctor", "collect", "--pid", "all", "-o", "b.tar.zst"])
    same = JobHere("MASTER_ADDR=n1 WORLD_SIZE=2", Ranks((0, 1)), (31, 32))
    rows = list(several_jobs(result(SMALL, LARGE, DEAD, same)))
    assert rows[2:5] == [
        "  nccldoctor collect --pid all --where MASTER_PORT=1   # ranks 0-1",
        "  nccldoctor collect --pid all --where MASTER_PORT=3   # ranks 0-7, all ended",
        "  nccldoctor collect --pid 31,32   # ranks 0-1",
    ]


def test_nothing_is_said_of_one_job() -> None:
    assert not list(several_jobs(result(SMALL)))


def test_rows_of_another_form_are_no_jobs() -> None:
    rows = [
        {"job": "MASTER_PORT=1", "rank": 0, "pid": 5, "ended": False},
        {"job": "MASTER_PORT=1", "rank": 1, "pid": 6, "ended": True},
        {"job": "MASTER_PORT=1", "rank": 1, "pid": 7, "of": 6, "ended": False},
        {"job": 7, "rank": 0, "pid": 8},
        {"job": "MASTER_PORT=2", "rank": True, "pid": 9},
    ]
    assert jobs_of(rows) == (JobHere("MASTER_PORT=1", Ranks((0, 1)), (5,)),)


def test_what_is_missing_of_several_ranks_is_one_row_with_their_numbers() -> None:
    missing = tuple((f"a new flight recorder dump of rank {r} (pid {90 + r})", f"no pipe {r}") for r in range(4))
    rows = list(summary(result(missing=(*missing, ("nvidia-smi", "not here")), nodes=2)))
    assert "  a new flight recorder dump of ranks 0-3 on n1, n2: no pipe 0" in rows
    assert "  nvidia-smi on n1, n2: not here" in rows


def test_that_no_tool_shows_python_stacks_is_said_first_and_once() -> None:
    missing = (("Python stacks", "py-spy is not installed (pip install py-spy)"),)
    found = result(SMALL, LARGE, missing=missing, nodes=2)
    first, second, *_ = heading(found)
    assert first == "No Python stacks on n1, n2: py-spy is not installed (pip install py-spy).\n"
    assert second.startswith("2 jobs run here.")
    assert not any("py-spy" in row for row in summary(found))
