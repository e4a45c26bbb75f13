"""Logs and recorder dumps that processes write."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from builders.live.fake_ranks import PARENT, PYSPY, WAIT, Ranks, changed, tool

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def test_logs_are_found_by_their_descriptors_and_cut_at_their_end(ranks: Ranks, tmp_path: Path) -> None:
    (tmp_path / "train.log").write_bytes(b"step 0\n" + b"x" * 99 + b"\n" + b"step 1\n" * 100)
    (tmp_path / "data.bin").write_bytes(b"weights")
    script = (
        "import socket; files = [open('train.log', 'a'), open('data.bin', 'ab'), open('/dev/null', 'w'), socket.socket()]\n"
        + WAIT
    )
    ranks.start(3, script=script)
    stream = ranks.collect(source=changed(LOG_TAIL=750))
    files = stream.files()
    assert [path for path in files if path.startswith("rank-3/logs/")] == ["rank-3/logs/train.log"]
    assert files["rank-3/logs/train.log"] == b"step 1\n" * 100
    assert "only the end of a log" in stream.why("train.log")


def test_a_log_that_all_ranks_write_is_of_no_rank(ranks: Ranks) -> None:
    script = "log = open('all.log', 'a'); log.write('step 1\\n'); log.flush()\n" + WAIT
    for rank in (0, 1):
        ranks.start(rank, script=script)
    rows = [row for row in ranks.collect().told()["files"] if row["kind"] == "log"]
    assert [(row["path"], row["rank"]) for row in rows if "all" in row["path"]] == [("node/logs/all.log", None)]


def test_the_log_of_slurms_daemon_is_of_no_job(ranks: Ranks, tmp_path: Path) -> None:
    """What it starts has its log open, too: lines about every job of the node."""
    (tmp_path / "slurmd").symlink_to("/bin/sh")
    words = [str(tmp_path / "slurmd"), "-c", "exec 9>>daemon.log; echo ready; read _"]
    daemon = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path)
    with daemon:
        assert daemon.stdout is not None
        assert daemon.stdout.readline() == b"ready\n"
        ranks.start(0, script="files = [open('daemon.log', 'a'), open('train.log', 'a')]\n" + WAIT)
        told = ranks.collect().told()
        assert daemon.stdin is not None
        daemon.stdin.close()
    logs = [row["path"].rpartition("/")[2] for row in told["files"] if row["kind"] == "log"]
    assert "train.log" in logs
    assert "daemon.log" not in logs


def test_two_looks_tell_by_how_much_a_log_grew(ranks: Ranks, tmp_path: Path) -> None:
    """Rank 0 writes when its stack is taken, which comes behind the first sizes; rank 1 never does."""
    for rank in (0, 1):
        ranks.start(rank, script=f"log = open('{rank}.log', 'a'); log.write('step 1\\n'); log.flush()\n" + WAIT)
    log = tmp_path / "0.log"
    path = tool(tmp_path / "bin", "py-spy", [f"echo 'step 2' >> {log}", *PYSPY])
    stream = ranks.collect("--twice", "0.1", PATH=f"{path}:{os.environ['PATH']}")
    files = [row for row in stream.told()["files"] if row["kind"] == "log"]
    counts = {row["lines"] for row in files if row["path"].endswith(("/0.log", "/1.log"))}
    assert counts == {1}, "the first look saw one line of each"
    rows = {row["path"]: row.get("grown") for row in files}
    assert rows["rank-1/logs/1.log"] == 0
    assert rows["rank-0/logs/0.log"] > 0
    rows = {row["path"]: row for row in ranks.collect().told()["files"]}
    assert "grown" not in rows["rank-0/logs/0.log"], "one look tells nothing"


def test_what_a_launcher_writes_for_its_ranks_is_measured_too(ranks: Ranks) -> None:
    """With ``srun --label`` the step's daemon writes what a rank prints, and the rank itself holds a pipe."""
    env = "{**__import__('os').environ, 'RANK': '5', 'WORLD_SIZE': '8'}"
    ranks.start(None, script="log = open('train.log', 'a')\n" + PARENT.format(script=WAIT, env=env))
    rows = [row for row in ranks.collect("--twice", "0.1").told()["files"] if row["path"].endswith("train.log")]
    assert [(row["path"], row["rank"], row["grown"]) for row in rows] == [("node/logs/train.log", None, 0)]


