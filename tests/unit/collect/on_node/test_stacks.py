"""Stacks: which tool is run, and what becomes of a process that one has stopped."""

from __future__ import annotations

import os
import platform
import select
import shutil
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from builders.live.fake_ranks import PYSPY, SOURCE, WAIT, Ranks, changed, state, tool

from nccldoctor.collect.on_node import stack_tools, stacks
from nccldoctor.collect.on_node.process import Process
from nccldoctor.collect.on_node.process_tree import ProcessTree
from nccldoctor.collect.on_node.stacks import StackLook
from nccldoctor.collect.on_node.tar_answer import TarAnswer
from nccldoctor.words.stack_tools import PYTHON_STACKS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def test_a_stopped_process_is_seen_without_being_stopped_again(ranks: Ranks, tmp_path: Path) -> None:
    waits, stopped = ranks.start(0)[0], ranks.start(1)[0]
    ranks.stop(stopped)
    path = tool(tmp_path / "bin", "py-spy", ('echo "$@" >> asked', *PYSPY))
    source = SOURCE.replace('cwd="/"', f"cwd={str(tmp_path)!r}")
    stream = ranks.collect(source=source, PATH=f"{path}:{os.environ['PATH']}")
    assert {p["rank"]: p["state"] for p in stream.told()["processes"]} == {0: "S", 1: "T"}
    assert stream.told()["processes"][1]["wchan"] in ("do_signal_stop", "0", None)
    assert f" {stopped} --nonblocking" in (tmp_path / "asked").read_text()
    assert f" {waits} --nonblocking" not in (tmp_path / "asked").read_text()
    assert (state(stopped), state(waits)) == ("T", "S")


BLOCKED = """
import ctypes, platform, signal, sys
libc, number = ctypes.CDLL(None), {"x86_64": 56, "aarch64": 220}[platform.machine()]
if libc.syscall(number, 0x4000 | signal.SIGCHLD, 0, 0, 0, 0) == 0:
    libc.prctl(1, signal.SIGKILL)
    print("ready", flush=True)
    sys.stdin.read()
"""
"""clone with CLONE_VFORK: the kernel keeps the caller in state D until its child ends, as a file system does that hangs."""


@pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="knows no number of clone here")
def test_a_process_that_the_kernel_blocks_is_seen_without_being_stopped(ranks: Ranks, tmp_path: Path) -> None:
    blocked = ranks.start(0, script=BLOCKED)[0]
    while state(blocked) != "D":
        select.select([], [], [], 0.01)
    path = tool(tmp_path / "bin", "py-spy", ('echo "$@" >> asked', *PYSPY))
    source = SOURCE.replace('cwd="/"', f"cwd={str(tmp_path)!r}")
    stream = ranks.collect("--twice", "0.1", source=source, PATH=f"{path}:{os.environ['PATH']}")
    rank = next(process for process in stream.told()["processes"] if process["pid"] == blocked)
    assert (rank["rank"], [look["state"] for look in rank["looks"]]) == (0, ["D", "D"])
    assert f"{blocked} D ".encode() in stream.files()["rank-0/threads-1.txt"]
    assert f" {blocked} --nonblocking" in (tmp_path / "asked").read_text()
    assert "rank-0/stack-2.txt" in stream.files()
    assert state(blocked) == "D"


def test_without_any_stack_tool_the_wait_channels_remain(ranks: Ranks) -> None:
    pid, _ = ranks.start(0)
    stream = ranks.collect(source=changed(PYTHON_TOOLS=("no-such-tool",), NATIVE_TOOLS=()))
    assert stream.why("Python stacks") == "py-spy is not installed (pip install py-spy)"
    assert str(pid).encode() in stream.files()["rank-0/threads-1.txt"]
    assert str(pid).encode() in stream.files()["node/processes-1.txt"]


GDB = ('echo "$@" >> asked', "echo '#0  0x0 in wait () from /lib/libc.so'")
"""The lines of a gdb that notes which process it was asked about, and shows one frame."""


