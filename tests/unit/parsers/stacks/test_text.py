"""Stacks of all tools, and what they say."""

from __future__ import annotations

import json

import pytest
from builders.logs.cpu_limit import bounded_cpu_time
from builders.logs.log_reading import events_of, parser_named
from hypothesis import given, settings
from hypothesis import strategies as st

from nccldoctor.model import Source, SourceKind
from nccldoctor.parsers.base import LineParser
from nccldoctor.parsers.stacks import native, text
from nccldoctor.parsers.stacks.pyspy_json import PySpyJsonParser

PYSPY, FAULT, GDB = text.py_spy, text.faulthandler, native.gdb
PARSERS: tuple[LineParser, ...] = (PYSPY, FAULT, GDB, native.pystack, parser_named("debug-server"))


def source(size: int) -> Source:
    return Source(0, "stacks/pyspy.json", SourceKind.JSON, size)


def test_main_thread_of_a_dump_taken_by_a_monitor_thread():
    text = (
        'Current thread 0x00007f6b (most recent call first):\n  File "/t/train.py", line 279 in write_dump\n  File'
        ' "/usr/lib/python3.11/threading.py", line 1002 in _bootstrap\n\nThread 0x00007f6c (most recent call first):\n '
        ' File "/t/torch/distributed/distributed_c10d.py", line 3252 in all_reduce\n  File "/t/train.py", line 363 in'
        " <module>\n"
    )
    first, second = events_of(FAULT, text + text)[:2]
    assert (first.main, second.main) == (False, True)
    assert [e.main for e in events_of(FAULT, text + text)] == [False, True, False, True]


def test_a_cut_main_thread_is_the_last_one():
    text = (
        'Thread 0x00007f6b (most recent call first):\n  File "/a.py", line 1 in f\n  File "/b.py", line 2 in g\n '
        ' ...\n\nThread 0x00007f6c (most recent call first):\n  File "/a.py", line 1 in deep\n  ...\n'
    )
    assert [(e.main, e.frames) for e in events_of(FAULT, text)] == [
        (False, ("f (/a.py:1)", "g (/b.py:2)")),
        (True, ("deep (/a.py:1)",)),
    ]


def test_c_backtraces_and_tracebacks_are_no_stacks():
    text = (
        "Exception raised from checkTimeout at /pytorch/torch/csrc/ProcessGroupNCCL.cpp:632 (most recent call first):\n"
        "frame #0: c10::Error::Error(c10::SourceLocation) + 0x96 (0x7f in libc10.so)\n"
        'Traceback (most recent call last):\n  File "/a.py", line 3, in f\nRuntimeError: (idle)'
    )
    assert not [e for parser in PARSERS for e in events_of(parser, text)]


def test_workers_of_a_data_loader_have_no_main_thread_of_a_rank():
    head = 'Thread {0} (idle): "MainThread"\n    poll (multiprocessing/connection.py:3)\n    <module> (train.py:1)\n\n'
    text = (
        "Process 10: python train.py\nPython v3.11.9 (/usr/bin/python)\n\n"
        + head.format(10)
        + "Process 11: python train.py\nPython v3.11.9 (/usr/bin/python)\nParent Process 10: python train.py\n\n"
        + head.format(11)
        + "Process 12: python -c from multiprocessing.spawn import spawn_main\nPython v3.11.9 (/usr/bin/python)\n\n"
        + head.format(12)
        + "Process 13: python train.py\nPython v3.11.9 (/usr/bin/python)\nParent Process 9: torchrun train.py\n\n"
        + head.format(13)
    )
    assert [(e.pid, e.main) for e in events_of(PYSPY, text)] == [(10, True), (11, False), (12, False), (13, True)]


def test_rank_of_the_log_stays_with_a_stack_in_it():
    text = '[rank4]: Thread 7 (idle): "MainThread"\n[rank4]:     f (a.py:1)\n[rank4]: step 3 (fast)'
    (event,) = events_of(PYSPY, text)
    assert (event.rank, event.frames) == (4, ("f (a.py:1)",))


def test_ranks_of_the_debug_server_do_not_leak():
    frame = 'Thread 9 (active): "MainThread"\n    f (a.py:1)\n\n'
    text = f"=== Rank 0: http://10.0.0.1:9/x? ===\n{frame}=== Rank 1: http://node2.local:9/x? ===\n{frame}"
    assert [(e.rank, e.host) for e in events_of(PYSPY, text)] == [(0, "10.0.0.1"), (1, "node2")]


def test_other_json_is_left_alone():
    parser = PySpyJsonParser()
    assert not parser.claims(b'[{"name": 1}]', "x.json")
    assert not parser.claims(b'{"frames": [], "thread_id": 3}', "x.json")


@pytest.mark.parametrize(
    "content", [b"[{", b"{}", b"[1, null]", b'[{"frames": 3, "pid": true, "thread_name": 4}]', b"[" * 100000, b"\xff"]
)
def test_broken_json_is_a_gap_or_nothing(content):
    parsed = PySpyJsonParser().parse(source(len(content)), content)
    assert not parsed.events


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["pid", "frames", "thread_name", "name", "line", "filename", "owns_gil"]),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
@settings(max_examples=150, deadline=None)
def test_json_never_raises(value):
    PySpyJsonParser().parse(source(1), json.dumps(value).encode())


@given(
    st.lists(
        st.sampled_from(
            [
                'Thread 7 (idle): "MainThread"',
                "    f (a.py:1)",
                "Process 7: x",
                "Parent Process 7: x",
                "=== Rank 1: http://n ===",
                "",
                "  ...",
                "Thread 0x1234 (most recent call first):",
                '  File "a", line 3 in f',
                "PARTIAL DATA: 1/2 workers responded",
                "  Rank 1: gone",
                "Error: 5",
                'Thread 1 (Thread 0x7 (LWP 3) "x"):',
                "#0  0x7 in f () from /l.so",
                "#",
                "Traceback for thread 7 (p) [] (most recent call last):",
            ]
        ),
        max_size=25,
    ),
    st.text(max_size=20),
)
@settings(max_examples=200, deadline=None)
def test_never_raises(lines, noise):
    for parser in PARSERS:
        events_of(parser, "\n".join([*lines, noise, *lines]))


@pytest.mark.parametrize("filler", ["    f (", "#0  0x7 in f<", "x (a) ", '  File "', "Process 1: ", "a b=("])
def test_hostile_line_is_read_quickly(filler):
    text = 'Thread 7 (idle): "MainThread"\n' + (filler * (65536 // len(filler)))[:65000]
    text += "\nThread 0x1234 (most recent call first):\n" + text + '\nThread 1 (Thread 0x7 (LWP 3) "x"):\n' + text
    with bounded_cpu_time():
        for parser in PARSERS:
            events_of(parser, text)
