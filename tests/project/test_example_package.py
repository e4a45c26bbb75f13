"""The package in docs/examples is installed without a network, and the command uses its parser, rule and remedy."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from builders.logs.lines import watchdog

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "docs" / "examples" / "nccldoctor-site"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the example installed: its wheel, built offline and unpacked."""
    work = tmp_path_factory.mktemp("example")
    shutil.copytree(EXAMPLE, work / "source", ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
    code = "import setuptools.build_meta as backend; print(backend.build_wheel('..'))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=work / "source", capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(next(work.glob("*.whl"))) as wheel:
        wheel.extractall(work / "target")
    return work / "target"


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ranks 0-2 give up on ALLREDUCE #18; the cache keeps rank 3 waiting."""
    folder = tmp_path_factory.mktemp("logs")
    for rank in range(3):
        (folder / f"rank_{rank}.log").write_text(watchdog(rank, 18), encoding="utf-8")
    (folder / "rank_3.log").write_text("shard-cache: rank 3 waits for shard 812 (refill 40%)\n", encoding="utf-8")
    return folder


def command(*words: str, path: Path | None = None) -> str:
    """The output of the command with this folder among the installed packages and without settings of a site."""
    places = os.pathsep.join(map(str, filter(None, (ROOT, path))))
    env = {**os.environ, "PYTHONPATH": places, "XDG_CONFIG_HOME": str(EXAMPLE), "COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, "-m", "nccldoctor", *words], capture_output=True, text=True, timeout=120, env=env, cwd=EXAMPLE
    )
    assert done.returncode in (0, 1, 3), done.stderr
    return done.stdout


def test_its_parser_reads_lines(installed: Path, logs: Path) -> None:
    def notes(path: Path | None) -> list[dict[str, object]]:
        events = json.loads(command("inspect", str(logs), "--format", "json", path=path))["events"]
        return [event for event in events if event["kind"] == "note"]

    assert [(note["rank"], note["what"], note["detail"]) for note in notes(installed)] == [
        (3, "shard-cache", "shard 812")
    ]
    assert not notes(None)


def test_its_rule_decides_and_its_remedy_is_offered(installed: Path, logs: Path) -> None:
    document = json.loads(command("analyze", str(logs), "--format", "json", path=installed))
    assert document["verdict"]["headline"] == "Rank 3 waits for shard 812 of the shard cache."
    assert (document["verdict"]["class"], document["verdict"]["ranks"]) == ("straggler", "3")
    assert document["remedies"][0]["id"] == "shard-cache"


def test_its_words_are_explained(installed: Path) -> None:
    assert "The shard cache keeps a rank waiting" in command("explain", "shard-cache", path=installed)
    assert "a shard that the cache has not loaded yet" in command("explain", "straggler", path=installed)
