"""What a process did between two looks: read from /proc, and passed on in the second table of processes."""

from __future__ import annotations

import os
import sys

import pytest
from builders.live.fake_ranks import Ranks

from nccldoctor.collect.on_node import proc_files
from nccldoctor.events import ProcessWork

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

STAT = "4711 (pt main) S 1 4711 4711 0 -1 4194560 9 8 0 0 {user} {kernel} {waited} {more} 20 0 9 0 100 1 1"
TEXTS = {
    "/proc/4711/stat": STAT.format(user=900, kernel=100, waited=40, more=2),
    "/proc/4711/task/4711/stat": STAT.format(user=700, kernel=50, waited=0, more=0),
    "/proc/4711/task/4711/status": "Name:\tpt main\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n",
    "/proc/4711/io": "rchar: 5000\nwchar: 70\nsyscr: 9\nsyscw: 1\nread_bytes: 4096\nwrite_bytes: 8192\n",
}
"""Files of one process as Linux 6.1 shows them; a tick is 10 ms."""


def test_work_is_that_of_the_main_thread_its_others_and_its_children(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proc_files, "proc_text", lambda path, limit=0: TEXTS.get(path, ""))
    monkeypatch.setattr(os, "sysconf", lambda name: 100)
    _, *work = proc_files.work_of(4711)
    assert dict(zip(proc_files.WORK[1:], work, strict=True)) == {
        "CPU": 7500,
        "KERNEL": 500,
        "THREADS": 2500,
        "CHILDREN": 420,
        "WAITS": 12,
        "LOST": 3,
        "READ": 5000,
        "WRITTEN": 8192,
    }
    assert proc_files.work_of(4712) == []


def test_the_columns_are_the_fields_of_the_event() -> None:
    assert [name.lower() for name in proc_files.WORK] == list(ProcessWork.__struct_fields__)


STARTS = "import subprocess, sys\nchild = subprocess.Popen(['cat'], stdin=sys.stdin)\nprint('ready', flush=True)\nchild.wait()\n"


def test_a_second_look_tells_what_each_process_did_and_names_children_of_any_program(ranks: Ranks) -> None:
    pid, _ = ranks.start(0, script=STARTS)
    files = ranks.collect("--twice", "0.1").files()
    first, second = (files[f"node/processes-{look}.txt"].decode().splitlines() for look in (1, 2))
    assert first[0].split() == ["PID", "PPID", "STAT", "WCHAN", "ELAPSED", "COMMAND"]
    cells = [dict(zip(second[0].split(), row.split(None, 14), strict=True)) for row in second[1:]]
    of_rank = next(cell for cell in cells if cell["PID"] == str(pid))
    assert all(of_rank[name].isdecimal() for name in proc_files.WORK)
    assert int(of_rank["MS"]) >= 100
    assert [cell["COMMAND"] for cell in cells if cell["PPID"] == str(pid)] == ["cat"]


HOLDS = STARTS.replace(
    "['cat']", "['sh', '-c', 'cat', 'sh', '--hub-token', 'f1rstS3cret77', 'S3condS3cret88']"
).replace("stdin=sys.stdin", "stdin=sys.stdin, env={'PATH': '/usr/bin:/bin', 'API_KEY': 'S3condS3cret88'}")


def test_secrets_of_a_child_of_any_program_stay_on_the_node(ranks: Ranks) -> None:
    ranks.start(0, script=HOLDS)
    stream = ranks.collect("--twice", "0.1")
    assert b"--hub-token" in stream.files()["node/processes-2.txt"]
    assert b"S3cret" not in stream.data
