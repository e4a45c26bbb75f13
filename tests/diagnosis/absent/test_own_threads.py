"""What a rank waits for inside its own process is said: a thread of it, or a child that it started."""

from __future__ import annotations

from pathlib import Path

import pytest

import nccldoctor
from nccldoctor.incident import Incident

PY = "/usr/lib/python3.12"
WAITS = (
    "all_reduce (torch/distributed/distributed_c10d.py:2810)",
    "reduce_grads (fit.py:140)",
    "run (fit.py:210)",
    "<module> (fit.py:240)",
)
BELOW = (
    f"run ({PY}/threading.py:1012)",
    f"_bootstrap_inner ({PY}/threading.py:1075)",
    f"_bootstrap ({PY}/threading.py:1032)",
)
ORDERS = (f"wait ({PY}/threading.py:355)", f"get ({PY}/queue.py:171)", "drain (snap.py:33)", *BELOW)

PUT = (
    f"wait ({PY}/threading.py:355)",
    f"put ({PY}/queue.py:140)",
    "keep (snap.py:70)",
    "run (fit.py:190)",
    "<module> (fit.py:240)",
)
DRAIN_ON_LOCK = (f"acquire ({PY}/logging/__init__.py:927)", "drain (snap.py:41)", *BELOW)

NATIVE_LOCK = (
    "pthread_cond_timedwait (libc.so.6)",
    "PyThread_acquire_lock_timed (libpython3.12.so.1.0)",
    "record (meter.py:18)",
    "run (fit.py:150)",
    "<module> (fit.py:240)",
)
OTHER_ON_LOCK = (f"acquire ({PY}/logging/__init__.py:927)", "sample (meter.py:52)", *BELOW)

JOIN = (
    f"_wait_for_tstate_lock ({PY}/threading.py:1167)",
    f"join ({PY}/threading.py:1149)",
    "close (feed.py:88)",
    "<module> (fit.py:240)",
)
PUTS_TO_NOBODY = (f"wait ({PY}/threading.py:355)", f"put ({PY}/queue.py:140)", "pump (feed.py:21)", *BELOW)


def threads(pid: int, main: tuple[str, ...], others: dict[str, tuple[str, ...]], state: str = "idle") -> str:
    text = f"Process {pid}: python fit.py\nPython v3.12.3 (/usr/bin/python3.12)\n\n"
    for number, (name, frames) in enumerate({"MainThread": main, **others}.items()):
        text += f'Thread {pid + number} ({state}): "{name}"\n' + "".join(f"    {frame}\n" for frame in frames) + "\n"
    return text


def job(
    folder: Path,
    main: tuple[str, ...],
    others: dict[str, tuple[str, ...]],
    usual: dict[str, tuple[str, ...]],
    **more: str,
) -> Incident:
    """Ranks 0, 2 and 3 wait in a call, rank 1 stands in ``main``; two looks."""
    for look in (1, 2):
        at = folder / f"stacks-{look}"
        at.mkdir()
        for rank in range(4):
            own = threads(700 + 10 * rank, WAITS, usual) if rank != 1 else threads(710, main, others)
            (at / f"rank_{rank}.txt").write_text(own)
    for name, text in more.items():
        (folder / f"{name}.txt").write_text(text)
    return nccldoctor.analyze(folder)


DEADLOCKS = {
    "a full queue whose thread waits for a lock": (
        PUT,
        {"snap-writer": DRAIN_ON_LOCK},
        {"snap-writer": ORDERS},
        "waiting in Queue.put for its thread snap-writer, which waits for a lock in drain",
        "waits for a lock in drain (snap.py:41)",
    ),
    "two locks": (
        NATIVE_LOCK,
        {"sampler": OTHER_ON_LOCK},
        {"sampler": ("sample (meter.py:44)", *BELOW)},
        "waiting for a lock, while its thread sampler waits for a lock in sample",
        "waits for a lock in sample (meter.py:52)",
    ),
    "a join of a thread that waits in a queue": (
        JOIN,
        {"pump": PUTS_TO_NOBODY},
        {"pump": ("pump (feed.py:19)", *BELOW)},
        "waiting for a thread that it started",
        "waits in Queue.put in pump (feed.py:21)",
    ),
}


@pytest.mark.parametrize("kind", DEADLOCKS)
def test_a_deadlock_inside_a_process_is_said_with_both_threads(kind: str, tmp_path: Path) -> None:
    main, others, usual, words, other_thread = DEADLOCKS[kind]
    incident = job(tmp_path, main, others, usual)
    verdict = incident.verdict
    assert (verdict.cause, str(verdict.ranks)) == ("not-arrived", "1")
    assert words in verdict.headline
    (name,) = others
    assert f"Thread {name} of rank 1 {other_thread}." in {e.says for e in verdict.evidence}, "it is an exhibit"
    assert incident.diagnosis.remedies[0].id == "deadlock-in-process"


def test_no_file_system_is_blamed_for_a_writer_that_waits_for_its_own_thread(tmp_path: Path) -> None:
    saves = (*PUT[:2], "save_checkpoint (snap.py:70)", *PUT[3:])
    remedies = job(tmp_path, saves, {"snap-writer": DRAIN_ON_LOCK}, {"snap-writer": ORDERS}).diagnosis.remedies
    assert not {"checkpoint-save-slow", "filesystem-stall"} & {remedy.id for remedy in remedies}


