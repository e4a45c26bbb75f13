"""Commands are run as they are printed, against small programs that stand in for ssh, kubectl, srun, scontrol and py-spy."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders.remedies import fixtures_conditions
from builders.remedies.advice import ask, event, kernel

from nccldoctor.events import GpuError, ProcessExit, SchedulerEvent, Setting
from nccldoctor.identify.pods import Pods
from nccldoctor.model.steps import StepKind
from nccldoctor.prescribe.remote_commands import on_host, take_out
from nccldoctor.prescribe.values import placeholder_values

FAKES = {
    # ssh joins what follows the host with blanks, and hands it to a shell there
    "ssh": 'h=$1; shift; echo "ssh $h" >> "$LOG"; exec sh -c "$*"',
    # exec hands the words over as they are; get answers with the node or its address
    "kubectl": 'echo "kubectl $*" >> "$LOG"; case $1 in get) echo "node-of-$3";; exec) shift 3; exec "$@";; esac',
    "srun": 'echo "srun $1 $2" >> "$LOG"; while [ "$1" != sh ]; do shift; done; exec "$@"',
    "scontrol": 'for w in "$@"; do echo "scontrol $w" >> "$LOG"; done',
    "py-spy": 'echo "py-spy $*" >> "$LOG"',
    "uptime": 'echo "uptime" >> "$LOG"',
}
LOOK = "py-spy dump --pid {{ pid }}"
TOLD = ["ssh", "kubectl", "srun", "scontrol", "py-spy", "uptime"]


@pytest.fixture
def run(tmp_path: Path):
    """Runs a command and gives back what the programs in it were called with."""
    for name, body in FAKES.items():
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\n{body}\n")
        program.chmod(0o755)
    (tmp_path / "here").mkdir()

    def run_it(command: str) -> list[str]:
        log = tmp_path / "calls"
        log.write_text("")
        surroundings = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "LOG": str(log)}
        assert subprocess.run(["sh", "-n", "-c", command], check=False).returncode == 0, command
        subprocess.run(["sh", "-c", command], env=surroundings, cwd=tmp_path / "here", check=False, timeout=60)
        assert not list((tmp_path / "here").iterdir()), "a name became a command"
        return log.read_text().splitlines()

    return run_it


def command(text: str, ranks=(5,), *events, forget=(), place: str = "host", **case) -> str:
    of = fixtures_conditions.survey(fixtures_conditions.case(events, **case))
    finding = fixtures_conditions.finding(ranks=ranks)
    values = {name: value for name, value in placeholder_values(finding, of).items() if name not in forget}
    return on_host(text, place, finding, of, values)[0]


def pods(**nodes: str) -> dict[str, object]:
    """Each rank in a pod of its own."""
    return {
        "rank_host": {rank: f"pod-{rank}" for rank in range(8)},
        "pods": Pods({f"pod-{r}": "" for r in range(8)} | nodes),
    }


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[bytes]]]:
    running: list[subprocess.Popen[bytes]] = []
    yield running
    for process in running:
        process.kill()
        process.wait()


def waiting(**variables: str) -> subprocess.Popen[bytes]:
    """A Python process with these variables; it has them once its program runs."""
    program = "import sys, time; print(flush=True); time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", program], env={**os.environ, **variables}, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    return process


OWN = 400_000 + os.getpid()
"""A rank that no other process of this machine has."""
on_linux = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="no /proc")


def test_a_known_process_is_looked_at_on_its_host(run) -> None:
    assert run(command(LOOK)) == ["ssh node1", "py-spy dump --pid 1005"]


def test_all_culprits_are_looked_at(run) -> None:
    assert run(command(LOOK, (2, 3, 6))) == [
        "ssh node0",
        "py-spy dump --pid 1002",
        "py-spy dump --pid 1003",
        "ssh node1",
        "py-spy dump --pid 1006",
    ]
    assert run(command("uptime", (2, 3, 6))) == ["ssh node0", "uptime", "ssh node1", "uptime"]


def test_no_command_is_for_more_hosts_than_a_person_would_look_at(run) -> None:
    hosts = {rank: f"n{rank}" for rank in range(8)}
    assert len(run(command(LOOK, range(8), rank_host=hosts))) == 8, "four hosts"


@pytest.mark.parametrize("name", ["zeta 7; touch A", "$(touch A)", "it's", "`touch A`", 'a"b', "a&touch A"])
def test_an_odd_name_stays_a_name(run, name: str) -> None:
    hosts = {rank: name if rank == 5 else "node0" for rank in range(8)}
    assert run(command(LOOK, rank_host=hosts)) == [f"ssh {name}", "py-spy dump --pid 1005"]
    assert run(command("uptime", rank_host=hosts)) == [f"ssh {name}", "uptime"]
    pod = {"rank_host": hosts, "pods": Pods({name.lower(): ""})}
    assert run(command(LOOK, **pod))[0] == f"kubectl exec {name} -- sh -c py-spy dump --pid 1005"


def test_a_name_is_never_an_option(run) -> None:
    hosts = dict.fromkeys(range(8), "-oProxyCommand=touch A")
    assert run(command(LOOK, rank_host=hosts))[0] == "ssh HOST_OF_RANK_5"
    assert run(command("uptime", rank_host=hosts))[0] == "ssh HOST_OF_RANK_5"


def test_a_process_of_a_pod_is_looked_at_inside_it_and_its_node_on_the_node(run) -> None:
    assert run(command(LOOK, **pods()))[1] == "py-spy dump --pid 1005"
    assert run(command("uptime", **pods()))[1:] == ["ssh node-of-pod-5", "uptime"], "the pod tells the node"
    assert run(command("uptime", **pods(**{"pod-5": "knot-3"}))) == ["ssh knot-3", "uptime"]
    both = run(command("uptime", (5, 6), **pods()))
    assert [line for line in both if line.startswith("ssh")] == ["ssh node-of-pod-5", "ssh node-of-pod-6"]


@on_linux
def test_a_process_is_found_by_its_rank(run, started) -> None:
    started.append(waiting(RANK=str(OWN)))
    at = {"rank_host": {OWN: "node9"}, "rank_pid": {}}
    assert run(command(LOOK, (OWN,), **at)) == ["ssh node9", f"py-spy dump --pid {started[0].pid}"]


@on_linux
def test_those_of_several_ranks_that_are_there_are_found(run, started) -> None:
    started += [waiting(RANK=str(OWN)), waiting(RANK=f"{OWN}1")]
    at = {"rank_host": dict.fromkeys((OWN, OWN + 1, int(f"{OWN}1")), "node9"), "rank_pid": {}}
    assert run(command(LOOK, at["rank_host"], **at)) == [
        "ssh node9",
        *(f"py-spy dump --pid {process.pid}" for process in started),
    ]


TASK = event(SchedulerEvent, None, what="cancelled", by="slurm", job="8841207.0")


@on_linux
@pytest.mark.parametrize(
    ("sign", "variable"),
    [
        (event(ProcessExit, 1, reporter="srun"), "SLURM_PROCID"),
        (event(ProcessExit, 1, reporter="mpirun"), "OMPI_COMM_WORLD_RANK"),
        (event(ProcessExit, 1, reporter="mpirun"), "PMI_RANK"),
    ],
)
def test_without_torchrun_the_variable_of_the_launcher_tells_the_rank(run, started, sign, variable: str) -> None:
    shell = subprocess.Popen(["sh", "-c", "sleep 60; true"], env={**os.environ, variable: str(OWN)})
    started += [shell, waiting(**{variable: str(OWN)})]
    at = {"rank_host": {OWN: "node9"}, "rank_pid": {}}
    assert run(command(LOOK, (OWN,), sign, **at)) == ["ssh node9", f"py-spy dump --pid {started[1].pid}"]


@on_linux
def test_the_variable_of_torchrun_goes_before_that_of_the_task_that_started_it(run, started) -> None:
    started += [waiting(SLURM_PROCID=str(OWN)), waiting(RANK=str(OWN), SLURM_PROCID="1")]
    at = {"rank_host": {OWN: "node9"}, "rank_pid": {}}
    assert run(command(LOOK, (OWN,), TASK, **at))[1:] == [f"py-spy dump --pid {started[1].pid}"]


@on_linux
def test_a_rank_on_an_unknown_host_is_sought_on_all(run, started) -> None:
    started.append(waiting(RANK=str(OWN)))
    nowhere = {"rank_host": {}, "rank_pid": {}}
    assert run(command(LOOK, (OWN,), TASK, **nowhere)) == [
        "srun --overlap --jobid=8841207",
        f"py-spy dump --pid {started[0].pid}",
    ]
    two = {"rank_host": {1: "node7", 2: "node8"}, "rank_pid": {}}
    found = f"py-spy dump --pid {started[0].pid}"
    assert run(command(LOOK, (OWN,), **two)) == ["ssh node7", found, "ssh node8", found]
    assert command(LOOK, (5,), **nowhere).startswith("ssh HOST_OF_RANK_5 ")


def drain(*events, cordon=("node1",), of_pods=(), **case) -> str | None:
    of = fixtures_conditions.survey(fixtures_conditions.case(events, **case))
    return take_out(cordon, of_pods, fixtures_conditions.finding("hardware"), of)


@pytest.mark.parametrize(
    "sign",
    [TASK, event(ProcessExit, 1, reporter="srun"), event(Setting, None, name="SLURM_NODELIST", value="node[0-1]")],
)
def test_a_node_of_slurm_is_drained(run, sign) -> None:
    assert run(drain(sign, cordon=("node1", "node3"))) == [
        "scontrol update",
        "scontrol nodename=node1,node3",
        "scontrol state=drain",
        "scontrol reason=nccldoctor: hardware, rank 5",
    ]
    assert run(drain(sign, cordon=("a'b; touch A",)))[1] == "scontrol nodename=a'b; touch A"


def test_a_node_of_kubernetes_is_cordoned_also_where_only_its_pod_is_known(run) -> None:
    assert run(drain(cordon=("knot-3",), **pods())) == ["kubectl cordon knot-3"]
    asked = run(drain(cordon=(), of_pods=("pod-5", "pod-6"), **pods()))
    assert asked[-1] == "kubectl cordon node-of-pod-5 node-of-pod-6"


def test_nobody_is_told_a_command_of_a_scheduler_that_is_not_there() -> None:
    assert drain() is None
    assert drain(TASK, cordon=("10.0.0.7",)) is None, "Slurm knows no node by its address"


def test_the_step_that_drains_has_the_command() -> None:
    lost = kernel(GpuError, "Xid 79", xid=79)
    given = ask(fixtures_conditions.case([lost, TASK]), fixtures_conditions.finding("hardware")).action.steps
    assert (given[0].kind, given[0].text) == (StepKind.DRAIN, "Drain node1.")
    assert (given[0].command or "").startswith("scontrol update nodename=node1 state=drain ")
