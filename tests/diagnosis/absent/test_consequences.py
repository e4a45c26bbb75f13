"""What follows the end of a job is no cause of it: exits behind the scheduler's word, exceptions that code caught and logged."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders.jobs.verdicts import gave_up, read
from builders.logs.lines import watchdog

import nccldoctor

STEPS = "".join(
    f"[rank{r}]: 2026-03-02 10:0{m}:00,000 INFO step={m * 10} loss=2.31\n" for m in (1, 2) for r in range(2)
)
LATER = "".join(f"[rank{r}]: 2026-03-02 10:08:00,000 INFO step=80 loss=2.31\n" for r in range(2))
DONE = "".join(f"[rank{r}]: 2026-03-02 10:09:01,000 INFO training finished\n" for r in range(2))
WAITS = watchdog(1, 31, at="E302 10:15:12.518820143")

CODE = "  File \"/srv/metrics.py\", line 204, in push\n    reply = self.send(row)\nKeyError: 'row'\n"
CAUGHT = "[rank0]: 2026-03-02 10:02:10,000 ERROR metrics: could not push\nTraceback (most recent call last):\n" + CODE
UNCAUGHT = (
    '[rank0]: Traceback (most recent call last):\n[rank0]:   File "/srv/train.py", line 8, in <module>\n[rank0]:     main()\n'
    "[rank0]:   File \"/srv/train.py\", line 4, in main\n[rank0]:     push()\n[rank0]: KeyError: 'row'\n"
)
SERVER = "E0302 10:02:20.412000 8123 /opt/py/lib/python3.12/site-packages/torch/distributed/debug/_frontend.py:208] "
DUMP_FAILED = "".join(
    f"[rank0]:{SERVER}{line}\n"
    for line in (
        *("Failed to dump fr_trace", "Traceback (most recent call last):"),
        '  File "/opt/py/lib/python3.12/site-packages/torch/distributed/debug/_frontend.py", line 204, in _run',
        *("    content = handler.dump()", "KeyError: 'pg_config'"),
    )
)


@pytest.mark.parametrize("logged", [CAUGHT, DUMP_FAILED])
def test_an_exception_that_code_caught_and_logged_ended_nobody(logged: str) -> None:
    assert read({"train.log": STEPS + logged + LATER + DONE}).cause == "none"
    assert read({"train.log": STEPS + logged}).blamed == set(), "nobody is seen to end or to wait"


def test_before_a_stall_it_is_a_lead_and_no_end() -> None:
    caught, uncaught = (read({"train.log": STEPS + text + WAITS}) for text in (CAUGHT, UNCAUGHT))
    assert (uncaught.cause, uncaught.ranks) == ("raised", "0"), str(uncaught)
    assert caught.verdict["confidence"] == "low", str(caught)
    assert "exited" not in caught.verdict["headline"], str(caught)


def test_what_the_debug_server_of_pytorch_logs_is_no_failure_of_the_rank() -> None:
    assert read({"train.log": STEPS + DUMP_FAILED + WAITS}).cause != "raised"


TASKS = "srun: launching StepId=5.0 on host n1, 2 tasks: [0-1]\nsrun: launching StepId=5.0 on host n2, 2 tasks: [2-3]\n"
WORK = " 0: epoch 0 step 300 loss 5.587\n 0: epoch 0 step 400 loss 5.201\n"
AFTER = (
    " 2: Traceback (most recent call last):\n 2: RuntimeError: shard closed\n"
    "srun: error: n1: tasks 0-1: Exited with exit code 1\nsrun: error: n1: task 1: Killed\n"
)
NOTICE = "slurmstepd: error: *** STEP 5.0 ON n1 CANCELLED AT 2026-04-04T02:33:10 DUE TO {} ***\n"


@pytest.mark.parametrize(
    ("word", "ranks"),
    [
        (NOTICE.format("JOB REQUEUE"), ""),
        (NOTICE.format("PREEMPTION"), ""),
        (NOTICE.format("TIME LIMIT"), ""),
        ("srun: error: Node failure on n2\n", "2-3"),
        ("submitit WARNING (2026-04-04 02:33:10,124) - Caught signal SIGUSR2 on n2: this job is preempted.\n", ""),
        ("3m  Normal  NodeNotReady  node/n2  Node n2 status is now: NodeNotReady\n", "2-3"),
        ("=>> PBS: job killed: node 1 (n2) requested job terminate, 'EOF' (code 1099)\n", "2-3"),
    ],
)
def test_the_word_of_the_scheduler_outranks_the_exits_behind_it(word: str, ranks: str) -> None:
    ruling = read({"slurm-5.out": TASKS + WORK + word + AFTER})
    assert (ruling.cause, ruling.ranks) == ("died", ranks), str(ruling)


def test_an_exit_before_it_is_the_cause() -> None:
    ruling = read({"slurm-5.out": TASKS + WORK + "srun: error: n2: task 3: Killed\n" + NOTICE.format("TIME LIMIT")})
    assert ruling.cause == "died", str(ruling)
    assert "killed by SIGKILL" in ruling.verdict["headline"], str(ruling)


def interrupted(rank: int, inner: str) -> str:
    """The traceback of a Ctrl-C that found a rank in this frame."""
    lines = (
        "Traceback (most recent call last):",
        '  File "/srv/train.py", line 8, in <module>',
        inner,
        "KeyboardInterrupt",
    )
    return "".join(f"[rank{rank}]: {line}\n" for line in lines)


WORKS = '  File "/srv/train.py", line 41, in step'
WAITS_IN = '  File "/opt/py/lib/python3.12/site-packages/torch/distributed/distributed_c10d.py", line 4800, in barrier'
AGENT = (
    'Traceback (most recent call last):\n  File "/opt/py/bin/torchrun", line 8, in <module>\n'
    "torch.distributed.elastic.multiprocessing.api.SignalException: Process 2214 got signal: {}\n"
)


def test_a_person_who_stops_ranks_at_work_found_no_failure() -> None:
    ruling = read({"train.log": STEPS + interrupted(0, WORKS) + interrupted(1, WORKS) + AGENT.format(2)})
    assert (ruling.cause, ruling.verdict["confidence"]) == ("none", "low"), str(ruling)
    assert ruling.verdict["headline"].startswith("Stopped by Ctrl-C (SIGINT) at step 20.")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            interrupted(0, WAITS_IN) + interrupted(1, WORKS),
            "rank 0 was waiting for a peer in <module> and rank 1 was in step",
        ),
        (AGENT.format(2), "A person stopped the job"),
        (
            '^CTraceback (most recent call last):\n  File "/srv/train.py", line 8, in <module>\nKeyboardInterrupt\n',
            "A person",
        ),
    ],
)
def test_a_person_who_may_have_stopped_a_hang_is_an_answer_and_no_all_clear(text: str, said: str) -> None:
    ruling = read({"train.log": STEPS + text})
    assert ruling.cause == "undetermined", str(ruling)
    assert said in ruling.verdict["headline"], str(ruling)


def test_sigterm_and_a_failure_before_it_are_no_persons_word() -> None:
    for text in (AGENT.format(15), UNCAUGHT + interrupted(1, WORKS)):
        assert "person" not in read({"train.log": STEPS + text}).verdict["headline"]


REFUSED = (
    "node1:511:720 [1] NCCL INFO ncclCommInitRank comm 0x55 rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId 65000 commId 0xab - Init START\n"
    "node1:511:720 [1] transport/p2p.cc:275 NCCL WARN Cuda failure 217 'peer access is not supported between these two devices'\n"
    "[rank1]: torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.hpp:328, "
    "unhandled cuda error (run with NCCL_DEBUG=INFO for details), NCCL version 2.21.5\n[rank1]: Last error:\n"
    "[rank1]: Cuda failure 217 'peer access is not supported between these two devices'\n"
)


def test_what_cuda_refuses_while_nccl_connects_gpus_is_no_exception_of_the_rank() -> None:
    ruling = read({"train.log": REFUSED})
    assert ruling.cause == "init", str(ruling)
    assert "access between GPUs" in ruling.verdict["headline"], str(ruling)
    assert "0" not in ruling.ranks, "whose start was not read is not the one that failed"


def test_an_error_of_the_ranks_own_kernel_is_one_wherever_it_comes_up() -> None:
    frame = '[rank1]:   File "/opt/py/lib/python3.12/site-packages/torch/distributed/distributed_c10d.py", line 2900, in all_reduce\n'
    header = "[rank1]: Traceback (most recent call last):\n"
    error = "[rank1]: RuntimeError: CUDA error: {}\n"
    own, refused = (
        read({"train.log": STEPS + header + frame + error.format(text)})
        for text in (
            "an illegal memory access was encountered",
            "peer access is not supported between these two devices",
        )
    )
    assert (own.cause, own.ranks) == ("raised", "1"), str(own)
    assert refused.cause != "raised", str(refused)


BAR = "Loading checkpoint shards:  67%|######6   | 4/6 [00:18<00:09,  4.57s/it]"


def test_a_bar_in_front_of_a_rank_is_not_of_that_rank(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(BAR + WAITS)
    case = nccldoctor.analyze(tmp_path).case
    assert [e.rank for e in case.events if e.kind == "progress"] == [None]
    assert [e.rank for e in case.events if e.kind == "collective-timeout"] == [1]


def test_frames_and_prompts_are_no_failures_and_a_report_of_a_person_is_no_step(tmp_path: Path) -> None:
    text = WAITS + "frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x96 (0x7f in /opt/libc10.so)\n"
    text += (
        "(base) user@box:~/proj$ tail error.log\nWe tried a smaller batch, and step 400 loss 2.2 was the last one.\n"
    )
    (tmp_path / "train.log").write_text(text)
    case = nccldoctor.analyze(tmp_path).case
    assert not [line for reading in case.readings for line in reading.unexplained]
    assert not [e for e in case.events if e.kind == "progress"]


NODE_LOST = "srun: error: Node failure on gpu-7\n"
EVICTED = "3m  Warning  Evicted  pod/worker-2  The node was low on resource: memory. Threshold quantity: 100Mi, available: 40Mi.\n"
TIME_LIMIT = "=>> PBS: job killed: walltime 3623 exceeded limit 3600\n"


@pytest.mark.parametrize(("said", "cause"), [(NODE_LOST, "died"), (EVICTED, "died"), (TIME_LIMIT, "undetermined")])
def test_an_end_before_the_only_complaint_may_be_that_of_the_missing_rank(said: str, cause: str) -> None:
    """Nobody knows how many ranks there are; a time limit ends a job that hangs as well."""
    ruling = read({"job.out": said + gave_up(0, 50)})
    assert (ruling.cause, ruling.ranks) == (cause, ""), str(ruling)
    assert cause != "died" or ruling.verdict["confidence"] == "medium"


def test_an_end_on_another_node_explains_no_call_that_every_rank_is_in() -> None:
    logs: dict[str, str | bytes] = {f"rank_{r}.log": "world_size=2\n" + gave_up(r, 50) for r in range(2)}
    ruling = read({"job.out": NODE_LOST, **logs})
    assert ruling.cause == "unfinished", str(ruling)


FAILED_CALL = (
    "[rank1]:[E415 21:17:08.996319560 ProcessGroupNCCL.cpp:552] [Rank 1] Collective WorkNCCL(SeqNum=41, OpType=ALLREDUCE, NumelIn=8, "
    "NumelOut=8, Timeout(ms)=600000) raised the following async exception: NCCL error: remote process exited or there was a network "
    "error, NCCL version 2.21.5\nncclRemoteError: A call failed possibly due to a network error or a remote process exiting "
    "prematurely.\nLast error:\n"
)
CLOSED = "socketProgress: Connection closed by remote peer {host}<32926>\n"


def test_the_host_that_closed_a_connection_is_named_with_the_call_that_failed() -> None:
    ruling = read({"train.log": FAILED_CALL + CLOSED.format(host="gpu-9.lab.example")})
    assert (ruling.cause, ruling.ranks) == ("undetermined", ""), str(ruling)
    headline = ruling.verdict["headline"]
    assert headline.startswith("Rank 1 got stuck in ALLREDUCE #41, and gpu-9.lab.example closed its connection; "), (
        headline
    )


def test_two_hosts_that_closed_connections_are_not_told_apart() -> None:
    both = CLOSED.format(host="gpu-8") + f"[rank1]: {CLOSED.format(host='gpu-9')}"
    ruling = read({"train.log": FAILED_CALL + both})
    assert "closed its connection" not in ruling.verdict["headline"], str(ruling)


def test_a_host_whose_own_lines_complain_did_not_leave_first() -> None:
    """Each of two hosts says that the other one closed: the abort of one caused the other's line."""
    lines = "".join(
        f"gpu-{a}:70:71 [0] misc/socket.cc:49 NCCL WARN {CLOSED.format(host=f'gpu-{b}')}" for a, b in ((8, 9), (9, 8))
    )
    ruling = read({"train.log": lines})
    assert "closed it" not in ruling.verdict["headline"], str(ruling)