def test_dumps_of_this_run_are_taken_and_older_ones_named(ranks: Ranks, tmp_path: Path) -> None:
    (tmp_path / "fr_0").write_bytes(b"old")
    os.utime(tmp_path / "fr_0", (1, 1))
    script = "import os\nif os.environ['RANK'] == '1': open('fr_1', 'wb').write(b'new')\n" + WAIT
    for rank in (0, 1):
        ranks.start(rank, script=script, TORCH_FR_DUMP_TEMP_FILE=str(tmp_path / "fr_"))
    stream = ranks.collect()
    assert {path: data for path, data in stream.files().items() if "/dump" in path} == {
        "rank-1/dump-2-existing_1": b"new"
    }
    assert "of another run" in stream.why("of rank 0")


def test_a_byte_in_the_pipe_brings_a_dump(ranks: Ranks, tmp_path: Path) -> None:
    prefix = str(tmp_path / "fr_")
    script = (
        "import os\nos.mkfifo('pipe_0.pipe'); pipe = os.open('pipe_0.pipe', os.O_RDWR)\nprint('ready', flush=True)\n"
        "os.read(pipe, 128)\nopen('fr_0', 'wb').write(b'triggered')\nimport sys; sys.stdin.read()\n"
    )
    ranks.start(
        0, script=script, TORCH_FR_DUMP_TEMP_FILE=prefix, TORCH_NCCL_DEBUG_INFO_PIPE_FILE=str(tmp_path / "pipe_")
    )
    assert ranks.collect().files()["rank-0/dump-1-triggered_0"] == b"triggered"


def test_a_job_that_is_left_out_is_asked_for_no_dump(ranks: Ranks, tmp_path: Path) -> None:
    pipes = []
    for port in (1, 2):
        os.mkfifo(tmp_path / f"pipe-{port}_0.pipe")
        pipes.append(os.open(tmp_path / f"pipe-{port}_0.pipe", os.O_RDWR | os.O_NONBLOCK))
        ranks.start(0, MASTER_PORT=str(port), TORCH_NCCL_DEBUG_INFO_PIPE_FILE=str(tmp_path / f"pipe-{port}_"))
    ranks.start(1, MASTER_PORT="2")
    try:
        ranks.collect()
        assert os.read(pipes[1], 9) == b"1"
        with pytest.raises(BlockingIOError):
            os.read(pipes[0], 9)
    finally:
        for pipe in pipes:
            os.close(pipe)


def test_a_pipe_that_nobody_reads_holds_nobody_up(ranks: Ranks, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe_0.pipe")
    ranks.start(0, TORCH_NCCL_DEBUG_INFO_PIPE_FILE=str(tmp_path / "pipe_"))
    assert "no rank has NCCL loaded" in ranks.collect().why("new flight recorder dumps")


def test_pipes_that_no_rank_has_made_are_told_once(ranks: Ranks, tmp_path: Path) -> None:
    """On gloo the variable alone makes no pipe."""
    for rank in range(2):
        ranks.start(rank, TORCH_NCCL_DEBUG_INFO_PIPE_FILE=str(tmp_path / "pipe_"))
    told = [gap["why"] for gap in ranks.collect().told()["missing"] if "new flight recorder" in gap["what"]]
    assert told == ["no rank has NCCL loaded, and gloo dumps on request only under nccldoctor.capture"]


def test_the_variable_of_the_pipe_is_advised_only_where_nccl_is_loaded(ranks: Ranks, tmp_path: Path) -> None:
    """Gloo reads no pipe, whatever variables are set."""
    ranks.start(0)
    on_gloo = ranks.collect().why("new flight recorder dumps")
    assert "nccldoctor.capture" in on_gloo
    assert "TORCH_NCCL" not in on_gloo
    (tmp_path / "libnccl.so.2").write_bytes(b"0" * 4096)
    maps_nccl = (
        "import mmap, os\nloaded = mmap.mmap(os.open('libnccl.so.2', os.O_RDONLY), 4096, prot=mmap.PROT_READ)\n"
        "print('ready', flush=True)\nimport sys; sys.stdin.read()\n"
    )
    ranks.start(1, script=maps_nccl)
    assert "set it with TORCH_FR_BUFFER_SIZE" in ranks.collect().why("new flight recorder dumps")
