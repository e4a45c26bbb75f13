"""Each recipe of docs/recipes.md runs: with the product, and with stand-ins for the commands of a cluster."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from builders.documents.doc_blocks import ROOT, Block, blocks

from nccldoctor.cli import demo

RECIPES = [*blocks(ROOT / "docs" / "recipes.md")]
STAND_INS = {
    "nccldoctor": f'exec "{sys.executable}" -m nccldoctor "$@"',
    "scontrol": 'case "$*" in *hostnames*) printf "gpu-a07\\ngpu-a08\\n" ;; *) cat "$HERE/job.txt" ;; esac',
    "setsid": 'exec "$@"',
    "runuser": 'shift 3; exec "$@"',
    "kubectl": 'case "$*" in "get pods"*) echo pod/train-0 ;; logs*) cat "$HERE/logs/train.log" ;; *) echo "Name: train-0" ;; esac',
    "curl": 'cat > "$HERE/posted.json"; echo "$@" > "$HERE/asked.txt"',
}


def recipe(mark: str) -> Block:
    (found,) = [block for block in RECIPES if mark in block.text]
    return found


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    demo.write("rank0-sampling", tmp_path / "logs")
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, script in STAND_INS.items():
        (programs / name).write_text(f"#!/bin/bash\n{script}\n")
        (programs / name).chmod(0o755)
    for name, value in {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "HERE": str(tmp_path),
        "WEBHOOK_URL": "https://chat.example/hook",
    }.items():
        monkeypatch.setenv(name, value)
    return tmp_path


def run(script: str, here: Path, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", script], cwd=here, env={**os.environ, **more}, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("node", "code", "is_analyzed"), [("gpu-a07", "1:0", True), ("gpu-a08", "1:0", False), ("gpu-a07", "0:0", False)]
)
def test_the_epilog_analyzes_failed_jobs_on_their_first_node(
    here: Path, node: str, code: str, is_analyzed: bool
) -> None:
    shutil.copy(here / "logs" / "train.log", here / "train-7.out")
    (here / "job.txt").write_text(f"JobId=7 JobState=COMPLETING ExitCode={code} StdOut={here}/train-7.out Power=\n")
    (here / "epilog.sh").write_text(recipe("Epilog=").text)

    # the last line leaves the analysis behind: a shell that sources the rest waits for it
    done = run(
        "source <(sed '$d' epilog.sh); wait",
        here,
        SLURM_JOB_ID="7",
        SLURM_JOB_NODELIST="gpu-a[07-08]",
        SLURM_JOB_USER="me",
        SLURMD_NODENAME=node,
    )

    assert done.returncode == 0, done.stderr
    assert (here / "epilog.sh").read_text().endswith("exit 0\n"), "else Slurm drains the node"
    assert (here / "train-7-nccldoctor.html").exists() is is_analyzed


def _containers(mark: str) -> dict[str, list[str]]:
    (pod,) = yaml.safe_load_all(recipe(mark).text)
    spec = pod["spec"].get("template", pod)["spec"]
    volumes = {volume["name"] for volume in spec["volumes"]}
    for container in spec["containers"]:
        assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
    return {container["name"]: container["command"] for container in spec["containers"]}


@pytest.mark.parametrize(("mark", "code"), [("kind: Pod", 1), ("kind: Job", 0)])
def test_the_container_writes_the_report_into_the_shared_folder(here: Path, mark: str, code: int) -> None:
    command = [word.replace("/logs", str(here / "logs")) for word in _containers(mark)["nccldoctor"]]

    done = subprocess.run(command, env=dict(os.environ), capture_output=True, text=True, check=False)

    assert done.returncode == code, done.stderr
    assert "Rank 0" in done.stdout
    assert (here / "logs" / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_logs_that_kubectl_fetches_are_analyzed(here: Path) -> None:
    done = run(recipe("kubectl get pods").text, here)

    assert "Rank 0" in done.stdout, done.stderr
    assert (here / "pods" / "train-0.log").exists()
    assert (here / "pods.html").exists()


def test_the_webhook_posts_the_ticket_without_names(here: Path) -> None:
    if shutil.which("jq") is None:
        pytest.skip("the recipe pipes through jq, which is not installed")
    done = run(f"set -euo pipefail\n{recipe('jq -Rs').text}", here)

    assert done.returncode == 0, done.stderr
    text = json.loads((here / "posted.json").read_text())["text"]
    assert "Rank 0" in text
    assert "node0" not in text
    assert len(text) <= 2000
    assert "https://chat.example/hook" in (here / "asked.txt").read_text()
