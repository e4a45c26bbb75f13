"""The run that ``nccldoctor settle`` prints for an open verdict, what it writes, and what ``analyze`` then says."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from builders.remedies import fixtures_conditions
from builders.remedies.advice import event
from click.testing import CliRunner

import nccldoctor
from nccldoctor.cli.app import cli
from nccldoctor.events import Note, ProcessExit, Setting
from nccldoctor.identify.pods import Pods
from nccldoctor.prescribe.settle import EXPERIMENTS as ROWS
from nccldoctor.prescribe.settle import choose, script_of

OUTCOMES = ("passed", "failed", "hung")
ONE_HOST = {"rank_host": dict.fromkeys(range(8), "knot-1")}
NOWHERE = {"rank_host": {}}
GLOO = event(Note, None, what="backend", detail="gloo", text="backend gloo")


def asked(
    cause: str = "undetermined", *events, done: tuple[str, ...] = (), ranks=(), folder: Path | None = None, **case
) -> str:
    notes = [event(Note, None, what="settled", detail=each, text="") for each in done]
    of = fixtures_conditions.survey(fixtures_conditions.case([*events, *notes], **case))
    finding = fixtures_conditions.finding(cause, ranks=ranks, confidence="low")
    row = choose(finding, of)
    if row is None:
        return ""
    return script_of(row, finding, of, folder) if folder is not None else row.id


@pytest.mark.parametrize(
    ("cause", "done", "case", "chosen"),
    [
        ("undetermined", (), {}, "sweep"),
        ("undetermined", ("sweep-passed",), {}, "single"),
        ("undetermined", ("sweep-hung",), {}, "socket"),
        ("undetermined", ("sweep-failed",), ONE_HOST, "p2p"),
        ("undetermined", ("sweep-hung", "socket-hung"), {}, ""),
        ("undetermined", ("sweep-passed", "single-passed"), {}, ""),
        ("device-stalled", (), {}, "node"),
        ("device-stalled", (), ONE_HOST, "sweep"),  # no other host is left
        ("device-stalled", ("node-failed",), {}, "sweep"),
        ("network", ("node-failed",), {}, "socket"),
    ],
)
def test_the_run_is_the_first_that_is_open(cause: str, done: tuple[str, ...], case, chosen: str) -> None:
    assert asked(cause, done=done, ranks=(5,) if cause != "undetermined" else (), **case) == chosen


def test_a_job_on_gloo_is_asked_for_no_run_of_nccl() -> None:
    assert asked("undetermined", GLOO, done=("sweep-hung",)) == ""


@pytest.mark.parametrize("name", ["knot-7; touch A", "$(touch A)", "-x", 'a"b', "a'b"])
def test_an_odd_name_of_a_host_does_no_harm(name: str, tmp_path: Path) -> None:
    hosts = {rank: name if rank > 3 else "node0" for rank in range(8)}
    assert asked("device-stalled", ranks=(5,), rank_host=hosts) == "sweep"
    for sign in ((), (event(ProcessExit, 1, reporter="srun"),)):
        script = asked("undetermined", *sign, rank_host=hosts, folder=tmp_path / "it's; touch A")
        assert ran(script, tmp_path, ssh="exit 9", srun="exit 9").returncode == 0


@pytest.mark.parametrize(
    ("events", "case", "words"),
    [
        ((), NOWHERE, 'sh -c "$one" < "$program"'),
        ((), {}, "for h in node0 node1; do ssh $h"),
        ((event(Setting, None, name="SLURM_NNODES", value="2"),), {}, "srun --nodes=2 --nodelist=node0,node1 "),
        (
            (),
            {"rank_host": {r: f"pod-{r // 4}" for r in range(8)}, "pods": Pods({"pod-0": "", "pod-1": ""})},
            "for h in pod-0 pod-1; do kubectl exec -i $h -- ",
        ),
    ],
)
def test_the_sweep_is_started_where_the_job_ran(events, case, words: str, tmp_path: Path) -> None:
    script = asked("undetermined", *events, folder=tmp_path, **case)
    assert words in script and "@" not in script.replace('"$@"', "")
    assert ("--rdzv-endpoint=" in script) == (case is not NOWHERE)


def ran(script: str, folder: Path, *words: str, **programs: str) -> subprocess.CompletedProcess[str]:
    """Runs a script with some programs replaced; nothing may appear where it runs."""
    for name, body in programs.items():
        path = folder / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
    (folder / "here").mkdir(exist_ok=True)
    (folder / "settle.sh").write_text(script)
    assert subprocess.run(["sh", "-n", "settle.sh"], cwd=folder, check=False).returncode == 0
    surroundings = {
        **os.environ,
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "TMPDIR": str(folder),
        "SETTLE_LIMIT": "40",
    }
    done = subprocess.run(
        ["sh", "../settle.sh", *words],
        cwd=folder / "here",
        env=surroundings,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not list((folder / "here").iterdir())
    return done


AT_LIMIT = 'shift; "$@"; out=$(readlink /proc/$$/fd/1); while [ ! -e "$out.half" ]; do :; done'
"""A stand-in for timeout(1) that ends a job after the half of the time."""


@pytest.mark.parametrize(
    ("words", "timeout", "outcome"),
    [
        (("true",), 'shift; "$@"', "passed"),
        (("false",), 'shift; "$@"', "failed"),
        (("echo", "step 1"), f"{AT_LIMIT}; exit 124", "hung"),
        (("echo", "step 1"), f"{AT_LIMIT}; sleep; echo step 2; exit 124", "passed"),  # it still trains
    ],
)
def test_a_job_changed_once_writes_how_it_went(words, timeout: str, outcome: str, tmp_path: Path) -> None:
    script = asked("network", ranks=(5,), folder=tmp_path, done=("node-failed",), **ONE_HOST)
    assert "export NCCL_NET=Socket" in script
    pause = f"{sys.executable} -c 'import time; time.sleep(0.05)'"
    ran(script, tmp_path, *words, timeout=timeout, sleep=pause)
    assert (tmp_path / "settle-socket.log").read_text() == f"nccldoctor-settle/1 experiment=socket outcome={outcome}\n"


def test_a_job_changed_once_asks_for_its_command(tmp_path: Path) -> None:
    done = ran(asked("undetermined", done=("sweep-passed",), folder=tmp_path), tmp_path)
    assert done.returncode == 2 and "COMMAND" in done.stdout


@pytest.mark.parametrize(
    ("printed", "outcome"),
    [
        ("sweep: begins\n\nsweep: passed on 8 ranks up to 67108864 bytes", "passed"),
        ("sweep: begins\n\nsweep: hung on rank 3 at 16 bytes: Timed out waiting", "hung"),
        ("sweep: begins\n\nsweep: failed on rank 3 at 16 bytes: unhandled system error", "failed"),
        ("sweep: begins\nAborted", "failed"),
        ("sweep: not begun on rank 0 at : no GPU here", ""),
        ("torchrun: not found", ""),
    ],
)
def test_the_sweep_writes_how_it_went_and_nothing_where_it_did_not_begin(
    printed: str, outcome: str, tmp_path: Path
) -> None:
    script = asked("undetermined", folder=tmp_path, **NOWHERE)
    ran(script, tmp_path, torchrun="cat <<'END'\n" + printed + "\nEND")
    result = tmp_path / "settle-sweep.log"
    told = f"nccldoctor-settle/1 experiment=sweep outcome={outcome}\n"
    assert (result.read_text() if result.exists() else "") == (told if outcome else "")


@pytest.mark.live
@pytest.mark.costly("jobs of torch")
@pytest.mark.parametrize(("backend", "outcome"), [("gloo", "passed"), ("nccl", "")])
def test_the_sweep_runs_without_a_gpu(backend: str, outcome: str, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs torch")
    signs = [GLOO] if backend == "gloo" else []
    script = asked("undetermined", *signs, folder=tmp_path, world=2, **NOWHERE)
    done = ran(script, tmp_path, torchrun=f'CUDA_VISIBLE_DEVICES= exec {sys.executable} -m torch.distributed.run "$@"')
    result = tmp_path / "settle-sweep.log"
    assert f"outcome={outcome}" in result.read_text() if outcome else not result.exists(), done.stdout


LOG = "".join(
    f"[rank{rank}]:[E1128 14:03:1{rank}.512345678 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective operation"
    f" timeout: WorkNCCL(SeqNum=73, OpType=ALLREDUCE, NumelIn=4096, NumelOut=4096, Timeout(ms)=600000) ran for 600084 milliseconds"
    " before timing out.\n"
    for rank in (0, 1)
)
PHRASES = Path(nccldoctor.__file__).parent / "diagnose/settled.toml"
MEANS: dict[str, str] = tomllib.loads(PHRASES.read_text(encoding="utf-8"))


def test_every_outcome_has_a_meaning() -> None:
    assert set(MEANS) == {f"{row.id}-{outcome}" for row in ROWS for outcome in OUTCOMES}


@pytest.mark.parametrize("what", sorted(MEANS))
def test_an_outcome_is_an_exhibit_and_stands_in_the_headline(what: str, tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(LOG)
    before = nccldoctor.analyze(tmp_path)
    experiment, outcome = what.split("-")
    detail = " without=knot-8" if experiment == "node" else ""
    line = f"nccldoctor-settle/1 experiment={experiment} outcome={outcome}{detail}"
    (tmp_path / f"settle-{experiment}.log").write_text(line + "\n")
    incident = nccldoctor.analyze(tmp_path)
    means = MEANS[what].replace("{host}", "knot-8")
    assert incident.verdict.headline == f"{before.verdict.headline} {means}"
    (shown,) = [e for e in incident.verdict.evidence if e.says == means]
    assert shown.quote == line and str(shown.where) == f"settle-{experiment}.log:1"
    assert (incident.verdict.cause, incident.verdict.confidence) == (before.verdict.cause, before.verdict.confidence)
    assert " ".join(means.split()[:6]) in " ".join(incident.to_text().split())


def test_the_command_prints_a_script_or_that_nothing_is_open(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(LOG)
    told = CliRunner().invoke(cli, ["settle", str(tmp_path)])
    assert told.exit_code == 0 and told.output.startswith("#!/bin/sh\n# Does an all-reduce ")
    (tmp_path / "settle-sweep.log").write_text("nccldoctor-settle/1 experiment=sweep outcome=passed\n")
    assert "Does one rank alone" in CliRunner().invoke(cli, ["settle", str(tmp_path)]).output
    (tmp_path / "settle-single.log").write_text("nccldoctor-settle/1 experiment=single outcome=passed\n")
    assert CliRunner().invoke(cli, ["settle", str(tmp_path)]).output.startswith("# No other run is left: ")


def test_a_sure_verdict_has_nothing_to_settle() -> None:
    sure = Path(nccldoctor.demo("died"))
    told = CliRunner().invoke(cli, ["settle", str(sure)]).output
    assert told.startswith("# Nothing to settle: Rank 3 ") and told.count("\n") == 1
