"""Python exceptions: what was raised, where, and whether it is this rank's own."""

from __future__ import annotations

import pytest
from builders.logs.log_reading import events_of, parsed
from hypothesis import given, settings
from hypothesis import strategies as st

from nccldoctor.events import ExceptionRaised, Note
from nccldoctor.parsers.python.exceptions import exceptions

PARSER = exceptions


def raised(text: str) -> list[ExceptionRaised]:
    return [e for e in events_of(PARSER, text) if isinstance(e, ExceptionRaised)]


def told(text: str) -> list[tuple[str, str, str]]:
    return [(e.type, e.message, e.origin) for e in raised(text)]


def test_place_is_the_line_that_names_the_exception() -> None:
    (event,) = raised(
        'ok\nTraceback (most recent call last):\n  File "a.py", line 1, in <module>\n    f()\nKeyError: 7\n'
    )
    assert (event.place.line, event.text, event.frame) == (5, "KeyError: 7", "<module> (a.py:1)")


def test_rank_prefixed_traceback_without_source_lines() -> None:
    (event,) = raised(
        "[rank3]: Traceback (most recent call last):\n"
        '[rank3]:   File "/opt/train/train.py", line 301, in <module>\n'
        '[rank3]:   File "/opt/train/train.py", line 170, in train_step\n'
        "[rank3]: AssertionError: sequence length 8193 exceeds the maximum of 8192\n"
    )
    assert (event.rank, event.type, event.origin, event.logged) == (3, "AssertionError", "own", False)
    assert event.frame == "train_step (/opt/train/train.py:170)"
    assert event.frames[-1] == "<module> (/opt/train/train.py:301)"


def test_blank_lines_behind_every_line_end_no_traceback() -> None:
    """The label of ``srun`` stands before every line that is not blank."""
    rows = (
        "Traceback (most recent call last):",
        '  File "/opt/train/train.py", line 301, in <module>',
        "    main()",
        "AssertionError: sequence of 519 tokens",
    )
    spread = "".join(f"1: {row}\n\n" for row in rows)
    assert told(spread) == [("AssertionError", "sequence of 519 tokens", "own")]


def test_user_frame_skips_torch_and_packages_then_torch_alone() -> None:
    (event,) = raised(
        'Traceback (most recent call last):\n  File "/job/train.py", line 9, in main\n    x\n'
        '  File "/venv/lib/python3.11/site-packages/torch/nn/modules/module.py", line 1, in _call_impl\n    y\n'
        "ValueError: no\n"
    )
    assert event.frame == "main (/job/train.py:9)"
    (event,) = raised(
        'Traceback (most recent call last):\n  File "/venv/lib/python3.11/site-packages/megatron/training.py", '
        "line 9, in train\n"
        '  File "/venv/lib/python3.11/site-packages/torch/nn/modules/module.py", line 1, in _call_impl\n'
        "ValueError: no\n"
    )
    assert event.frame == "train (/venv/lib/python3.11/site-packages/megatron/training.py:9)"


def test_two_processes_interleaved_line_by_line_give_each_exception_once() -> None:
    text = (
        "Traceback (most recent call last):\nTraceback (most recent call last):\n"
        '  File "a.py", line 1, in <module>\n  File "a.py", line 1, in <module>\n    main()\n    main()\n'
        '  File "a.py", line 7, in main\nKeyError: 4\n    dist.barrier()\n'
        "torch.distributed.DistBackendError: NCCL error in: x.cpp:1, remote process exited\n"
        "ncclRemoteError: A call failed\n"
    )
    assert [(t, o) for t, _, o in told(text)] == [("KeyError", "own"), ("torch.distributed.DistBackendError", "echo")]


def test_an_own_error_raised_while_an_echo_is_handled_is_an_echo() -> None:
    text = (
        'Traceback (most recent call last):\n  File "t.py", line 5, in step\n    dist.all_reduce(x)\n'
        "RuntimeError: [x/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 5000ms for recv operation to "
        "complete\n\n"
        "During handling of the above exception, another exception occurred:\n\n"
        'Traceback (most recent call last):\n  File "t.py", line 9, in main\n    report()\nValueError: cannot report\n'
    )
    assert [(t, o) for t, _, o in told(text)] == [("RuntimeError", "echo"), ("ValueError", "echo")]


