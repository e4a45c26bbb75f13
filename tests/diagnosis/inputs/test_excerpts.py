"""Excerpts as people paste them: a few lines of one file, cut anywhere, and what may be concluded from them."""

from __future__ import annotations

import pytest
from builders.jobs.verdicts import Ruling, gave_up, read
from builders.logs.lines import old_watchdog, watchdog

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


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        ("RuntimeError: CUDA error: uncorrectable NVLink error detected during the execution", "nvlink-error"),
        (
            "RuntimeError: cuda runtime error (39) : uncorrectable ECC error encountered at /w/THCGeneral.cpp:313",
            "gpu-ecc",
        ),
        ("failed call to cuCtxCreate: CUDA_ERROR_ECC_UNCORRECTABLE: uncorrectable ECC error encountered", "gpu-ecc"),
        ("[   24.1] NVRM: GPU 0000:3a:00.0: RmInitAdapter failed! (0x24:0x65:1423)", "gpu-fell-off-bus"),
    ],
)
def test_an_error_of_a_board_is_hardware_also_where_no_rank_is_told(error: str, remedy: str) -> None:
    found = excerpt(error + "\n")
    assert (found.cause, found.ranks) == ("hardware", ""), str(found)
    assert found.sure < 3
    assert found.document["remedies"][0]["id"] == remedy


def test_memory_that_nccl_does_not_get_is_no_secret() -> None:
    found = excerpt(
        "n7:81:99 [2] include/alloc.h:178 NCCL WARN Cuda failure 'out of memory'\nn7:81:99 [2] NCCL INFO init.cc:9 -> 1\n"
    )
    assert found.cause in ("init", "raised"), str(found)
    assert found.document["remedies"][0]["id"] == "cuda-oom-one-rank"


@pytest.mark.parametrize(("code", "signal"), [(-9, "SIGKILL"), (-11, "SIGSEGV")])
def test_a_kill_under_a_local_rank_is_an_end_of_nobody_in_particular(code: int, signal: str) -> None:
    found = excerpt(TORCHRUN.format(code=code))
    assert (found.cause, found.ranks) == ("died", ""), str(found)
    assert signal in found.verdict["headline"]
    assert "ocal rank 2 (pid 7102)" in found.verdict["headline"]


CUT_LAUNCHER = (
    'Traceback (most recent call last):\n  File "/opt/bin/torchrun", line 8, in <module>\n    sys.exit(main())\n'
)


@pytest.mark.parametrize("below", ["", CUT_LAUNCHER])
def test_an_exit_code_under_a_local_rank_is_an_end_that_is_told_with_little_confidence(below: str) -> None:
    found = excerpt(TORCHRUN.format(code=1) + below)
    assert (found.cause, found.ranks, found.verdict["confidence"]) == ("died", "", "low"), str(found)
    assert "ocal rank 2 (pid 7102) probably exited with code 1" in found.verdict["headline"]


def test_an_exit_code_under_a_local_rank_stands_behind_what_a_process_says() -> None:
    lost = "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.7]:38032\n"
    assert excerpt(lost, TORCHRUN.format(code=1)).cause == "undetermined"


def test_an_end_that_may_belong_to_the_tear_down_is_not_told_without_a_rank() -> None:
    assert excerpt(TORCHRUN.format(code=-15)).cause == "undetermined"


def test_a_kill_by_the_name_of_the_command() -> None:
    found = excerpt(
        'Traceback (most recent call last):\n  File "/opt/torch/distributed/launch.py", line 259, in main\n    cmd=cmd)\n'
        "subprocess.CalledProcessError: Command '['/usr/bin/python', '-u', 'train.py']' died with <Signals.SIGBUS: 7>.\n"
    )
    assert found.cause == "died", str(found)
    assert "ocal rank" not in found.verdict["headline"]


@pytest.mark.parametrize("option", ["--local_rank=5", "--local-rank=5"])
def test_the_command_tells_the_local_rank(option: str) -> None:
    found = excerpt(
        'Traceback (most recent call last):\n  File "/opt/torch/distributed/launch.py", line 259, in main\n    cmd=cmd)\n'
        f"subprocess.CalledProcessError: Command '['/usr/bin/python', '-u', 'train.py', '{option}', '--lr', '0.1']' died with "
        "<Signals.SIGBUS: 7>.\n"
    )
    assert found.verdict["headline"].startswith("Local rank 5 was probably killed by SIGBUS"), str(found)


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


GONE = (
    "(raylet) A worker died or was killed while executing a task by an unexpected system error. RayTask ID: ff Worker IP "
    "address: 10.1.2.3 Worker port: 10004 Worker PID: 4711 Worker exit type: SYSTEM_ERROR\n"
)


def test_a_worker_that_ray_merely_misses_has_ended_and_nobody_says_how() -> None:
    found = excerpt(GONE)
    assert (found.cause, found.ranks, found.sure) == ("died", "", 1), str(found)
    assert "(10.1.2.3, pid 4711)" in found.verdict["headline"]


def test_a_worker_that_ray_misses_after_a_timeout_is_no_cause() -> None:
    gave_up = "(T pid=9, ip=10.1.2.4) " + watchdog(1, at="E1104 05:06:07.100000000", numel=2, ran_ms=600_010)
    assert excerpt(gave_up, GONE).cause != "died"


def test_an_answer_to_the_dump_signal_that_is_cut_puts_nobody_outside() -> None:
    head = "[rank{r}]:[E1104 05:06:07.100000000 ProcessGroupNCCL.cpp:1746] [PG ID 0 PG GUID 0(default_pg) Rank {r}] Received a dump signal "
    found = excerpt(
        head.format(r=1)
        + "due to a collective timeout from this local rank and we will try our best to dump the debug info. Last "
        "enqueued NCCL work: 812, last completed NCCL work: 811.This is most likely caused by\n",
        head.format(r=5) + "due to a collective timeout from  rank 1 and we will try our best to dump the deb\n",
    )
    assert (found.cause, found.ranks) == ("undetermined", ""), str(found)