def test_gdb_touches_no_process_unless_it_is_asked_for(ranks: Ranks, tmp_path: Path) -> None:
    pid, _ = ranks.start(0)
    path = f"{tool(tmp_path / 'bin', 'gdb', GDB)}:{os.environ['PATH']}"
    source = changed(PYTHON_TOOLS=("no-such-tool",)).replace('cwd="/"', f"cwd={str(tmp_path)!r}")
    stream = ranks.collect("--twice", "0.1", source=source, PATH=path)
    assert not (tmp_path / "asked").exists()
    why = "py-spy is not installed (pip install py-spy); --gdb reads native stacks with gdb, and stops each process for seconds"
    assert [row["why"] for row in stream.told()["missing"] if "stack" in row["what"]] == [why], "once, not per process"
    stream = ranks.collect("--gdb", source=source, PATH=path)
    assert f"-p {pid} " in (tmp_path / "asked").read_text()
    assert b"in wait ()" in stream.files()["rank-0/stack-1.txt"]
    assert stream.why("Python stacks") == "py-spy is not installed (pip install py-spy)"


def test_no_tool_touches_a_process_of_another_job(ranks: Ranks, tmp_path: Path) -> None:
    small = ranks.start(0, world=1, MASTER_PORT="1")[0]
    large = [ranks.start(rank, MASTER_PORT="2")[0] for rank in range(2)]
    path = f"{tool(tmp_path / 'bin', 'py-spy', ('echo $3 >> asked', *PYSPY))}:{os.environ['PATH']}"
    source = SOURCE.replace('cwd="/"', f"cwd={str(tmp_path)!r}")
    stream = ranks.collect("--twice", "0.1", source=source, PATH=path)
    assert sorted((tmp_path / "asked").read_text().split()) == sorted(map(str, 2 * large))
    assert small in [process["pid"] for process in stream.told()["processes"]], "the other job is still told"


def test_the_job_of_the_stacks_can_be_named_and_a_survey_reads_none(ranks: Ranks, pyspy: str) -> None:
    small = ranks.start(0, world=1, MASTER_PORT="1")[0]
    large = [ranks.start(rank, MASTER_PORT="2")[0] for rank in range(2)]
    told = ranks.collect("--job", "MASTER_PORT=1 WORLD_SIZE=1", PATH=pyspy).told()
    assert [row["pid"] for row in told["files"] if row["kind"] == "stack"] == [small]
    told = ranks.collect("--survey", PATH=pyspy).told()
    assert (told["files"], sorted(row["pid"] for row in told["processes"])) == ([], sorted([small, *large]))


def test_a_process_that_stops_after_the_end_of_its_tool_goes_on(ranks: Ranks, tmp_path: Path) -> None:
    """A debugger that is ended while it attaches leaves a stop behind, which takes hold when it is gone."""
    pid, _ = ranks.start(0)
    late = "trap '(sleep 0.2; kill -STOP '$3') > /dev/null 2>&1 & exit 1' TERM"
    path = tool(tmp_path / "bin", "py-spy", (late, "while :; do sleep 0.05; done"))
    source = changed(PYTHON_TOOLS=("py-spy",), SETTLE_SECONDS=60.0, STACK_SECONDS=5.0)
    stream = ranks.collect(source=source, PATH=f"{path}:{os.environ['PATH']}")
    assert "left the process stopped; SIGCONT set it running again" in stream.why(f"rank 0 (pid {pid})")
    assert state(pid) == "S"


def test_a_refused_tool_leaves_its_words_and_advice(ranks: Ranks, tmp_path: Path) -> None:
    ranks.start(0)
    path = tool(
        tmp_path / "bin",
        "py-spy",
        ("echo 'Error: Permission Denied: Try running again with elevated permissions'", "exit 1"),
    )
    stream = ranks.collect(source=changed(PYTHON_TOOLS=("py-spy",)), PATH=f"{path}:{os.environ['PATH']}")
    assert b"Permission Denied" in stream.files()["rank-0/stack-1.txt"]
    assert "py-spy: Error: Permission Denied" in stream.why("rank 0")


def test_what_is_lacking_to_look_is_told_once_for_the_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[tuple[str, str]] = []
    monkeypatch.setattr(stacks, "why_no_stacks", lambda pid: "this program lacks SYS_PTRACE")
    look = StackLook.__new__(StackLook)
    look.answer = cast(TarAnswer, SimpleNamespace(lacks=lambda what, why: told.append((what, why))))
    look.said, look.tried = {}, {7: ["py-spy: Permission denied (os error 13)"], 8: ["py-spy: printed nothing"]}
    for pid in (7, 8):
        look._give_up(cast(Process, SimpleNamespace(pid=pid, name=f"rank {pid}")))
    assert [why for what, why in told if what == PYTHON_STACKS] == ["this program lacks SYS_PTRACE"]


