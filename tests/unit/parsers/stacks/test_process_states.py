"""Tables of processes, with what the collector saw each do between two looks."""

from __future__ import annotations

import pytest
from builders.logs.log_reading import events_of

from nccldoctor.events import Note, ProcessState, ProcessWork
from nccldoctor.parsers.stacks.process_states import process_table, tool_error

HEAD = "PID PPID STAT WCHAN ELAPSED MS CPU KERNEL THREADS CHILDREN WAITS LOST READ WRITTEN COMMAND\n"


def read(rows: str) -> list[ProcessState]:
    return [e for e in events_of(process_table, HEAD + rows) if isinstance(e, ProcessState)]


def test_a_row_holds_what_the_process_did_and_how_old_it_is() -> None:
    rank, child = read(
        "4711 1 S do_wait 00:09:00 4020 10 0 30 0 2 1 70 8 /usr/bin/python3 train.py\n"
        "4800 4711 S hrtimer_nanosleep 00:01:24 - - - - - - - - - sleep 600\n"
    )
    assert (rank.did, rank.waits_in) == (ProcessWork(4020, 10, 0, 30, 0, 2, 1, 70, 8), "do_wait")
    assert (child.did, child.parent, child.elapsed, child.command) == (None, 4711, "00:01:24", "sleep 600")


def test_a_count_that_is_none_leaves_the_work_unknown() -> None:
    (row,) = read(f"4711 1 S - 00:09:00 4020 {'9' * 5000} 0 30 0 2 1 70 8 /usr/bin/python3 train.py\n")
    assert (row.did, row.waits_in) == (None, None)


@pytest.mark.parametrize(
    ("counts", "manner"),
    [
        ({}, "blocked"),
        ({"waits": 1}, "blocked"),  # one wait is the wait that it is in
        ({"waits": 20}, "polls"),
        ({"cpu": 3900}, "computes"),
        ({"cpu": 900, "lost": 400}, "computes"),  # the other ranks of the host have the processor as well
        ({"cpu": 3900, "kernel": 2900}, "spins"),
        ({"cpu": 3900, "kernel": 2900, "read": 1 << 30}, "computes"),
        ({"cpu": 30, "waits": 90, "written": 1 << 20}, "moves data"),
        ({"cpu": 10, "waits": 20, "written": 200}, "polls"),  # a log line for each attempt
        ({"children": 3900}, "computes"),
        ({"threads": 3900}, "blocked"),  # those of a library spin
    ],
)
def test_what_a_process_did_has_one_word(counts: dict[str, int], manner: str) -> None:
    still = dict.fromkeys(ProcessWork.__struct_fields__, 0)
    assert ProcessWork(**still | {"ms": 4000} | counts).manner == manner


@pytest.mark.parametrize(
    ("below", "kind"), [("Reason: Permission denied (os error 13)", Note), ("Reason: No such file", ProcessState)]
)
def test_a_tool_without_the_right_to_look_says_nothing_of_the_process(below: str, kind: type) -> None:
    text = f"Error: Failed to get process executable name. Check that the process is running.\n{below}\n"
    assert [type(event) for event in events_of(tool_error, text)] == [kind]