def test_an_error_on_top_of_an_own_one_is_own() -> None:
    text = (
        'Traceback (most recent call last):\n  File "t.py", line 5, in step\nKeyError: 3\n\n'
        "The above exception was the direct cause of the following exception:\n\n"
        'Traceback (most recent call last):\n  File "t.py", line 9, in main\nRuntimeError: bad sample\n'
    )
    assert told(text) == [("KeyError", "3", "own"), ("RuntimeError", "bad sample", "own")]


def test_data_loader_worker_is_one_exception_with_the_inner_frame() -> None:
    (event,) = raised(
        'Traceback (most recent call last):\n  File "train.py", line 3, in main\n    for b in loader:\n'
        '  File "/v/lib/python3.11/site-packages/torch/_utils.py", line 733, in reraise\n    raise exception\n'
        "KeyError: Caught KeyError in DataLoader worker process 3.\nOriginal Traceback (most recent call last):\n"
        '  File "/v/lib/python3.11/site-packages/torch/utils/data/_utils/worker.py", line 349, in _worker_loop\n'
        "    data = fetcher.fetch(index)\n"
        '  File "/job/dataset.py", line 44, in __getitem__\n    return self.index[i]\nKeyError: 981\n\n'
    )
    assert (event.type, event.worker, event.origin) == ("KeyError", 3, "own")
    assert event.message == "Caught KeyError in DataLoader worker process 3. KeyError: 981"
    assert event.frame == "__getitem__ (/job/dataset.py:44)"


def test_spawned_process_is_named_and_its_wrapper_is_an_echo() -> None:
    outer, inner = raised(
        'Traceback (most recent call last):\n  File "run.py", line 9, in <module>\n    mp.spawn(main)\n'
        "torch.multiprocessing.spawn.ProcessRaisedException: \n\n-- Process 3 terminated with the following error:\n"
        'Traceback (most recent call last):\n  File "/v/site-packages/torch/multiprocessing/spawn.py", line 90, in '
        "_wrap\n"
        '    fn(i, *args)\n  File "run.py", line 4, in main\n    raise ValueError("x")\nValueError: x\n'
    )
    assert (outer.origin, outer.type) == ("echo", "torch.multiprocessing.spawn.ProcessRaisedException")
    assert (inner.origin, inner.local_rank, inner.frame) == ("own", 3, "main (run.py:4)")


def test_custom_exceptions_without_a_telling_name_or_a_message() -> None:
    text = 'Traceback (most recent call last):\n  File "t.py", line 5, in step\n    raise x\nproject.checks.Diverged\n'
    assert told(text) == [("project.checks.Diverged", "", "own")]
    text = (
        'Traceback (most recent call last):\n  File "t.py", line 5, in step\n    go()\nLossIsNaN: step 5\nnext line\n'
    )
    assert told(text) == [("LossIsNaN", "step 5", "own")]


def test_a_progress_line_between_two_frames_is_no_exception() -> None:
    text = (
        'Traceback (most recent call last):\n  File "t.py", line 5, in main\n    step()\nEpoch: 3\n'
        '  File "t.py", line 9, in step\n    check()\nZeroDivisionError: division by zero\n'
    )
    assert told(text) == [("ZeroDivisionError", "division by zero", "own")]


def test_exception_group() -> None:
    text = (
        "  + Exception Group Traceback (most recent call last):\n"
        '  |   File "t.py", line 5, in main\n  |     raise g\n  | ExceptionGroup: several (1 sub-exception)\n'
        "  +-+---------------- 1 ----------------\n    | Traceback (most recent call last):\n"
        '    |   File "t.py", line 2, in f\n    | TypeError: x\n    +------------------------------------\n'
    )
    assert [t for t, _, _ in told(text)] == ["ExceptionGroup", "TypeError"]


