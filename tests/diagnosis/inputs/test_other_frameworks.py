"""Jobs of other frameworks: who is named where one line names somebody, and nobody where none does."""

from __future__ import annotations

import pytest
from builders.jobs.verdicts import read
from builders.logs.lines import old_watchdog

STALL = (
    "[1,0]<stderr>:WARNING: One or more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks and are "
    "waiting for remainder of ranks for more than 60 seconds.\n[1,0]<stderr>:Stalled ops:\n"
)
NOTIFY = (
    "[rank{rank}]: EI0002: [PID: 70{own}] 2026-01-19-04:21:56.220.861 The wait execution of the Notify register times out. Reason: "
    "The Notify register has not received the Notify record from remote rank: [{peer}]. base information: [streamID:[42], "
    "taskID[9], tag[AllReduce_group_name_3RingAllReduce]]. group information: [group:[group_name_3], rankSize[4], rankId[{own}]]\n"
)


def rows(missing: str, *tensors: str) -> str:
    return "".join(f"[1,0]<stderr>:grads_{tensor} [missing ranks: {missing}]\n" for tensor in tensors)


def steps(*ranks: int, first: int = 1, last: int = 4) -> str:
    lines = [f"[1,{rank}]<stdout>:step {step} loss 1.25\n" for step in range(first, last) for rank in ranks]
    return "".join(lines)


def test_the_rank_that_horovod_misses_is_named() -> None:
    ruling = read({"job.log": steps(0, 1, 2, 3) + STALL + rows("2", "dense_1", "dense_2")})
    assert (ruling.cause, ruling.ranks) == ("not-arrived", "2"), str(ruling)
    assert "according to Horovod" in ruling.verdict["headline"]


MONITOR = "WARNING stall detector: 3 of 4 ranks reached step 4; waiting for rank 2 for 120 s\n"


def test_the_rank_that_a_programs_own_monitor_misses_is_named_until_all_have_come() -> None:
    ruling = read({"job.log": steps(0, 1, 2, 3) + MONITOR})
    assert (ruling.cause, ruling.ranks) == ("not-arrived", "2"), str(ruling)
    for answer in ("INFO stall detector: 4 of 4 ranks reached step 4\n", steps(0, 1, 2, 3, first=4, last=6)):
        assert read({"job.log": steps(0, 1, 2, 3) + MONITOR + answer}).ranks == "", answer


def test_only_the_newest_report_of_horovod_counts() -> None:
    text = steps(0, 1, 2, 3) + STALL + rows("1", "dense_1") + steps(0, 1, 2, 3, first=4, last=6) + STALL
    ruling = read({"job.log": text + rows("3", "dense_1")})
    assert ruling.ranks == "3", str(ruling)


def test_steps_after_the_warning_answer_it() -> None:
    ruling = read({"job.log": steps(0, 1, 2, 3) + STALL + rows("2", "dense_1") + steps(0, 1, 2, 3, first=4, last=9)})
    assert not ruling.ranks, str(ruling)


@pytest.mark.parametrize(("second", "cause"), [("bert_1_wte", "op-mismatch"), ("bert_wte, bert_1_wte", "undetermined")])
def test_ranks_that_each_miss_the_tensor_of_the_other_are_a_tie(second: str, cause: str) -> None:
    head = "[2026-03-02 11:20:07.104221: W horovod/common/stall_inspector.cc:107] waiting for remainder of ranks for more than 60 seconds."
    ruling = read({"job.log": f"{head}\nMissing ranks:\n0: [bert_wte]\n1: [{second}]\n"})
    assert (ruling.cause, ruling.ranks) == (cause, ""), str(ruling)
    assert ("submitted different tensors" in ruling.verdict["headline"]) == (cause == "op-mismatch")


@pytest.mark.parametrize("missing", ["1, 2, 3", "0, 1, 2"])
def test_a_majority_that_is_missing_is_not_blamed(missing: str) -> None:
    """One rank alone submits the tensor: it may be the one that left the others."""
    ruling = read({"job.log": steps(0, 1, 2, 3) + STALL + rows(missing, "dense_1")})
    assert not ruling.ranks, str(ruling)
    assert "disagree" in ruling.verdict["headline"]


def ready(*tensors: tuple[str, str]) -> str:
    return "[1,0]<stderr>:" + ", ".join(f"grads_{name} [ready ranks: {ranks}]" for name, ranks in tensors) + "\n"


def test_ranks_that_horovod_does_not_list_as_ready_are_absent() -> None:
    """The highest rank that is ready bounds the job from below; more may be missing above it."""
    ruling = read({"job.log": STALL + ready(("dense_1", "5, 1, 4, 7, 2, 3"), ("dense_2", "5, 1, 4, 7, 2, 3"))})
    assert (ruling.cause, ruling.ranks, ruling.verdict["confidence"]) == ("not-arrived", "0,6", "medium"), str(ruling)


