"""What ranks print behind an alarm explains nothing: a crash while they abort, a connection that broke as others left."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from builders.jobs.verdicts import Ruling, gave_up, read, told_to_dump
from builders.logs.lines import watchdog

FAULTHANDLER = (
    "Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f2d1c0b8740 (most recent call first):\n"
    '  File "/opt/py/torch/distributed/distributed_c10d.py", line 2106 in destroy_process_group\n'
)
SEGFAULT = '!!!!!!! Segfault encountered !!!!!!!\n  File "<unknown>", line 0, in ncclCommAbort\n'
CRASHES = (FAULTHANDLER, SEGFAULT)
REMOTE = (
    "[rank{r}]: torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:133, remote process exited or there was a "
    "network error, NCCL version 2.21.5\n[rank{r}]: ncclRemoteError: A call failed possibly due to a network error or a remote "
    "process exiting prematurely.\n[rank{r}]: Last error:\n[rank{r}]: socketProgress: Connection closed by remote peer n2<40522>\n"
)


def dated(late: int, world: int) -> dict[str, str]:
    """Logs of a job on torch 2.9 whose rank ``late`` does not come, and answers the dump signal."""
    by = (late + 1) % world
    return {f"rank_{r}.log": told_to_dump(r, by, 6) if r == late else gave_up(r, 7) for r in range(world)}


def undated(late: int, world: int) -> dict[str, str]:
    """The same on torch 2.2, which prints no times."""
    note = "[rank{r}]:[E ProcessGroupNCCL.cpp:1176] [Rank {r}] ProcessGroupNCCL preparing to dump debug info.\n"
    return {f"rank_{r}.log": note.format(r=r) if r == late else watchdog(r, 7, at="E") for r in range(world)}


def behind(logs: dict[str, str], text: str, *ranks: int) -> Ruling:
    """The verdict where these ranks print more at the end of their logs."""
    more = {f"rank_{r}.log": logs[f"rank_{r}.log"] + text.format(r=r) for r in ranks}
    return read({**logs, **more})


@pytest.mark.parametrize("logs", [dated, undated])
@pytest.mark.parametrize("crash", CRASHES)
@pytest.mark.parametrize(("late", "world", "crashed"), [(3, 8, (5,)), (0, 4, (1, 2, 3))])
def test_a_crash_below_the_alarm_of_its_rank_is_no_cause(
    logs: Callable[[int, int], dict[str, str]], crash: str, late: int, world: int, crashed: tuple[int, ...]
) -> None:
    job = logs(late, world)
    whole, more = read({**job}), behind(job, crash, *crashed)
    assert (more.cause, more.ranks, more.verdict["confidence_in"]) == (
        whole.cause,
        whole.ranks,
        whole.verdict["confidence_in"],
    )
    assert more.ranks == str(late), str(more)


@pytest.mark.parametrize("crash", CRASHES)
def test_a_crash_above_the_alarms_of_the_others_is_the_cause(crash: str) -> None:
    job = {**dated(3, 8), "rank_3.log": crash}
    assert read({**job}).cause == "died"


@pytest.mark.parametrize(("silent", "world", "losing"), [(3, 8, (5,)), (1, 4, (0, 2, 3))])
def test_connections_that_break_behind_the_alarms_show_no_end(silent: int, world: int, losing: tuple[int, ...]) -> None:
    job = {name: text for name, text in dated(silent, world).items() if name != f"rank_{silent}.log"}
    whole, more = read({**job}), behind(job, REMOTE, *losing)
    assert (more.cause, more.ranks) == (whole.cause, whole.ranks), str(more)


def test_connections_that_break_before_any_alarm_show_an_end() -> None:
    job = {f"rank_{r}.log": REMOTE.format(r=r) for r in range(8) if r != 3} | {"rank_3.log": "[rank3]: step 12\n"}
    assert read({**job}).cause == "died"


STEP = "2025-11-04 10:{}:00 [INFO] step {}\n"
TRACEBACK = (
    "[rank{0}]: Traceback (most recent call last):\n"
    '[rank{0}]:   File "/ws/save.py", line 70, in save_shard\n'
    "[rank{0}]: OSError: [Errno 5] Input/output error\n"
)


def failing(late: int, above: str, below: str) -> Ruling:
    """A job of four whose rank ``late`` prints a traceback without a time between two lines with one; the others time out at 10:40."""
    alarm = "E1104 10:40:00.051234"
    own = STEP.format("05", 20) + above + TRACEBACK.format(late) + below
    logs = {f"rank_{r}.log": STEP.format("05", 20) + watchdog(r, 7, at=alarm) for r in range(4) if r != late}
    return read({**logs, f"rank_{late}.log": own})


@pytest.mark.parametrize("late", [0, 2])
def test_an_exception_below_a_later_line_is_no_cause(late: int) -> None:
    after = failing(late, "2025-11-04 10:44:00 [INFO] write returned\n", "")
    assert (after.cause, after.ranks) == ("not-arrived", str(late)), str(after)
    before = failing(late, "2025-11-04 10:06:00 [INFO] saving\n", "")
    assert (before.cause, before.ranks) == ("raised", str(late)), str(before)


def test_an_exception_above_a_line_behind_the_alarm_may_have_followed() -> None:
    open_end = failing(1, "", "2025-11-04 10:44:00 [ERROR] rank 1 leaving\n")
    assert (open_end.cause, open_end.ranks) == ("raised", "1"), str(open_end)
    assert open_end.verdict["confidence_in"] == {"ranks": "high", "class": "medium"}
    assert failing(1, "", "2025-11-04 10:07:00 [ERROR] rank 1 leaving\n").verdict["confidence_in"]["class"] == "high"
