"""Lines as people paste them: a few of one log, without the rest of the job."""

from __future__ import annotations

import pytest
from builders.jobs.verdicts import Ruling, read


def pasted(text: str) -> Ruling:
    return read({"log.txt": text})


def restart_of(ruling: Ruling) -> str:
    return str(ruling.document["action"]["why"])


@pytest.mark.parametrize(
    "words",
    [
        "double free or corruption (!prev)",
        "free(): invalid pointer",
        "corrupted size vs. prev_size",
        "pure virtual method called",
    ],
)
def test_last_words_below_a_line_of_another_rank_are_not_of_that_rank(words: str) -> None:
    text = (
        "[rank0]:[W220 11:40:07.118203441 ProcessGroupNCCL.cpp:1496] Warning: WARNING: destroy_process_group() was not called before "
        "program exit, which can leak resources. (function operator())\n"
        "[rank0]:[W220 11:40:09.280921748 observer.cpp:116] Warning: Leaked callback handle: 1 (function operator())\n"
        f"{words}\n"
        "E0220 11:41:39.599000 512 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: -6) local_rank: 3 (pid: 530) "
        "of binary: /usr/bin/python3\n"
    )
    ruling = pasted(text)
    assert (ruling.cause, ruling.ranks) == ("died", ""), str(ruling)
    assert "Local rank 3 (pid 530)" in ruling.verdict["headline"]


def test_an_abort_that_follows_an_error_of_the_adapter_is_no_end_of_its_own() -> None:
    ruling = pasted(
        "[login2:4410:0:4410] ib_mlx5_log.c:177  Transport retry count exceeded on mlx5_1:1/IB (synd 0x15 vend 0x81 hw_synd 0/0)\n"
        "mpirun noticed that process rank 6 with PID 4410 on node login2 exited on signal 6 (Aborted).\n"
    )
    assert (ruling.cause, ruling.ranks) in {("undetermined", ""), ("network", "")}, str(ruling)
    assert "InfiniBand" in ruling.verdict["headline"] or ruling.cause == "network"


def test_memory_that_ran_out_in_a_start_is_what_a_restart_meets_again() -> None:
    ruling = pasted(
        "hpc7:51:90 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer hpc7<40311>\n"
        "hpc7:51:90 [0] NCCL INFO init.cc:1358 -> 3\n"
        "hpc7:54:93 [3] include/alloc.h:178 NCCL WARN Cuda failure 'out of memory'\n"
        "hpc7:54:93 [3] NCCL INFO init.cc:1303 -> 1\n"
    )
    assert ruling.cause == "init", str(ruling)
    assert restart_of(ruling).startswith("Memory ran out")


def test_a_store_that_closed_a_connection_was_reached() -> None:
    error = "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d store has failed."
    ruling = pasted(
        "[W101 07:00:04.663 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=4, addr=[n1]:51418, remote=[n0]:29400): "
        f"failed to recv, got 0 bytes\n{error} See inner exception for details.\n"
    )
    assert ruling.cause == "init", str(ruling)
    assert "the connection to the rendezvous store failed" in ruling.verdict["headline"]
    assert "address" not in restart_of(ruling)


def test_the_rank_in_which_lightning_saw_the_failure_is_the_one_that_raised_it() -> None:
    ruling = pasted(
        'Traceback (most recent call last):\n  File "/w/fit.py", line 30, in training_step\n    raise KeyError("mask")\n'
        "KeyError: 'mask'\n"
        "pytorch_lightning.utilities.exceptions.DeadlockDetectedException: DeadLock detected from rank: 5 \n"
    )
    assert (ruling.cause, ruling.ranks) == ("raised", "5"), str(ruling)
    assert "KeyError" in ruling.verdict["headline"]


def test_a_quorum_that_did_not_come_about_is_not_the_fault_of_who_asked() -> None:
    ruling = pasted(
        "torchft::lighthouse: 2026-02-09T09:50:55.422+00:00 - INFO start: No quorum, only have 2 participants, need 4\n"
        '[rank0]: Traceback (most recent call last):\n[rank0]:   File "/w/loop.py", line 9, in <module>\n'
        '[rank0]: RuntimeError: lighthouse quorum failed: status: Cancelled, message: "Timeout expired", details: []\n'
    )
    assert (ruling.cause, ruling.ranks) == ("undetermined", ""), str(ruling)
    assert "2 of 4 arrived" in ruling.verdict["headline"]


