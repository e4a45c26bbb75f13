"""``torchrun --logs-specs nccldoctor`` from its command line to the verdict: real agents, and ranks on gloo."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nccldoctor import analyze

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.live

HANGS_AFTER_A_RESTART = """
import os, sys, time
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    sys.exit(3 * (os.environ["RANK"] == "1"))
print("PYTHONPATH", os.environ["PYTHONPATH"], flush=True)
import torch, torch.distributed as dist
dist.init_process_group("gloo")
dist.all_reduce(torch.ones(1))
while dist.get_rank() == 1:
    time.sleep(0.1)
dist.all_reduce(torch.ones(1))
"""

SPEAKS = """
import os, sys
print("out", os.environ["RANK"], [name for name in os.environ if name.startswith("NCCLDOCTOR_CAPTURE_B")], flush=True)
print("err", os.environ["RANK"], file=sys.stderr)
"""


def torchrun(folder: Path, script: str, *options: str, **variables: str) -> subprocess.Popen[str]:
    """An agent that finds the entry point where an installed package would have it, and two ranks."""
    pytest.importorskip("torch", reason="needs torch")
    (folder / "train.py").write_text(script)
    installed = folder / "installed"
    (installed / "nccldoctor-0.dist-info").mkdir(parents=True)
    (installed / "nccldoctor-0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: nccldoctor\nVersion: 0\n"
    )
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["torchrun.logs_specs"]
    lines = ["[torchrun.logs_specs]", *(f"{name} = {what}" for name, what in points.items())]
    (installed / "nccldoctor-0.dist-info" / "entry_points.txt").write_text("\n".join(lines))
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node",
        "2",
        "--logs-specs",
        "nccldoctor",
        *options,
    ]
    return subprocess.Popen(
        [*command, *([] if "--no-python" in options else ["train.py"])],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": f"{installed}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"} | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@contextmanager
def ended(agent: subprocess.Popen[str]) -> Iterator[None]:
    """End the agent, and by it the ranks."""
    try:
        yield
    finally:
        agent.terminate()
        agent.communicate()


@pytest.mark.costly("jobs of torch")
def test_the_hang_of_a_second_attempt_is_captured_and_named(tmp_path: Path) -> None:
    run = tmp_path / "run"
    options = ("--log-dir", str(run), "--max-restarts", "1")
    with ended(torchrun(tmp_path, HANGS_AFTER_A_RESTART, *options, NCCLDOCTOR_STALL_AFTER="3")) as _:
        end = time.monotonic() + 300
        while not all((run / "attempt-1" / "dumps" / f"fr_trace_{rank}").exists() for rank in range(2)):
            assert time.monotonic() < end
            time.sleep(0.2)
        while len(list((run / "attempt-1" / "stacks").glob("*/rank_*.txt"))) < 4:
            assert time.monotonic() < end
            time.sleep(0.2)
        verdict = analyze(run).verdict
    assert (verdict.cause.value, str(verdict.blamed)) == ("not-arrived", "1"), verdict.headline
    assert (run / "attempt-0" / "rank_1" / "stdout.log").read_text() == ""
    path = f"{tmp_path / 'installed'}{os.pathsep}{ROOT}"
    assert (run / "attempt-1" / "rank_1" / "stdout.log").read_text() == f"PYTHONPATH {path}\n"


def test_the_console_shows_what_it_showed_before_and_files_have_all(tmp_path: Path) -> None:
    agent = torchrun(tmp_path, SPEAKS, "--log-dir", "run", "--redirects", "1:1", "--local-ranks-filter", "0,1")
    output, errors = agent.communicate()
    assert output.splitlines() == ["[default0]:out 0 []"]
    assert sorted(errors.splitlines()) == ["[default0]:err 0", "[default1]:err 1"]
    logs = {rank: tmp_path / "run" / "attempt-0" / f"rank_{rank}" for rank in range(2)}
    assert {rank: (log / "stdout.log").read_text() for rank, log in logs.items()} == {0: "out 0 []\n", 1: "out 1 []\n"}
    assert {rank: (log / "stderr.log").read_text() for rank, log in logs.items()} == {0: "err 0\n", 1: "err 1\n"}


def test_a_command_that_is_no_script_of_python_is_logged_and_sees_nothing(tmp_path: Path) -> None:
    agent = torchrun(tmp_path, "", "--no-python", "sh", "-c", 'echo "$PYTHONPATH" $NCCLDOCTOR_CAPTURE_BEGUN')
    output, errors = agent.communicate()
    path = f"{tmp_path / 'installed'}{os.pathsep}{ROOT}"
    assert sorted(output.splitlines()) == [f"[default0]:{path}", f"[default1]:{path}"]
    assert errors.count("nothing is captured") == errors.count("\n") == 1
    assert (tmp_path / "capture" / "attempt-0" / "rank_1" / "stdout.log").read_text() == f"{path}\n"


def test_where_nothing_can_be_written_torchrun_goes_on_as_without_us(tmp_path: Path) -> None:
    (tmp_path / "capture").write_text("a file of the job")
    output, errors = torchrun(tmp_path, SPEAKS).communicate()
    assert sorted(output) == sorted("out 0 []\nout 1 []\n"), "both ranks write into one pipe"
    ours = [line for line in errors.splitlines() if "nccldoctor" in line]
    assert len(ours) == 1
    assert "nothing is captured, and logs are torchrun's own" in ours[0]
    assert (tmp_path / "capture").read_text() == "a file of the job"


def test_logs_have_global_ranks_and_those_of_an_earlier_run_are_put_aside(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs torch")
    from nccldoctor.capture.torchrun import TorchrunLogs

    for run in ("first", "second"):
        logs = TorchrunLogs(log_dir=str(tmp_path), local_ranks_filter={1})
        envs = {local: {"RANK": str(8 + local), "TORCHELASTIC_RESTART_COUNT": "2"} for local in range(2)}
        places = logs.reify(envs)
        at = tmp_path / "attempt-2"
        assert places.stdouts == {0: str(at / "rank_8" / "stdout.log"), 1: str(at / "rank_9" / "stdout.log")}
        assert places.stderrs == {0: str(at / "rank_8" / "stderr.log"), 1: str(at / "rank_9" / "stderr.log")}
        assert (places.tee_stdouts, places.tee_stderrs) == ({1: places.stdouts[1]}, {1: places.stderrs[1]})
        assert envs[0]["TORCHELASTIC_ERROR_FILE"] == places.error_files[0] == str(at / "rank_8" / "error.json")
        Path(places.stdouts[0]).write_text(run)
    assert (at / ".earlier" / "rank_8" / "stdout.log").read_text() == "first"
    assert Path(places.stdouts[0]).read_text() == "second"


def test_a_folder_of_a_rank_that_cannot_be_made_leaves_torchruns_own_logs(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch", reason="needs torch")
    from nccldoctor.capture.torchrun import TorchrunLogs

    (tmp_path / "attempt-0").write_text("a file of the job")
    places = TorchrunLogs(log_dir=str(tmp_path)).reify({0: {"RANK": "4", "TORCHELASTIC_RESTART_COUNT": "0"}})
    assert Path(places.stdouts[0]).parts[-3:] == ("attempt_0", "0", "stdout.log")
    assert Path(places.stdouts[0]).parent.is_dir()
    assert capfd.readouterr().err.count("nothing is captured, and logs are named by local rank") == 1
