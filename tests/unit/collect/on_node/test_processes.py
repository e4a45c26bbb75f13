"""Which processes are ranks, which are workers, and what of them is missing."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from builders.live.fake_ranks import PARENT, SOURCE, WAIT, Ranks, tool

from nccldoctor.collect.on_node import main
from nccldoctor.collect.on_node.process_tree import ProcessTree
from nccldoctor.collect.on_node.tar_answer import TarAnswer
from nccldoctor.words.kernel_waits import waits_for

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def test_every_rank_has_its_stack_state_and_environment(ranks: Ranks, pyspy: str) -> None:
    pids = [ranks.start(rank, NCCL_DEBUG="INFO", WANDB_MODE="offline")[0] for rank in (0, 1)]
    stream = ranks.collect(PATH=pyspy)
    told, files = stream.told(), stream.files()
    assert [(p["rank"], p["world_size"], p["pid"], p["state"], p["of"]) for p in told["processes"]] == [
        (0, 2, pids[0], "S", None),
        (1, 2, pids[1], "S", None),
    ]
    assert b"wait_for_peer" in files["rank-1/stack-1.txt"]
    assert b"NCCL_DEBUG=INFO\n" in files["rank-0/environment.txt"]
    assert b"WANDB_MODE" not in files["rank-0/environment.txt"], "no variable that is not allowed is copied"
    row = next(row for row in told["files"] if row["path"] == "rank-1/stack-1.txt")
    assert (row["kind"], row["rank"], row["pid"], row["look"]) == ("stack", 1, pids[1], 1)
    assert told["ended"] is not None


SOCKET = """
import socket
served = socket.create_server(("127.0.0.1", 0))
own = socket.create_connection(served.getsockname())
print("ready", flush=True)
own.recv(1)
"""


def test_a_rank_that_reads_from_a_socket_is_told_by_the_function_that_says_so(ranks: Ranks) -> None:
    stack = Path(f"/proc/{ranks.start(0, script=SOCKET)[0]}/stack")
    for _ in range(2_000):  # it has printed, and is about to read
        try:
            if "recv" in stack.read_text():
                break
        except OSError:
            pytest.skip("only root reads the kernel's stack of a process")
        time.sleep(0.01)
    functions = [process["wchan"] for process in ranks.collect().told()["processes"]]
    assert [waits_for(function) for function in functions] == ["data from a socket"]


def test_two_looks_are_told_apart(ranks: Ranks, pyspy: str) -> None:
    ranks.start(0)
    stream = ranks.collect("--twice", "0.1", PATH=pyspy)
    assert {row["look"] for row in stream.told()["files"] if row["kind"] == "stack"} == {1, 2}
    assert [look["look"] for look in stream.told()["processes"][0]["looks"]] == [1, 2]


def test_the_launcher_is_no_rank_and_the_loader_is_a_worker(ranks: Ranks, pyspy: str) -> None:
    same = PARENT.format(script=WAIT, env=None)
    other = PARENT.format(
        script=same, env="{**__import__('os').environ, 'RANK': '5', 'LOCAL_RANK': '1', 'WORLD_SIZE': '8'}"
    )
    launcher, line = ranks.start(0, world=1, script=other)
    worker, rank = map(int, line.split()[1:])
    told = ranks.collect(PATH=pyspy).told()
    assert [(p["pid"], p["rank"], p["of"]) for p in told["processes"]] == [(rank, 5, None), (worker, 5, rank)]
    assert f"rank-5/worker-{worker}-stack-1.txt" in {row["path"] for row in told["files"]}
    assert launcher not in {p["pid"] for p in told["processes"]}


def test_what_a_batch_script_starts_beside_srun_is_no_rank(ranks: Ranks) -> None:
    """Slurm gives a batch script the numbers of task 0; in a step they are those of the rank."""
    batch = {"SLURM_PROCID": "0", "SLURM_NTASKS": "4"}
    ranks.start(None, **batch)
    ranks.start(None, **batch, SLURM_STEP_ID="4294967291")
    rank, _ = ranks.start(None, **batch, SLURM_STEP_ID="0")
    stream = ranks.collect()
    assert [(p["pid"], p["rank"], p["world_size"]) for p in stream.told()["processes"]] == [(rank, 0, 4)]
    assert not stream.why("which process is rank 0")


def test_a_process_is_chosen_by_any_variable_and_that_is_not_copied(ranks: Ranks) -> None:
    ranks.start(0, MY_JOB="first")
    ranks.start(1, MY_JOB="second")
    stream = ranks.collect("--where", "MY_JOB=second")
    assert [process["rank"] for process in stream.told()["processes"]] == [1]
    assert b"MY_JOB" not in stream.data


def test_a_process_that_is_gone_is_told(ranks: Ranks) -> None:
    pid, _ = ranks.start(0)
    ranks.processes[0].kill()
    ranks.processes[0].wait()
    assert ranks.collect("--pid", str(pid)).why(f"pid {pid}") == "no such process on this node"


def test_a_local_rank_that_does_not_run_is_told(ranks: Ranks) -> None:
    ranks.start(0, LOCAL_WORLD_SIZE="2")
    assert "LOCAL_WORLD_SIZE is 2" in ranks.collect().why("local rank 1")


def test_two_jobs_are_not_mixed(ranks: Ranks, pyspy: str) -> None:
    pids = [ranks.start(0)[0], ranks.start(0)[0]]
    stream = ranks.collect(PATH=pyspy)
    assert {f"rank-0-pid-{pid}/stack-1.txt" for pid in pids} <= set(stream.files())
    assert "all say that they are it" in stream.why("rank 0")


def test_the_files_of_two_jobs_are_told_apart(ranks: Ranks, pyspy: str) -> None:
    pids = {port: ranks.start(0, MASTER_PORT=port)[0] for port in ("29500", "29501")}
    stream = ranks.collect(PATH=pyspy)
    jobs = {row["job"]: row["pid"] for row in stream.told()["files"] if row["kind"] == "threads"}
    assert jobs == {f"MASTER_PORT={port} WORLD_SIZE=2": pid for port, pid in pids.items()}
    tables = {row["job"]: stream.files()[row["path"]] for row in stream.told()["files"] if row["kind"] == "processes"}
    for job, pid in jobs.items():
        assert [str(other).encode() in tables[job] for other in jobs.values()] == [
            other == pid for other in jobs.values()
        ]


def test_the_second_look_comes_so_many_seconds_after_the_end_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 30.0, 33.0])
    slept: list[float] = []
    monkeypatch.setattr(main, "time", SimpleNamespace(monotonic=lambda: next(clock), sleep=slept.append))
    monkeypatch.setattr(main, "StackLook", lambda *_: SimpleNamespace(look_at_all=lambda: None))
    monkeypatch.setattr(main, "look_at_states", lambda *_: None)
    monkeypatch.setattr(main, "note_work", lambda *_: None)
    answer = cast(TarAnswer, SimpleNamespace(seconds_left=60.0))
    looks = main.Looks(answer, ProcessTree.__new__(ProcessTree), 10.0, ())
    looks.look_at_first_stacks()
    looks.look_again()
    assert slept == [7.0]


def test_ranks_of_two_jobs_are_not_taken_for_each_other(ranks: Ranks) -> None:
    first, _ = ranks.start(0, MASTER_PORT="1")
    second, _ = ranks.start(0, MASTER_PORT="2")
    stream = ranks.collect()
    assert {(p["job"], p["pid"], p["ended"]) for p in stream.told()["processes"]} == {
        ("MASTER_PORT=1 WORLD_SIZE=2", first, False),
        ("MASTER_PORT=2 WORLD_SIZE=2", second, False),
    }
    assert not stream.why("the process of rank 0")


def test_a_rank_that_ends_while_it_is_looked_at_is_told(ranks: Ranks, tmp_path: Path) -> None:
    ranks.start(0)
    killing = tool(tmp_path / "bin", "py-spy", ['if [ "$1" = dump ]; then kill -9 "$3"; fi'])
    (row,) = ranks.collect(PATH=f"{killing}:{os.environ['PATH']}").told()["processes"]
    assert row["ended"] is True


def test_variables_of_a_job_choose_among_processes_without_a_rank_as_well(ranks: Ranks) -> None:
    pid, _ = ranks.start(None, KIND="train")
    ranks.start(None, KIND="serve")
    source = SOURCE.replace("/lib(?:torch|nccl)", "/(?:lib(?:c|m)|ld)")  # what any program has in its memory
    assert source != SOURCE
    told = ranks.collect("--where", "KIND=train", source=source).told()
    assert [(process["pid"], process["rank"]) for process in told["processes"]] == [(pid, None)]