def test_logger_prefix_on_every_line() -> None:
    head = "ERROR 08-19 04:51:3{} worker.py:120] "
    lines = (
        "Traceback (most recent call last):",
        '  File "m.py", line 2, in load',
        "    x",
        "OSError: [Errno 5] Input/output error",
    )
    text = "\n".join(head.format(i) + line for i, line in enumerate(lines))
    assert told(text) == [("OSError", "[Errno 5] Input/output error", "own")]


def test_header_glued_to_a_progress_bar_and_lost_indent() -> None:
    text = (
        "Running tokenizer: 46%|####   | 158/345 [30:06<35:21, 878.72 examples/s]Traceback (most recent call last):\n"
        'File "/home/u/train.py", line 14, in\nmain()\nFile "/home/u/tune.py", line 26, in run\nrun_sft(a)\n'
        "ValueError: too long\n"
    )
    assert told(text) == [("ValueError", "too long", "own")]


def test_text_cut_before_the_exception_and_after_its_beginning() -> None:
    (event,) = raised('[rank3]: Traceback (most recent call last):\n[rank3]:   File "t.py", line 13, in <module>\n')
    assert (event.type, event.origin, event.rank) == ("", "", 3)
    (event,) = raised('  File "x/torch/autograd/__init__.py", line 204, in backward\n    run()\nValueError: odd\n')
    assert (event.type, event.origin, event.frames) == (
        "ValueError",
        "own",
        ("backward (x/torch/autograd/__init__.py:204)",),
    )


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("2026-11-20 09:31:24,050 ERROR node1 FileNotFoundError: shard is missing", [("FileNotFoundError", "own")]),
        ("[rank6]: 2026-11-20 09:31:24,050 ERROR node1 ValueError: x", [("ValueError", "own")]),
        ("ERROR:root:Training failed: KeyError: 'labels'", [("KeyError", "own")]),
        ("WARNING:data:retry 1 of 3 after ConnectionError: reset", []),
        ("INFO train: no ValueError: all good", []),
        ("[E ProcessGroupNCCL.cpp:916] [Rank 1] NCCL watchdog thread terminated with exception: RuntimeError: x", []),
        ("frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x96 (0x7f in libc10.so)", []),
        ("ncclInternalError: Internal check failed.", []),
        ("x.py:86: UserWarning: None of the inputs have requires_grad=True", []),
    ],
)
def test_single_lines(line: str, expected: list[tuple[str, str]]) -> None:
    assert [(e.type, e.origin) for e in raised(line)] == expected


def test_logged_line_takes_the_frames_of_its_traceback_in_a_merged_log() -> None:
    text = (
        "[rank6]: 2026-11-20 09:31:24,050 ERROR node1 KeyError: 7\nTraceback (most recent call last):\n"
        '  File "/opt/train/train.py", line 3, in main\nKeyError: 7\n'
        "[rank7]: 2026-11-20 09:31:24,051 INFO node1 step=5\n"
    )
    (logged,) = raised(text)
    whole = parsed(text, [PARSER])
    assert (whole.candidates, whole.first_unknown) == (whole.understood, ""), "its first and last line are told with it"
    assert (logged.rank, logged.logged, logged.frame) == (6, True, "main (/opt/train/train.py:3)")


def test_a_traceback_below_the_line_of_another_exception_is_told_for_itself() -> None:
    text = (
        "2026-11-20 09:31:24,050 ERROR KeyError: 8\nTraceback (most recent call last):\n"
        '  File "/opt/train/train.py", line 3, in main\nKeyError: 7\n'
    )
    assert [(e.message, e.frame) for e in raised(text)] == [("8", None), ("7", "main (/opt/train/train.py:3)")]


def test_the_launchers_table_is_no_message() -> None:
    (event,) = raised(
        'Traceback (most recent call last):\n  File "t", line 1, in f\nx.ChildFailedError: \n=======\nt.py FAILED\n'
    )
    assert event.message == ""