@pytest.mark.parametrize("came", ["0, 1", "3"])
def test_ready_ranks_without_a_gap_or_a_majority_name_nobody(came: str) -> None:
    ruling = read({"job.log": STALL + ready(("dense_1", came))})
    assert (ruling.cause, ruling.ranks) == ("undetermined", ""), str(ruling)


@pytest.mark.parametrize(("one", "other", "named"), [("3", "2, 0, 1", "3"), ("2, 3", "0, 1", "")])
def test_two_tensors_that_share_no_ready_rank_are_two_branches(one: str, other: str, named: str) -> None:
    ruling = read({"job.log": steps(0, 1, 2, 3) + STALL + ready(("loss", one), ("conv", other))})
    assert (ruling.cause, ruling.ranks) == ("op-mismatch", named), str(ruling)
    assert "eadlock" in ruling.verdict["headline"]
    assert ruling.verdict["confidence"] in ("low", "medium")


def test_a_rank_that_is_ready_for_both_tensors_makes_no_branch() -> None:
    ruling = read({"job.log": steps(0, 1, 2, 3) + STALL + ready(("loss", "3, 0"), ("conv", "2, 0, 1"))})
    assert ruling.cause != "op-mismatch", str(ruling)


def test_one_wait_for_a_peer_names_nobody() -> None:
    ruling = read({"job.log": NOTIFY.format(rank=33, own=1, peer=0)})
    assert (ruling.cause, ruling.ranks) == ("undetermined", ""), str(ruling)
    assert "rank 0 of group group_name_3 in ALLREDUCE" in ruling.verdict["headline"]


def test_the_end_of_a_chain_of_peers_is_named_by_its_global_rank() -> None:
    waits = [(8, 0, 3), (11, 3, 2), (10, 2, 1)]
    ruling = read({"job.log": "".join(NOTIFY.format(rank=rank, own=own, peer=peer) for rank, own, peer in waits)})
    assert (ruling.cause, ruling.ranks) == ("not-arrived", "9"), str(ruling)
    assert ruling.verdict["confidence"] != "high"


def test_a_ring_in_which_each_waits_for_the_next_names_nobody() -> None:
    waits = [(0, 0, 3), (3, 3, 2), (2, 2, 1), (1, 1, 0)]
    ruling = read({"job.log": "".join(NOTIFY.format(rank=rank, own=own, peer=peer) for rank, own, peer in waits)})
    assert not ruling.ranks, str(ruling)


def test_the_device_without_heartbeats_ended_although_its_peer_complains_first() -> None:
    lost = "        serverId[10.0.0.3], deviceId[2], Heartbeat Lost Occurred, Possible Reason: 1. Process has exited\n"
    ruling = read({"job.log": NOTIFY.format(rank=0, own=0, peer=3) + lost})
    assert ruling.cause == "died", str(ruling)
    assert not ruling.ranks
    assert "local rank 2" in ruling.verdict["headline"].lower()
    assert "HCCL waited for rank 3 of a group" in str(ruling.verdict), "the number that is printed is told"
    alone = read({"job.log": lost})
    assert "No line says which rank" in str(alone.verdict)


def test_half_of_the_tasks_of_jax_are_named_where_it_counts_them() -> None:
    text = (
        "jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Id: saved.0. This usually happens because.\n"
        "# of tasks that reached the barrier: 4/6.\nThe first task at the barrier: /job:jax_worker/replica:0/task:5. Some timed out "
        "task names:\n/job:jax_worker/replica:0/task:1\n/job:jax_worker/replica:0/task:0\n\nRPC: /tensorflow.CoordinationService/Barrier\n"
    )
    ruling = read({"job.log": text})
    assert (ruling.cause, ruling.ranks) == ("not-arrived", "0-1"), str(ruling)


def test_a_deadline_that_passed_is_no_crash_of_the_task_that_waited() -> None:
    """Half of the words behind the status are damaged; the status alone says that others were late."""
    text = "Traceback (most recent call last):\n  File \"/srv/train.py\", line 48, in run\n    client.wait_at_barrier('saved', 15_000)\n"
    text += "jax.errors.JaxRuntimeError: DEADLINE_EXCEEDED: Ba#ier ti#ed out. Id: saved::0. This usually happens becaus# a task\n"
    ruling = read({"process2.log": "2026-11-22 19:27:10,870 INFO train: process 2: step 3\n" + text})
    assert ruling.cause != "raised", str(ruling)
    assert not ruling.ranks


