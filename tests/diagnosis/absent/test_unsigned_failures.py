"""A failure that no line gives a rank is joined to the only rank that did not wait, and never with high confidence."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders.logs.lines import old_watchdog, watchdog

import nccldoctor
from nccldoctor.model import CauseClass, Confidence, Finding

SILENT = 11
CAUGHT = "".join(watchdog(r, at=f"E202 03:20:0{r % 8}.050510987") for r in range(16) if r != SILENT)
UNNUMBERED = "".join(old_watchdog(r, None, ran_ms=1_800_000 + r) for r in range(16) if r != SILENT)
STACK = 'Traceback (most recent call last):\n  File "/srv/train.py", line 61, in main\n    loss.backward()\n'
FULL = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79.15 GiB of which "
    "1.05 GiB is free.\n"
)
STEPS = "export WORLD_SIZE=16\n" + "".join(
    f"2026-02-02 03:0{m}:00,600 | INFO | trainer | step {m}/50000 | loss 3.0\n" for m in range(9)
)


def verdict(folder: Path, text: str, more: str = "") -> Finding:
    (folder / "job.log").write_text(text)
    if more:
        (folder / "train.err").write_text(more)
    return nccldoctor.analyze(folder).verdict


@pytest.mark.parametrize(("text", "more"), [(STEPS + STACK + FULL + CAUGHT, ""), (STEPS + CAUGHT, STACK + FULL)])
def test_an_exception_without_a_rank(tmp_path: Path, text: str, more: str) -> None:
    found = verdict(tmp_path, text, more)
    assert (found.cause, str(found.ranks), found.confidence) == (CauseClass.RAISED, "11", Confidence.MEDIUM)


def test_the_rank_that_others_wait_for_is_suspected_where_the_size_of_the_job_is_unknown(tmp_path: Path) -> None:
    found = verdict(tmp_path, STACK + FULL + "".join(old_watchdog(r, 77, "_ALLGATHER_BASE") for r in (0, 1, 3)))
    assert (found.cause, str(found.ranks), str(found.suspects)) == (CauseClass.RAISED, "", "2")


def test_a_launcher_that_saw_the_rank_fail_makes_it_sure(tmp_path: Path) -> None:
    table = (
        "Root Cause (first observed failure):\n[0]:\n  time      : 2026-02-02_03:09:00\n  host      : node0\n"
        "  rank      : 11 (local_rank: 3)\n  exitcode  : 1 (pid: 711)\n  error_file: <N/A>\n"
    )
    found = verdict(tmp_path, STEPS + STACK + FULL + CAUGHT + table)
    assert (str(found.ranks), found.confidence) == ("11", Confidence.HIGH)


def test_the_words_of_a_full_board_alone(tmp_path: Path) -> None:
    """They may as well have been caught and tried again."""
    found = verdict(tmp_path, STEPS + FULL + CAUGHT)
    assert (found.cause, str(found.ranks), found.confidence) == (CauseClass.RAISED, "11", Confidence.LOW)
    assert "ran out of GPU memory" in found.headline


def test_the_same_behind_the_complaints_leaves_the_class_open(tmp_path: Path) -> None:
    found = verdict(tmp_path, STEPS + CAUGHT + FULL)
    assert (str(found.ranks), found.confidence) == ("11", Confidence.LOW)


def test_where_nobody_complains_they_are_no_failure(tmp_path: Path) -> None:
    found = verdict(tmp_path, STEPS + "WARNING: ran out of memory, batch skipped: " + FULL)
    assert found.cause is not CauseClass.RAISED


@pytest.mark.parametrize("text", [FULL + UNNUMBERED, UNNUMBERED + STACK + FULL, UNNUMBERED])
def test_the_only_silent_rank_is_a_suspect_where_no_line_numbers_the_call(tmp_path: Path, text: str) -> None:
    found = verdict(tmp_path, STEPS + text)
    assert str(found.ranks | found.suspects) == "11"
    assert found.confidence in (Confidence.LOW, Confidence.CANNOT_TELL)


ABORTED = (
    "[2026-02-02 03:09:00,095] torch.distributed.elastic.multiprocessing.api: [ERROR] failed (exitcode: -6) local_rank: 5 "
    "(pid: 21617) of binary: /opt/conda/bin/python\n"
)


def test_an_abort_is_a_death_only_where_the_process_says_why(tmp_path: Path) -> None:
    """A watchdog aborts as well: the launcher alone cannot tell the two apart."""
    explained = verdict(tmp_path, STEPS + "double free or corruption (!prev)\n" + ABORTED)
    assert explained.cause is CauseClass.DIED
    assert explained.headline.startswith("Local rank 5 (pid 21617) probably aborted (SIGABRT)")
    assert verdict(tmp_path, STEPS + ABORTED).cause is CauseClass.UNDETERMINED


SPAWNED = (
    'Traceback (most recent call last):\n  File "/job/run.py", line 18, in <module>\n    mp.spawn(worker, nprocs=4)\n'
    "torch.multiprocessing.spawn.ProcessRaisedException: \n\n-- Process 2 terminated with the following error:\n"
    "Traceback (most recent call last):\n"
    '  File "/venv/lib/python3.11/site-packages/torch/multiprocessing/spawn.py", line 87, in _wrap\n    fn(i, *args)\n'
    '  File "/job/run.py", line 12, in worker\n    step()\n{error}\n'
)


@pytest.mark.parametrize("error", ["ValueError: expected 8 labels", "ZeroDivisionError: division by zero"])
def test_the_parent_of_spawned_ranks_carries_their_error_and_waits_for_nobody(tmp_path: Path, error: str) -> None:
    """Its traceback stands above that of the process, which did not fail because of it."""
    (tmp_path / "run.log").write_text("iter 0\niter 1\n" + SPAWNED.format(error=error))
    verdict = nccldoctor.analyze(tmp_path).verdict
    assert (verdict.cause, verdict.confidence) == ("raised", "low")
    assert error in verdict.headline


def test_a_spawned_rank_that_waited_in_vain_is_no_cause(tmp_path: Path) -> None:
    waited = (
        "RuntimeError: [/pytorch/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 18000ms for recv operation"
    )
    (tmp_path / "run.log").write_text("iter 0\niter 1\n" + SPAWNED.format(error=waited))
    assert nccldoctor.analyze(tmp_path).verdict.cause == "undetermined"


def test_an_exit_that_no_line_ties_to_a_rank_is_on_record(tmp_path: Path) -> None:
    start = (
        "[rank{0}]:[I1104 10:00:0{0}.000000 ProcessGroupNCCL.cpp:905] [PG ID 0 PG GUID 0 Rank {0}] ProcessGroupNCCL "
        "initialization options: size: 4, global rank: {0}, TIMEOUT(ms): 600000\n"
    )
    caught = "".join(watchdog(r, 1, "BROADCAST", at=f"E1104 10:10:1{r}.123456", ran_ms=600_071) for r in (0, 1, 3))
    text = "".join(map(start.format, range(4))) + caught
    end = "E1104 10:10:21.000000 900 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -9) local_rank: 2 "
    found = verdict(tmp_path, f"{text}{end}(pid: 1002) of binary: python\n")
    assert (found.cause, str(found.ranks)) == (CauseClass.FROZEN, "2")
    assert "exit on record" not in found.headline
    assert any("no line ties to a rank" in doubt.says for doubt in found.doubts)


@pytest.mark.parametrize(("at", "cause"), [("02:49", CauseClass.DIED), ("03:25", CauseClass.NOT_ARRIVED)])
def test_an_undated_end_is_not_earlier_than_the_dated_line_above_it(tmp_path: Path, at: str, cause: CauseClass) -> None:
    line = f"2026-02-02 {at}:00,600 | INFO | launcher | step 9/50000 | loss 3.0\n"
    end = "bash: line 1:  1002 Killed                  python3 train.py\n"
    assert verdict(tmp_path, STEPS + CAUGHT, line + end).cause is cause


REMOTE = (
    "[rank{0}]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2251, remote process exited or there was "
    "a network error, NCCL version 2.27.5\n"
    "[rank{0}]: ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.\n"
    "[rank{0}]: Last error:\n"
    "[rank{0}]: socketPollConnect: connect to 10.2.0.7<40111> returned Connection refused, exceeded error retry count after 34 attempts\n"
)


@pytest.mark.parametrize(("code", "cause"), [(-11, CauseClass.DIED), (-4, CauseClass.DIED), (1, CauseClass.NETWORK)])
def test_refused_connections_follow_the_crash_of_a_local_rank(tmp_path: Path, code: int, cause: CauseClass) -> None:
    end = f"E0611 05:00:51.301000 8800 torch/distributed/elastic/multiprocessing/api.py:882] failed (exitcode: {code}) local_rank: 1 "
    found = verdict(tmp_path, "".join(map(REMOTE.format, (0, 2, 3))) + f"{end}(pid: 8811) of binary: python\n")
    assert found.cause is cause, found.headline


RAY = "(Worker pid=92234, ip=10.0.4.2) "
DIED = (
    "(raylet) A worker died or was killed while executing a task by an unexpected system error. To troubleshoot the problem, check the "
    "logs for the dead worker. RayTask ID: ff Worker ID: d8 Node ID: 84 Worker IP address: 10.0.4.2 Worker port: 10002 Worker PID: {} "
    "Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection error code 2. End of file.\n"
)
LOST = (
    f"{RAY}[rank1]:[E1224 13:23:05.483840160 ProcessGroupNCCL.cpp:542] [Rank 1] Collective WorkNCCL(SeqNum=1, OpType=BROADCAST, "
    "NumelIn=8, NumelOut=8, Timeout(ms)=1800000) raised the following async exception: NCCL error: remote process exited or there was "
    f"a network error, NCCL version 2.21.5\n{RAY}ncclRemoteError: A call failed possibly due to a network error or a remote process "
    "exiting prematurely.\n"
)


def test_a_process_that_ended_above_the_complaint_of_its_lost_peer_died(tmp_path: Path) -> None:
    found = verdict(tmp_path, DIED.format(90738) + LOST)
    assert (found.cause, found.confidence) == (CauseClass.DIED, Confidence.LOW)
    assert "90738" in found.headline
    own = verdict(tmp_path, DIED.format(92234) + LOST)
    assert own.cause is not CauseClass.DIED, "the process complained itself"


def test_the_hosts_daemon_tells_of_an_end_at_once(tmp_path: Path) -> None:
    gave_up = RAY + watchdog(1, 1, "BROADCAST", at="E1224 13:33:05.483840")
    assert verdict(tmp_path, DIED.format(90738) + gave_up).cause is CauseClass.DIED
    assert verdict(tmp_path, DIED.format(92234) + gave_up).cause is not CauseClass.DIED, "its own abort"