def test_a_notice_in_the_journal_of_the_launch_script_is_not_of_the_rank_that_it_ran() -> None:
    """journald puts the name and the pid of the script in front of the scheduler's lines and of those of rank 0."""
    journal = "".join(
        f"Mar 02 10:{minute}:00 head run.sh[991]: {said}\n"
        for minute, said in (
            ("00", "[rank0]: step 40 loss 1.1"),
            ("01", NODE_LOST.strip()),
            ("12", watchdog(0, 50).strip()),
        )
    )
    ruling = read({"job.journal": journal})
    assert (ruling.cause, ruling.ranks) == ("died", ""), str(ruling)


RAYLET = (
    "(raylet) A worker died or was killed while executing a task by an unexpected system error. To troubleshoot the problem, check the "
    "logs for the dead worker. RayTask ID: ff01 Worker ID: 75bb Node ID: aad5 Worker IP address: 10.1.2.3 Worker port: 10004 "
    "Worker PID: {pid} Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection error code 2.\n"
)
ACTOR = (
    "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n\tclass_name: WorkerDict\n"
    "\tactor_id: d5f5dc65\n\tpid: 901\n\tname: Kq2fZaWorkerDict_0:1\n\tnamespace: 72cc05c9\n\tip: 10.1.2.3\n"
    "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits "
    "with a connection error code 2. End of file.\n"
)