def test_ranks_that_hccl_could_not_connect_are_named() -> None:
    text = (
        "[rank0]: RuntimeError: HCCL function error: hcclCommInitRootInfoConfig, error code is 4\n"
        "[rank0]: [PID: 237] 2026-10-09-08:38:04.978.003 Communication_Error_Ranktable_Detect(EI0015): Failed to collect cluster "
        "information of the communicator based on rootInfo detection. Reason: No rank in the communicator can connect to the root "
        'node within the timeout period. List of unconnected ranks: "[1,7,]".\n'
    )
    ruling = read({"job.log": text})
    assert (ruling.cause, ruling.ranks) == ("init", "1,7"), str(ruling)


def test_the_engine_of_vllm_names_nobody_when_it_waits() -> None:
    line = (
        "(EngineCore_DP0 pid=9) INFO 03-08 11:2{m}:33 [shm_broadcast.py:542] No available shared memory broadcast block found in 60 "
        "seconds.\n"
    )
    ruling = read({"engine.log": "".join(line.format(m=minute) for minute in range(3))})
    assert (ruling.cause, ruling.ranks) == ("undetermined", ""), str(ruling)
    assert "vLLM is waiting for its workers to answer" in ruling.verdict["headline"]


def test_the_worker_of_vllm_that_died_is_named() -> None:
    text = (
        "(EngineCore pid=9) ERROR 03-08 11:21:33 [multiproc_executor.py:284] Worker proc VllmWorker-3 died unexpectedly, shutting "
        "down executor.\n(EngineCore pid=9) ERROR 03-08 11:21:34 [core.py:845] TimeoutError: RPC call to execute_model timed out.\n"
    )
    ruling = read({"engine.log": text})
    assert (ruling.cause, ruling.ranks) == ("died", "3"), str(ruling)


def test_what_the_engine_raises_after_it_lost_a_worker_is_no_crash_of_its_own() -> None:
    raised = (
        "(EngineCore pid=9) ERROR 08-20 10:01:40 [core.py:1104] EngineCore encountered a fatal error.\n"
        "(EngineCore pid=9) ERROR 08-20 10:01:40 [core.py:1104] Traceback (most recent call last):\n"
        '(EngineCore pid=9) ERROR 08-20 10:01:40 [core.py:1104]   File "/vllm/shm_broadcast.py", line 702, in acquire_read\n'
        '(EngineCore pid=9) ERROR 08-20 10:01:40 [core.py:1104]     raise RuntimeError("cancelled")\n'
        "(EngineCore pid=9) ERROR 08-20 10:01:40 [core.py:1104] RuntimeError: cancelled\n"
    )
    lost = "(EngineCore pid=9) ERROR 08-20 10:01:40 [ray.py:455] RayWorkerProc rank=[2] died unexpectedly, shutting down.\n"
    ruling = read({"engine.log": lost + raised})
    assert (ruling.cause, ruling.ranks) == ("died", "2"), str(ruling)
    assert read({"engine.log": raised}).cause == "raised"


WATCHDOG = "[2026-05-14 08:36:13 TP{r}] Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)\n"


def test_schedulers_of_sglang_that_all_stand_name_nobody() -> None:
    ruling = read({"engine.log": "".join(WATCHDOG.format(r=rank) for rank in range(4))})
    assert (ruling.cause, ruling.ranks) == ("undetermined", ""), str(ruling)
    assert "made no step for 300 s" in ruling.verdict["headline"]


def test_all_schedulers_that_stand_are_counted_whatever_they_print_in_between() -> None:
    dump = "".join(f"no dump, part {part}\n" for part in range(9))
    ruling = read({"engine.log": "".join(WATCHDOG.format(r=rank) + dump for rank in (2, 0, 3, 1))})
    assert "Ranks 0-3 made no step for 300 s" in ruling.verdict["headline"]


def dump_of(rank: int, call: str, place: str) -> str:
    head = f"Process {800 + rank}: sglang::scheduler_TP{rank}\nPython v3.12.1 (/usr/bin/python3.12)\n\n"
    head += f'Thread {800 + rank} (idle): "MainThread"\n'
    frames = (
        f"{call} (torch/distributed/distributed_c10d.py:3001)",
        f"{place}",
        "run (multiprocessing/process.py:108)",
    )
    return f"[2026-05-14 08:36:14 TP{rank}] Pyspy dump for PID {800 + rank}:\n{head}" + "".join(
        f"    {frame}\n" for frame in frames
    )


VOTES, ASKS = (
    ("all_reduce", "count_votes (sglang/srt/votes.py:12)"),
    ("broadcast", "ask_all (sglang/srt/requests.py:90)"),
)
CLOSES = "[2026-05-14 08:36:20] SIGQUIT received. signum=None, frame=None. It usually means one child failed.\nKilled\n"


