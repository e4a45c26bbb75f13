"""The process beside a rank: what it sees of another process, and that it ends with it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from nccldoctor.capture import sidecar
from nccldoctor.capture.evidence import look_name

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (9, "was killed by signal 9 (SIGKILL)"),
        (40, "was killed by signal 40 (SIGRT)"),
        (3 << 8, "ended with exit code 3"),
        (None, "ended without a last word"),
    ],
)
def test_a_wait_status_has_words(status: int | None, words: str) -> None:
    assert sidecar.ending(status) == words


def test_the_status_of_a_zombie_is_read() -> None:
    child = subprocess.Popen([sys.executable, "-S", "-c", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert sidecar.exit_status(child.pid) == signal.SIGKILL
    child.wait()
    assert sidecar.exit_status(child.pid) is None


RANK = """
    import json, os, subprocess, sys, time
    config = json.loads(sys.argv[1]) | {"pid": os.getpid()}
    config["began"] = open(f"/proc/{os.getpid()}/stat").read().rpartition(")")[2].split()[19:20]
    print(subprocess.check_output([sys.executable, "-I", "-S", sys.argv[2], json.dumps(config)]).decode(), flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def config(tmp_path: Path) -> dict[str, object]:
    paths = {name: str(tmp_path / name) for name in ("log", "state", "late", "looks", "scratch")}
    (tmp_path / "looks").mkdir()
    (tmp_path / "scratch").mkdir()
    (tmp_path / "late").write_text("Thread 0x1 (most recent call first):\n")
    return {
        "label": "[rank 3]",
        "stem": "rank_3",
        "command": "python train.py",
        "listing_s": 0.05,
        "began": [],
        **paths,
    }


def _started(config: dict[str, object]) -> tuple[subprocess.Popen[str], int]:
    command = [sys.executable, "-S", "-c", textwrap.dedent(RANK), json.dumps(config), sidecar.__file__]
    rank = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert rank.stdout is not None
    return rank, int(rank.stdout.readline())


def _wait_for_end(pid: int) -> None:
    """Block until a process that is no child of ours has ended."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    import select

    select.select([descriptor], [], [], 30)
    os.close(descriptor)
    assert sidecar.process_state(pid)[0] in ("?", "Z", "X")


def test_it_ends_with_a_killed_rank_and_says_how_it_ended(config: dict[str, object], tmp_path: Path) -> None:
    rank, beside = _started(config)
    rank.kill()
    _wait_for_end(beside)
    os.waitid(os.P_PID, rank.pid, os.WEXITED | os.WNOWAIT)
    line = (tmp_path / "log").read_text()
    assert f"ERROR [rank 3] process {rank.pid} was killed by signal 9 (SIGKILL), seen by nccldoctor.capture" in line
    assert not (tmp_path / "scratch").exists()
    rank.wait()
    assert rank.stdin is not None
    rank.stdin.close()


ABORT = "terminate called after throwing an instance of 'gloo::EnforceNotMet'\n  what():  128 vs 4\nstep 9\n"
SAID = ["[rank3]: terminate called after throwing an instance of 'gloo::EnforceNotMet'", "[rank3]:   what():  128 vs 4"]


@pytest.mark.parametrize(
    ("before", "said", "kept"), [(ABORT, ABORT, SAID), ("", ABORT + ABORT, []), ("", "step 9\n", [])]
)
def test_the_last_words_of_an_abort_are_kept_where_they_are_the_ranks_own(
    before: str, said: str, kept: list[str], config: dict[str, object], tmp_path: Path
) -> None:
    """Those of an earlier process in the same file are not, nor where two ranks spoke."""
    errors = tmp_path / "stderr"
    errors.write_text(before)
    with errors.open("a") as file:
        child = subprocess.Popen(
            [sys.executable, "-S", "-c", "import os; input(); os.abort()"], stdin=subprocess.PIPE, stderr=file
        )
    watched = sidecar.Sidecar(config | {"pid": child.pid})
    with errors.open("a") as file:
        file.write(said)
    assert child.stdin is not None
    child.stdin.write(b"\n")
    child.stdin.close()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    watched.say_how_it_ended()
    assert (tmp_path / "log").read_text().splitlines()[:-1] == kept
    child.wait()


def test_a_pipe_is_left_to_its_reader(config: dict[str, object], tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    assert sidecar.Sidecar(config | {"pid": child.pid}).stderr is None
    child.kill()
    child.communicate()


def test_it_sees_that_a_rank_is_stopped_and_speaks_for_it(config: dict[str, object], tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    os.kill(child.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
    watched = sidecar.Sidecar(config | {"pid": child.pid})
    look = tmp_path / "looks" / look_name(1000.0)
    look.mkdir()
    watched.spoke -= 2 * sidecar.SILENT_S
    watched.take_part()
    head, row = (tmp_path / "state").read_text().splitlines()[:2]
    assert head.split() == ["PID", "STAT", "WCHAN", "COMMAND"]
    assert row.split()[:2] == [str(child.pid), "T"]
    assert (look / "rank_3.txt").read_text() == (tmp_path / "late").read_text()
    child.kill()
    child.communicate()


def test_a_rank_that_speaks_writes_its_own_stacks(config: dict[str, object], tmp_path: Path) -> None:
    watched = sidecar.Sidecar(config | {"pid": os.getpid()})
    look = tmp_path / "looks" / look_name(1000.0)
    look.mkdir()
    watched.take_part()
    assert not list(look.iterdir())
    assert (tmp_path / "state").exists()