def test_ray_train_says_the_rank_of_the_process_that_ray_names() -> None:
    ruling = read({"driver.log": RAYLET.format(pid=902) + "(TorchTrainer pid=7) Worker 3 has failed.\n"})
    assert (ruling.cause, ruling.ranks, ruling.verdict["confidence"]) == ("died", "3", "low"), str(ruling)
    two = RAYLET.format(pid=902) + RAYLET.format(pid=903)
    ruling = read({"driver.log": two})
    assert (ruling.cause, ruling.ranks) == ("died", ""), "no line says which ranks they were"


def test_every_process_that_ray_lost_is_told() -> None:
    ruling = read({"driver.log": RAYLET.format(pid=902) + ACTOR})
    assert (ruling.cause, ruling.ranks, ruling.verdict["confidence"]) == ("died", "1", "low"), str(ruling)
    assert "and a process (10.1.2.3, pid 902) probably exited" in ruling.verdict["headline"]


def test_a_worker_of_the_second_node_keeps_its_name() -> None:
    ruling = read({"driver.log": ACTOR.replace("_0:1", "_1:1")})
    assert (ruling.cause, ruling.ranks) == ("died", ""), str(ruling)
    assert ruling.verdict["headline"].startswith("Kq2fZaWorkerDict_1:1 (10.1.2.3, pid 901) probably exited")