@pytest.mark.parametrize("watchdog", [WATCHDOG, ""])
def test_the_stacks_that_a_watchdog_prints_name_the_scheduler_in_another_call(watchdog: str) -> None:
    dumps = [watchdog.format(r=rank) + dump_of(rank, *(VOTES if rank == 2 else ASKS)) for rank in range(4)]
    ruling = read({"engine.log": "".join(dumps) + CLOSES})
    assert (ruling.cause, ruling.ranks) == ("op-mismatch", "2"), str(ruling)
    assert ruling.verdict["confidence"] == ("medium" if watchdog else "low")


def test_a_scheduler_that_complains_itself_is_not_frozen_where_its_dump_failed() -> None:
    dumps = [WATCHDOG.format(r=rank) + (dump_of(rank, *ASKS) if rank else "") for rank in range(4)]
    ruling = read({"engine.log": "".join(dumps)})
    assert (ruling.cause, ruling.ranks) == ("undetermined", ""), str(ruling)


def test_a_kill_that_a_shell_reports_where_no_engine_closed_is_an_end() -> None:
    assert read({"engine.log": dump_of(0, *ASKS) + CLOSES}).cause != "died"
    assert read({"engine.log": dump_of(0, *ASKS) + "Killed\n"}).cause == "died"


def test_a_lighthouse_without_a_quorum_counts_replica_groups() -> None:
    ruling = read(
        {"lighthouse.log": "Quorum status: New quorum not ready, only have 1 participants, need min_replicas 2 [1/1]\n"}
    )
    assert not ruling.ranks, str(ruling)
    assert "1 of 2 arrived" in ruling.verdict["headline"]


def test_the_rank_that_calls_mpi_abort_is_named() -> None:
    ruling = read({"job.log": "MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD with errorcode 17.\n"})
    assert (ruling.cause, ruling.ranks) == ("died", "3"), str(ruling)


TOKENS = (
    "(APIServer pid=1) INFO 10-11 11:{m}:09 [loggers.py:259] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: "
    "{tokens} tokens/s, Running: 2 reqs, Waiting: 5 reqs, GPU KV cache usage: 0.1%, Prefix cache hit rate: 0.0%\n"
)


def test_an_engine_with_requests_and_without_tokens_stands() -> None:
    text = TOKENS.format(m=30, tokens=88.1) + "".join(TOKENS.format(m=minute, tokens=0.0) for minute in (31, 32, 33))
    ruling = read({"engine.log": text})
    assert (ruling.cause, ruling.ranks) == ("undetermined", ""), str(ruling)
    assert "has requests but makes no tokens" in ruling.verdict["headline"]


def test_tokens_after_a_pause_answer_it() -> None:
    ruling = read({"engine.log": TOKENS.format(m=30, tokens=0.0) + TOKENS.format(m=31, tokens=88.1)})
    assert "don't show how the job ended" in ruling.verdict["headline"], str(ruling)


def test_the_worker_of_vllm_whose_exception_ends_the_engine_is_named() -> None:
    worker, core = (
        "(Worker_TP1 pid=934) ERROR 10-11 11:32:59 [multiproc_executor.py:671] ",
        "(EngineCore_DP0 pid=900) ERROR 10-11 11:32:59 [core.py:710] ",
    )
    text = "".join(
        worker + line + "\n"
        for line in (
            "WorkerProc hit an exception.",
            "Traceback (most recent call last):",
            '  File "/usr/lib/python3.12/site-packages/vllm/v1/worker/gpu_model_runner.py", line 2000, in execute_model',
            '    raise ValueError("bad shape")',
            "ValueError: bad shape",
        )
    ) + "".join(
        core + line + "\n"
        for line in (
            "EngineCore encountered a fatal error.",
            "Traceback (most recent call last):",
            '  File "/usr/lib/python3.12/site-packages/vllm/v1/executor/multiproc_executor.py", line 264, in collective_rpc',
            "    raise RuntimeError(",
            "RuntimeError: Worker failed with error 'bad shape', please check the stack trace above for the root cause",
        )
    )
    ruling = read({"engine.log": text})
    assert (ruling.cause, ruling.ranks) == ("raised", "1"), str(ruling)
    assert ruling.verdict["headline"].startswith("Rank 1 probably crashed: ValueError: bad shape")


def test_the_peer_that_hccl_could_not_reach_is_told_by_its_number_in_the_group() -> None:
    head = "[ERROR] HCCL(4711,python3):2026-03-18-10:33:52.113.706 [hccl_socket_manager.cc:583] [4733]"
    row = f"{head}   |  192.0.2.199(6)   |  16666  |   192.0.3.198(7)   |  0  |  client  |  time out  |  \n"
    ruling = read({"plog-4711.log": row})
    assert (ruling.cause, ruling.ranks) == ("init", ""), str(ruling)
    assert "rank 7 of its group could not reach rank 6 of that group (192.0.2.199)" in ruling.verdict["headline"]


