"""Excerpts as people paste them: a few lines of one file, cut anywhere, and what may be concluded from them."""

from __future__ import annotations

import pytest
from ruling import Ruling, read

TORCHRUN = (
    "torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: {code}) local_rank: 2 (pid: 7102) of binary: "
    "/usr/bin/python\n"
)

WATCHDOG = (
    "[rank{r}]:[E1104 05:06:07.{r}00000000 ProcessGroupNCCL.cpp:1895] [PG ID 0 PG GUID 0(default_pg) Rank {r}] Process "
    "group watchdog thread terminated with exception: CUDA error: {what}\n"
    "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be "
    "incorrect.\nException raised from c10_cuda_check_implementation at /pytorch/c10/cuda/CUDAException.cpp:43\n"
)


def excerpt(*parts: str) -> Ruling:
    """What is said about one pasted text."""
    return read({"log.txt": "".join(parts)})


# --- processes that end -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["an illegal memory access was encountered", "unspecified launch failure"])
def test_a_program_that_cuda_stops_is_named(what: str) -> None:
    found = excerpt(WATCHDOG.format(r=3, what=what))
    assert (found.cause, found.ranks) == ("raised", "3"), str(found)
    assert what in found.verdict["headline"]
    assert found.sure < 3


def test_the_same_error_on_several_ranks_at_once_names_them_all() -> None:
    found = excerpt(*(WATCHDOG.format(r=r, what="device-side assert triggered") for r in (1, 4)))
    assert (found.cause, found.ranks) == ("raised", "1,4"), str(found)


def test_an_error_that_a_worker_logs_before_it_aborts() -> None:
    logged = "ERROR 11-04 05:06:07 worker.py:88] RuntimeError: Triton Error [CUDA]: an illegal memory access was encountered\n"
    aborted = "[2026-11-04 05:06:07,100 E 71 99] logging.cc:108: Unhandled exception: N3c1016DistBackendErrorE. what(): [Rank 0] X\n"
    assert excerpt(logged, aborted).cause == "raised"
    assert excerpt(logged).cause != "raised"


@pytest.mark.parametrize(("code", "signal"), [(-9, "SIGKILL"), (-11, "SIGSEGV")])
def test_a_kill_under_a_local_rank_is_an_end_of_nobody_in_particular(code: int, signal: str) -> None:
    found = excerpt(TORCHRUN.format(code=code))
    assert (found.cause, found.ranks) == ("died", ""), str(found)
    assert signal in found.verdict["headline"]
    assert "ocal rank 2 (pid 7102)" in found.verdict["headline"]


@pytest.mark.parametrize("code", [-15, 1])
def test_an_end_that_may_belong_to_the_tear_down_is_not_told_without_a_rank(code: int) -> None:
    assert excerpt(TORCHRUN.format(code=code)).cause == "undetermined"


def test_a_kill_by_the_name_of_the_command() -> None:
    found = excerpt(
        'Traceback (most recent call last):\n  File "/opt/torch/distributed/launch.py", line 259, in main\n    cmd=cmd)\n'
        "subprocess.CalledProcessError: Command '['/usr/bin/python', '-u', 'train.py']' died with <Signals.SIGBUS: 7>.\n"
    )
    assert found.cause == "died", str(found)


def test_the_beginning_of_a_module_is_no_exception() -> None:
    cut = 'Traceback (most recent call last):\n  File "/opt/bin/torchrun", line 8, in <module>\n    sys.exit(main())\ntorch.distr'
    found = excerpt(TORCHRUN.format(code=-9), cut)
    assert found.cause == "died", str(found)


# --- who did not come ---------------------------------------------------------------------------------------------


def test_a_monitored_barrier_names_ranks_of_which_nothing_else_is_heard() -> None:
    found = excerpt("RuntimeError: [Rank 0]: Ranks 2, 3 failed to pass monitoredBarrier in 600000 ms\n")
    assert (found.cause, found.ranks) == ("not-arrived", "2-3"), str(found)


@pytest.mark.parametrize("source", ["this local rank", " rank 9"])
def test_a_dump_signal_is_no_healthy_job(source: str) -> None:
    found = excerpt(
        "[rank1]:[E1104 05:06:07.100000000 ProcessGroupNCCL.cpp:1890] [PG ID 0 PG GUID 0(default_pg) Rank 1] Received a "
        f"dump signal due to a collective timeout from {source} and we will try our best to dump the debug info. Last "
        "enqueued NCCL work: 812, last completed NCCL work: 811.This is most likely caused by\n"
    )
    assert found.cause == "undetermined", str(found)
    assert not found.blamed