PYSPY = (
    "Process 4711: python train.py\nPython v3.10.12 (/usr/bin/python3.10)\n\n"
    'Thread 4711 (idle): "MainThread"\n    all_reduce (torch/distributed/distributed_c10d.py:2219)\n    main (train.py:140)\n'
)
GDB = (
    "(gdb) bt\n#0  0x00007f68194a8adf in clock_nanosleep () from /lib/x86_64-linux-gnu/libc.so.6\n"
    "#1  0x00007f67471b224b in ?? () from /lib/x86_64-linux-gnu/libnccl.so.2\n"
    "#2  0x00007f67471be402 in pncclCommInitRankConfig () from /lib/x86_64-linux-gnu/libnccl.so.2\n"
)


@pytest.mark.parametrize("stack", [PYSPY, GDB])
def test_a_stack_alone_is_no_healthy_job(stack: str) -> None:
    found = excerpt(stack)
    assert (found.cause, found.ranks) == ("undetermined", ""), str(found)
    assert "if it's moving" in found.verdict["headline"]


def test_what_cuda_told_nccl_is_not_behind_the_error_that_quotes_it() -> None:
    found = excerpt(
        "torch.distributed.DistBackendError: NCCL error in: /w/ProcessGroupNCCL.cpp:1197, unhandled cuda error (run with "
        "NCCL_DEBUG=INFO for details), NCCL version 2.18.3\nncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\n"
        "Cuda failure 'initialization error'\n"
    )
    assert found.cause == "raised", str(found)
    assert "initialization error" in found.verdict["headline"]


@pytest.mark.parametrize(
    "end", ["Watchdog caught collective", "Watchdog caught collective op", "Watchdog caught collective operation ti"]
)
def test_a_timeout_that_is_cut_in_its_first_words_is_no_silence(end: str) -> None:
    found = excerpt(f"2026-11-04T05:06:07.870Z | [rank6]:[E ProcessGroupNCCL.cpp:563] [Rank 6] {end}")
    assert found.cause == "undetermined", str(found)
    assert "no line" not in found.verdict["headline"]


PRINT = "CollectiveFingerPrint(SequenceNumber={seq}{sep}OpType={op}{rest}"
DIFFER = (
    "RuntimeError: Detected mismatch between collectives on ranks. Rank 1 is running collective: {a}), but Rank 2 is "
    "running collective: {b}"
)


def test_two_ranks_at_different_numbers_of_one_call_are_out_of_step() -> None:
    one, two = (PRINT.format(seq=n, sep="", op="BARRIER", rest="") for n in (7, 6))
    found = excerpt(DIFFER.format(a=one, b=two) + ").Collectives di")
    assert (found.cause, found.ranks, found.sure) == ("missed-call", "", 1), str(found)
    assert found.verdict["suspects"] == "1-2"


@pytest.mark.parametrize("cut", ["", ", TensorShape=[20", ", TensorShape=[20, 10], TensorDty"])
def test_a_fingerprint_that_is_cut_leaves_open_what_differs(cut: str) -> None:
    one = PRINT.format(seq=7, sep=", ", op="BROADCAST", rest=", TensorShape=[20, 10], TensorDtypes=Long")
    two = PRINT.format(seq=7, sep=", ", op="BROADCAST", rest=cut)
    found = excerpt(DIFFER.format(a=one, b=two))
    assert found.ranks == "", str(found)
    assert found.sure < 2, str(found)


def test_numbers_of_groups_that_no_line_names_are_not_compared() -> None:
    found = excerpt(*(old_watchdog(0, n, "ALLREDUCE") for n in (96117, 96120)), old_watchdog(7, 64088, "ALLREDUCE"))
    assert (found.cause, found.ranks) == ("undetermined", ""), str(found)


def test_one_rank_that_waits_may_wait_for_anybody() -> None:
    assert excerpt(old_watchdog(0, 1, "ALLREDUCE")).cause == "undetermined"


def test_a_rank_without_a_line_is_not_said_to_keep_those_that_are_further_on() -> None:
    found = excerpt(
        *(watchdog(r, 339, "BROADCAST", at=f"E1104 05:06:07.10{r}000000", numel=5164) for r in (2, 1)),
        watchdog(0, 341, "_ALLGATHER_BASE", at="E1104 05:06:07.100000000", numel=513, numel_out=2052),
    )
    assert found.sure < 2, str(found)
    assert "the others wait" not in found.verdict["headline"]


def test_who_has_passed_a_broadcast_is_not_said_to_be_in_it() -> None:
    found = excerpt(old_watchdog(1, 506, "BROADCAST"), old_watchdog(0, 514, "BROADCAST"))
    assert "rank 0 already passed" in found.verdict["headline"], str(found)


def test_an_exit_code_without_its_traceback_leaves_open_what_the_rank_met() -> None:
    table = (
        "Root Cause (first observed failure):\n[0]:\n  time      : 2026-11-04_05:06:07\n  host      : node3\n"
        "  rank      : 2 (local_rank: 2)\n  exitcode  : 1 (pid: 4711)\n  error_file: <N/A>\n"
        "  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html\n" + "=" * 60 + "\n"
    )
    found = excerpt(table)
    assert (found.cause, found.ranks, found.sure) == ("died", "2", 1), str(found)
    assert found.document["remedies"][0]["id"] == "rank-crash-first"


def test_a_rank_that_its_own_watchdog_took_down_was_in_a_call() -> None:
    found = excerpt(
        "[rank1]:[E1104 05:29:18.161079108 ProcessGroupNCCL.cpp:1858] [PG ID 0 PG GUID 0(default_pg) Rank 1] Received a dump signal "
        "due to a collective timeout from this local rank and we will try our best to dump the debug info. Last enqueued NCCL work: "
        "855, last completed NCCL work: 12.This is most likely\n"
        "[rank0]:[E1104 05:30:18.278313932 ProcessGroupNCCL.cpp:744] [Rank 0] Some NCCL operations have failed or timed out. Due to\n"
    )
    assert (found.cause, found.ranks) == ("undetermined", ""), str(found)


