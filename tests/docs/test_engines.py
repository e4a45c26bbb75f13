"""The recipes of docs/large-jobs.md for engines run, with processes of this machine as the engine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
import yaml
from builders.documents.doc_blocks import ROOT, Block, blocks

import nccldoctor as nd
from nccldoctor.cli import demo

RECIPES = [*blocks(ROOT / "docs" / "large-jobs.md")]


def recipe(mark: str) -> Block:
    (found,) = [block for block in RECIPES if mark in block.text]
    return found


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    demo.write("died", tmp_path / "logs")
    (tmp_path / "parts").mkdir()
    program = tmp_path / "bin" / "nccldoctor"
    program.parent.mkdir()
    program.write_text(f'#!/bin/bash\nexec "{sys.executable}" -m nccldoctor "$@"\n')
    program.chmod(0o755)
    return tmp_path / "logs"


def run_each(command: Sequence[str], variable: str, logs: Path, **more: str) -> None:
    """One process for each folder of the logs, as an array of jobs runs them."""
    environment = os.environ | {"PATH": f"{logs.parent / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)} | more

    def run(index: int) -> subprocess.CompletedProcess[str]:
        own = environment | {variable: str(index)}
        return subprocess.run(command, env=own, capture_output=True, text=True, check=False)

    folders = sum(path.is_dir() for path in logs.iterdir())
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(run, range(folders)))
    assert [one.returncode for one in done] == [0] * folders, done[0].stderr


def verdict_of_parts(parts: Path) -> tuple[str, str]:
    verdict = nd.merge(sorted(parts.glob("*.nd"))).verdict
    return verdict.headline, verdict.confidence.value


def verdict_of_all(logs: Path) -> tuple[str, str]:
    verdict = nd.analyze(logs).verdict
    return verdict.headline, verdict.confidence.value


def test_a_slurm_array_reduces_and_merges(logs: Path) -> None:
    script = logs.parent / "reduce.sbatch"
    script.write_text(recipe("#SBATCH").text)
    parts = logs.parent / "parts"
    run_each(["bash", str(script)], "SLURM_ARRAY_TASK_ID", logs, LOGS=str(logs), PARTS=str(parts))

    assert sorted(path.name for path in parts.iterdir()) == ["dumps.nd", "node0.nd", "node1.nd", "stacks.nd"]
    assert verdict_of_parts(parts) == verdict_of_all(logs)


def test_an_indexed_job_of_kubernetes_reduces_and_merges(logs: Path) -> None:
    (job,) = yaml.safe_load_all(recipe("completionMode: Indexed").text)
    spec = job["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    volumes = {volume["name"] for volume in spec["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes
    here = str(logs.parent)
    command = [
        word.replace("/logs", f"{here}/logs").replace("/parts", f"{here}/parts") for word in container["command"]
    ]
    run_each(command, "JOB_COMPLETION_INDEX", logs)

    assert verdict_of_parts(logs.parent / "parts") == verdict_of_all(logs)


def _call(packed: bytes, items: Sequence[Any]) -> list[Any]:
    import cloudpickle

    return list(cloudpickle.loads(packed)(iter(items)))


class Session:
    """As much of a Spark context as the recipe asks for: functions travel by cloudpickle, partitions are processes."""

    def __init__(self, items: Iterable[Any] = (), count: int = 1) -> None:
        self._shares = [list(items)[n::count] for n in range(count)]
        self._packed = b""

    def parallelize(self, items: Iterable[Any], count: int) -> Session:
        return Session(list(items), count)

    def mapPartitions(self, function: Callable[..., Any]) -> Session:  # noqa: N802 - Spark's name
        self._packed = pytest.importorskip("cloudpickle").dumps(function)
        return self

    def collect(self) -> list[Any]:
        with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as engine:
            found = engine.map(_call, [self._packed] * len(self._shares), self._shares)
        return [one for share in found for one in share]


def test_spark_reduces_and_merges(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = recipe("mapPartitions").text.replace("/shared/logs", str(logs))
    known: dict[str, Any] = {"sc": Session(), "__name__": "__main__"}
    exec(compile(text, "the recipe", "exec"), known)

    assert capsys.readouterr().out.strip() == nd.analyze(logs).verdict.headline
    assert nd.merge(known["parts"]).to_json() == nd.analyze(logs).to_json()
