"""torchrun: its table, its agent's lines and the error files of its workers."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from builders.logs.log_reading import events_of, parser_named
from hypothesis import given, settings
from hypothesis import strategies as st

from nccldoctor.events import ExceptionRaised, Note, ProcessExit, TearDown
from nccldoctor.model import Source, SourceKind
from nccldoctor.parsers.exit_codes import number_of, signal_named, signal_of
from nccldoctor.parsers.launchers.torchrun_failures import failure_table
from nccldoctor.parsers.python.error_file import ErrorFile
from nccldoctor.parsers.python.exceptions import exceptions

AGENT_LINES = parser_named("agent")

AGENT = "E0216 19:31:03.849000 375028 torch/distributed/elastic/multiprocessing/api.py:1003] "
FAILED = AGENT + "failed (exitcode: -9) local_rank: 3 (pid: 375041) of binary: /opt/venv/bin/python3.11\n"
TABLE = """\
Traceback (most recent call last):
  File "/opt/venv/bin/torchrun", line 8, in <module>
    sys.exit(main())
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
/opt/train/train.py FAILED
------------------------------------------------------------
Failures:
[0]:
  time      : 2026-02-16_19:31:03
  host      : gpu-17
  rank      : 8 (local_rank: 0)
  exitcode  : -15 (pid: 375038)
  error_file: /tmp/x/error.json
  traceback : Traceback (most recent call last):
    File "/opt/train/train.py", line 30, in main
      dist.all_reduce(x)
    File "/opt/venv/lib/python3.11/site-packages/torch/distributed/elastic/__init__.py", line 3, in wrapper
      return f()
  RuntimeError: [x/gloo/transport/tcp/pair.cc:1] Connection closed by peer [10.0.0.2]:1

------------------------------------------------------------
Root Cause (first observed failure):
[3]:
  time      : 2026-02-16_19:31:02
  host      : gpu-17
  rank      : 11 (local_rank: 3)
  exitcode  : -9 (pid: 375041)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 375041
