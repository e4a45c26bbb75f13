"""What must hold for every job: who stands outside is named, who goes on is not accused, a record comes before what is inferred."""

from __future__ import annotations

import re

import pytest
from builders.jobs.verdicts import Ruling, read
from staged import jobs

SEEDS = range(6)
STACKS = ("stacks", "pyspy")
"""How the folders of stacks begin."""
INNOCENT = ("live_and_well", "running", "finished_with_noise")
HUNG = ("busy_rank", "frozen_rank", "first_rank_evaluates", "live_with_quiet_logs")


def _kept(job: jobs.Job, *folders: str) -> Ruling:
    """The verdict on the files of these folders; of all where none is named."""
    return read({name: text for name, text in job.files.items() if not folders or name.startswith(folders)}, job.truth)


@pytest.mark.costly
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("scene", ["live_one_outside", "live_with_quiet_logs"])
def test_a_live_hang_is_named_from_stacks_and_quiet_logs_never_hide_it(scene: str, seed: int) -> None:
    job = jobs.make(seed, scenario=scene)
    wanted = set(job.truth["culprit_ranks"])
    for ruling in (_kept(job, *STACKS), _kept(job)):
        assert ruling.blamed == wanted, str(ruling)
        assert ruling.cause in job.truth["acceptable_classes"], str(ruling)


@pytest.mark.costly
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("scene", INNOCENT)
def test_no_job_that_goes_on_or_ended_well_is_accused(scene: str, seed: int) -> None:
    job = jobs.make(seed, scenario=scene)
    for ruling in (_kept(job), _kept(job, *STACKS)):
        assert not ruling.blamed, str(ruling)


@pytest.mark.costly
@pytest.mark.parametrize("seed", SEEDS)
def test_a_record_of_the_end_comes_before_what_is_inferred(seed: int) -> None:
    """A rank that merely shows no life was killed, once the kernel says so."""
    job = jobs.make(seed, scenario="frozen_rank")
    (rank,) = job.truth["culprit_ranks"]
    host = next(host for host, ranks in job.truth["hosts"].items() if rank in ranks)
    line = f"[81234.567890] Out of memory: Killed process {job.plan.pid(rank)} (python3) total-vm:81234567kB, anon-rss:71234567kB\n"
    placed = f"{host}: rank {rank} pid {job.plan.pid(rank)}\n"
    inferred = _kept(job)
    recorded = read({**job.files, f"kernel/{host}/dmesg.txt": line, "processes.txt": placed}, job.truth)
    assert inferred.cause != "died", str(inferred)
    assert recorded.cause == "died", str(recorded)
    assert recorded.blamed <= {rank}, str(recorded)


@pytest.mark.costly
@pytest.mark.parametrize("scene", HUNG)
def test_a_rank_that_reports_fewer_steps_is_not_behind(scene: str) -> None:
    """Every fourth report of one innocent rank is left, so that its newest step is an older one."""
    compared = 0
    for seed in range(40):
        job = jobs.make(seed, scenario=scene)
        innocent = max(set(range(job.truth["world_size"])) - set(job.truth["culprit_ranks"]))
        files = _with_fewer_steps(job, innocent)
        if files == job.files or compared == 4:
            continue
        whole, thinned = _kept(job), read(files, job.truth)
        assert (thinned.cause, thinned.ranks) == (whole.cause, whole.ranks), f"{seed}: {whole} {thinned}"
        compared += 1
    assert compared


def _with_fewer_steps(job: jobs.Job, rank: int) -> dict[str, str | bytes]:
    own_file = re.compile(rf"(?<!\d){rank}\.(?:out|log|txt)$")
    own_line = re.compile(rf"\(rank {rank}\)|\"rank\": {rank}\b")
    report = re.compile(r"\bstep \d+/|\"step\": \d|\d+/\d+ \[")
    files: dict[str, str | bytes] = {}
    for name, text in job.files.items():
        if isinstance(text, str):
            lines = text.splitlines(keepends=True)
            own = [
                n
                for n, line in enumerate(lines)
                if report.search(line) and (own_file.search(name) or own_line.search(line))
            ]
            dropped = set(own) - set(own[::4])
            files[name] = "".join(line for number, line in enumerate(lines) if number not in dropped)
        else:
            files[name] = text
    return files