def test_an_end_without_a_time_is_told_beside_the_wait() -> None:
    ruling = read(
        {
            "driver.log": ACTOR.replace("\tname: Kq2fZaWorkerDict_0:1\n", "")
            + watchdog(9, 31, at="E302 10:15:12.518820143")
        }
    )
    assert (
        "and a process (10.1.2.3, pid 901) exited; how it exited and which came first is unknown"
        in ruling.verdict["headline"]
    )
    assert not ruling.ranks, str(ruling)


@pytest.mark.parametrize(
    ("signal", "says"),
    [
        ("15", "received SIGTERM from a scheduler, another program or a person"),
        ("Signals.SIGHUP", "its terminal or ssh session closed"),
    ],
)
def test_the_signal_that_ended_the_launcher_is_told(signal: str, says: str) -> None:
    at = "W0216 13:04:08.104000 44 torch/distributed/elastic/"
    line = f"{at}agent/server/api.py:719] Received {signal} death signal, shutting down workers\n"
    line += f"{at}multiprocessing/api.py:897] Sending process 1365 closing signal SIGTERM\n"
    closed = "torch.distributed.elastic.rendezvous.api.RendezvousClosedError\n"
    ruling = read({"agent.log": closed + line})
    assert ruling.cause == "undetermined" and says in ruling.verdict["headline"], str(ruling)