def test_a_timeout_of_a_group_that_is_not_known_says_who_waited_in_what() -> None:
    found = excerpt(
        "  what():  [PG ID 16 PG GUID 165 Rank 2] Process group watchdog thread terminated with exception: [Rank 2] Watchdog caught "
        "collective operation timeout: WorkNCCL(SeqNum=4, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600040 "
        "milliseconds before timing out.\n"
    )
    assert "of group 165 timed out in ALLREDUCE #4" in found.verdict["headline"], str(found)


def test_result_codes_at_the_end_of_a_text_are_no_healthy_job() -> None:
    found = excerpt(
        "n7:81:98 [0] NCCL INFO Channel 15/0 : 0[9] -> 1[1] [send] via NET/Socket/7\nn7:81:99 [0] NCCL INFO transport/net.cc:515 -> 2\n"
    )
    assert found.cause == "undetermined", str(found)


def test_a_start_in_the_middle_of_which_the_text_ends_is_a_guess() -> None:
    found = excerpt(
        "n7:81:99 [6] NCCL INFO comm 0x7f3aed3f8c00 rank 6 nranks 16 cudaDev 6 nvmlDev 6 busId b9000 commId 0xb28c - Init START\n"
    )
    assert found.sure < 2, str(found)


# --- a start that failed ------------------------------------------------------------------------------------------

BARRIER = (
    "INFO:torch.distributed.distributed_c10d:Waiting in store based barrier to initialize process group for rank: {r}, "
    "key: store_based_barrier_key:1 (world_size={world}, worker_count={here}, timeout=0:30:00)\n"
)
GAVE_UP = (
    "RuntimeError: Timed out initializing process group in store based barrier on rank: {r}, for key: "
    "store_based_barrier_key:1 (world_size={world}, worker_count={here}, timeout=0:30:00)\n"
)


def test_who_is_not_at_the_stores_barrier_is_named_where_all_others_are_heard() -> None:
    found = excerpt(*(BARRIER.format(r=r, world=4, here=3) for r in (0, 3, 1, 0)))
    assert (found.cause, found.ranks) == ("init", "2"), str(found)


def test_a_count_names_nobody_where_some_that_came_are_not_heard() -> None:
    found = excerpt(*(BARRIER.format(r=r, world=8, here=5) for r in (0, 3)))
    assert (found.cause, found.ranks) == ("init", ""), str(found)
    assert "3 ranks" in found.verdict["headline"]


@pytest.mark.parametrize(
    ("where", "remedy"),
    [
        ("10.0.0.2<45763>", "firewall-ports"),
        ("fe80::966d:ae03%ib1<179>", "wrong-interface"),
        ("169.254.3.18<42219>", "wrong-interface"),
    ],
)
def test_a_start_whose_connections_fail_has_a_first_step(where: str, remedy: str) -> None:
    found = excerpt(
        f"n7:81:99 [5] misc/socket.cc:483 NCCL WARN socketStartConnect: Connect to {where} failed : Software caused connection abort\n",
        "n7:81:99 [5] NCCL INFO bootstrap.cc:270 -> 2\nn7:81:99 [5] NCCL INFO init.cc:1350 -> 2\n",
    )
    assert found.cause == "init", str(found)
    assert found.document["remedies"][0]["id"] == remedy


def test_a_logged_traceback_that_ends_the_text_is_no_healthy_job() -> None:
    head = "(EngineCore pid=81) ERROR 11-04 05:06:07 [core.py:720] "
    lines = ("Traceback (most recent call last):", '  File "/opt/engine.py", line 711, in run', "    loop()")
    assert excerpt(*(f"{head}{line}\n" for line in lines)).cause == "undetermined"


@pytest.mark.parametrize(
    "lost",
    [
        "torch.distributed.elastic.rendezvous.api.RendezvousClosedError\n",
        "WARNING:torch.distributed.elastic.rendezvous.dynamic_rendezvous:The node 'n_34_0' has failed to send a keep-alive heartbeat "
        "to the rendezvous 'x' due to an error of type RendezvousConnectionError.\n",
    ],
)
def test_a_rendezvous_that_is_lost_under_running_workers_is_no_start(lost: str) -> None:
    found = excerpt(
        lost,
        "W1104 05:06:07.531000 1359 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 1365 closing signal SIGTERM\n",
    )
    assert (found.cause, found.ranks) == ("undetermined", ""), str(found)


def test_a_heartbeat_that_the_store_no_longer_takes_is_no_start() -> None:
    line = "The node 'gpu04_812_0' has failed to send a keep-alive heartbeat to the rendezvous 'r7' due to an error of type {}.\n"
    lost = excerpt(line.format("RendezvousConnectionError"))
    assert (lost.cause, lost.ranks) == ("undetermined", ""), str(lost)
    assert "the agent on the endpoint's host" in lost.verdict["headline"]
    assert excerpt(line.format("RendezvousTimeoutError")).cause == "init"


def test_a_restart_that_finds_its_rendezvous_closed_is_no_start() -> None:
    agent = "0212 12:07:20.086000 870 torch/distributed/elastic"
    again = f"I{agent}/agent/server/api.py:889] [default] Worker group FAILED. 2/3 attempts left; will restart worker group\n"
    closed = "torch.distributed.elastic.rendezvous.api.RendezvousClosedError\n"
    failed = (
        f"E{agent}/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 0 (pid: 914) of binary: /bin/python3\n"
    )
    found = excerpt(failed, again, closed)
    assert (found.cause, found.ranks) == ("undetermined", ""), str(found)
    assert "rendezvous was closed" in found.verdict["headline"]
    assert excerpt(closed).cause == "init"


