"""Pages and periodic dumps of PyTorch's debug server: what several looks show, what one does not, and ranks that it asked in vain."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
from builders.files.dumps import content, entry
from builders.jobs.verdicts import read

import nccldoctor

AT = "http://node0:4100{}/handler/{}?"
WAITS = (
    "Thread 0x00007f29c294b80 (most recent call first):\n"
    '  File "/opt/py/lib/python3.12/site-packages/torch/distributed/distributed_c10d.py", line 3252 in all_reduce\n'
    '  File "/srv/job.py", line 24 in train\n  File "/srv/job.py", line 32 in <module>\n'
)
READS = (
    "Thread 0x00007f162e3eb80 (most recent call first):\n"
    '  File "/srv/job.py", line 10 in read_rows\n  File "/srv/job.py", line 17 in train\n  File "/srv/job.py", line 32 in <module>\n'
)
STOP = (
    "Traceback (most recent call last):\n"
    '  File "/opt/py/lib/python3.12/site-packages/torch/distributed/elastic/multiprocessing/api.py", line 86, in _terminate\n'
    '    raise SignalException(f"Process {os.getpid()} got signal: {sigval}", sigval=sigval)\n'
    "torch.distributed.elastic.multiprocessing.api.SignalException: Process 7694 got signal: 15\n"
)
SILENT = "Timeout: HTTPConnectionPool(host='node0', port=41002): Read timed out. (read timeout=60)"


def stacks(*answers: str | None, why: str = SILENT) -> str:
    """The file ``stacks_<time>.txt``; None for a rank that did not answer."""
    failed = [rank for rank, answer in enumerate(answers) if answer is None]
    head = f"PARTIAL DATA: {len(answers) - len(failed)}/{len(answers)} workers responded\n" if failed else ""
    head += "".join(f"  Rank {rank}: {why}\n" for rank in failed)
    status = "Error: 404" if "not found" in why else "Error: 408"
    return head + "".join(
        f"=== Rank {rank}: {AT.format(rank, 'dump_traceback')} ===\n{answer or status}\n"
        for rank, answer in enumerate(answers)
    )


def recorded(*last: int) -> list[dict[str, object]]:
    """Recorder dumps of ranks whose newest call has these numbers; only the highest of all is not done."""
    open_call = {"state": "started", "time_discovered_completed_ns": None, "retired": False}
    done = {"state": "completed", "retired": True}
    return [
        content(
            *(entry(seq=n, **(open_call if n == max(last) else done)) for n in range(1, seq + 1)),
            pg_config={"0": {"name": "0", "desc": "default_pg", "ranks": str([*range(len(last))])}},
        )
        for seq in last
    ]


def page(*last: int) -> str:
    """The page ``fr_trace_json`` of the same ranks."""
    return "".join(
        f"        <h2>Rank {rank}: {AT.format(rank, 'fr_trace_json')}</h2>\n        \n            <pre>{json.dumps(dump, indent=2)}</pre>\n"
        for rank, dump in enumerate(recorded(*last))
    )


LATE = stacks(WAITS, WAITS, READS, WAITS)
MUTE = stacks(WAITS, WAITS, None, WAITS)


def test_two_looks_show_the_rank_outside_the_call() -> None:
    one = read({"dumps/stacks_20260304_101500.txt": LATE})
    two = read({f"dumps/stacks_20260304_10{m}00.txt": LATE for m in (15, 17)})
    assert (one.cause, one.ranks, one.verdict["confidence"]) == ("not-arrived", "2", "low"), str(one)
    assert (two.cause, two.ranks) == ("not-arrived", "2"), str(two)
    assert two.verdict["confidence"] == "medium", str(two)


def test_a_job_that_moves_between_two_looks_accuses_nobody() -> None:
    moved = stacks(READS, WAITS, WAITS, WAITS)
    ruling = read({"dumps/stacks_20260304_101500.txt": moved, "dumps/stacks_20260304_101600.txt": LATE})
    assert ruling.verdict["ranks"] == "", str(ruling)


@pytest.mark.parametrize("end", ["", STOP], ids=["alone", "stopped from outside later"])
def test_a_rank_that_did_not_answer_is_named(end: str) -> None:
    files = {f"dumps/stacks_20260304_10{m}00.txt": MUTE for m in (15, 17)}
    ruling = read(files | ({"agent.log": end} if end else {}))
    assert (ruling.cause, ruling.ranks, ruling.verdict["confidence"]) == ("frozen", "2", "medium"), str(ruling)
    assert "did not answer the debug server" in ruling.verdict["headline"]
    once = read({"dumps/stacks_20260304_101500.txt": MUTE})
    assert once.verdict["confidence"] == "low", "one look may be of a running job"


def test_a_rank_without_the_handler_did_answer() -> None:
    answered = stacks(
        WAITS, WAITS, None, WAITS, why="Handler dump_traceback not found: Failed to find handler dump_traceback"
    )
    assert "did not answer" not in read({"dumps/stacks_20260304_101500.txt": answered}).verdict["headline"]


def told(folder: Path, **texts: str) -> tuple[str, str]:
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text)
    verdict = nccldoctor.analyze(folder).verdict
    return str(verdict.ranks), verdict.confidence


def test_a_recorder_page_of_one_moment_is_not_enough_for_more_than_low(tmp_path: Path) -> None:
    assert told(tmp_path, fr_trace_json=page(7, 7, 6, 7))[1] in ("low", "cannot-tell")
    assert told(tmp_path, stacks_1=LATE) == ("2", "low")
    assert told(tmp_path, stacks_2=LATE) == ("2", "high")


ANALYSED = (
    "Not all ranks joining collective, sequence number: 31\ngroup info: 0:default_pg\ncollective: nccl:all_reduce\n"
    "missing ranks: {}\nworld size: 8\nexpected ranks: {{0, 1, 2, 3, 4, 5, 6, 7}}\ncollective state: scheduled\n"
)


def test_ranks_that_its_analyser_misses_are_named_unless_they_are_most() -> None:
    few, most = (read({"job.log": ANALYSED.format(missing)}) for missing in ("{3}", "{3, 4, 5, 6, 7}"))
    assert (few.cause, few.ranks, few.verdict["suspects"]) == ("not-arrived", "3", ""), str(few)
    assert (most.cause, most.ranks, most.verdict["suspects"]) == ("not-arrived", "", "3-7"), str(most)
    assert most.verdict["confidence"] == "low", str(most)


def test_two_pages_between_which_a_rank_went_on_are_of_a_running_job(tmp_path: Path) -> None:
    for minute, last in (("5", (7, 7, 6, 7)), ("6", (9, 9, 8, 9))):
        folder = tmp_path / f"20260304_101{minute}00"
        folder.mkdir()
        told(folder, fr_trace_json=page(*last), stacks=LATE)
    assert told(tmp_path)[1] == "low"


def stepping(rank: int, *seconds: int) -> str:
    """Steps of a rank, at these seconds after 10:14:00."""
    return "".join(
        f"2026-03-04 10:14:{at:02d},000 INFO [rank {rank}] train: step {n} loss 0.5\n" for n, at in enumerate(seconds)
    )


@pytest.mark.parametrize(("look", "ranks"), [("101422", ""), ("101455", "2")], ids=["as usual", "long after"])
def test_a_call_in_flight_is_a_stall_once_steps_are_overdue(look: str, ranks: str) -> None:
    """Steps take 5 s, the last one ended at 10:14:20. Some rank is always the last of a step."""
    logs = {f"rank_{r}.log": stepping(r, 0, 5, 10, 15, 20) for r in range(4)}
    dumps = {f"dumps/fr_trace_{r}": pickle.dumps(one, protocol=2) for r, one in enumerate(recorded(7, 7, 6, 7))}
    ruling = read(logs | dumps | {f"looks/stacks_20260304_{look}.txt": LATE})
    assert ruling.ranks == ranks, str(ruling)