@pytest.mark.parametrize(
    "last",
    [
        "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3144, internal error, NCCL "
        "version 2.21.5",
        "torch.distributed.DistStoreError: wait timeout after 300000ms, keys: /default_pg/0//cuda//0",
        "torch.distributed.DistNetworkError: Connection reset by peer",
        "RuntimeError: NCCL communicator was aborted on rank 2.  Original reason for failure was: [Rank 2] "
        "Watchdog caught …",
        "RuntimeError: Connection reset by peer",
        "RuntimeError: Socket Timeout",
        "RuntimeError: Detected mismatch between collectives on ranks. Rank 3 is running collective: X",
        "RuntimeError: [Rank 1] Caught collective operation timeout: WorkNCCL(SeqNum=128, OpType=BROADCAST) ran "
        "for 3600073 ms",
        "RuntimeError: Rank 1 successfully reached monitoredBarrier, but received errors while waiting for "
        "send/recv from rank 0.",
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
        "torch.distributed.elastic.multiprocessing.api.SignalException: Process 3806 got signal: 15",
        "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d store has "
        "failed.",
        "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Read error [10.0.0.2]:1: Connection "
        "reset by peer",
        "RuntimeError: DataLoader worker (pid 551) is killed by signal: Terminated.",
        "KeyboardInterrupt",
        "tensorflow.python.framework.errors_impl.UnknownError: ncclCommInitRank failed: unhandled system error",
        "jaxlib.xla_extension.XlaRuntimeError: INTERNAL: NCCL operation ncclGroupEnd() failed: unhandled cuda error.",
        "jaxlib.xla_extension.XlaRuntimeError: UNAVAILABLE: Socket closed. Additional GRPC error information from "
        "remote target coordination_service while calling /tensorflow.CoordinationService/PollForError",
        "RuntimeError: [ERROR] 2025-09-18-03:11:22 (PID:380500, Device:3, RankID:3) ERR02200 DIST call hccl api failed.",
        "RuntimeError: cncl error at ProcessGroupCNCL.cpp:200",
        "RuntimeError: MPI error: communicator revoked",
        "cupy_backends.cuda.libs.nccl.NcclError: NCCL_ERROR_UNHANDLED_CUDA_ERROR: unhandled cuda error",
        "RuntimeError: oneCCL: atl_ofi_comm.cpp:212 init_transport: EXCEPTION: failed to initialize ATL",
        "RuntimeError: CNCL error in: ProcessGroupCNCL.cpp:431, system error",
        "RuntimeError: DeepEP error: timeout (combine CPU)",
        "mpi4py.MPI.Exception: MPI_ERR_PROC_FAILED: Process Failure",
        "ray.exceptions.RayChannelTimeoutError: System error: Timed out waiting for object available to read.",
        "ray.exceptions.GetTimeoutError: Get timed out: some object(s) not ready.",
        "TimeoutError: timed out waiting for the other ranks",
        "ValueError: TP rank 1 could finish the model loading, but there are other ranks that didn't finish loading. It "
        "is likely due to unexpected failures (e.g., OOM) or a slow node.",
    ],
)
def test_echoes(last: str) -> None:
    (event,) = raised(f'Traceback (most recent call last):\n  File "t.py", line 1, in f\n    x()\n{last}\n')
    assert event.origin == "echo"


@pytest.mark.parametrize(
    "last",
    [
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of "
        "79.15 GiB",
        "RuntimeError: CUDA error: device-side assert triggered",
        "ValueError: TP rank 1 could not finish the model loading: layer 3 has another shape",
        "mpi4py.MPI.Exception: MPI_ERR_RANK: invalid rank",
        "RuntimeError: oneCCL: coll_check.cpp:81 ccl_coll_validate_user_input: EXCEPTION: user buffer is NULL",
        "TimeoutError: timed out on reading part-0003 of the data set",
        'ValueError: UNAVAILABLE: Error reading "gs://weights/step_40/manifest" in OCDBT database',
        "requests.exceptions.ConnectionError: ('Connection aborted.', ConnectionResetError(104, 'Connection reset "
        "by peer'))",
        "ConnectionResetError: [Errno 104] Connection reset by peer",
        "RuntimeError: DataLoader worker (pid 551) is killed by signal: Killed.",
        "RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one.",
        "torch.cuda.OutOfMemoryError: CUDA out of memory.",
        "SystemExit: 1",
        "subprocess.CalledProcessError: Command '['ninja']' returned non-zero exit status 1.",
    ],
)
def test_own_errors(last: str) -> None:
    (event,) = raised(f'Traceback (most recent call last):\n  File "t.py", line 1, in f\n    x()\n{last}\n')
    assert event.origin == "own"