def test_a_channel_that_the_driver_removed_tells_what_came_first() -> None:
    found = excerpt(
        "kernel: NVRM: Xid (PCI:0000:dc:00): 45, pid=47, name=python3, Ch 00000001 caused by previous Xid 149\n"
    )
    assert found.cause == "hardware", str(found)
    assert found.document["remedies"][0]["id"] == "nvlink-error"


def test_one_that_did_not_join_is_one_rank() -> None:
    found = excerpt(
        "torch.distributed.DistStoreError: Timed out after 61 seconds waiting for clients. 3/4 clients joined.\n"
    )
    assert "1 rank never joined" in found.verdict["headline"], str(found)


@pytest.mark.parametrize("line", [BARRIER, GAVE_UP])
def test_more_than_belong_at_the_stores_barrier_are_of_another_run(line: str) -> None:
    found = excerpt(line.format(r=1, world=4, here=12))
    assert (found.cause, found.ranks) == ("init", ""), str(found)
    assert "12 processes checked in at a store for 4" in found.verdict["headline"]
    assert found.document["remedies"][0]["id"] == "stale-store-elastic"


def test_a_barrier_that_let_everybody_pass_is_no_trouble() -> None:
    assert excerpt(*(BARRIER.format(r=r, world=2, here=2) for r in (0, 1))).cause == "undetermined"


def test_steps_after_the_barrier_show_that_the_job_came_up() -> None:
    waits = BARRIER.format(r=0, world=4, here=3)
    assert excerpt(waits, " 12%|█▏        | 61/500 [00:20<02:26,  3.00it/s]\n").cause != "init"


NCCL = "w5:{pid}:{pid} [{dev}] {text}\n"
CANNOT_CONNECT = NCCL.format(
    pid=71,
    dev=1,
    text="proxy.cc:1519 NCCL WARN [Proxy Service 1] Failed to execute operation Setup from rank 1, retcode 3",
)
GIVES_UP = NCCL.format(pid=70, dev=0, text="NCCL INFO init.cc:1358 -> 3")


def test_memory_that_ran_out_while_nccl_connected_is_the_reason() -> None:
    full = NCCL.format(pid=71, dev=1, text="include/alloc.h:178 NCCL WARN Cuda failure 'out of memory'")
    closed = NCCL.format(
        pid=70, dev=0, text="misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer w5<41>"
    )
    found = excerpt(closed, GIVES_UP, full, CANNOT_CONNECT)
    assert (found.cause, found.ranks) == ("init", ""), str(found)
    assert "(w5, pid 71): CUDA error, out of memory" in found.verdict["headline"]


def test_a_closed_connection_alone_is_no_reason() -> None:
    closed = NCCL.format(
        pid=70, dev=0, text="misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer w5<41>"
    )
    found = excerpt(closed, GIVES_UP)
    assert found.cause == "init", str(found)
    assert found.sure < 2


def test_a_result_code_that_passed_elsewhere_is_no_start_that_failed() -> None:
    assert excerpt(NCCL.format(pid=70, dev=0, text="NCCL INFO transport/net.cc:306 -> 6")).cause != "init"


def test_an_exception_of_a_known_rank_outweighs_how_nccl_gave_up() -> None:
    raised = "[rank1]: Traceback (most recent call last):\n[rank1]: KeyError: 'scale'\n"
    found = excerpt(raised, CANNOT_CONNECT)
    assert (found.cause, found.ranks) == ("raised", "1"), str(found)


# --- the network --------------------------------------------------------------------------------------------------

LOST = (
    "[rank{r}]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2251, remote process exited or "
    "there was a network error, NCCL version 2.21.5\n"
    "{mark}ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.\n"
    "{mark}Last error:\n"
    "{mark}NET/IB : Got completion from peer {peer}<418{r}> with status=12 opcode=0 len=0 vendor err 129 (Recv) hca mlx5_2\n"
)


@pytest.mark.parametrize("marked", [True, False])
def test_an_end_that_two_ranks_lost_is_told_by_its_address(marked: bool) -> None:
    lines = [LOST.format(r=r, peer="10.4.0.9", mark=f"[rank{r}]: " if marked else "") for r in (3, 5)]
    found = excerpt(*lines)
    assert (found.cause, found.ranks) == ("network", ""), str(found)
    assert "Ranks 3, 5" in found.verdict["headline"]
    assert "10.4.0.9" in found.verdict["headline"]


def test_the_ranks_at_that_address_are_named_where_they_are_known() -> None:
    homes = "".join(
        f"w{r // 4}:9{r}:9{r} [{r % 4}] NCCL INFO Bootstrap : Using eth0:10.4.0.{r // 4}<0>\n"
        f"w{r // 4}:9{r}:9{r} [{r % 4}] NCCL INFO comm 0x5581a8fb rank {r} nranks 8 cudaDev {r % 4} busId 1{r}000 commId 0x1 - "
        "Init COMPLETE\n"
        for r in range(8)
    )
    found = excerpt(homes, *(LOST.format(r=r, peer="10.4.0.1", mark=f"[rank{r}]: ") for r in (0, 2)))
    assert (found.cause, found.ranks) == ("network", "4-7"), str(found)


def test_one_that_lost_a_silent_end_may_just_have_seen_it_die() -> None:
    assert excerpt(LOST.format(r=3, peer="10.4.0.9", mark="[rank3]: ")).cause == "undetermined"


# --- records that are cut or torn ---------------------------------------------------------------------------------

CAUGHT = (
    "[rank{r}]:[E1104 05:06:07.{r}00000000 ProcessGroupNCCL.cpp:607] [Rank {r}] Watchdog caught collective {words}: "
    "WorkNCCL(SeqNum={seq}, OpType=_ALLGATHER_BASE, NumelIn={n}, NumelOut={m}, Timeout(ms)=600000) ran for 60001{r} "
    "milliseconds before timing out.\n"
)
BEHIND = "[rank{r}]:[E1104 05:06:07.{r}00000001 ProcessGroupNCCL.cpp:1664] [PG 4 Rank {r}] Exception (either an error"


