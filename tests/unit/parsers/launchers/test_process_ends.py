"""Processes that end: what they say themselves, and what their parents say."""

from __future__ import annotations

import pytest
from builders.logs.log_reading import events_of, parser_named
from hypothesis import given, settings
from hypothesis import strategies as st

from nccldoctor.events import ProcessExit, TearDown
from nccldoctor.parsers.python.crash import crashes

OTHER_LAUNCHERS, KILLING = parser_named("other-launchers"), parser_named("killing")


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("libc++abi: terminating due to uncaught exception of type c10::Error: bad", "c10::Error: bad"),
        (
            "(W pid=2) [2025-03-07 10:18:22,341 E 2 3] logging.cc:113: Unhandled exception: N3c10E. what(): [PG 0] x",
            "N3c10E: [PG 0] x",
        ),
    ],
)
def test_terminate_is_tear_down_with_its_reason(text: str, detail: str) -> None:
    (event,) = events_of(crashes, text)
    assert isinstance(event, TearDown)
    assert (event.what, event.detail) == ("terminate-called", detail)


@pytest.mark.parametrize(
    ("text", "signal"),
    [
        ("Fatal Python error: Bus error", "SIGBUS"),
        (
            "[node0:1234:0:1234] Caught signal 11 (Segmentation fault: address not mapped to object at address 0x8)",
            "SIGSEGV",
        ),
        ("[node0:01234] Signal: Segmentation fault (11)", "SIGSEGV"),
        ("double free or corruption (out)", "SIGABRT"),
        ("malloc(): invalid size (unsorted)", "SIGABRT"),
        ("!!!!!!! Segfault encountered !!!!!!!", "SIGSEGV"),
        ("*** SIGSEGV received by PID 7 (TID 9) on cpu 1 from PID 0; stack trace: ***", "SIGSEGV"),
    ],
)
def test_a_crash_is_the_processes_own_end(text: str, signal: str) -> None:
    (event,) = events_of(crashes, text)
    assert isinstance(event, ProcessExit)
    assert (event.signal, event.reporter) == (signal, "process")


@pytest.mark.parametrize(
    "text", ["Fatal Python error: Aborted", "*** SIGTERM received by PID 7 (TID 9) ***", "*** SIGABRT (@0x3e8) ***"]
)
def test_aborts_and_orders_to_stop_are_consequences(text: str) -> None:
    assert [e.kind for e in events_of(crashes, text)] == ["tear-down"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Exception: process 3 terminated with signal SIGKILL", ("spawn", None, 3, -9, "SIGKILL", None)),
        ("Exception: process 0 terminated with exit code 1", ("spawn", None, 0, 1, None, None)),
        ("-- Process 2 terminated with the following error:", ("spawn", None, 2, 1, None, None)),
        (
            "mpirun noticed that process rank 5 with PID 0 on node n7 exited on signal 11 (Segmentation fault).",
            ("mpirun", 5, None, -11, "SIGSEGV", 0),
        ),
        ("  Process name: [[27134,1],3]\n  Exit code:    137", ("mpirun", 3, None, 137, "SIGKILL", None)),
        ("=   PID 4711 RUNNING AT node3\n=   EXIT CODE: 9", ("mpirun", None, None, 9, None, 4711)),
        (
            "['/usr/bin/python', '-u', 't.py', '--local_rank=3'] exits with return code = -9",
            ("deepspeed", None, None, -9, "SIGKILL", None),
        ),
        (
            "Child process with PID 551 terminated with code 1. Forcefully terminating all",
            ("lightning", None, None, 1, None, 551),
        ),
        ("Process 3 exit with status code 134.", ("horovod", 3, None, 134, "SIGABRT", None)),
        (
            "ERROR 08-19 04:51:30 u.py:120] Worker VllmWorkerProcess pid 2204 died, exit code: -6",
            ("vllm", None, None, -6, "SIGABRT", 2204),
        ),
        (
            "subprocess.CalledProcessError: Command '['p', 't.py']' returned non-zero exit status 1.",
            ("accelerate", None, None, 1, None, None),
        ),
    ],
)
def test_what_parents_say(text: str, expected: tuple[object, ...]) -> None:
    (event,) = events_of(OTHER_LAUNCHERS, text)
    assert isinstance(event, ProcessExit)
    assert (event.reporter, event.rank, event.local_rank, event.exitcode, event.signal, event.pid) == expected


def test_deepspeed_stops_the_others() -> None:
    (event,) = events_of(
        KILLING, "[2026-01-01 12:00:00,000] [INFO] [launch.py:319:sigkill_handler] Killing subprocess 4711"
    )
    assert isinstance(event, TearDown)
    assert (event.what, event.pid) == ("closing-signal", 4711)


def test_other_exits_are_no_events() -> None:
    assert (
        events_of(OTHER_LAUNCHERS, "thread pool exits with return code = ok\nthe run terminated with code review") == []
    )
    assert (
        events_of(OTHER_LAUNCHERS, "CalledProcessError: Command '['ninja', '-v']' returned non-zero exit status 1.")
        == []
    )
    assert events_of(crashes, "Signal: strong\nSIGNAL 5\nwe caught signal early") == []


@given(
    st.lists(
        st.one_of(st.sampled_from(list(crashes.literals + OTHER_LAUNCHERS.literals)), st.text(max_size=40)), max_size=10
    )
)
@settings(max_examples=40, deadline=None)
def test_never_raises(pieces: list[str]) -> None:
    events_of(crashes, "".join(pieces))
    events_of(OTHER_LAUNCHERS, "".join(pieces))
