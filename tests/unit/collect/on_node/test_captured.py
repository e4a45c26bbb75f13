"""What capture has left of a rank comes with the rank, wherever its folder is."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path

import pytest
from builders.live.fake_ranks import SOURCE, WAIT, Ranks

from nccldoctor.collect.on_node.evidence import captured
from nccldoctor.collect.on_node.process import CaptureFolder

LOOK = "20260111T100500Z"

CAPTURED = """
import json, os, subprocess, sys
told = {{"log": {top!r} + "/{stem}.log", "stem": "{stem}", "pid": os.getpid()}}
words = [sys.executable, "-I", "-S", {sidecar!r}, json.dumps(told)]
beside = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={{}})
beside.stdout.readline()
print(beside.pid, flush=True)
sys.stdin.read()
"""
"""A rank with a sidecar, which says by its command line where it writes; no variable does."""


def script(folder: Path, stem: str = "rank_3") -> str:
    sidecar = folder / "nccldoctor" / "capture" / "sidecar.py"
    sidecar.parent.mkdir(parents=True)
    sidecar.write_text("import sys\nprint('here', flush=True)\nsys.stdin.read()\n")
    return CAPTURED.format(top=str(folder / "run"), stem=stem, sidecar=str(sidecar))


def leave_files(top: Path, stem: str = "rank_3") -> None:
    for name in (f"{stem}.log", f"processes/{stem}.txt", "dumps/fr_trace_3", f"stacks/{LOOK}/{stem}.txt", "rank_4.log"):
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(name)


def test_the_sidecar_says_where_the_files_are(ranks: Ranks, tmp_path: Path) -> None:
    leave_files(tmp_path / "run")
    _, beside = ranks.start(3, world=4, script=script(tmp_path))
    stream = ranks.collect()
    rows = {row["path"]: row for row in stream.told()["files"] if "/capture/" in row["path"]}
    assert {path: (row["kind"], row["rank"]) for path, row in rows.items()} == {
        "rank-3/capture/rank_3.log": ("log", 3),
        "rank-3/capture/processes/rank_3.txt": ("processes", 3),
        "rank-3/capture/dumps/fr_trace_3": ("dump", 3),
        f"rank-3/capture/stacks/{LOOK}/rank_3.txt": ("stack", 3),
    }
    assert rows[f"rank-3/capture/stacks/{LOOK}/rank_3.txt"]["time"] == "2026-01-11T10:05:00+00:00"
    assert stream.files()["rank-3/capture/rank_3.log"] == b"rank_3.log"
    assert int(beside) not in {process["pid"] for process in stream.told()["processes"]}, "a sidecar is no worker"


def test_a_rank_that_no_variable_names_is_known_by_its_sidecar(ranks: Ranks, tmp_path: Path) -> None:
    leave_files(tmp_path / "run")
    pid, _ = ranks.start(None, script=script(tmp_path))
    stream = ranks.collect("--pid", str(pid))
    assert [(process["pid"], process["rank"]) for process in stream.told()["processes"]] == [(pid, 3)]
    assert "rank-3/capture/rank_3.log" in stream.files()


def test_a_captured_rank_without_an_open_pipe_is_asked_for_no_setting(ranks: Ranks, tmp_path: Path) -> None:
    """Capture sets the variable inside the process, where nobody sees it; on gloo no pipe is opened."""
    leave_files(tmp_path / "run")
    ranks.start(3, world=4, script=script(tmp_path))
    assert "capture" in ranks.collect().why("new flight recorder dumps")


def test_a_folder_that_went_away_is_told(ranks: Ranks, tmp_path: Path) -> None:
    ranks.start(3, world=4, script=script(tmp_path))
    assert ranks.collect().why("the capture of rank 3") == "it cannot be read"


def test_a_folder_that_hangs_costs_itself_alone(ranks: Ranks, tmp_path: Path) -> None:
    hangs = SOURCE
    for now, then in (
        ("    stem = capture.stem\n", "    time.sleep(1000)\n    stem = capture.stem\n"),
        ("reader(read, min(READ_SECONDS, answer.seconds_left), 2 * MOST", "reader(read, 0.5, 2 * MOST"),
    ):
        assert now in hangs
        hangs = hangs.replace(now, then)
    leave_files(tmp_path / "run")
    for rank in (2, 3):
        (tmp_path / str(rank)).mkdir()
        program = script(tmp_path / str(rank), f"rank_{rank}").replace(f"{tmp_path}/{rank}/run", f"{tmp_path}/run")
        ranks.start(rank, world=4, script=program)
    stream = ranks.collect(source=hangs)
    why = "its file system did not answer in time"
    assert stream.why("the capture of rank 2") == stream.why("the capture of rank 3") == why
    assert {"rank-2/threads-1.txt", "rank-3/environment.txt", "node/machine.txt"} <= stream.files().keys()


@pytest.mark.parametrize(
    "told",
    [
        {"log": "/run/rank_3.log", "stem": "../rank_3"},
        {"log": "/run/../etc/rank_3.log", "stem": "rank_3"},
        {"log": "run/rank_3.log", "stem": "rank_3"},
        {"log": "/etc/shadow", "stem": "rank_3"},
        {"log": ["/run/rank_3.log"], "stem": "rank_3"},
        {"log": "/run/rank_3.log", "stem": "rank_3", "pid": None},
        ["rank_3"],
    ],
)
def test_a_sidecar_can_lead_nowhere_else(told: object) -> None:
    told = {"pid": 4711, **told} if isinstance(told, dict) else told
    words = ["python", "/site-packages/nccldoctor/capture/sidecar.py", json.dumps(told)]
    assert CaptureFolder.told_by(words) is None
    assert (
        CaptureFolder.told_by(["python", "sidecar.py", '{"log": "/run/rank_3.log", "stem": "rank_3", "pid": 4711}'])
        is None
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to start a process of another user")
def test_files_that_the_user_of_the_rank_cannot_read_are_left() -> None:
    """A process may say that its files are anywhere, and the collector of root could read them."""
    with tempfile.TemporaryDirectory() as top:  # no folder above it is closed to others
        Path(top).chmod(0o755)
        leave_files(Path(top))
        (Path(top) / "processes" / "rank_3.txt").chmod(0o600)
        other = subprocess.Popen(["sleep", "1000"], user=65534, group=65534, extra_groups=[])
        written: list[bytes] = []
        try:
            captured._read_captured(other.pid, CaptureFolder(top, "rank_3", other.pid), written.append)
        finally:
            other.kill()
            other.wait()
    names = [row["name"] for row, _ in captured._told_files(b"".join(written))]
    assert names == ["rank_3.log", "dumps/fr_trace_3", f"stacks/{LOOK}/rank_3.txt"]


def test_a_pipe_that_the_program_named_after_its_start_is_found(ranks: Ranks, tmp_path: Path) -> None:
    reads_pipe = (
        "import os\nos.mkfifo('own_0.pipe'); pipe = os.open('own_0.pipe', os.O_RDWR)\nprint('ready', flush=True)\n"
        "os.read(pipe, 128)\nopen('fr_0', 'wb').write(b'triggered')\nimport sys; sys.stdin.read()\n"
    )
    ranks.start(0, script=reads_pipe, TORCH_FR_DUMP_TEMP_FILE=str(tmp_path / "fr_"))
    ranks.start(1, script=WAIT)
    stream = ranks.collect()
    assert stream.files()["rank-0/dump-1-triggered_0"] == b"triggered"
    assert stream.why("new flight recorder dump") == "", "rank 1 has no pipe, which is told only where no rank has one"