def test_words_of_another_process_inside_a_record_do_not_cost_it() -> None:
    torn = "operatWARNING: this option will be removed in a later releaseion timeout"
    found = excerpt(*(CAUGHT.format(r=r, words=torn, seq=77, n=n, m=2 * n) for r, n in ((0, 64), (1, 4096))))
    assert (found.cause, found.at) == ("size-mismatch", ("_ALLGATHER_BASE", 77)), str(found)


def test_a_line_that_is_cut_behind_its_group_still_tells_the_group() -> None:
    whole = (
        BEHIND.format(r=0)
        + " or timeout) detected by watchdog at work: 51, last enqueued NCCL work: 51, last completed NCCL work: 50.\n"
    )
    lines = [CAUGHT.format(r=r, words="operation timeout", seq=51 + r, n=4096 - r, m=4 * (4096 - r)) for r in (0, 1)]
    found = excerpt(lines[0], whole, lines[1], BEHIND.format(r=1))
    assert found.cause == "missed-call", str(found)
    assert found.at == ("_ALLGATHER_BASE", 51)


# --- texts that break off in trouble ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("Fatal Python error: Aborted\n", "A process aborted"),
        ('Traceback (most recent call last):\n  File "/opt/train.py", line 9, in main\n    run()\n', "cut off"),
        (
            "w1:7:8 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer w2<40001>\n",
            "w2 closed it",
        ),
        (
            "W1104 05:06:07.000000 71 site-packages/torch/distributed/elastic/agent/server/api.py:719] Received 15 death "
            "signal, shutting down workers\n",
            "The launcher received SIGTERM from a scheduler",
        ),
    ],
)
def test_a_text_that_breaks_off_in_trouble_is_not_well(line: str, said: str) -> None:
    steps = " 12%|█▏        | 61/500 [00:20<02:26,  3.00it/s]\n"
    found = excerpt(steps, line)
    assert found.cause == "undetermined", str(found)
    assert said in found.verdict["headline"]


@pytest.mark.parametrize("group", ["PG 1 Rank 8", "PG ID 0 PG GUID 0(default_pg) Rank 8"])
def test_the_line_above_the_reason_of_an_abort_does_not_hide_it(group: str) -> None:
    def aborted(why: str) -> str:
        found = excerpt(
            "terminate called after throwing an instance of 'c10::DistBackendError'\n",
            f"  what():  [{group}] Process group watchdog thread terminated with exception: NCCL error: {why}, NCCL version 2.20.5\n",
        )
        assert found.cause == "undetermined", str(found)
        return str(found.verdict["headline"])

    assert " lost a peer: it exited" in aborted("remote process exited or there was a network error"), group
    assert "lost a peer" not in aborted("internal error - please report this issue to the NCCL developers")


def test_a_desync_report_that_failed_still_tells_the_call() -> None:
    found = excerpt(
        "[E ProcessGroupNCCL.cpp:988] Failed to retrieve NCCL_DESYNC_DEBUG report.  Please file an issue. Error: "
        "Timeout rank [2] last trace item must be kEventStart. thisSeq = 9, col = SEND\n"
    )
    assert (found.cause, found.at) == ("undetermined", ("SEND", 9)), str(found)


STATUS = (
    "[rank{r}]:[E1104 05:06:07.{r}00000001 ProcessGroupNCCL.cpp:1785] [PG ID 0 PG GUID 0(default_pg) Rank {r}] Exception "
    "(either an error or timeout) detected by watchdog at work: {seq}, last enqueued NCCL work: {enq}, last completed "
    "NCCL work: {done}.\n"
)


def test_the_call_that_one_device_stands_in_is_the_one_that_does_not_end() -> None:
    lines = [
        CAUGHT.format(r=r, words="operation timeout", seq=seq, n=64, m=128)
        + STATUS.format(r=r, seq=seq, enq=40, done=seq - 1)
        for r, seq in ((0, 31), (1, 36))
    ]
    found = excerpt(*lines)
    assert found.at == ("_ALLGATHER_BASE", 31), str(found)
    assert "stopped in ALLGATHER #31" in found.verdict["headline"]


# --- how much a few lines can show --------------------------------------------------------------------------------


def test_one_rank_of_two_alone_in_a_text_names_nobody_for_sure() -> None:
    found = excerpt(CAUGHT.format(r=1, words="operation timeout", seq=51, n=64, m=128))
    assert found.sure < 2, str(found)


def test_two_ranks_in_one_call_may_be_two_of_many() -> None:
    line = CAUGHT.replace("_ALLGATHER_BASE", "ALLREDUCE")
    found = excerpt(*(line.format(r=r, words="operation timeout", seq=51, n=64, m=64) for r in (0, 1)))
    assert found.sure < 2, str(found)


def test_the_rank_that_mpirun_names_goes_before_a_process_without_one() -> None:
    found = excerpt(
        "prterun noticed that process rank 11 with PID 6131 on node w7 exited on signal 11 (Segmentation fault).\n",
        "[w9:3326:0:3326] Caught signal 11 (Segmentation fault: address not mapped to object at address 0x10)\n",
    )
    assert (found.cause, found.ranks) == ("died", "11"), str(found)


def test_a_worker_that_ran_out_of_memory_under_an_unknown_rank() -> None:
    bar = " 2%|▏         | 224/13945 [25:36<39:50:56, 10.46s/it]Traceback (most recent call last):\n"
    found = excerpt(bar, "w2: RuntimeError: DataLoader worker (pid 10843) is killed by signal: Killed.\n")
    assert (found.cause, found.ranks) == ("died", ""), str(found)
    assert "memory" in found.verdict["headline"]


