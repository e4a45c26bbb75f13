"""``nccldoctor collect`` against shims of ``srun``, ``kubectl`` and ``ssh`` that run on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard
from builders.live import shims
from click.testing import CliRunner, Result

from nccldoctor.cli.app import cli
from nccldoctor.collect import gather
from nccldoctor.collect.one_file import collector_source


def run(*args: object) -> Result:
    return CliRunner().invoke(cli, [str(a) for a in args], prog_name="nccldoctor")


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> shims.Cluster:
    return shims.Cluster(tmp_path / "bin", monkeypatch)


@pytest.fixture
def small_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    """A collector that sends one log at once, in place of the real one."""
    monkeypatch.setattr(gather, "collector_source", lambda: shims.COLLECTOR)


def manifest(bundle: Path) -> dict[str, Any]:
    with zstandard.open(bundle, "rb") as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            if member.name == "manifest.json":
                file = archive.extractfile(member)
                assert file is not None
                return dict(json.loads(file.read()))
    raise AssertionError("no manifest")


@pytest.mark.usefixtures("small_collector")
@pytest.mark.parametrize("way", ["slurm", "k8s", "ssh"])
def test_every_way_brings_every_node(way: str, cluster: shims.Cluster, tmp_path: Path) -> None:
    nodes = ["gpu-a01", "gpu-a02", "gpu-a03"]
    cluster.answers("squeue", "4711|4711|RUNNING|gpu-a[01-03]\n")
    cluster.answers("scontrol", "\n".join(nodes))
    cluster.has_pods(dict.fromkeys(nodes, "Running"))
    (tmp_path / "hosts.txt").write_text("\n".join(nodes))
    reach = {
        "slurm": ["--slurm", 4711],
        "k8s": ["--k8s", "-l", "job-name=train"],
        "ssh": ["--ssh", tmp_path / "hosts.txt"],
    }
    bundle = tmp_path / "b.tar.zst"
    result = run("collect", *reach[way], "--where", "RANK=0", "-o", bundle)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("3 of 3 nodes answered: 1 rank, 3 files (rank 0).")
    assert f"next: nccldoctor analyze {bundle}" in result.stdout
    told = manifest(bundle)
    assert [node["name"] for node in told["nodes"]] == nodes
    assert {row["path"] for row in told["files"]} == {f"nodes/{node}/rank-0/train.log" for node in nodes}


@pytest.mark.usefixtures("small_collector")
def test_one_silent_and_one_babbling_host_cost_themselves_alone(cluster: shims.Cluster, tmp_path: Path) -> None:
    (tmp_path / "hosts.txt").write_text("n1\nn2\nn3\nn4\n")
    cluster.misbehave("n2", shims.REFUSED)
    cluster.misbehave("n3", shims.GARBAGE)
    cluster.misbehave("n4", shims.CUT)
    bundle = tmp_path / "b.tar.zst"
    result = run("collect", "--ssh", tmp_path / "hosts.txt", "-o", bundle)
    assert result.exit_code == 3
    assert "2 of 4 nodes answered" in result.stdout
    assert "n2: the host is down, or accepts no ssh" in result.stdout
    assert "n3: " in result.stdout and "n4: its answer ends early" in result.stdout
    assert {node["name"]: node["answered"] for node in manifest(bundle)["nodes"]} == {
        "n1": True, "n2": False, "n3": False, "n4": True,
    }  # fmt: skip


@pytest.mark.usefixtures("small_collector")
def test_no_answer_at_all_is_two(cluster: shims.Cluster, tmp_path: Path) -> None:
    (tmp_path / "hosts.txt").write_text("n1\n")
    cluster.misbehave("n1", shims.REFUSED)
    result = run("collect", "--ssh", tmp_path / "hosts.txt", "-o", tmp_path / "b.tar.zst")
    assert result.exit_code == 2
    assert "0 of 1 node answered." in result.stdout
    assert "next:" not in result.stdout and not (tmp_path / "b.tar.zst").exists()


@pytest.mark.usefixtures("small_collector")
def test_python_by_another_name(cluster: shims.Cluster, tmp_path: Path) -> None:
    cluster.answers("squeue", "7|7|RUNNING|n1\n")
    cluster.answers("scontrol", "n1\n")
    refused = run("collect", "--slurm", 7, "--python", "python9", "-o", tmp_path / "b.tar.zst")
    assert refused.exit_code == 2
    assert "no Python there under this name: give its path by --python" in refused.stdout
    accepted = run("collect", "--slurm", 7, "--python", sys.executable, "-o", tmp_path / "b2.tar.zst")
    assert accepted.exit_code == 0


def test_print_runs_nothing(cluster: shims.Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    for reach in (["--slurm", 4711], ["--k8s", "-l", "job-name=train", "-n", "ml"], ["--local"]):
        shown = run("collect", *reach, "--twice", 10, "--print")
        assert shown.exit_code == 0
        assert "python3 -I - --pid all --twice 10 --seconds 90 --limit-mb 512" in shown.stdout or "--local" in reach
        assert "py-spy dump --pid PID" in shown.stdout
    assert not cluster.asked()
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "choose how to reach the job"),
        (["--local", "--slurm", "1"], "--pid or --local and --slurm exclude each other"),
        (["--slurm", "1", "-l", "a=b"], "-l, -n and -c belong to --k8s"),
        (["--k8s"], "--k8s needs the label"),
        (["--pid", "1;2"], "--pid takes all, or process ids"),
        (["--pid", "all", "--where", "evil"], "--where takes NAME=VALUE"),
        (["--ssh", "missing.txt"], "No such file"),
        (["--local", "-o", "bundle.zip"], "isn't named like a bundle"),
        (["--local", "-o", "live.html"], "a report is written by live --report live.html"),
        (["--local", "-o", "missing/b.tar.zst"], "the folder missing does not exist"),
    ],
)
def test_what_does_not_fit_is_two_and_says_why(words: list[str], says: str) -> None:
    result = run("collect", *words)
    assert result.exit_code == 2
    assert says in result.stderr


def test_a_bundle_is_not_replaced_unasked(tmp_path: Path) -> None:
    (tmp_path / "b.tar.zst").write_text("mine")
    result = run("collect", "--local", "-o", tmp_path / "b.tar.zst")
    assert result.exit_code == 2
    assert (tmp_path / "b.tar.zst").read_text() == "mine"


def test_a_machine_without_a_rank_is_three(tmp_path: Path) -> None:
    result = run("collect", "--local", "--where", f"NCCLDOCTOR_TEST={tmp_path}", "-o", tmp_path / "b.tar.zst")
    assert result.exit_code == 3
    assert "and no rank." in result.stdout
    assert "no Python process has RANK and WORLD_SIZE" in result.stdout


@pytest.fixture
def rank(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that says that it is rank 3, and waits for its standard input."""
    env = {**os.environ, "RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "3", "NCCLDOCTOR_TEST": str(tmp_path)}
    with (tmp_path / "rank_3.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", "import sys; print('step 12', flush=True); sys.stdin.read()"],
            env=env, stdin=subprocess.PIPE, stdout=log,
        )  # fmt: skip
        yield process
        process.communicate()