def test_the_launchers_own_exception_is_an_echo() -> None:
    (event,) = raised(
        "Traceback (most recent call last):\n  File "
        '"/v/lib/python3.10/site-packages/accelerate/commands/launch.py", line 9, in f\n'
        "subprocess.CalledProcessError: Command '['python', 't.py']' returned non-zero exit status 1.\n"
    )
    assert event.origin == "echo"


@pytest.mark.parametrize(
    ("outermost", "origin"),
    [
        ('File "/v/bin/torchrun", line 8, in <module>', "echo"),
        (
            'File "/v/lib/python3.10/site-packages/torch/distributed/elastic/agent/server/api.py", line 8, in run',
            "echo",
        ),
        ('File "/v/lib/python3.10/site-packages/deepspeed/launcher/runner.py", line 556, in main', "echo"),
        ('File "/v/lib/python3.10/runpy.py", line 86, in _run_code', "own"),
        ('File "/home/u/launcher/train.py", line 12, in <module>', "own"),
    ],
)
def test_an_exception_belongs_to_the_program_in_which_its_traceback_begins(outermost: str, origin: str) -> None:
    (event,) = raised(
        f"Traceback (most recent call last):\n  {outermost}\n    main()\n"
        '  File "/v/lib/python3.10/site-packages/etcd/client.py", line 3, in read\n    f()\nKeyError: gone\n'
    )
    assert event.origin == origin


def test_ignored_exceptions_are_notes_and_threads_are_logged() -> None:
    text = (
        "Exception ignored in: <function Loader.__del__ at 0x7f>\nTraceback (most recent call last):\n"
        '  File "t.py", line 1, in __del__\nAttributeError: gone\n'
    )
    (note,) = events_of(PARSER, text)
    assert isinstance(note, Note)
    assert (note.what, note.detail) == ("exception-ignored", "AttributeError: gone")
    text = (
        'Exception in thread Thread-3:\nTraceback (most recent call last):\n  File "t.py", line 1, in run\nOSError: x\n'
    )
    assert [e.logged for e in raised(text)] == [True]


def test_a_logger_that_announces_the_exception_has_caught_it() -> None:
    below = 'Traceback (most recent call last):\n  File "t.py", line 1, in get\nConnectionError: reset\n'
    for above, logged in (
        ("WARNING:datasets:Got ConnectionError, retrying", True),
        ("WARNING:data:worker 5 retry 1 of 3 after 0.208s", False),
    ):
        assert [e.logged for e in raised(f"{above}\n{below}")] == [logged]


def test_message_over_several_prefixed_lines() -> None:
    (event,) = raised(
        '[rank1]: Traceback (most recent call last):\n[rank1]:   File "t.py", line 1, in f\n'
        "[rank1]: RuntimeError: boom\n"
        "[rank1]: second line\n[rank1]:[E321 03:35:20.399015003 ProcessGroupNCCL.cpp:685] [Rank 1] Watchdog caught\n"
    )
    assert event.message == "boom\nsecond line"


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.text(max_size=60),
            st.sampled_from(
                [
                    "Traceback (most recent call last):", '  File "a.py", line 3, in f', "    x", "KeyError: 1", "",
                    "During handling of the above exception, another exception occurred:",
                    "[rank1]: Traceback (most recent call last):",
                    "  | Traceback (most recent call last):",
                    "KeyError: Caught KeyError in DataLoader worker process 3.",
                    "Original Traceback (most recent call last):", "a" * 3000 + ": Error: ", "A.b." * 800,
                ]
            ),
        ),
        max_size=25,
    )
)  # fmt: skip
def test_never_raises(lines: list[str]) -> None:
    events_of(PARSER, "\n".join(lines))