def test_without_the_right_to_trace_the_kernel_refuses_and_the_rest_comes(ranks: Ranks, tmp_path: Path) -> None:
    """A real tool in a container without SYS_PTRACE."""
    if os.geteuid() != 0 or not shutil.which("setpriv") or not (shutil.which("py-spy") or shutil.which("gdb")):
        pytest.skip("needs root, setpriv, and py-spy or gdb")
    pid, _ = ranks.start(0)
    words = ("#!/bin/sh", f'exec setpriv --bounding-set=-sys_ptrace {sys.executable} "$@"')
    (tmp_path / "python").write_text("\n".join(words) + "\n")
    (tmp_path / "python").chmod(0o755)
    stream = ranks.collect("--gdb", python=str(tmp_path / "python"))
    assert stream.why("stack of rank 0").startswith("this program lacks SYS_PTRACE"), stream.told()["missing"]
    assert str(pid).encode() in stream.files()["rank-0/threads-1.txt"]
    assert state(pid) == "S"


def test_the_next_tool_is_tried(ranks: Ranks, tmp_path: Path) -> None:
    ranks.start(0)
    tool(tmp_path / "bin", "py-spy", ("exit 1",))
    path = tool(
        tmp_path / "bin",
        "pystack",
        (
            "echo 'Traceback for thread 1 (python) [] (most recent call last):'",
            "echo '    (Python) File \"/a.py\", line 3, in f'",
        ),
    )
    files = ranks.collect(PATH=f"{path}:{os.environ['PATH']}").files()
    assert b'File "/a.py"' in files["rank-0/stack-1.txt"]


def test_a_tool_that_hangs_costs_one_stack_and_leaves_no_process_stopped(ranks: Ranks, tmp_path: Path) -> None:
    hangs, fine = ranks.start(0)[0], ranks.start(1)[0]
    lines = (f'if [ "$3" = {hangs} ]; then kill -STOP $3; exec sleep 1000; fi', *PYSPY)
    path = tool(tmp_path / "bin", "py-spy", lines)
    source = changed(PYTHON_TOOLS=("py-spy",), STACK_SECONDS=5.0)
    stream = ranks.collect(source=source, PATH=f"{path}:{os.environ['PATH']}")
    assert b"wait_for_peer" in stream.files()["rank-1/stack-1.txt"]
    assert "did not answer in time" in stream.why(f"rank 0 (pid {hangs})")
    assert "SIGCONT" in stream.why(f"rank 0 (pid {hangs})")
    assert (state(hangs), state(fine)) == ("S", "S")


def test_a_tool_that_others_can_write_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tool(tmp_path / "bin", "py-spy", PYSPY) / "py-spy"
    monkeypatch.setenv("PATH", str(script.parent))
    assert stack_tools.find_tool("py-spy", ()) == str(script)
    script.chmod(0o777)
    assert stack_tools.find_tool("py-spy", ()) != str(script)
    assert stack_tools.why_no_python_stacks((), ()).startswith(
        f"{script} was not run, because another user could replace it"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only what root runs is looked at so closely")
@pytest.mark.parametrize(("folder", "mode", "owner"), [("a", 0o755, 65534), ("a", 0o775, 0), ("a/b", 0o777, 0)])
def test_root_runs_no_tool_that_another_user_could_replace(
    monkeypatch: pytest.MonkeyPatch, folder: str, mode: int, owner: int
) -> None:
    with tempfile.TemporaryDirectory() as top:
        script = tool(Path(top, "a", "b"), "py-spy", PYSPY) / "py-spy"
        monkeypatch.setenv("PATH", str(script.parent))
        assert stack_tools.find_tool("py-spy", ()) == str(script)
        Path(top, folder).chmod(mode)
        os.chown(Path(top, folder), owner, 0)
        assert stack_tools.find_tool("py-spy", ()) != str(script)


def test_stacks_leave_time_for_what_comes_behind_them() -> None:
    answer = TarAnswer(None, 0, 1000.0)
    tree = ProcessTree.__new__(ProcessTree)
    tree.ranks = tree.workers = []
    assert answer.until - StackLook(answer, tree, 1, ()).until > 300


def test_a_log_for_which_no_time_is_left_says_so(ranks: Ranks, tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text("step 1\n")
    ranks.start(0, script="log = open('train.log', 'a')\n" + WAIT)
    assert ranks.collect("--seconds", "0").why("train.log") == "no time left (--seconds)"