LOST = (
    "F0928 17:42:48.594200 104452 client.h:77] Terminating process because the JAX distributed service detected fatal errors. "
    "absl::Status: UNAVAILABLE: Failed to send RPC to coordination service. Either the leader task was preempted/died/restarted "
    "unexpectedly or this task is experiencing network issues.\n"
)


def test_a_task_of_jax_that_lost_the_service_points_to_task_0_or_the_network() -> None:
    ruling = read({"job.log": LOST})
    assert (ruling.cause, ruling.ranks) == ("undetermined", ""), str(ruling)
    assert "task 0 exited, restarted or is unreachable" in ruling.verdict["headline"]


def terminations(*ends: tuple[int, str]) -> str:
    return "".join(
        f"=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   RANK {rank} PID {4700 + rank} RUNNING AT node07\n"
        f"=   KILLED BY SIGNAL: {signal}\n==========\n"
        for rank, signal in ends
    )


def test_the_crash_in_the_list_of_intel_mpi_is_named_and_not_those_that_it_killed() -> None:
    ruling = read({"job.log": terminations((3, "11 (Segmentation fault)"), (0, "9 (Killed)"), (1, "9 (Killed)"))})
    assert (ruling.cause, ruling.ranks) == ("died", "3"), str(ruling)


def test_a_list_of_kills_alone_names_nobody() -> None:
    ruling = read({"job.log": terminations((0, "9 (Killed)"), (1, "9 (Killed)"), (2, "9 (Killed)"))})
    assert not ruling.ranks, str(ruling)


def test_a_memory_access_fault_of_an_amd_board_ended_a_process() -> None:
    watchdog = (
        "[rank{r}]:[E301 10:10:00.116134 ProcessGroupNCCL.cpp:629] [Rank {r}] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=88, OpType=ALLREDUCE, NumelIn=4096, NumelOut=4096, Timeout(ms)=600000) ran for 600011 milliseconds "
        "before timing out.\n"
    )
    fault = "Memory access fault by GPU node-4 (Agent handle: 0x55d0) on address 0x7f4400000000. Reason: Page not present.\n"
    ruling = read({"job.log": fault + "".join(watchdog.format(r=rank) for rank in (0, 1, 3))})
    assert ruling.cause == "raised", str(ruling)
    assert any("memory access fault by GPU node-4" in one["says"] for one in ruling.verdict["evidence"])


def test_the_time_out_of_the_engine_of_vllm_is_no_cause() -> None:
    core = "(EngineCore_DP0 pid=900) ERROR 10-11 11:32:59 [core.py:710] "
    text = "".join(
        core + line + "\n"
        for line in (
            "EngineCore encountered a fatal error.",
            "Traceback (most recent call last):",
            '  File "/usr/lib/python3.12/site-packages/vllm/v1/executor/multiproc_executor.py", line 264, in collective_rpc',
            "    status, result = w.worker_response_mq.dequeue(",
            '  File "/usr/lib/python3.12/site-packages/vllm/distributed/device_communicators/shm_broadcast.py", line 479, in acquire_read',
            "    raise TimeoutError",
            "TimeoutError",
        )
    )
    ruling = read({"engine.log": text})
    assert (ruling.cause, ruling.ranks) == ("undetermined", ""), str(ruling)


def cliques(waiting: str, devices: str = "0,1,2,3") -> str:
    return "".join(
        f"2026-01-19 04:20:1{own}.1: E xla/service/rendezvous.cc:100] [id={own}] This thread has been waiting for `acquire clique for rank "
        f"{own}; clique=devices=[{devices}]; is_p2p=0; run_id=5` for 10 seconds and may be stuck. Expected 4 threads to join the "
        "rendezvous, but not all of them arrived on time.\n"
        for own in waiting
    )


def test_the_device_of_a_clique_that_nobody_heard_of_is_suspected() -> None:
    ruling = read({"job.log": cliques("013", "4,5,6,7")})
    assert (ruling.cause, ruling.ranks, ruling.verdict["suspects"]) == ("undetermined", "", "6"), str(ruling)
    assert "device 6 did not report" in ruling.verdict["headline"]


@pytest.mark.parametrize("waiting", ["0", "01", "0123"])
def test_no_device_of_a_clique_is_suspected_where_few_or_all_wait(waiting: str) -> None:
    ruling = read({"job.log": cliques(waiting)})
    assert (ruling.ranks, ruling.verdict["suspects"]) == ("", ""), str(ruling)
    assert "None" not in ruling.verdict["headline"]


