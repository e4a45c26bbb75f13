"""Schedulers, shells and kubernetes: what was done to the job, and whose task ended how."""

from __future__ import annotations

from datetime import datetime

import pytest
from builders.logs.log_reading import events, events_of, parser_named, parsers_of
from hypothesis import given, settings
from hypothesis import strategies as st

from nccldoctor.events import ProcessExit, SchedulerEvent

KUBERNETES = parsers_of("schedulers.kubernetes")
SCHEDULER = parser_named("scheduler")
SHELL = parser_named("shell")


def exits(text: str) -> list[tuple[int | None, int | None, str | None, str | None]]:
    return [(e.task, e.exitcode, e.signal, e.host) for e in events_of(SCHEDULER, text) if isinstance(e, ProcessExit)]


def scheduled(text: str) -> list[tuple[str, str | None, str | None]]:
    return [(e.what, e.job, e.host) for e in events_of(SCHEDULER, text) if isinstance(e, SchedulerEvent)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("srun: error: node17: task 6: Aborted (core dumped)", [(6, -6, "SIGABRT", "node17")]),
        ("srun: error: gpu-a.local: task 0: Exited with exit code 1", [(0, 1, None, "gpu-a.local")]),
        ("srun: error: node17: tasks 4-5,7: Killed", [(t, -9, "SIGKILL", "node17") for t in (4, 5, 7)]),
        ("srun: error: node[1-2]: tasks 0,9: Exited with exit code 137", [(t, 137, "SIGKILL", None) for t in (0, 9)]),
        ("srun: error: node17: task 2: Segmentation fault (core dumped)", [(2, -11, "SIGSEGV", "node17")]),
        ("srun: error: node17: task 2: Out Of Memory", [(2, -9, "SIGKILL", "node17")]),
        ("0: srun: error: node17: task 1: Terminated", [(1, -15, "SIGTERM", "node17")]),
        ("srun: error: node17: tasks 0-9999999: Killed", []),
        ("srun: error: Unable to create step for job 1: Invalid account", []),
    ],
)
def test_tasks_of_srun(text: str, expected: list[tuple[object, ...]]) -> None:
    assert exits(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "slurmstepd: error: *** JOB 44 ON n3 CANCELLED AT 2026-03-08T00:51:30 DUE TO TIME LIMIT ***",
            ("time-limit", "44", "n3"),
        ),
        (
            "slurmstepd: error: *** JOB 44 ON n3 CANCELLED AT 2026-03-08T00:51:30 DUE TO PREEMPTION ***",
            ("preempted", "44", "n3"),
        ),
        (
            "slurmstepd: error: *** JOB 44 ON n3 CANCELLED AT 2026-03-08T00:51:30 DUE TO NODE FAILURE, SEE "
            "SLURMCTLD LOG FOR DETAILS ***",
            ("node-failure", "44", "n3"),
        ),
        ("slurmstepd: error: *** STEP 44.0 ON n3 CANCELLED AT 2026-03-08T00:51:30 ***", ("cancelled", "44", "n3")),
        ("slurmstepd: error: Detected 1 oom-kill event(s) in step 44.0 cgroup. Some of your", ("oom", "44", None)),
        ("slurmstepd: error: Detected 3 oom_kill events in StepId=44.batch. Some of the", ("oom", "44", None)),
        ("srun: error: Node failure on node17", ("node-failure", None, "node17")),
        ("srun: error: node17: task 2: Out Of Memory", ("oom", None, "node17")),
        ("srun: Job step aborted: Waiting up to 32 seconds for job step to finish.", ("cancelled", None, None)),
        ("44.0          python   gpu     acct   16 OUT_OF_ME+    0:125", ("oom", "44", None)),
        ("44|train|NODE_FAIL|1:0", ("node-failure", "44", None)),
        ("44      train   gpu  acct  16  TIMEOUT  0:0", ("time-limit", "44", None)),
        ("TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.", ("oom", None, None)),
        ("=>> PBS: job killed: walltime 3601 exceeded limit 3600", ("time-limit", None, None)),
    ],
)
def test_what_was_done(text: str, expected: tuple[object, ...]) -> None:
    assert scheduled(text) == [expected]


def test_time_of_a_cancellation() -> None:
    (event,) = events_of(
        SCHEDULER, "slurmstepd: error: *** JOB 44 ON n3 CANCELLED AT 2026-03-08T00:51:30 DUE TO TIME LIMIT ***"
    )
    assert event.time == datetime(2026, 3, 8, 0, 51, 30)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("./run.sh: line 12: 88123 Killed                  python train.py", [(88123, "SIGKILL", 137)]),
        ("/bin/bash: line 1:    42 Aborted                 (core dumped) python t.py", [(42, "SIGABRT", 134)]),
        ("bash: line 1: 42 Killed", [(42, "SIGKILL", 137)]),
        ("Killed", [(None, "SIGKILL", 137)]),
        ("Segmentation fault (core dumped)", [(None, "SIGSEGV", 139)]),
        ("Killed process 88123 (python)", []),
        ("Terminated the evaluation early", []),
    ],
)
def test_shells(text: str, expected: list[tuple[object, ...]]) -> None:
    found = [(e.pid, e.signal, e.exitcode) for e in events_of(SHELL, text) if isinstance(e, ProcessExit)]
    assert found == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("      Reason:       OOMKilled\n      Exit Code:    137", ["oom", 137]),
        ('"lastState":{"terminated":{"exitCode":137,"reason":"OOMKilled"}}', ["oom", 137]),
        (
            "Status:  Failed\nReason:       Evicted\nMessage:   The node was low on resource: memory.",
            ["evicted", "evicted"],
        ),
        ("Warning  NodeNotReady  pod/train-worker-1  Node is not ready", ["node-failure"]),
        ("Normal  Preempted  pod/w-0  Preempted by a pod on node n1", ["preempted"]),
        ("Reason: DeadlineExceeded", ["time-limit"]),
        ("      Exit Code:    0", []),
    ],
)
def test_kubernetes(text: str, expected: list[object]) -> None:
    found = [
        e.what if isinstance(e, SchedulerEvent) else e.exitcode
        for e in events(text, parsers=KUBERNETES)
        if isinstance(e, SchedulerEvent | ProcessExit)
    ]
    assert found == expected


LITERALS = [
    *(literal for parser in (SCHEDULER, SHELL, *KUBERNETES) for literal in parser.literals),
    "srun: error: n: tasks 0-",
    "99999999,",
]


@given(st.lists(st.one_of(st.sampled_from(LITERALS), st.text(max_size=30)), max_size=8))
@settings(max_examples=40, deadline=None)
def test_never_raises(pieces: list[str]) -> None:
    for parser in (SCHEDULER, SHELL, *KUBERNETES):
        events_of(parser, "".join(pieces))
