"""Verdicts on bundles of jobs that still hang."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders.files.bundles import EVALUATES, WAITS, Bundle, stack

import nccldoctor

KILLED = (
    "[Fri May  1 {time} 2026] Out of memory: Killed process 777 (python) total-vm:23953472kB, anon-rss:23600000kB,"
    " file-rss:4096kB, shmem-rss:0kB, UID:0 pgtables:46000kB oom_score_adj:0\n"
)


FAIRSCALE = (
    "wait (torch/distributed/distributed_c10d.py:702)",
    "_wait_for_all (fairscale/nn/data_parallel/sharded_ddp.py:512)",
    "<module> (finetune.py:77)",
)


@pytest.fixture
def hung() -> Bundle:
    """Ranks 0-2 wait for rank 3, which evaluates, on two hosts and at two looks."""
    bundle = Bundle()
    for look in (1, 2):
        bundle.look("gpu-a", {0: WAITS, 1: WAITS}, look)
        bundle.look("gpu-b", {2: WAITS, 3: EVALUATES}, look)
    return bundle


def test_the_rank_outside_is_named_with_its_host_and_process(hung: Bundle, tmp_path: Path) -> None:
    incident = nccldoctor.analyze(hung.write(tmp_path / "bundle.tar.zst"))
    verdict = incident.verdict
    assert (verdict.cause, str(verdict.ranks)) == ("not-arrived", "3")
    assert verdict.headline.startswith("Rank 3 has probably not reached all_reduce, where ranks 0-2 wait")
    assert "rank 3 on gpu-b, pid 1003" in incident.to_text()


@pytest.mark.parametrize(("grown", "confidence"), [(None, "low"), (0, "medium"), (18, "low")])
def test_a_log_that_did_not_grow_between_two_looks_shows_that_no_step_was_made(
    tmp_path: Path, grown: int | None, confidence: str
) -> None:
    hung = Bundle()
    for look in (1, 2):
        hung.look("gpu-a", {0: WAITS, 1: WAITS}, look)
        hung.look("gpu-b", {2: WAITS, 3: ("read_rows (train.py:12)", "<module> (train.py:88)")}, look)
    lines = b"".join(b"step=%d loss=0.%d5 lr=3.0e-04\n" % (step, step) for step in range(1, 9))
    more = {} if grown is None else {"grown": grown}
    hung.add("gpu-a", "rank-0/logs/rank_0.log", "log", lines, 0, **more)
    hung.add("gpu-b", "rank-2/logs/rank_2.log", "log", lines, 2, grown=0)
    verdict = nccldoctor.analyze(hung.write(tmp_path / "bundle.tar.zst")).verdict
    assert (verdict.cause, str(verdict.ranks), str(verdict.confidence)) == ("not-arrived", "3", confidence)


@pytest.mark.parametrize("state", ["S", "D"])
@pytest.mark.parametrize("waits", [WAITS, FAIRSCALE])
def test_a_rank_whose_stack_no_tool_could_read_is_not_blamed_for_that(
    tmp_path: Path, waits: tuple[str, ...], state: str
) -> None:
    """The table of processes shows that it lives like its peers. One that the kernel blocks is another matter."""
    bundle = Bundle()
    bundle.look("gpu-a", dict.fromkeys(range(4), waits))
    bundle.rows = [row for row in bundle.rows if row["path"] != "nodes/gpu-a/rank-0/stack-1.txt"]
    del bundle.files["nodes/gpu-a/rank-0/stack-1.txt"]
    table = "nodes/gpu-a/node/processes-1.txt"
    bundle.files[table] = bundle.files[table].replace(b"1000 1 S", f"1000 1 {state}".encode())
    verdict = nccldoctor.analyze(bundle.write(tmp_path / "bundle.tar.zst")).verdict
    assert (str(verdict.ranks), str(verdict.suspects)) == ("0" if state == "D" else "", "")
    assert "anks 1-3" in verdict.headline, "no waiting rank is named alone"


@pytest.mark.parametrize(("own", "claimed"), [(WAITS, EVALUATES), (EVALUATES, WAITS), (WAITS, WAITS)])
def test_two_processes_that_say_they_are_rank_3_decide_nothing(
    tmp_path: Path, own: tuple[str, ...], claimed: tuple[str, ...]
) -> None:
    bundle = Bundle()
    for look in (1, 2):
        bundle.look("gpu-a", {0: WAITS, 1: WAITS}, look)
        bundle.look("gpu-b", {2: WAITS, 3: own}, look)
        moment = f"2026-05-01T10:00:{10 * look}+00:00"
        path = f"rank-3-pid-7777/stack-{look}.txt"
        bundle.add("gpu-b", path, "stack", stack(7777, claimed), 3, look=look, time=moment)
        bundle.rows[-1]["pid"] = 7777
    incident = nccldoctor.analyze(bundle.write(tmp_path / "bundle.tar.zst"))
    assert not incident.verdict.ranks, incident.verdict.headline
    assert incident.verdict.confidence in (("medium",) if own == claimed else ("low",))
    assert any(gap.what == "which process is rank 3" for gap in incident.case.gaps)


def test_the_kill_of_a_process_that_was_no_rank_accuses_nobody(hung: Bundle, tmp_path: Path) -> None:
    hung.add("gpu-a", "node/dmesg.log", "kernel log", KILLED.format(time="09:58:00").encode())
    verdict = nccldoctor.analyze(hung.write(tmp_path / "bundle.tar.zst")).verdict
    assert (verdict.cause, str(verdict.ranks)) == ("not-arrived", "3")


def test_the_kill_counts_where_a_rank_was_not_seen_afterwards(tmp_path: Path) -> None:
    bundle = Bundle()
    for look in (1, 2):
        bundle.look("gpu-a", {0: WAITS, 1: WAITS}, look)
        bundle.look("gpu-b", {2: WAITS}, look)
    bundle.add("gpu-b", "node/dmesg.log", "kernel log", KILLED.format(time="09:58:00").encode())
    assert nccldoctor.analyze(bundle.write(tmp_path / "bundle.tar.zst")).verdict.cause == "died"


def test_a_host_that_did_not_answer_is_no_culprit(tmp_path: Path) -> None:
    bundle = Bundle()
    bundle.nodes.append({"name": "gpu-b", "answered": False, "error": "ssh: Connection timed out"})
    for look in (1, 2):
        bundle.look("gpu-a", {0: WAITS, 1: WAITS}, look)
    incident = nccldoctor.analyze(bundle.write(tmp_path / "bundle.tar.zst"))
    assert incident.verdict.confidence != "high"
    assert "died" not in str(incident.verdict.cause)
    assert any(gap.what == "node gpu-b" and gap.lost for gap in incident.case.gaps)


def test_a_stopped_rank_is_frozen_although_its_stack_was_read(hung: Bundle, tmp_path: Path) -> None:
    for look in (1, 2):
        path = f"nodes/gpu-b/node/processes-{look}.txt"
        hung.files[path] = hung.files[path].replace(b"1003 1 S futex_do_wait", b"1003 1 T do_signal_stop")
    verdict = nccldoctor.analyze(hung.write(tmp_path / "bundle.tar.zst")).verdict
    assert (verdict.cause, str(verdict.ranks)) == ("frozen", "3")


def test_steps_after_the_look_clear_the_job(hung: Bundle, tmp_path: Path) -> None:
    for rank in range(4):
        lines = "".join(f"2026-05-01 10:00:{second:02},000 INFO step {second} loss 0.5\n" for second in range(0, 60, 3))
        hung.add("gpu-a" if rank < 2 else "gpu-b", f"rank-{rank}/logs/train.log", "log", lines.encode(), rank)
    assert nccldoctor.analyze(hung.write(tmp_path / "bundle.tar.zst")).verdict.cause == "none"


LOADER = (
    "wait (multiprocessing/connection.py:947)",
    "_MultiProcessingDataLoaderIter._get_data (torch/utils/data/dataloader.py:1299)",
    "main (train.py:55)",
    "<module> (train.py:90)",
)
READS = ("read_shard (train.py:20)", "_worker_loop (torch/utils/data/_utils/worker.py:374)")
IDLE = ("Queue.get (multiprocessing/queues.py:113)", "_worker_loop (torch/utils/data/_utils/worker.py:340)")


def test_the_blocked_worker_of_the_culprit_is_shown(tmp_path: Path) -> None:
    bundle = Bundle()
    bundle.look("gpu-a", {0: WAITS, 1: WAITS, 2: WAITS, 3: LOADER})
    for rank, pid, frames in ((0, 2000, READS), (3, 2001, READS), (3, 2002, IDLE)):
        path = f"rank-{rank}/worker-{pid}-stack-1.txt"
        bundle.add("gpu-a", path, "stack", stack(pid, frames), rank, pid=pid, of=1000 + rank, look=1)
    verdict = nccldoctor.analyze(bundle.write(tmp_path / "bundle.tar.zst")).verdict
    assert (verdict.cause, str(verdict.ranks)) == ("not-arrived", "3")
    shown = [item.says for item in verdict.evidence if "orker" in item.says]
    assert shown == ["Worker process 2001 was in read_shard (train.py:20)."]