def test_the_peer_that_open_mpi_lost_is_where_to_look() -> None:
    lost = (
        "An MPI communication peer process has unexpectedly disconnected.  This\nusually indicates a failure in the peer process\n\n"
        "  Local host: node-13\n  Local PID:  7721\n  Peer host:  node-16\n"
    )
    ruling = read({"job.log": lost})
    assert not ruling.ranks, str(ruling)
    assert "node-16 closed it" in ruling.verdict["headline"]


def test_ranks_whose_call_horovod_refused_are_innocent() -> None:
    refused = (
        "[1,{rank}]<stderr>:2019-01-19 04:20:52.5: W tensorflow/core/framework/op_kernel.cc:1318] OP_REQUIRES failed at mpi_ops.cc:422 : "
        "Aborted: Horovod has been shut down. This was caused by an exception on one of the ranks or an attempt to allreduce\n"
    )
    ruling = read({"job.log": refused.format(rank=1) + refused.format(rank=3)})
    assert (ruling.cause, ruling.ranks) == ("undetermined", ""), str(ruling)


def test_a_warning_of_nccl_wins_over_the_way_that_it_took() -> None:
    queue = (
        "node-12:76:77 [3] misc/ibvwrap.cc:284 NCCL WARN Call to ibv_modify_qp failed with error No such device\n"
        "node-12:76:77 [3] NCCL INFO transport/net_ib.cc:395 -> 2\nnode-12:76:77 [3] NCCL INFO init.cc:300 -> 2\n"
    )
    ruling = read({"job.log": queue})
    assert ruling.cause == "init", str(ruling)
    assert "(node-12, pid 76): ibv_modify_qp failed" in ruling.verdict["headline"]


def test_a_connection_that_an_old_nccl_lost_is_told_with_its_process() -> None:
    lost = "node-12:15:91 [3] include/socket.h 398 NCCL WARN Call to write failed : Connection reset by peer.\n"
    ruling = read(
        {"job.log": lost + "node-12:15:91 [3] transport.cu:153 NCCL WARN transport.cu:153 ->2 [Proxy thread error]\n"}
    )
    assert (ruling.cause, ruling.ranks) == ("undetermined", ""), str(ruling)
    assert "node-12 (pid 15)" in ruling.verdict["headline"]


@pytest.mark.parametrize(("says", "named"), [("Invalid buffer pointer", "2"), ("Other MPI error", "")])
def test_a_rank_of_mpich_is_named_for_its_own_error_and_not_for_that_of_a_peer(says: str, named: str) -> None:
    ruling = read(
        {
            "job.log": f"Abort(604577282) on node 2 (rank 2 in comm 0): Fatal error in PMPI_Reduce: {says}, error stack:\n"
        }
    )
    assert ruling.ranks == named, str(ruling)


def test_an_abort_behind_its_own_report_of_a_hang_blames_nobody() -> None:
    """MPI_ABORT is how the watchdog of TensorRT-LLM ends the job: rank 3 only complains."""
    hang = "[01/19/2026-04:25:00] [TRT-LLM] [RANK 3] [E] Hang detected on rank 3 in PyExecutor; hard-killing and propagating to peers.\n"
    abort = "MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD\nwith errorcode 1.\n"
    ruling = read({"job.log": hang + abort})
    assert (ruling.cause, ruling.ranks) == ("undetermined", ""), str(ruling)
    assert read({"job.log": abort}).ranks == "3"


@pytest.mark.parametrize(("complaining", "confidence"), [((0, 2), "medium"), ((0,), "low"), ((0, 1, 2), "low")])
def test_a_logged_exception_ended_the_one_executor_that_detects_no_hang(
    complaining: tuple[int, ...], confidence: str
) -> None:
    head = "[02/07/2026-11:{m}:00] [TRT-LLM] [RANK {r}] "
    text = "".join(head.format(m="10", r=rank) + "[I] iter = 4, host_step_time = 9.1ms\n" for rank in range(3))
    text += head.format(m="20", r=1) + "[E] Error in event loop: slot 7 is taken\n"
    text += head.format(m="20", r=1) + "[E] Traceback (most recent call last):\n"
    text += '  File "/opt/serve/slots.py", line 44, in take\n    raise KeyError(slot)\nKeyError: 7\n'
    text += "".join(head.format(m="25", r=rank) + "[E] Hang detected after 300 seconds.\n" for rank in complaining)
    ruling = read({"serve.log": text})
    assert (ruling.cause, ruling.ranks, ruling.verdict["confidence"]) == ("raised", "1", confidence), str(ruling)


