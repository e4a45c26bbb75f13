"""Capture leaves the job unchanged: each script of ``jobs/`` runs alone and captured, and nobody can tell which is which."""

from __future__ import annotations

import os
import py_compile
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from nccldoctor.capture.control import STALL_AFTER, for_hook

ROOT = Path(__file__).resolve().parents[3]
TABLES = sorted(Path(__file__).with_name("jobs").glob("*.toml"))
JOBS = {f"{table.stem}/{name}": job for table in TABLES for name, job in tomllib.loads(table.read_text()).items()}

WATCHED = """
import glob, os, time
RUN = os.environ["RUN"]
def watched(glances=2):
    for folder in glob.glob(os.environ["TMPDIR"] + "/nccldoctor-*"):
        for _ in range(glances):
            end, before = time.monotonic() + 5, seen(folder)
            while before and seen(folder) == before and time.monotonic() < end: time.sleep(0.003)
def seen(folder):
    try: return os.stat(folder).st_mtime_ns
    except OSError: return 0
"""
"""``watched()`` returns after the watcher has looked twice more, and at once where there is none."""


def laid_out(job: dict[str, Any], folder: Path) -> None:
    """The files of a job, and a folder for temporary ones beside it."""
    folder.mkdir(parents=True)
    (folder.parent / "tmp").mkdir()
    for name, text in {"watched.py": WATCHED, "train.py": job.get("script", ""), **job.get("files", {})}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    if "bytes" in job:
        (folder / "train.py").write_bytes(job["bytes"].encode("latin-1"))
    if "link" in job:
        (folder / "link.py").symlink_to(job["link"])
    if "archive" in job:
        with zipfile.ZipFile(folder / "app.pyz", "w") as archive:
            for name, text in job["archive"].items():
                archive.writestr(zipfile.ZipInfo(name), text)
    if "compiled" in job:
        (folder / "source.py").write_text(job["compiled"])
        py_compile.compile(str(folder / "source.py"), str(folder / "compiled.pyc"), "source.py", doraise=True)


def run(job: dict[str, Any], top: Path, *capture: str, plugged_in_to: str | None = None) -> dict[str, Any]:
    """What anybody can see of a job that runs in a folder of its own, started as torchrun's plug-in does where that is asked."""
    folder = top / "job"
    laid_out(job, folder)

    def placed(text: str) -> str:
        return text.format(folder=folder, root=ROOT)

    def anonymous(text: bytes) -> str:
        return re.sub(r"(0x|started )[0-9a-f]{6,}", "#", text.decode().replace(str(top), "TOP"))

    variables = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "RANK": "3", "WORLD_SIZE": "8", "PYTHONPATH": str(ROOT)}
    variables |= {"RUN": str(top / "run"), "TMPDIR": str(top / "tmp"), "PYTHONDONTWRITEBYTECODE": "1"}
    variables |= {name: placed(value) for name, value in job.get("variables", {}).items()}
    variables[STALL_AFTER] = "0.2"
    if plugged_in_to is not None:
        with patch.dict(os.environ, variables, clear=True):
            variables |= for_hook(os.getpid(), plugged_in_to)
    target = [placed(word) for word in job.get("target", ["train.py"])]
    done = subprocess.run(
        [sys.executable, *job.get("flags", []), *capture, *target],
        cwd=folder,
        env=variables,
        input=b"one\ntwo\n",
        capture_output=True,
        timeout=30,
        start_new_session=True,
    )
    errors = anonymous(done.stderr).splitlines()
    ours = [line for line in errors if line.startswith("nccldoctor.capture")]
    return {
        "code": done.returncode,
        "output": anonymous(done.stdout),
        "errors": [line for line in errors if line not in ours],
        "files": {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()},
        "ours": ours,
    }


@pytest.mark.parametrize("name", JOBS)
def test_a_job_is_the_same_with_capture(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    job, top = JOBS[name], tmp_path_factory.mktemp("job")  # a short name: paths of sockets are short
    alone = run(job, top / "alone")
    to = job.get("to", str(top / "captured" / "run"))
    captured = run(job, top / "captured", "-m", "nccldoctor.capture", "--to", to)
    is_same_but_for_evidence(job, alone, captured, to)


READS_NO_PYTHONPATH = {"-E", "-S"}
"""Flags with which the plug-in lets torchrun start the script as it is."""


@pytest.mark.costly
@pytest.mark.parametrize(
    "name", [name for name, job in JOBS.items() if not READS_NO_PYTHONPATH & {*job.get("flags", [])}]
)
def test_a_job_is_the_same_with_the_plug_in(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    job, top = JOBS[name], tmp_path_factory.mktemp("job")
    alone = run(job, top / "alone")
    to = job.get("to", str(top / "plugged" / "run"))
    captured = run(job, top / "plugged", plugged_in_to=to)
    is_same_but_for_evidence(job, alone, captured, to)
    assert job.get("uncaptured") or (top / "plugged" / "job" / to / "rank_3.log").exists()


def is_same_but_for_evidence(job: dict[str, Any], alone: dict[str, Any], captured: dict[str, Any], to: str) -> None:
    """Nothing else differs, and what capture says fits the job."""
    ours = captured.pop("ours")
    assert len(ours) <= (job.get("uncaptured", False) or job.get("loses", False)), ours
    assert any("nothing is captured" in line for line in ours) == job.get("uncaptured", False)
    alone.pop("ours")
    evidence = {"rank_3.log", "dumps", "stacks", "processes"} if to == "run" else set()
    kept = {
        file for file in captured["files"] if Path(file).parts[:1] != ("run",) or Path(file).parts[1] not in evidence
    }
    captured["files"] = {f: text for f, text in captured["files"].items() if f in kept or f in job.get("files", {})}
    if job.get("quiet"):  # what faulthandler prints shows all threads
        assert alone.pop("errors")[0] == captured.pop("errors")[0]
    assert captured == alone


def test_the_table_is_whole() -> None:
    assert len(JOBS) > 60
    assert not {key for job in JOBS.values() for key in job} - {
        *("target", "script", "files", "flags", "variables", "uncaptured", "quiet", "to", "loses"),
        *("link", "archive", "compiled", "bytes"),
    }
