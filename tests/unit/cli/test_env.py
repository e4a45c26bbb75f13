"""``nccldoctor env``: what to set next time, and what is the matter with what is set."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from builders.files import dumps
from click.testing import CliRunner, Result

from nccldoctor.cli.app import cli


def run(*words: object) -> Result:
    return CliRunner().invoke(cli, ["env", *map(str, words)])


def exported(script: str, folder: Path) -> dict[str, str]:
    """What a shell holds after it ran the script."""
    env = {"PATH": os.environ["PATH"], "LOG_DIR": str(folder / "log dir"), "NCCL_BLOCKING_WAIT": "1"}
    done = subprocess.run(["bash", "-euc", f"{script}\nenv -0"], env=env, capture_output=True, check=True, cwd=folder)
    return dict(part.split("=", 1) for part in done.stdout.decode().split("\0") if "=" in part)


@pytest.mark.parametrize("form", ["shell", "slurm"])
@pytest.mark.parametrize(("torch", "new", "old"), [("2.7.1", False, True), ("2.9.1", True, True), (None, True, True)])
def test_the_exports_take_effect_in_a_shell(tmp_path, form, torch, new, old):
    result = run("--format", form, *(["--torch", torch] if torch else []))
    assert result.exit_code == 0
    held = exported(result.stdout, tmp_path)
    assert ("TORCH_FR_BUFFER_SIZE" in held) is new
    assert ("TORCH_NCCL_TRACE_BUFFER_SIZE" in held) is old
    assert held["TORCH_NCCL_DUMP_ON_TIMEOUT"] == "1"
    assert held["TORCH_NCCL_DEBUG_INFO_TEMP_FILE"] == f"{tmp_path}/log dir/nccl_trace_rank_"
    assert "NCCL_BLOCKING_WAIT" not in held, "it would turn the recorder's dumps off"
    assert (tmp_path / "log dir").is_dir()


def test_a_pod_refers_to_the_variable_above():
    lines = run("show", "--format", "kubernetes", "--torch", "2.13").stdout.splitlines()
    names = [line.split(": ")[1] for line in lines if line.strip().startswith("- name")]
    assert names[0] == "LOG_DIR"
    assert len(names) == len(set(names))
    assert any(line.strip().startswith('value: "$(LOG_DIR)/nccl_trace_rank_"') for line in lines)
    assert not any("export" in line for line in lines)


def test_a_release_without_recorder_is_told_so():
    text = run("--torch", "2.1.0").stdout
    assert "no flight recorder" in text
    assert "BUFFER_SIZE" not in text


def test_what_is_no_version_is_refused():
    assert run("--torch", "newest").exit_code == 2


def test_the_ring_is_sized_by_the_run(tmp_path):
    for rank in range(2):
        made = [dumps.entry(i, time_created_ns=1_780_000_000_000_000_000 + i * 10_000_000) for i in range(1, 601)]
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(dumps.dump(*made))
    text = run(tmp_path).stdout
    assert "100.0 calls per second" in text
    assert "export TORCH_FR_BUFFER_SIZE=12000" in text
    assert "12000 calls of each rank: 2 min of this run at 100.0 calls per second" in text


def test_a_ring_of_the_default_size_names_the_time_that_it_holds(tmp_path):
    made = [dumps.entry(i, time_created_ns=1_780_000_000_000_000_000 + i * 250_000_000) for i in range(1, 101)]
    (tmp_path / "nccl_trace_rank_0").write_bytes(dumps.dump(*made))
    assert "2000 calls of each rank: 8 min 20 s of this run at 4.0 calls per second" in run(tmp_path).stdout


GLOO = "[rank{rank}]: RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 5000ms for recv"


@pytest.mark.parametrize("form", ["shell", "slurm", "kubernetes"])
def test_a_run_on_gloo_alone_is_recorded_by_our_capture(tmp_path, form):
    for rank in range(2):
        (tmp_path / f"rank_{rank}.log").write_text(f"{GLOO.format(rank=rank)} operation to complete\n")
    text = run(tmp_path, "--format", form).stdout
    assert "-m nccldoctor.capture" in text and "TORCH_DISTRIBUTED_DEBUG" in text
    assert "NCCL_" not in text, "gloo reads none of them"
    (tmp_path / "node.log").write_text("node1:7:7 [0] NCCL INFO NCCL version 2.29.7+cuda13.2\n")
    assert "TORCH_NCCL_DUMP_ON_TIMEOUT" in run(tmp_path, "--format", form).stdout


LAUNCH = """#!/bin/bash
#SBATCH --nodes=2
export NCCL_TIMEOUT=1200000
export TORCH_NCCL_BLOCKING_WAIT=1
export TORCH_NCCL_TRACE_BUFFER_SIZE=2000
export NCCL_IB_TIMEOUT=3600
export NCCL_SOCKET_IFNAMES=eth0
export NCCL_DEBUG=INFO
export GLOO_SOCKET_IFNAM=eth0
export NCCL_ASYNC_ERROR_HANDLING=1
export NCLL_IB_HCA=mlx5
export NCCL_IB_HCA2=mlx5
export NCCL_ACME_TUNER=1
export TORCH_NCCL_ENABLE_MONITORING=false
export TORCH_NCCL_DUMP_ON_TIMEOUT=0
export NCCL_IB_RETRY_CNT=7
srun python train.py
"""
TRAIN = """import torch.distributed as dist
from datetime import timedelta
dist.distributed_c10d._DEFAULT_PG_TIMEOUT = timedelta(minutes=30)
dist.init_process_group("nccl", timeout=timedelta(seconds=3600))
"""


@pytest.fixture
def judged(tmp_path) -> dict[str, dict]:
    (tmp_path / "launch.sbatch").write_text(LAUNCH)
    (tmp_path / "train.py").write_text(TRAIN)
    result = run("check", tmp_path / "launch.sbatch", tmp_path / "train.py", "--format", "json")
    assert result.exit_code == 1, "there is something to fix"
    return {row["name"]: row for row in json.loads(result.stdout)["settings"]}


@pytest.mark.parametrize(
    ("name", "verdict", "word"),
    [
        ("NCCL_TIMEOUT", "fix", "no effect"),
        ("TORCH_NCCL_BLOCKING_WAIT", "fix", "watchdog"),
        ("TORCH_NCCL_TRACE_BUFFER_SIZE", "fix", "turns the watchdog off"),
        ("NCCL_IB_TIMEOUT", "fix", "exponent"),
        ("NCCL_SOCKET_IFNAMES", "fix", "NCCL_SOCKET_IFNAME keeps its default"),
        ("GLOO_SOCKET_IFNAM", "fix", "GLOO_SOCKET_IFNAME keeps its default"),
        ("NCLL_IB_HCA", "fix", "NCCL_IB_HCA keeps its default"),
        ("NCCL_IB_HCA2", "note", "NCCL_IB_HCA"),
        ("NCCL_ACME_TUNER", "note", "a plugin or your program may read it"),
        ("TORCH_NCCL_ENABLE_MONITORING", "fix", "hangs forever"),
        ("TORCH_NCCL_DUMP_ON_TIMEOUT", "fix", "no flight recorder dump"),
        ("NCCL_IB_RETRY_CNT", "fine", ""),
        ("NCCL_DEBUG", "fine", "logs"),
        ("NCCL_ASYNC_ERROR_HANDLING", "fix", "watchdog"),
    ],
)
def test_each_variable_is_judged(judged, name, verdict, word):
    assert judged[name]["verdict"] == verdict
    assert any(word in says for says in judged[name]["says"]), judged[name]["says"]
    assert judged[name]["place"].rpartition("/")[2].startswith("launch.sbatch:")


def test_timeouts_in_code_are_judged(judged):
    code = [name for name in judged if "TIMEOUT" in name.upper() and judged[name]["place"].startswith("train.py")]
    assert any("_DEFAULT_PG_TIMEOUT" in name for name in code), sorted(judged)


def test_an_unknown_name_is_never_called_useless(judged):
    assert not any(
        "no effect" in says for name in ("NCCL_SOCKET_IFNAMES", "NCCL_ACME_TUNER") for says in judged[name]["says"]
    )


def test_a_version_given_is_judged_by(tmp_path):
    (tmp_path / "env.txt").write_text("PATH=/bin\nTORCH_FR_BUFFER_SIZE=2000\nHOME=/home/me\n")
    old = json.loads(run("check", tmp_path / "env.txt", "--torch", "2.5.1", "--format", "json").stdout)["settings"]
    assert [(row["name"], row["verdict"]) for row in old] == [("TORCH_FR_BUFFER_SIZE", "fix")]
    assert "2.8" in old[0]["says"][0]
    new = run("check", tmp_path / "env.txt", "--torch", "2.9.1")
    assert (new.exit_code, new.stdout.split()[0]) == (0, "fine")


def test_no_setting_is_said_and_is_no_error(tmp_path):
    (tmp_path / "readme.txt").write_text("Nothing to set here.\n")
    result = run("check", tmp_path / "readme.txt")
    assert result.exit_code == 0
    assert "no NCCL_*" in result.stdout


GOOD = {
    "jobs/run.sh": "#!/bin/bash\nset -e\nexport NCCL_DEBUG=INFO NCCL_HOME=/opt/nccl TORCH_HOME=/models\n",
    "Dockerfile": "FROM base\nENV NCCL_VERSION=2.27 TORCH_VERSION=2.9.1\nRUN make\n",
    "k8s/ci.yaml": "on: push\njobs: {build: {timeout-minutes: 10}}\n",
    "k8s/empty.yml": "",
    "bin/tool.sh": "\x00\x01\ufffd\x7f" * 400,
    "old.sh": "export TORCH_NCCL_TRACE_BUFFER_SIZE=2000\n",
}
BAD = {
    "jobs/train.sbatch": ("#!/bin/bash\nexport TORCH_NCCL_BLOCKING_WAIT=1\n", 2, "TORCH_NCCL_BLOCKING_WAIT=1"),
    "docker/Dockerfile.gpu": ("FROM base\nRUN true\nENV A=b NCCL_TIMEOUT=100\n", 3, "NCCL_TIMEOUT=100"),
    ".env": ("NCCL_SOCKET_IFNAMES=eth0\n", 1, "NCCL_SOCKET_IFNAMES=eth0"),
    "k8s/pod.yml": ("env:\n- name: NCCL_TIMEOUT\n  value: '100'\n", 2, "NCCL_TIMEOUT=100"),
}
ROOT = Path(__file__).resolve().parents[3]


def test_the_hook_of_pre_commit_fails_on_what_needs_a_fix_alone(tmp_path, monkeypatch):
    """As pre-commit runs it: the words of ``entry`` and the paths that ``files`` lets through, seen from the repository."""
    yaml = pytest.importorskip("yaml")
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert (hook["id"], hook["language"]) == ("nccldoctor-env", "python")
    name, *words = hook["entry"].split()
    assert (name, words[0]) == ("nccldoctor", "env")
    monkeypatch.chdir(tmp_path)
    for path, text in [*GOOD.items(), *((path, text) for path, (text, _, _) in BAD.items())]:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text)
    assert all(re.search(hook["files"], path) for path in (*GOOD, *BAD))
    assert not any(re.search(hook["files"], path) for path in ("train.py", "README.md", "environment.txt", "a.sh.log"))
    fine = run(*words[1:], *GOOD)
    assert (fine.exit_code, fine.output) == (0, "")
    found = run(*words[1:], *GOOD, *BAD)
    assert found.exit_code == 1
    told = found.output.splitlines()
    assert len(told) == len(BAD), "old.sh is of another job than the one that turns the watchdog off"
    for said, (path, (_, number, setting)) in zip(told, BAD.items(), strict=True):
        assert said.startswith(f"{path}:{number}: {setting}: ")


def test_a_missing_file_is_a_usage_error(tmp_path):
    assert run("check", tmp_path / "nowhere.sh").exit_code == 2


def test_hostile_text_does_not_reach_the_terminal(tmp_path):
    (tmp_path / "a.sh").write_text("export NCCL_DEBUG=\x1b[2J\x1b]0;x\x07\n")
    assert "\x1b" not in run("check", tmp_path / "a.sh").stdout


def test_ranks_that_differ_are_told_by_their_files(tmp_path):
    for rank in range(4):
        line = f"node0:40:41 [{rank}] NCCL INFO NCCL_ALGO set by environment to {'Ring' if rank == 2 else 'Tree'}\n"
        (tmp_path / f"rank_{rank}.log").write_text(line)
    rows = json.loads(run("check", tmp_path, "--format", "json").stdout)["settings"]
    told = [says for row in rows for says in row["says"] if "must be equal" in says]
    assert told == ["must be equal on all ranks, but is Ring on rank 2 and Tree on ranks 0-1, 3"]