def test_a_launchers_greeting_behind_a_crash_is_no_new_attempt() -> None:
    found = excerpt(
        'Traceback (most recent call last):\n  File "/opt/torch/distributed/launch.py", line 259, in main\n    cmd=cmd)\n'
        "subprocess.CalledProcessError: Command '['/usr/bin/python', '-u', 'train.py']' died with <Signals.SIGSEGV: 11>.\n"
        "*****************************************\nSetting OMP_NUM_THREADS environment variable for each process to be 1 "
        "in default, to avoid your system being overloaded\n"
    )
    assert found.cause == "died", str(found)


def test_a_call_that_a_peer_has_passed_is_told_where_others_are_not_heard() -> None:
    lines = [
        CAUGHT.format(r=r, words="operation timeout", seq=seq, n=64, m=256)
        + STATUS.format(r=r, seq=seq, enq=40, done=seq - 1)
        for r, seq in ((0, 31), (3, 33))
    ]
    found = excerpt(*lines)
    assert (found.cause, found.at) == ("missed-call", ("_ALLGATHER_BASE", 31)), str(found)
    assert found.sure < 2
    assert not found.blamed


def test_a_gpu_that_amds_runtime_reports_as_hung_has_failed() -> None:
    found = excerpt(
        "HW Exception by GPU node-3 (Agent handle: 0x55d0c81a40) reason :GPU Hang\n", "Aborted (core dumped)\n"
    )
    assert found.cause == "hardware", str(found)


TABLE = (
    "Root Cause (first observed failure):\n[0]:\n  time      : 2026-11-04_05:06:07\n  host      : w7\n"
    "  rank      : 10 (local_rank: 2)\n  exitcode  : -9 (pid: 2140)\n  error_file: <N/A>\n"
    "  traceback : Signal 9 (SIGKILL) received by PID 2140\n"
)


def test_a_task_of_slurm_that_is_a_launcher_is_no_rank() -> None:
    found = excerpt(TABLE, "srun: error: w7: task 0: Exited with exit code 1\n")
    assert (found.cause, found.ranks) == ("died", "10"), str(found)


OLD = old_watchdog(1, None, "BROADCAST", ran_ms=1_809_156)


def test_a_bar_that_goes_on_behind_the_only_rank_that_gave_up_is_another_ranks() -> None:
    bar = "Images     Labels: 45%|████▌     | {n}/1809 [30:0{n}<29:59,  1.79s/it]\n"
    found = excerpt(bar.format(n=6), OLD, bar.format(n=8))
    assert (found.cause, found.ranks) == ("straggler", "0"), str(found)
    assert found.sure < 2
    assert excerpt(bar.format(n=6), OLD).cause != "straggler"


def test_an_error_of_the_provider_itself_is_no_echo_of_a_silent_end() -> None:
    warn = (
        "w1:35:89 [5] ofi_process_cq:1039 NCCL WARN NET/OFI Request 0x7f completed with error. RC: {rc}. Error: {why}."
    )
    assert excerpt("[1,13]<stdout>:" + warn.format(rc=20, why="unknown error")).cause == "network"
    assert excerpt("[1,13]<stdout>:" + warn.format(rc=4113, why="Unresponsive receiver")).cause != "network"


def test_two_ranks_on_one_gpu_never_came_up() -> None:
    found = excerpt(
        "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:275, invalid usage (run with NCCL_DEBUG=WARN for "
        "details), NCCL version 2.20.5\nncclInvalidUsage: This usually reflects invalid usage of NCCL library.\nLast error:\n"
        "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1b000\n"
    )
    assert found.cause == "init", str(found)
    assert "ranks 0-1 share a GPU" in found.verdict["headline"]
    assert "both on CUDA device 1b000" in found.verdict["headline"]
    assert (found.ranks, found.verdict["suspects"]) == ("", "0-1"), str(found)


def test_all_ranks_on_one_gpu_are_told_and_none_is_absent() -> None:
    """Each rank prints the first other one that it meets, so that the lines together tell who shares the device."""
    line = "gpu7:298{0}:303 [0] NCCL WARN Duplicate GPU detected : rank {0} and rank {1} both on CUDA device 1b000\n"
    found = excerpt("".join(f"[1,{pair[0]}]<stdout>:" + line.format(*pair) for pair in ((2, 0), (5, 0), (0, 2))))
    assert (found.cause, found.ranks, found.verdict["suspects"]) == ("init", "", "0,2,5"), str(found)
    assert "ranks 0, 2, 5 share a GPU" in found.verdict["headline"], str(found)


@pytest.mark.parametrize("more", ["", " 12%|█▏        | 61/500 [00:20<02:26,  3.00it/s]\n"])
def test_silence_of_a_rank_that_is_in_no_line_proves_little(more: str) -> None:
    lines = [CAUGHT.format(r=r, words="operation timeout", seq=51, n=64, m=256) for r in range(3)]
    found = excerpt(*lines, more)
    assert found.ranks in ("", "3"), str(found)
    assert found.sure < 2, str(found)


def test_a_rank_that_a_text_leaves_out_is_a_suspect_and_no_culprit() -> None:
    found = excerpt(*(old_watchdog(r, 1, "ALLGATHER", ran_ms=1_807_120 + r) for r in (1, 2, 3)))
    assert (found.cause, found.ranks, found.verdict["suspects"]) == ("undetermined", "", "0"), str(found)


@pytest.mark.parametrize(("spent", "late"), [("30:06", True), ("10:02", True), ("12:40", False), ("1:30:06", False)])
def test_data_that_is_not_ready_after_just_a_default_limit(spent: str, late: bool) -> None:
    found = excerpt(
        f"Tokenizing corpus (num_proc=12):  71%|███████   | 91000/128000 [{spent}<11:20, 50.3 examples/s]\n",
        "Traceback (most recent call last):\n",
        '  File "/home/u/train/run.py", line 88, in <module>\n    main()\n',
        '  File "/home/u/train/run.py", line 61, in main\n    with args.main_process_first():\n',
    )
    assert (found.cause == "straggler") is late, str(found)
    assert found.sure < 2
    assert not found.ranks