def test_an_engine_of_vllm_whose_traceback_is_cut_in_its_wait_names_nobody() -> None:
    frames = (
        "EngineCore encountered a fatal error.",
        "Traceback (most recent call last):",
        '  File "/opt/vllm/v1/executor/multiproc_executor.py", line 181, in collective_rpc',
        "    status, result = w.worker_response_mq.dequeue(",
    )
    ruling = read({"job.log": "".join(f"ERROR 02-21 19:02:48 [core.py:398] {text}\n" for text in frames)})
    assert (ruling.cause, ruling.ranks) == ("undetermined", ""), str(ruling)
    assert "waiting for its workers to answer" in ruling.verdict["headline"]


def test_an_exception_behind_the_message_of_a_logger_wins_over_the_kill_that_follows() -> None:
    text = (
        "[2026-01-11 09:01:00 DP1 TP3 EP3] Scheduler hit an exception: Traceback (most recent call last):\n"
        '  File "/srv/loop.py", line 23, in run\n    self.step()\nIndexError: list index out of range\n\n'
        "[2026-01-11 09:01:01] Received sigquit from a child process. It usually means the child failed.\nKilled\n"
    )
    ruling = read({"server.log": text})
    assert (ruling.cause, ruling.ranks) == ("raised", "3"), str(ruling)


def test_a_tpu_is_not_called_a_gpu() -> None:
    halted = (
        "(train pid=39298, ip=10.130.0.55) E0827 23:43:41.200122   39475 synchronous_driver.cc:820] [/dev/accel0 tpu1013:pe1:0] "
        "!!!! FATAL ERROR !!!! for [/dev/accel0 tpu1013:pe1:0] , fatal_error: true\n"
    )
    ruling = read({"job.log": halted})
    assert ruling.cause == "hardware", str(ruling)
    assert "TPU /dev/accel0" in ruling.verdict["headline"]
    assert "GPU" not in str(ruling.verdict["doubts"])


TRAP = (
    "Traceback (most recent call last):\n"
    '  File "/job/moe.py", line 88, in forward\n'
    "    torch.cuda.current_stream().synchronize()\n"
    "RuntimeError: CUDA error: unspecified launch failure\n"
)


def barrier_missed(own: int, missing: int, ranks: int = 4) -> str:
    """What DeepEP prints on one rank: one line for each peer, with a positive value for the one that never came."""
    values = (
        f"DeepEP timeout check failed: rank = {own}, thread = {peer}, value = {1024 if peer == missing else 0})\n"
        for peer in range(ranks)
    )
    return "".join(values) + TRAP


def test_kernels_that_trapped_are_victims_of_the_peer_that_they_missed() -> None:
    logs = {f"rank{rank}.log": f"step 7 loss 1.25\n{barrier_missed(rank, 2)}" for rank in (0, 1, 3)}
    ruling = read(logs | {"rank2.log": "step 7 loss 1.25\n"})
    assert (ruling.cause, ruling.ranks, ruling.verdict["confidence"]) == ("not-arrived", "2", "medium"), str(ruling)
    assert "never reached the DeepEP barrier" in ruling.verdict["headline"]


def test_the_peer_that_raised_before_is_the_cause() -> None:
    logs = {f"rank{rank}.log": f"2026-03-02 10:02:11 step 7\n{barrier_missed(rank, 2)}" for rank in (0, 1, 3)}
    own = TRAP.replace("RuntimeError: CUDA error: unspecified launch failure", "ValueError: empty batch")
    ruling = read(logs | {"rank2.log": f"2026-03-02 10:00:31 step 7\n{own}"})
    assert (ruling.cause, ruling.ranks) == ("raised", "2"), str(ruling)


def test_numbers_inside_a_group_name_no_rank_of_the_job() -> None:
    ruling = read({"job.log": "".join(barrier_missed(rank, 2) for rank in (0, 1, 3))})
    assert (ruling.ranks, ruling.verdict["confidence"]) == ("", "cannot-tell"), str(ruling)
    assert "Ranks 0-1, 3 of a group waited in vain for rank 2 of the same group" in ruling.verdict["headline"]


def test_a_chain_of_symmetric_memory_ends_at_the_rank_that_waits_for_nobody() -> None:
    line = "[FATAL] CUDASymmetricMemory::wait_signal rank {} failed to receive signal from rank {} on channel 0 after 9 microseconds\n"
    logs = {f"rank{rank}.log": "step 7\n" + line.format(rank, rank - 1) + TRAP for rank in (1, 2, 3)}
    ruling = read(logs | {"rank0.log": "step 7\n"})
    assert (ruling.cause, ruling.ranks) == ("not-arrived", "0"), str(ruling)