def test_a_line_without_the_label_that_others_carry_is_not_of_their_rank() -> None:
    label = "(VllmWorker rank=2 pid=77) ERROR 03-02 10:00:01 [multiproc_executor.py:470] "
    ruling = pasted(
        f"{label}WorkerProc hit an exception.\n{label}Traceback (most recent call last):\n"
        f'{label}  File "/v/worker.py", line 4, in execute_model\n'
        f"{label}RuntimeError: CUDA error: an illegal memory access was encountered\n"
        "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.\n"
    )
    assert (ruling.cause, ruling.ranks) == ("raised", "2"), str(ruling)
    assert not any("last warning or error" in each["says"] for each in ruling.verdict["evidence"])


SOCKET = "Socket send error, Broken pipe (code: 32)"
XGBOOST = "[08:01:02] /b/src/collective/result.cc:78: \n- [socket.h:89|08:01:02]: Connection reset by peer"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"[LightGBM] [Fatal] {SOCKET}\nlightgbm.basic.LightGBMError: {SOCKET}\n", "connection"),
        (f"xgboost.core.XGBoostError: {XGBOOST}\n", "XGBoostError"),
        ("OSError: (External) NCCL error(5), invalid usage. \n", "OSError: (External) NCCL"),
        (
            "Additional GRPC error information from remote target /job:worker/replica:0/task:3:\n"
            ':{"created":"@1690000101.5","description":"Error received from peer","grpc_message":"Socket closed","grpc_status":14}\n'
            "tensorflow.python.framework.errors_impl.UnavailableError: Collective ops is aborted by: Socket closed\n",
            "task 3",
        ),
        (
            "n4:9:9 [0] include/socket.h:333 NCCL WARN Call to bind failed : Address already in use\n",
            "connection between processes",
        ),
    ],
)
def test_who_lost_a_connection_is_not_said_to_have_crashed(text: str, words: str) -> None:
    ruling = pasted(text)
    assert (ruling.cause, ruling.ranks) == ("undetermined", ""), str(ruling)
    assert words in ruling.verdict["headline"], str(ruling)


def test_a_peer_of_gloo_that_refuses_fails_the_start() -> None:
    ruling = pasted(
        "RuntimeError: [/b/third_party/gloo/gloo/transport/tcp/pair.cc:799] connect [10.0.0.8]:2117: Connection refused\n"
    )
    assert (ruling.cause, ruling.ranks) == ("init", ""), str(ruling)
    assert ruling.verdict["headline"] == "Gloo init failed (a process): connect [10.0.0.8]:2117: Connection refused."


def test_the_error_of_an_engine_and_the_rank_that_aborted_belong_together() -> None:
    ruling = pasted(
        "[TensorRT-LLM][INFO] MPI size: 4, rank: 1\n"
        "[TensorRT-LLM][ERROR] CUDA runtime error in cudaStreamSynchronize: the launch timed out and was terminated (/s/cudaUtils.h:88)\n"
        "--------------------------------------------------------------------------\n"
        "MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD\nwith errorcode 1.\n"
    )
    assert (ruling.cause, ruling.ranks) == ("raised", "3"), str(ruling)
    assert ruling.verdict["headline"].endswith("TllmException: the launch timed out and was terminated.")
    assert any("cudaStreamSynchronize" in one["says"] for one in ruling.verdict["evidence"])


def test_a_job_of_xla_is_not_asked_for_dumps_of_pytorch() -> None:
    said = "2024-04-01 10:00:{at}.5: {level} external/xla/xla/service/rendezvous.cc:38] {what} `initialize clique for rank {rank}; "
    said += "clique=devices=[0,1,2,3]; stream=0` {rest}. Expected 4 threads to join the rendezvous, but not all of them arrived on time.\n"
    waits = {"level": "E", "what": "This thread has been waiting for", "rest": "for 10 seconds and may be stuck"}
    ends = {"level": "F", "what": "Termination timeout for", "rest": "of 30 seconds exceeded. Exiting"}
    ruling = pasted(
        "".join(said.format(at=at, rank=r, **of) for at, r, of in ((10, 2, waits), (11, 0, waits), (31, 2, ends)))
    )
    assert ruling.cause == "undetermined", str(ruling)
    assert "flight recorder" not in str(ruling.document["action"]["steps"])


EXCEPTION = (
    'Traceback (most recent call last):\n  File "/w/t.py", line 3, in <module>\n    main()\nValueError: no mask\n'
)


@pytest.mark.parametrize(
    ("above", "code", "who"),
    [
        ("", 1, "Local rank 2 (pid 61)"),
        ("", -9, "A rank"),
        (
            "n1:60:71 [1] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer n1<40311>\n",
            1,
            "A rank",
        ),
    ],
)
def test_the_one_process_that_the_launcher_saw_fail_raised_the_exception_above(above: str, code: int, who: str) -> None:
    end = f"ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: {code}) local_rank: 2 (pid: 61) of binary: /p\n"
    headline = pasted(above + EXCEPTION + end).verdict["headline"]
    assert headline.startswith(who), headline