def test_an_error_that_libfabric_itself_reports_is_the_networks() -> None:
    line = "libfabric:4517:1708520807::efa:cq:efa_rdm_txe_handle_error():737<warn> err: 5, message: {}\n"
    assert excerpt(line.format("Local send queue failed"), "srun: error: w4: task 3: Aborted\n").cause == "network"


# --- ends that follow from others -----------------------------------------------------------------------------------

CLOSED = "Connection closed by remote peer node9.cluster<59116>\n"
REMOTE = (
    "  what():  [PG ID 0 PG GUID 0(default_pg) Rank 1] Process group watchdog thread terminated with exception: NCCL error: "
    "remote process exited or there was a network error, NCCL version 2.21.5\n"
    "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.\n"
)


def test_an_abort_that_a_lost_peer_caused_tells_of_the_peer() -> None:
    found = excerpt(REMOTE, "Last error:\nsocketProgress: ", CLOSED)
    assert "node9.cluster closed it" in found.verdict["headline"], str(found)
    unnamed = excerpt(REMOTE.replace("Rank 1", "Rank 5"))
    assert unnamed.verdict["headline"].startswith("Rank 5 lost a peer"), str(unnamed)
    own = excerpt("terminate called after throwing an instance of 'std::out_of_range'\n")
    assert own.verdict["headline"].startswith("A process aborted"), str(own)


def test_what_old_nccl_says_of_a_closed_connection_is_read() -> None:
    lines = (
        "gpu-a:141:158 [0] include/socket.h:416 NCCL WARN Net : Connection closed by remote peer\n"
        "gpu-a:141:158 [0] NCCL INFO proxy.cc:198 -> 2 [Proxy Thread]\n"
    )
    assert "A connection between processes broke" in excerpt(lines).verdict["headline"]


def test_a_traceback_that_is_cut_hides_no_error_above_it() -> None:
    named = "(EngineCore_0 pid=41) ERROR 04-17 23:05:06 [core.py:390] RuntimeError: NCCL error: invalid usage\n"
    cut = "(EngineCore_4 pid=45) ERROR 04-17 23:05:06 [core.py:390] EngineCore hit an exception: Traceback (most recent call last):\n"
    both = excerpt(named, cut).verdict
    assert "process 41 (RuntimeError: NCCL error" in both["headline"]
    assert "invalid usage" in both["evidence"][0]["quote"]
    assert "name is cut off" in excerpt(cut).verdict["headline"]


def test_slurm_tells_of_full_memory_when_the_step_ends() -> None:
    full = (
        "slurmstepd: error: Detected 8 oom-kill event(s) in step 59.batch cgroup. Some of your processes may have been killed by the "
        "cgroup out-of-memory handler.\n"
    )
    driver = (
        'Traceback (most recent call last):\n  File "/w/tune.py", line 272, in '
        "run\nray.tune.error.TuneError: ('Trials did not complete', [t1])\n"
    )
    actor = (
        'Traceback (most recent call last):\n  File "/w/train.py", line 9, in '
        "get\nray.exceptions.RayActorError: The actor died unexpectedly before finishing this task.\n"
    )
    for error in (driver, actor):
        found = excerpt(error, full)
        assert (found.cause, found.ranks) == ("died", ""), str(found)
        assert found.sure < 3
    own = excerpt(driver.replace("ray.tune.error.TuneError: ('Trials did not complete', [t1])", "KeyError: 'lr'"), full)
    assert own.cause == "raised", str(own)


def test_one_end_that_ray_tells_twice_is_one_process() -> None:
    noticed = "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR\n"
    named = (
        "(raylet) A worker died or was killed while executing a task by an unexpected system error. Worker IP address: 10.0.4.3 "
        "Worker port: 10004 Worker PID: 3943\n"
    )
    found = excerpt(noticed, named)
    assert found.cause == "died" and "A process (10.0.4.3, pid 3943)" in found.verdict["headline"], str(found)
    assert " and " not in found.verdict["headline"]


def test_a_hidden_pid_hides_no_rank() -> None:
    line = "mpirun noticed that process rank {r} with PID {pid} on node {host} exited on signal 9 (Killed).\n"
    for pid, host in (("xxxxxx", "xxxxxxxx"), ("4711", "node3")):
        found = excerpt(line.format(r=1, pid=pid, host=host))
        assert (found.cause, found.ranks) == ("died", "1"), str(found)


@pytest.mark.parametrize(
    ("of_kill", "closed", "named"),
    [
        ("13:03:29", "13:03:29", "1"),
        ("13:03:29", "13:02:58", "1"),
        ("13:03:29", "13:03:49", "0"),
        ("13:02:58", "13:03:29", "0"),
    ],
)
def test_a_kill_that_the_table_dates_when_others_were_closed_is_the_launchers(
    of_kill: str, closed: str, named: str
) -> None:
    row = "  time      : 2026-09-07_{at}\n  host      : node1\n  rank      : {r} (local_rank: {r})\n  exitcode  : {code} (pid: 71{r})\n"
    rest = "  error_file: <N/A>\n  traceback : <N/A>\n"
    table = (
        "train.py FAILED\nFailures:\n[1]:\n"
        + row.format(r=0, at=of_kill, code=-9)
        + rest
        + "[2]:\n"
        + row.format(r=2, at=closed, code=-15)
        + rest
        + "Root Cause (first observed failure):\n[0]:\n"
        + row.format(r=1, at="13:02:58", code=1)
        + rest
    )
    found = excerpt(table)
    assert (found.cause, found.ranks) == ("died", named), str(found)


# --- whose lines they are -----------------------------------------------------------------------------------------------