def test_a_thread_at_work_is_told_as_that(tmp_path: Path) -> None:
    writes = ("flush_shard (snap.py:55)", *BELOW)
    incident = job(tmp_path, PUT, {"snap-writer": writes}, {"snap-writer": ORDERS})
    assert "waiting in Queue.put for its thread snap-writer, which is in flush_shard." in incident.verdict.headline
    assert "Thread snap-writer of rank 1 is in flush_shard (snap.py:55)." in {e.says for e in incident.verdict.evidence}
    assert "deadlock-in-process" not in {remedy.id for remedy in incident.diagnosis.remedies}


@pytest.mark.parametrize(
    ("main", "others", "usual"),
    [
        (PUT, {"snap-writer": ORDERS}, {"snap-writer": ORDERS}),  # waits for its next order
        (PUT, {"a": DRAIN_ON_LOCK}, {"a": DRAIN_ON_LOCK}),  # all ranks have it
        (PUT, {"a": DRAIN_ON_LOCK, "b": OTHER_ON_LOCK}, {"c": ORDERS}),  # either of two
        (("grind (fit.py:99)", *PUT[3:]), {"a": ("other (snap.py:9)", *BELOW)}, {"c": ORDERS}),  # main waits for nobody
    ],
)
def test_no_thread_is_named_without_a_sign(main, others, usual, tmp_path: Path) -> None:
    assert "its thread" not in job(tmp_path, main, others, usual).verdict.headline


def test_a_main_thread_that_runs_holds_the_lock_with_right(tmp_path: Path) -> None:
    beside = {"sampler": OTHER_ON_LOCK}
    for look, line in ((1, 99), (2, 104)):
        at = tmp_path / f"stacks-{look}"
        at.mkdir()
        for rank in range(4):
            main = (f"grind (fit.py:{line})", *PUT[3:]) if rank == 1 else WAITS
            text = threads(700 + 10 * rank, main, beside if rank == 1 else {"sampler": ORDERS})
            (at / f"rank_{rank}.txt").write_text(text)
    assert "its thread" not in nccldoctor.analyze(tmp_path).verdict.headline


PIPE = (
    f"_communicate ({PY}/subprocess.py:2115)",
    f"communicate ({PY}/subprocess.py:1209)",
    "pack (snap.py:90)",
    "run (fit.py:190)",
    "<module> (fit.py:240)",
)
TABLE = """    PID    PPID STAT WCHAN            CMD
    710     600 Sl   do_select        python fit.py
    716     710 S    {wchan}        {child}
    720     600 Sl   futex_wait       python fit.py
    999       1 S    pipe_read        cat
"""


@pytest.mark.parametrize(("wchan", "child"), [("pipe_write", "zstd -T4 -o /snap/a.zst"), ("pipe_read_", "sort -u")])
def test_the_child_that_keeps_a_pipe_is_named(wchan: str, child: str, tmp_path: Path) -> None:
    verdict = job(tmp_path, PIPE, {}, {}, ps=TABLE.format(wchan=wchan, child=child)).verdict
    assert "it is waiting for a child process" in verdict.headline
    assert f"Child 716 ({child}) of rank 1 is sleeping in {wchan}." in {e.says for e in verdict.evidence}


def test_a_worker_of_a_data_loader_is_named_by_the_processes_below_the_rank(tmp_path: Path) -> None:
    loads = (
        f"get ({PY}/multiprocessing/queues.py:113)",
        "_try_get_data (torch/utils/data/dataloader.py:1291)",
        "run (fit.py:130)",
        "<module> (fit.py:240)",
    )
    reads = (
        "unzip (rows.py:12)",
        "fetch (torch/utils/data/_utils/fetch.py:54)",
        "_worker_loop (torch/utils/data/_utils/worker.py:374)",
    )
    worker = 'Process 733: python fit.py\nParent Process 710: python fit.py\n\nThread 733 (idle): "MainThread"\n'
    for look in (1, 2):
        at = tmp_path / f"stacks-{look}"
        at.mkdir()
        for rank in range(4):
            below = "\n" + worker + "".join(f"    {frame}\n" for frame in reads) if rank == 1 else ""
            (at / f"rank_{rank}.txt").write_text(threads(700 + 10 * rank, loads if rank == 1 else WAITS, {}) + below)
    verdict = nccldoctor.analyze(tmp_path).verdict
    assert "it is waiting for the data loader" in verdict.headline
    assert any("733" in e.says and "unzip (rows.py:12)" in e.says for e in verdict.evidence), verdict.evidence


@pytest.mark.parametrize(("head", "indent"), [("", "    "), ("", ""), ("Thread 710 (idle)\n", "    ")])
def test_frames_are_read_without_the_head_of_their_process(head: str, indent: str, tmp_path: Path) -> None:
    for rank in range(4):
        frames = PUT if rank == 1 else WAITS
        (tmp_path / f"rank_{rank}.txt").write_text(head + "".join(f"{indent}{frame}\n" for frame in frames))
    verdict = nccldoctor.analyze(tmp_path).verdict
    assert (str(verdict.ranks), "it is in keep" in verdict.headline) == ("1", True)
    assert any("keep (snap.py:70)" in e.says for e in verdict.evidence)