def test_the_real_collector_finds_a_rank_of_this_machine(rank: subprocess.Popen[bytes], tmp_path: Path) -> None:
    bundle = tmp_path / "b.tar.zst"
    result = run("collect", "--local", "--where", f"NCCLDOCTOR_TEST={tmp_path}", "-o", bundle)
    assert result.exit_code == 0, result.output
    told = manifest(bundle)
    assert told["nodes"][0]["ranks"] == [3]
    assert {row["pid"] for row in told["files"] if row.get("rank") == 3} == {rank.pid}
    assert rank.poll() is None


FULL = """
import resource, sys
from nccldoctor.cli.app import cli
resource.setrlimit(resource.RLIMIT_FSIZE, (1024, resource.RLIM_INFINITY))
cli(sys.argv[1:])
"""


def test_a_full_disk_is_told_and_leaves_nothing(rank: subprocess.Popen[bytes], tmp_path: Path) -> None:
    """Files that may not grow fail as those of a full disk do, with another number."""
    words = ["collect", "--pid", str(rank.pid), "-o", str(tmp_path / "b.tar.zst")]
    done = subprocess.run([sys.executable, "-c", FULL, *words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert f"error: cannot write {tmp_path / 'b.tar.zst'}" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rank_3.log"]
    assert rank.poll() is None


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a file system")
def test_a_read_only_file_system_is_told(rank: subprocess.Popen[bytes], tmp_path: Path) -> None:
    script = f"mount -t tmpfs -o ro none {tmp_path}/ro && exec {sys.executable} -m nccldoctor collect --pid {rank.pid}"
    (tmp_path / "ro").mkdir()
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", f"{script} -o {tmp_path}/ro/b.tar.zst"], capture_output=True, text=True
    )
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip("no mount is allowed here")
    assert done.returncode == 2, done.stderr
    assert "cannot write" in done.stderr and "Read-only file system" in done.stderr


def test_the_collector_can_be_printed_for_other_machines() -> None:
    result = run("collect", "--print-collector")
    assert result.exit_code == 0
    assert result.stdout == collector_source()


def test_the_plan_begins_with_the_command_that_writes_its_file() -> None:
    lines = run("collect", "--local", "--print").stdout.splitlines()
    assert lines[1] == "nccldoctor collect --print-collector > on_node.py"
    assert lines[2].endswith(" < on_node.py")