def test_a_program_that_ended_is_not_the_rank_that_gives_up_below() -> None:
    crash = (
        'Traceback (most recent call last):\n  File "/w/train.py", line 91, in <module>\n    main()\n  File '
        '"/w/train.py", line 85, in main\n    step()\nValueError: bad sample 12\n'
    )
    found = excerpt(crash, watchdog(1, 5919))
    assert (found.cause, found.ranks) == ("raised", ""), str(found)
    assert found.verdict["headline"].endswith(": ValueError.")
    assert "A rank raised ValueError: bad sample 12." in [one["says"] for one in found.verdict["evidence"]]
    after = excerpt(watchdog(1, 5919), crash)
    assert after.cause != "raised", str(after)


def test_lines_of_other_processes_are_not_of_the_only_rank_that_is_named() -> None:
    lost = (
        "[rank6]:[W512 14:13:52.101 TCPStore.cpp:106] [c10d] sendBytes failed on SocketImpl(fd=83, "
        "addr=[localhost]:52814, remote=[localhost]:40571): Broken pipe\n"
    )
    core = "(EngineCore pid=404) ERROR 05-12 14:13:56 [core.py:1110] ValueError: no such block\n"
    worker = (
        "(Worker pid=611) ERROR 05-12 14:13:50 [executor.py:870] torch.distributed.DistBackendError: NCCL "
        "error in: /w/NCCLUtils.cpp:77, unhandled cuda error (run with NCCL_DEBUG=INFO for details), NCCL "
        "version 2.27.5\n"
    )
    found = excerpt(core, lost, worker)
    assert "rank 6" not in found.verdict["headline"].lower(), str(found)
    assert found.verdict["evidence"][0]["says"] == "Process 611 reported the first problem."


# --- set-up that failed, and calls that differ ------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(8, 16, 16, 16), (16, 16, 8, 16, 16)])
def test_a_first_call_whose_sizes_differ_is_no_failed_set_up(sizes: tuple[int, ...]) -> None:
    found = excerpt(*(watchdog(r, 1, numel=size) for r, size in enumerate(sizes)))
    assert (found.cause, found.ranks) == ("size-mismatch", str(sizes.index(8))), str(found)
    alike = excerpt(*(watchdog(r, 1, numel=16) for r in range(len(sizes))))
    assert alike.cause != "size-mismatch", str(alike)


@pytest.mark.parametrize("file", ["vllm/pynccl_wrapper.py", "sglang/pynccl_wrapper.py"])
def test_an_error_out_of_the_call_that_makes_a_communicator_is_set_up(file: str) -> None:
    text = (
        'Traceback (most recent call last):\n  File "/w/{file}", line 279, in {call}\n    '
        "self.check()\nRuntimeError: NCCL error: unhandled system error\n"
    )
    assert excerpt(text.format(file=file, call="ncclCommInitRank")).cause == "init"
    assert excerpt(text.format(file=file, call="ncclAllReduce")).cause != "init"


def test_a_command_above_a_few_lines_makes_no_script_of_them() -> None:
    command = (
        "torchrun \\\n    --nnodes=1:3\\\n    --nproc_per_node=4\\\n    --max_restarts=3\\\n    "
        "--rdzv_id=1\\\n    --rdzv_backend=c10d\\\n    train.py\n\n"
    )
    lines = "[E socket.cpp:860] [c10d] The client socket has timed out after 60s while trying to connect to 192.0.2.1:1234\n"
    assert excerpt(command, lines).cause == "init"
    assert excerpt(command).document["verdict"]["class"] == "undetermined"


def test_a_restarted_job_without_trouble_is_told_of_no_stale_store() -> None:
    again = (
        "I1120 10:05:02.100000 100 torch/distributed/elastic/agent/server/api.py:900] [default] Worker group FAILED. "
        "2/3 attempts left; will restart worker group\n"
        "I1120 10:05:03.000000 100 torch/distributed/elastic/agent/server/api.py:525] [default] Rendezvous'ing worker group\n"
    )
    crash = "[rank2]: Traceback (most recent call last):\n[rank2]: OSError: [Errno 5] Input/output error\n"
    goes_on = excerpt(crash, again, "step 10 loss 3.2\nstep 20 loss 3.1\n")
    assert goes_on.cause == "undetermined" and not goes_on.document["remedies"], str(goes_on)
    held_up = excerpt(crash, again, CLIENTS)
    assert held_up.cause == "init", str(held_up)
    assert "stale-store-elastic" in [r["id"] for r in held_up.document["remedies"]]


CLIENTS = "torch.distributed.DistStoreError: Timed out after 61 seconds waiting for clients. 3/4 clients joined.\n"


@pytest.mark.parametrize("op", ["BROADCAST", "GATHER"])
def test_ranks_that_timed_out_in_different_calls_of_a_group_are_all_told(op: str) -> None:
    group = "PG ID 4 PG GUID 67"  # of unknown size
    first, later = (
        gave_up(rank, seq, op, enqueued=6464).replace("PG ID 0 PG GUID 0(default_pg)", group)
        for rank, seq in ((3, 5729), (0, 5730))
    )
    apart = excerpt(first, later)
    assert (apart.cause, apart.ranks) == ("undetermined", ""), str(apart)
    assert apart.verdict["headline"].startswith(
        f"Rank 3 timed out in {op} #5729 of group 67, and rank 0 in {op} #5730."
    ), str(apart)
    alone = excerpt(first).verdict
    assert alone["headline"].startswith(f"Rank 3 timed out in {op} #5729 of group 67.")
    assert alone["doubts"] == ["These files don't show which member never entered the call, or what differs."]


def test_without_numbers_calls_of_different_operations_are_not_one_call() -> None:
    """PyTorch before 2.0 printed no number: rank 0 stands elsewhere, and the headline says where."""
    found = excerpt(old_watchdog(0, None), *(old_watchdog(r, None, "BROADCAST") for r in (1, 2, 3)))
    assert "Rank 0 timed out in ALLREDUCE, and ranks 1-3 in BROADCAST." in found.verdict["headline"]
    assert (found.verdict["stalled"]["op"], found.verdict["stalled"]["entered"]) == (None, "0-3")