============================================================
"""


def test_a_row_that_lost_its_head_takes_nothing_of_the_row_above() -> None:
    """Two writers shared a descriptor, and line ends of the row of rank 0 are gone."""
    torn = "Root Cause (first observed failure):[0]:  time      : 2026-02-16_19:31:02  host      : gpu-17  rank      : 0 (local_rank: 0)"
    row = "[3]:\n  time      : 2026-02-16_19:31:03\n  host      : gpu-17\n  rank      : 3 (local_rank: 3)\n"
    closed, root = events_of(
        failure_table, f"{row}  exitcode  : -15 (pid: 44)\n{'-' * 60}\n{torn}\n  exitcode  : -6 (pid: 41)\n"
    )
    assert isinstance(root, ProcessExit)
    assert (closed.rank, closed.pid, root.pid) == (3, 44, 41)
    assert root.rank in (None, 0)
    assert root.local_rank in (None, 0)


def test_rows_carry_the_global_rank_and_the_root_cause_is_first() -> None:
    closed, quoted, root = events_of(failure_table, TABLE)
    assert isinstance(closed, ProcessExit)
    assert isinstance(root, ProcessExit)
    assert (closed.rank, closed.local_rank, closed.exitcode, closed.signal, closed.first) == (
        8,
        0,
        -15,
        "SIGTERM",
        False,
    )
    assert (root.rank, root.local_rank, root.signal, root.first, root.host) == (11, 3, "SIGKILL", True, "gpu-17")
    assert (root.pid, root.time, root.reporter) == (375041, datetime(2026, 2, 16, 19, 31, 2), "torchrun")
    assert root.text.endswith("exitcode  : -9 (pid: 375041)")
    assert isinstance(quoted, ExceptionRaised)
    assert (quoted.rank, quoted.local_rank, quoted.origin, quoted.frame) == (
        8,
        0,
        "echo",
        "main (/opt/train/train.py:30)",
    )


def test_a_tracebacks_in_the_table_is_told_once_and_the_launchers_own_is_an_echo() -> None:
    (launcher,) = events_of(exceptions, TABLE)
    assert isinstance(launcher, ExceptionRaised)
    assert (launcher.type.rpartition(".")[2], launcher.origin) == ("ChildFailedError", "echo")


def test_chained_exceptions_in_a_row_belong_to_its_rank() -> None:
    first = "  RuntimeError: [x/gloo/transport/tcp/pair.cc:1] Connection closed by peer [10.0.0.2]:1\n"
    chained = (
        "  KeyError: 7\n\n  The above exception was the direct cause of the following exception:\n\n"
        '  Traceback (most recent call last):\n    File "/opt/train/train.py", line 40, in load\n'
        "  ValueError: bad sample\n"
    )
    text = TABLE.replace(first, chained)
    found = [e for e in events_of(failure_table, text) if isinstance(e, ExceptionRaised)]
    assert [(e.rank, e.type, e.origin) for e in found] == [(8, "KeyError", "own"), (8, "ValueError", "own")]
    assert [e.type.rpartition(".")[2] for e in events_of(exceptions, text) if isinstance(e, ExceptionRaised)] == [
        "ChildFailedError"
    ]


def test_the_agents_line_is_an_exit_only_where_the_table_does_not_tell_of_that_process() -> None:
    assert events_of(AGENT_LINES, FAILED + TABLE) == []
    assert len(events_of(AGENT_LINES, FAILED)) == 1
    (other,) = events_of(AGENT_LINES, FAILED.replace("375041", "7") + TABLE)
    assert isinstance(other, ProcessExit)
    assert (other.local_rank, other.rank, other.exitcode, other.signal, other.first) == (3, None, -9, "SIGKILL", True)


def test_table_of_1_9() -> None:
    text = (
        "*****\n  t.py FAILED\n=====\nRoot Cause:\n[0]:\n  time: 2021-08-02_11:45:43\n  rank: 1 (local_rank: 1)\n"
        "  exitcode: 1 "
        '(pid: 4110)\n  error_file: <N/A>\n  msg: "ValueError: bad"\n=====\nOther Failures:\n[1]:\n'
        "  time: 2021-08-02_11:45:43\n  rank: 0 (local_rank: 0)\n  exitcode: -6 (pid: 4109)\n  error_file: <N/A>\n"
        '  msg: "Process failed with exitcode 1"\n'
    )
    root, error, other = events_of(failure_table, text)
    assert isinstance(root, ProcessExit)
    assert isinstance(other, ProcessExit)
    assert isinstance(error, ExceptionRaised)
    assert (root.rank, root.first, other.rank, other.first, other.signal) == (1, True, 0, False, "SIGABRT")
    assert (error.type, error.message, error.rank) == ("ValueError", "bad", 1)


def test_agent_lines() -> None:
    found = events_of(
        AGENT_LINES,
        "Sending process 7 closing signal SIGTERM\nUnable to shutdown process 8 via 15, forcefully exiting via 9\n"
        "Process 9 did not exit after SIGKILL within 30s; abandoning and continuing teardown.\n"
        "Received 15 death signal, shutting down workers\n"
        "Received Signals.SIGTERM death signal, shutting down workers\n"
        "[default] Worker group FAILED. 2/3 attempts left; will restart worker group\n"
        "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid\n",
    )
    told = [(e.what, e.detail, e.pid) for e in found if isinstance(e, TearDown | Note)]
    assert told[:2] == [("closing-signal", "SIGTERM", 7), ("forced-kill", "SIGKILL", 8)], "the signal that ended it"
    assert told[2][0::2] == ("abandoned-process", 9)
    assert told[3:] == [
        ("death-signal", "SIGTERM", None),
        ("death-signal", "SIGTERM", None),
        ("restart", "2 attempts left", None),
        ("launch", "the launcher starts its workers", None),
    ]


def test_rank_map_of_a_node() -> None:
    (note,) = events_of(
        AGENT_LINES,
        "[default] Rendezvous complete for workers. Result:\n  restart_count=1\n  master_addr=node0\n  group_rank=1\n"
        "  local_ranks=[0, 1, 2]\n  global_ranks=[8, 9, 10]\n",
    )
    assert isinstance(note, Note)
    assert note.detail == "global_ranks=8-10 group_rank=1 master_addr=node0 restart_count=1"


def source(path: str = "0/error.json") -> Source:
    return Source(4, path, SourceKind.JSON, 10)


def test_error_file_of_both_forms() -> None:
    stack = 'Traceback (most recent call last):\n  File "t.py", line 3, in main\n    d[7]\nKeyError: 7\n'
    old = {"message": {"message": "KeyError: 7", "extraInfo": {"py_callstack": stack, "timestamp": "1771270263"}}}
    new = {"message": "KeyError: 7", "timestamp": 1771270263}
    for content, frame in ((old, "main (t.py:3)"), (new, None)):
        data = json.dumps(content).encode()
        assert ErrorFile().claims(data[:100], "0/error.json")
        (event,) = ErrorFile().parse(source(), data).events
        assert isinstance(event, ExceptionRaised)
        assert (event.type, event.message, event.frame, event.origin) == ("KeyError", "7", frame, "own")
        assert event.time == datetime(2026, 2, 16, 19, 31, 3, tzinfo=UTC)
        assert str(event.place) == "0/error.json:1"


def test_error_file_that_is_cut_is_a_gap() -> None:
    parsed = ErrorFile().parse(source(), b'{"message": {"message": "Key')
    assert parsed.events == ()
    assert parsed.gaps[0].source == 4


def test_other_json_is_not_claimed() -> None:
    assert not ErrorFile().claims(b'{"log":"x","stream":"stderr"}', "app.log")
    assert not ErrorFile().claims(b'{"message": "step 5", "timestamp": "2026"}', "app.jsonl")


def test_signals() -> None:
    assert (signal_of(-11), signal_of(137), signal_of(1), signal_of(0)) == ("SIGSEGV", "SIGKILL", None, None)
    assert [signal_named(t) for t in ("Aborted (core dumped)", "9", "Signals.SIGINT", "odd")] == [
        "SIGABRT",
        "SIGKILL",
        "SIGINT",
        None,
    ]
    assert number_of("SIGBUS") == 7


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.one_of(st.sampled_from((TABLE + FAILED).split("\n")), st.text(max_size=50)), max_size=30),
    st.binary(max_size=200),
)
def test_never_raises(lines: list[str], content: bytes) -> None:
    events_of(failure_table, "\n".join(lines))
    events_of(AGENT_LINES, "\n".join(lines))
    ErrorFile().parse(source(), content)
    ErrorFile().parse(source(), b'{"message":' + content)


@given(
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda c: st.dictionaries(st.sampled_from(["message", "extraInfo", "py_callstack", "timestamp"]), c),
    )
)
@settings(max_examples=50, deadline=None)
def test_error_file_of_any_shape(data: object) -> None:
    ErrorFile().parse(source(), json.dumps(data).encode())