STEP_ENDED = "slurmstepd: error: *** STEP 71.0 ON n1 CANCELLED AT 2026-02-16T13:04:08 ***\n"
TOLD = (
    "W0216 13:04:08.104000 44 torch/distributed/elastic/agent/server/api.py:719] Received 15 death signal, shutting down workers\n"
    "W0216 13:04:08.105000 44 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 1365 closing signal SIGTERM\n"
)


@pytest.mark.parametrize("stop", [STEP_ENDED + TOLD, TOLD, STEP_ENDED])
def test_slurm_that_ends_a_step_whose_task_had_failed_is_nobody_from_outside(stop: str) -> None:
    task = "srun: error: n2: task 1: Exited with exit code 1\nsrun: Terminating StepId=71.0\n"

    def first(*lines: str) -> str:
        ruling = read({"slurm-71.out": "".join(lines)})
        assert ruling.cause == "undetermined" and not ruling.ranks, str(ruling)
        return f"{ruling.verdict['headline']} {ruling.document['action']['steps'][0]['text']}"

    assert "Ask the scheduler" not in first(task, stop) and "SIGTERM from a scheduler" not in first(task, stop)
    assert "Ask the scheduler" in first(stop, task), "the task ended because of the stop"


LOST = (
    "[2026-03-02 09:59:00,123] [WARNING] [dist_job_manager.py:671:_get_dead_node_event] The node 3-train-worker-3 has not "
    "sent a heartbeat for over 600 seconds, last heartbeat: 1.\n"
)


def test_a_node_that_was_replaced_before_a_good_end_is_no_cause() -> None:
    assert read({"train.log": STEPS + LATER + DONE, "master.log": LOST}).cause == "none"
    assert read({"train.log": STEPS, "master.log": LOST.replace("09:59", "10:07")}).cause == "died"


MPI_ERROR = (
    "1: [n17:4711] *** An error occurred in MPI_Bcast\n"
    "1: [n17:4711] *** reported by process [1908146,1]\n"
    "1: [n17:4711] *** on communicator MPI_COMM_WORLD\n"
    "1: [n17:4711] *** MPI_ERR_{name}\n"
    "1: [n17:4711] *** MPI_ERRORS_ARE_FATAL (processes in this communicator will now abort,\n"
    "1: [n17:4711] ***    and potentially your MPI job)\n"
)
CANCELLED = "0: slurmstepd: error: *** STEP 42.0 ON n17 CANCELLED AT 2026-01-31T15:03:43 ***\n"
KILLED = "srun: error: n17: task 0: Killed\nsrun: error: n17: task 1: Killed\n"


def test_a_step_that_slurm_cancels_after_an_error_of_mpi_ended_by_that_error() -> None:
    ruling = read({"job.log": MPI_ERROR.format(name="OTHER: known error not in list") + CANCELLED + KILLED})
    assert (ruling.cause, ruling.ranks) == ("raised", "1"), str(ruling)
    assert ruling.sure <= 2, "a peer or the network may be behind it"
    gone = read({"job.log": MPI_ERROR.format(name="PROC_FAILED: Process Failure") + CANCELLED + KILLED})
    assert not gone.ranks, f"that error tells of a peer: {gone}"


def test_exits_behind_the_word_of_slurm_that_it_cancels_are_its_consequences() -> None:
    exited = "srun: error: n17: task 3: Exited with exit code 1\n"
    assert read({"job.log": exited + CANCELLED + KILLED}).ranks == "3"
    assert not read({"job.log": CANCELLED + exited + KILLED}).ranks


def test_what_the_launcher_ends_is_no_first_error() -> None:
    agent = "W0804 10:1{}:01.100000 1201 torch/distributed/elastic/multiprocessing/api.py:900] "
    closed = agent.format(2) + "Sending process 2210 closing signal SIGTERM\n"
    killed = (
        agent.format(3)
        + "Unable to shutdown process 2210 via Signals.SIGTERM, forcefully exiting via Signals.SIGKILL\n"
    )
    headline = read({"train.log": closed + killed}).verdict["headline"]
    assert "launcher ended the job" in headline
    assert "First errors" not in headline
    exits = "[2026-08-04 10:14:31,915] [ERROR] [launch.py:322:sigkill_handler] ['/usr/bin/python3', 'a.py'] exits with return code = 1\n"
    assert (
        read({"train.log": closed + killed + exits})
        .verdict["headline"]
        .endswith("First errors: a process (exited with code 1).")
    )
