"""Records survive what collectors do to logs, and nothing is made up (seeds in the names of the tests)."""

from __future__ import annotations

import pytest
from builders.logs import damage
from builders.logs.log_reading import events, parsed

SEEDS = range(8)


@pytest.mark.parametrize("name", [name for name in damage.DAMAGES if name != "broken_off"])
def test_records_survive(name: str) -> None:
    found = {seed: damage.outcome(name, seed) for seed in SEEDS}
    wanted = sum(one.wanted for one in found.values())
    lost = {seed: one.lost for seed, one in found.items() if one.lost}
    made_up = {seed: one.invented for seed, one in found.items() if one.invented}
    assert wanted > 150
    assert sum(map(len, lost.values())) <= 0.02 * wanted, f"{name}, by seed: {lost}"
    assert not made_up, f"{name}, by seed: {made_up}"


def test_what_lost_its_end_is_read_in_part_and_never_wrongly() -> None:
    found = {seed: damage.outcome("broken_off", seed) for seed in SEEDS}
    made_up = {seed: one.invented for seed, one in found.items() if one.invented}
    assert sum(len(one.partial) for one in found.values()) > 20
    assert not made_up, f"by seed: {made_up}"


@pytest.mark.parametrize(
    ("text", "kind", "name"),
    [
        ("work sequence id: 42942 PG status: last enqueued work: 42", "work-status", "last_enqueued"),
        (
            "work sequence id: 42942 PG status: last enqueued work: 42944, last completed NCCL work: 42",
            "work-status",
            "last_completed",
        ),
    ],
)
def test_a_number_cut_at_the_end_of_a_line_is_not_believed(text: str, kind: str, name: str) -> None:
    front = "[rank1]:[E417 03:28:14.050510987 ProcessGroupNCCL.cpp:2268] [PG ID 0 PG GUID 0 Rank 1]  failure detected by watchdog at "
    (event,) = events(front + text + "\n", kind)
    assert getattr(event, name) is None


def test_the_vendors_error_is_not_believed_where_it_is_cut() -> None:
    front = (
        "node1:4001:5001 [1] transport/net_ib.cc:1023 NCCL WARN NET/IB: Got completion from peer 10.0.0.7<4771> with "
    )
    (whole,) = events(front + "error 12, opcode 0, len 0, vendor err 129\n", "ib-error")
    (cut,) = events(front + "status=12 opcode=0 len=0 vendor err 12\n", "ib-error")
    assert (getattr(whole, "vendor_err"), getattr(cut, "vendor_err")) == (129, None)  # noqa: B009


def test_every_damage_does_damage() -> None:
    """A check of the check: without mending, the halves of a cut line would not read as the whole."""
    rng_lines = damage.job(damage.random.Random("one"))
    for name, harm in damage.DAMAGES.items():
        broken = harm(damage.random.Random("one"), rng_lines)
        assert (broken == damage.whole(damage.random.Random("one"), rng_lines)) == (name == "whole")


def test_places_are_those_of_the_file_as_it_is() -> None:
    log = (
        "[default0]:INFO step=1\n[default1]:[rank1]:[E417 03:28:14.050510987 ProcessGroupNCCL.cpp:1870] [PG ID "
        "0 PG GUID 0 R\n"
        "[default0]:INFO step=2\nank 1] ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress\n"
        "[default2]:[rank2]:[E417 03:28:15.050510987 ProcessGroupNCCL.cpp:1870] [PG ID 0 PG GUID 0 Rank 2] "
        "ProcessGroupNCCL's "
        "watchdog got stuck for 480 seconds without making progress\n"
    )
    found = events(log, "heartbeat-stuck")
    assert [(e.rank, e.place.line) for e in found] == [(1, 2), (2, 5)]
    assert parsed(log).lines == 5


def test_complete_lines_are_not_glued() -> None:
    """A plain print behind a counter is no part of the number."""
    log = (
        "[rank1]:[E417 03:28:14.050510987 ProcessGroupNCCL.cpp:2268] [PG ID 0 PG GUID 0 Rank 1]  failure "
        "detected by watchdog "
        "at work sequence id: 5 PG status: last enqueued work: 7, last completed work: 4\n12 files written\n"
    )
    (status,) = events(log, "work-status")
    assert getattr(status, "last_completed") == 4  # noqa: B009


def test_crashes_that_ucx_reports_one_below_the_other_stay_apart() -> None:
    """A piece that begins nothing is still joined to what it was cut from."""
    caught = "[node7:4106{0}:0:4173{0}] Caught signal 11 (Segmentation fault: address not mapped to object at address 0x11{0})\n"
    found = events("".join(caught.format(i) for i in range(4)))
    assert [e.place.line for e in found if e.kind == "process-exit"] == [1, 2, 3, 4]
    cut = caught.format(5).replace("(Segm", "(Se\ngm")
    assert [e.kind for e in events(cut)] == ["process-exit"]


@pytest.mark.parametrize(
    "line",
    [
        "bash: line 1:  1002 Killed                  python3 train.py\n",
        "./run.sh: line 12: 1002 Segmentation fault      (core dumped) python train.py\n",
        "srun: error: n07: task 2: Killed\n",
    ],
)
def test_what_a_shell_says_of_its_child_is_no_rest_of_the_line_above(line: str) -> None:
    above = "[rank3]:[I1104 10:00:03.000000 ProcessGroupNCCL.cpp:905] [PG ID 0 PG GUID 0 Rank 3] options: TIMEOUT(ms): 600000\n"
    below = "2025-11-04 10:01:00,100 INFO rank 1 waiting for broadcast\n"
    found = events(above + line + below, "process-exit")
    assert [(e.place.line, e.rank) for e in found] == [(2, None)]


def test_lines_of_a_logger_with_time_and_level_stay_apart() -> None:
    logged = "[2026-01-11 09:01:00,000] [INFO] [launch.py:351:main] {}\n".format
    log = logged("dist_world_size=4") + "".join(logged(f"Process 4120{n} exits successfully.") for n in range(3))
    assert [(e.pid, e.place.line) for e in events(log, "process-exit")] == [(41200, 2), (41201, 3), (41202, 4)]


def test_a_traceback_behind_the_message_of_a_logger_stays_in_lines() -> None:
    """SGLang logs ``Scheduler hit an exception: Traceback …``; the frames stand below without its prefix."""
    log = (
        "[2026-01-11 09:01:00 DP1 TP3 EP3] Scheduler hit an exception: Traceback (most recent call last):\n"
        '  File "/srv/loop.py", line 23, in run\n    self.step()\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n'
    )
    (raised,) = events(log, "exception")
    assert (raised.rank, raised.place.line, getattr(raised, "type")) == (3, 4, "torch.OutOfMemoryError")  # noqa: B009