def test_peers_that_nobody_shares_accuse_nobody() -> None:
    line = "Warning: DeepEP timeout for dispatch receive, rank {}, local_expert_idx 0, src_rank {}\n"
    logs = {f"rank{rank}.log": "step 7\n" + line.format(rank, rank + 8) + TRAP for rank in range(4)}
    ruling = read(logs)
    assert not ruling.ranks, str(ruling)


def test_a_node_that_ray_lost_is_looked_for_with_the_commands_of_ray() -> None:
    text = (
        "(TrainWorker pid=51, ip=10.0.0.3) step 7 loss 1.25\n2026-04-11 16:38:16,464\tWARNING worker.py:2037 -- The node with node id: "
        "510c08bf and address: 10.0.0.7 and node name: gpu-7 has been marked dead because the detector has missed too many heartbeats.\n"
    )
    ruling = read({"driver.log": text})
    assert (ruling.cause, ruling.ranks) == ("died", ""), str(ruling)
    assert "10.0.0.7" in ruling.verdict["headline"]
    commands = " ".join(step["command"] or "" for step in ruling.document["action"]["steps"])
    assert "ray list nodes" in commands
    assert "session_latest" in commands
    assert "slurm" not in commands


def test_calls_of_unnamed_groups_are_all_told() -> None:
    lines = (f"[rank{rank}]:{old_watchdog(rank, 305 if rank < 3 else 307, numel=1)}" for rank in (2, 0, 1, 3))
    ruling = read({"job.log": "".join(lines)})
    assert not ruling.ranks, str(ruling)
    assert ruling.verdict["headline"].startswith("Ranks 0-2 timed out in ALLREDUCE #305, and rank 3 in ALLREDUCE #307.")


LOADED = (
    "TP rank {r} could finish the model loading, but there are other ranks that didn't finish loading. It is likely due to unexpected "
    "failures (e.g., OOM) or a slow node."
)


def scheduler_of_sglang(rank: int, at: str, last: str) -> str:
    return (
        f"[2026-03-17 {at} TP{rank}] Scheduler hit an exception: Traceback (most recent call last):\n"
        '  File "/opt/sglang/srt/model_executor/model_runner.py", line 417, in load_model\n    raise\n'
        f"{last}\n\n"
    )


def test_a_rank_of_sglang_that_loaded_and_waited_for_others_is_no_culprit() -> None:
    waited = "".join(scheduler_of_sglang(r, f"17:15:5{r}", "ValueError: " + LOADED.format(r=r)) for r in (0, 1))
    ruling = read({"engine.log": waited})
    assert (ruling.cause, ruling.ranks) == ("undetermined", ""), str(ruling)
    full = scheduler_of_sglang(2, "17:07:12", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")
    ruling = read({"engine.log": full + waited})
    assert (ruling.cause, ruling.ranks) == ("raised", "2"), str(ruling)
    own = scheduler_of_sglang(1, "17:07:12", "ValueError: layer 3 has another shape")
    assert read({"engine.log": own}).ranks == "1"


LOST_TASKS = (
    "E1122 18:37:18.972151    9577 coordination_service.cc:1549] [78] Use error polling to propagate the following error to all "
    "tasks: UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats):\n1\n2\n"
    "The tasks have crashed. Check the task logs.\n"
)


def jax_steps(task: int, last: int, total: int = 2000, *, end: bool = False) -> str:
    lines = [
        f"I1122 18:30:0{n}.000000 {7000 + task} train.py:88] step {last - 4 + n} of {total} loss 2.1\n"
        for n in range(5)
    ]
    return "".join(lines) + ("I1122 18:33:00.000000 7001 train.py:99] Training finished\n" if end else "")


@pytest.mark.parametrize("own", [jax_steps(0, 2000), jax_steps(0, 2000, end=True), ""])
def test_tasks_that_finished_with_the_job_did_not_die_of_lost_heartbeats(own: str) -> None:
    files = {f"task_{task}.log": jax_steps(task, 2000, end=True) for task in (1, 2)}
    ruling = read({**files, "task_0.log": own + LOST_TASKS})
    assert (ruling.blamed, ruling.cause in ("none", "undetermined")) == (set(), True), str(ruling)


@pytest.mark.parametrize("end", [True, False])
def test_tasks_that_ended_before_the_job_are_lost(end: bool) -> None:
    """Task 0 is at step 1203 of 2000: tasks 1 and 2 left early."""
    files = {f"task_{task}.log": jax_steps(task, 1203, end=end) for task in (1, 2)}
    ruling = read({**files, "task_0.log": jax_steps(0, 1203) + LOST_TASKS})
    assert (ruling.cause, ruling.ranks) == ("died", "1-2"), str(ruling)
