"""What frames say."""

from __future__ import annotations

import pytest
from builders.logs.cpu_limit import bounded_cpu_time
from hypothesis import given
from hypothesis import strategies as st

from nccldoctor.align import stack_activity

C10D = "/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
WRAPPER = "wrapper (torch/distributed/c10d_logger.py:83)"
USER = ("train (/opt/train/train.py:259)", "<module> (/opt/train/train.py:363)")

WAITING = [
    (("item (torch/_tensor.py:1)", "average_loss (/t/metrics.py:24)"), "waits for its GPU"),
    ((f"all_reduce ({C10D}:3252)", WRAPPER), "waits for a peer in all_reduce"),
    (
        (WRAPPER, f"barrier ({C10D}:4159)", "save_checkpoint (/opt/train/checkpoint.py:96)"),
        "waits for a peer in barrier",
    ),
    (("synchronize (torch/cuda/__init__.py:983)", "log_step (/opt/train/metrics.py:57)"), "waits for its GPU"),
    (("Stream.synchronize (torch/cuda/streams.py:105)",), "waits for its GPU"),
    (
        ("pthread_cond_wait@@GLIBC_2.3.2 (libpthread.so.0)", "cudaStreamSynchronize (libcudart.so.12)"),
        "waits for its GPU",
    ),
    (("0x7f12 (libcuda.so.1)", "cuStreamSynchronize (libcuda.so.1)", "f (/t/a.py:3)"), "waits for its GPU"),
    ((f"_store_based_barrier ({C10D}:843)",), "waits for a peer at the store"),
    (
        (
            "_value (jax/_src/array.py:640)",
            "assert_equal (jax/experimental/multihost_utils.py:170)",
            "sync_global_devices (jax/experimental/multihost_utils.py:95)",
            *USER,
        ),
        "waits for a peer in sync_global_devices",
    ),
    (
        ("process_allgather (jax/experimental/multihost_utils.py:140)", *USER),
        "waits for a peer in process_allgather",
    ),
    (("State.initialize (jax/_src/distributed.py:140)", *USER), "waits for a peer while JAX is set up"),
    ((f"new_group ({C10D}:4500)",), "waits for a peer while a process group is set up"),
    (
        ("DistributedDataParallel._sync_buffers (torch/nn/parallel/distributed.py:2100)",),
        "waits for a peer in _sync_buffers",
    ),
    (("poll (libc.so.6)", "ncclCommInitRankConfig (libnccl.so.2)"), "waits for a peer in ncclCommInitRankConfig"),
    (("wait_tensor (torch/distributed/_functional_collectives.py:90)",), "waits for a peer in wait_tensor"),
    (
        (
            f"batch_isend_irecv ({C10D}:2000)",
            "_communicate (/opt/m/megatron/core/pipeline_parallel/p2p_communication.py:8)",
        ),
        "waits for a peer in batch_isend_irecv",
    ),
    (("_communicate (megatron/core/pipeline_parallel/p2p_communication.py:9)",), "waits for a peer in _communicate"),
]
BUSY = [
    (
        (
            "_reduce_grad (torch/distributed/fsdp/_runtime_utils.py:865)",
            "_engine_run_backward (torch/autograd/graph.py:8)",
        ),
        "runs the backward pass",
    ),
    (("upload_shard (/t/a.py:3)",), "waits for a remote server"),
    (("clock_nanosleep (libc.so.6)", "f (/t/a.py:3)"), "sleeps"),
    (("data_loader_wait (/opt/train/train.py:101)", "step_3d (/opt/train/train.py:192)"), "waits for the data loader"),
    (
        (
            "select (selectors.py:415)",
            "wait (multiprocessing/connection.py:947)",
            "get (multiprocessing/queues.py:113)",
            "_MultiProcessingDataLoaderIter._try_get_data (torch/utils/data/dataloader.py:1133)",
        ),
        "waits for the data loader",
    ),
    (
        (
            "_save (torch/serialization.py:1134)",
            "save (torch/serialization.py:944)",
            "write_shard (/opt/train/checkpoint.py:71)",
        ),
        "writes a checkpoint",
    ),
    (("write (libc.so.6)", "write_shard (/opt/train/checkpoint.py:71)"), "writes a checkpoint"),
    (
        (
            "read (ssl.py:1099)",
            "recv_into (ssl.py:1251)",
            "readinto (socket.py:706)",
            "log (/v/site-packages/wandb/sdk/lib/x.py:5)",
        ),
        "waits for a remote server",
    ),
    (("acquire (threading.py:3)", "_poll (wandb/sdk/mailbox/x.py:5)"), "talks to an experiment tracker"),
    (("_wait (subprocess.py:2053)", "f (/t/a.py:1)"), "waits for a child process"),
    (("compile_fx_inner (torch/_inductor/compile_fx.py:600)", "_fn (torch/_dynamo/eval_frame.py:5)"), "compiles"),
    (("acquire (/v/site-packages/filelock/_api.py:312)", "load_dataset (datasets/load.py:2)"), "waits for a file lock"),
    (("interaction (pdb.py:362)", "user_line (pdb.py:3)"), "is in a debugger"),
    (("_engine_run_backward (torch/autograd/graph.py:824)",), "runs the backward pass"),
    (
        (
            "__futex_abstimed_wait_common64 (./nptl/futex-internal.c:57)",
            "std::condition_variable::wait (libstdc++.so.6)",
            "c10d::Reducer::finalize_backward (libtorch_cpu.so)",
            "torch::autograd::GraphTask::exec_post_processing (libtorch_cpu.so)",
        ),
        "runs the backward pass",
    ),
    (("__libc_recv (recv.c:28)", "sock_recv_impl (Modules/socketmodule.c:3504)"), "waits for a remote server"),
    (
        ("__libc_recv (recv.c:28)", "sock_recv (/build/Python-3.12/Modules/socketmodule.c:35)"),
        "waits for a remote server",
    ),
    (("clock_nanosleep (clock_nanosleep.c:48)", "pysleep (./Modules/timemodule.c:2159)"), "sleeps"),
    (("cudaEventDestroy (libcudart.so.12)", "f (/t/a.py:3)"), "is inside the driver (cudaEventDestroy)"),
    (("evaluate (/t/trainer.py:9)",), "evaluates"),
]


