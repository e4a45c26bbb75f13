"""The first thing to do fits what was seen, where one remedy has a step for each of several signs."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders.remedies.remedy_jobs import Job
from diagnosis.remedies.lateness import late
from diagnosis.remedies.machine import crash, looked_at, xid
from diagnosis.remedies.network import refused

from nccldoctor.model import RemedyAdvice
from nccldoctor.pipeline import analyze


def worker_lost(how: str) -> Job:
    error = f"RuntimeError: DataLoader worker (pid 9120) is killed by signal: {how}. "
    return late(5).raises(5, error, "_try_get_data").ends({5: 1}, 1)


def in_state(state: str) -> Job:
    return looked_at().raw(
        "ps.txt", "  PID STAT WCHAN          COMMAND", f" 4005 {state}    ptrace_stop   python train.py"
    )


FAILED = "E1120 09:03:50.013000 4116 torch/distributed/elastic/multiprocessing/api.py:833] failed (exitcode: -9) local_rank: 4 (pid: 4120)"
CUT = "Traceback (most recent call last):"

STEPS = {
    "a crash in native code": (lambda: Job().ends({5: -11}, 1), "rank-crash-first", "PYTHONFAULTHANDLER"),
    "a kill": (lambda: Job().ends({5: -9}, 1), "killed-without-record", "who ended it"),
    "a worker without shared memory": (lambda: worker_lost("Bus error"), "dataloader-worker-killed", "shm-size"),
    "a worker that was killed": (lambda: worker_lost("Killed"), "dataloader-worker-killed", "prefetch_factor"),
    "a worker that crashed": (lambda: worker_lost("Segmentation fault"), "dataloader-worker-killed", "num_workers=0"),
    "a bus error": (lambda: Job().ends({5: -7}, 1), "shm-too-small", "shm-size"),
    "a kill beside the beginning of a traceback": (
        lambda: Job(steps=0).raw("torchrun.log", FAILED, CUT),
        "killed-without-record",
        "who ended it",
    ),
    "GPU memory that is full at the set-up": (
        lambda: Job(steps=0).raw(
            "node0.log",
            "node0:77:88 [3] include/alloc.h:185 NCCL WARN Cuda failure 'out of memory'",
            "node0:77:88 [3] NCCL INFO init.cc:1358 -> 1",
        ),
        "cuda-oom-one-rank",
        "leftover process",
    ),
    "an error in the init of a library": (
        lambda: Job(steps=0).nccl(
            5, "misc/ibvwrap.cc:252 NCCL WARN Call to ibv_modify_qp failed with error No such device errno 19"
        ),
        "rdma-setup-failed",
        "/dev/infiniband",
    ),
    "a traceback": (lambda: crash("ValueError: bad label"), "rank-crash-first", "Reproduce the error"),
    "an exit code alone": (lambda: Job().ends({5: 3}, 1), "rank-crash-first", "os._exit"),
    "a stopped process": (lambda: in_state("T"), "process-stopped", "kill -CONT"),
    "a process held by a debugger": (lambda: in_state("t"), "process-stopped", "debugger"),
    "an unreachable network": (lambda: refused("No route to host"), "wrong-interface", "NCCL_SOCKET_IFNAME"),
}


def best(job: Job, folder: Path) -> RemedyAdvice:
    return analyze(job.write(folder / "logs")).diagnosis.remedies[0]


@pytest.mark.parametrize("seen", STEPS)
def test_the_first_step_is_for_what_was_seen(seen: str, tmp_path: Path) -> None:
    make, remedy, words = STEPS[seen]
    first = best(make(), tmp_path)
    assert (first.id, words in first.fix[0]) == (remedy, True), first.fix


def test_no_step_of_another_sign_is_shown(tmp_path: Path) -> None:
    assert not any("shm-size" in step for step in best(worker_lost("Killed"), tmp_path).fix)


def test_a_remedy_without_a_telling_sign_says_that_it_is_a_guess(tmp_path: Path) -> None:
    assert best(Job().late(0, numel=1), tmp_path / "a").title.endswith("(a guess)")
    assert not best(worker_lost("Killed"), tmp_path / "b").title.endswith("(a guess)")


def test_a_fix_that_is_a_command_is_shown_with_it(tmp_path: Path) -> None:
    steps = analyze(in_state("T").write(tmp_path / "logs")).diagnosis.action.steps
    assert any("kill -CONT 4005" in (step.command or "") for step in steps), steps


def test_a_host_is_drained_once(tmp_path: Path) -> None:
    steps = analyze(xid(79, "GPU has fallen off the bus.").write(tmp_path / "logs")).diagnosis.action.steps
    assert sum(step.text.startswith("Drain") for step in steps) == 1, steps


STEP = "2026-11-20 09:59:0{at},000 INFO step={at}0 loss=2.31"
OVER = "slurmstepd: error: *** STEP 4478.0 ON node0 CANCELLED AT 2026-11-20T10:30:15 DUE TO TIME LIMIT ***"


@pytest.mark.parametrize("done", ["[after training is done] datetime: 2026-11-20 10:00:03", "Training completed."])
def test_a_longer_limit_is_no_help_to_a_job_that_was_done_and_did_not_end(done: str, tmp_path: Path) -> None:
    hung = Job(steps=0).raw("slurm-4478.out", STEP.format(at=1), done, OVER)
    assert best(hung, tmp_path / "hung").id == "teardown-hang"
    goes_on = Job(steps=0).raw("slurm-4478.out", STEP.format(at=1), done, STEP.format(at=2), OVER)
    assert best(goes_on, tmp_path / "on").id == "time-limit"