@pytest.mark.parametrize(("stack", "words"), WAITING)
def test_waiting(stack, words):
    assert stack_activity.is_waiting(stack + USER)
    assert stack_activity.activity_of(stack + USER) == words


@pytest.mark.parametrize(("stack", "words"), BUSY)
def test_busy(stack, words):
    assert not stack_activity.is_waiting(stack + USER)
    assert stack_activity.activity_of(stack + USER) == words


def test_user_code_that_says_nothing():
    assert stack_activity.activity_of(USER) is None
    assert not stack_activity.is_waiting(USER)
    assert not stack_activity.is_waiting(())
    assert stack_activity.activity_of(()) is None


def test_a_wait_outside_the_innermost_frames_is_no_wait():
    stack = ("crunch (/t/a.py:3)", f"all_reduce ({C10D}:3)")
    assert not stack_activity.is_waiting(stack)


def test_user_functions_named_like_collectives_are_no_collectives():
    assert not stack_activity.is_waiting(("broadcast (/t/my_server.py:3)",))
    assert not stack_activity.is_waiting(("synchronize (/t/my_db.py:3)",))


def test_innermost_user_frame():
    stack = (f"all_reduce ({C10D}:3252)", WRAPPER, "loss_all_reduce (/opt/train/train.py:66)", *USER)
    assert stack_activity.user_frame(stack) == "loss_all_reduce (/opt/train/train.py:66)"
    assert stack_activity.user_frame(("wait (threading.py:331)",)) is None


@given(st.lists(st.text(max_size=60), max_size=6))
def test_never_raises(stack):
    stack_activity.is_waiting(stack)
    stack_activity.activity_of(stack)
    stack_activity.user_frame(stack)


@pytest.mark.parametrize(
    "frame",
    [
        "a" * 9000,
        "data_load" * 900,
        "x." * 4000 + " (a.py:1)",
        "c10d::" * 900,
        "get_batch_" * 800 + " (torch/distributed:3)",
    ],
)
def test_long_names_are_read_quickly(frame):
    with bounded_cpu_time():
        stack_activity.activity_of((frame,) * 20)


OWN = "save_checkpoint_to_slow_disk (/opt/train/train.py:6)"
GUESSES = [
    ((OWN, *USER), True),
    (("wait (/usr/lib/python3.11/threading.py:331)", OWN, *USER), True),
    (("evaluate_later (/opt/train/train.py:9)", *USER), True),
    (("_legacy_save (/opt/venv/lib/python3.11/site-packages/torch/serialization.py:900)", OWN, *USER), False),
    (("copyfileobj (/usr/lib/python3.11/shutil.py:200)", OWN, *USER), False),
    (("fsync (libc.so.6)", OWN, *USER), False),
    (("save_checkpoint (/opt/Megatron-LM/megatron/training/checkpointing.py:400)", *USER), False),
    (("linear (torch/nn/functional.py:12)", "evaluate (/opt/train/eval.py:9)", *USER), False),
    (("__getitem__ (/opt/train/data.py:9)", "fetch (torch/utils/data/_utils/fetch.py:52)", *USER), False),
    ((f"all_reduce ({C10D}:3252)", OWN, *USER), False),
]


@pytest.mark.parametrize(("frames", "is_guess"), GUESSES, ids=[f"{frames[0][:30]}" for frames, _ in GUESSES])
def test_the_name_of_a_function_of_the_users_own_is_a_guess(frames: tuple[str, ...], is_guess: bool) -> None:
    """A library inside it that writes, or one around it that calls it for that work, shows that the name tells the truth."""
    found = stack_activity.find_activity(frames)
    assert found is not None
    assert found.is_guess is is_guess
    assert stack_activity.shown_activity_of(frames) == ("" if is_guess else found.words)
