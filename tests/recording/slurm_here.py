"""Tries ``nccldoctor collect --slurm`` against a real Slurm: two nodes on this machine, as root, with Debian's ``slurm-wlm``.

``python tests/recording/slurm_here.py`` writes a configuration to a temporary folder, starts slurmctld and two slurmd there, submits a job
of four Python ranks, collects from it, and stops what it started. It prints who answered, and fails where a rank is missing.
Authentication is off and every port is of localhost. No test runs it, because it needs root and services.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from nccldoctor.collect.gather import gather_bundle
from nccldoctor.collect.node_options import NodeOptions
from nccldoctor.collect.reach.slurm import Slurm

PATIENCE_S = 60
NODES = ("n1", "n2")

CONFIGURATION = """
ClusterName=here
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmctldPort=17100
StateSaveLocation={folder}
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
MpiDefault=none
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port=17101 CPUs={cpus} State=UNKNOWN
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port=17102 CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
"""

JOB = """#!/bin/sh
srun sh -c 'WORLD_SIZE=4 RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID exec {python} {folder}/rank.py'
"""

RANK = "import os, time\nprint('rank', os.environ['RANK'], 'step 12', flush=True)\ntime.sleep(3600)\n"


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    """Ask again and again for a minute."""
    end = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > end:
            raise SystemExit(f"not within {PATIENCE_S} s: {what}")
        time.sleep(0.2)


def output_of(*command: str) -> str:
    """What a command prints."""
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def start_daemon(command: tuple[str, ...], stack: ExitStack) -> None:
    """Start a daemon in the foreground, ended with the stack."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    stack.callback(process.wait)
    stack.callback(process.terminate)


def main() -> None:
    """Start Slurm, collect from a job, and stop it all."""
    with tempfile.TemporaryDirectory() as top, ExitStack() as stack:
        folder = Path(top)
        host = output_of("hostname", "-s")
        cpus = os.cpu_count() or 1
        (folder / "slurm.conf").write_text(CONFIGURATION.format(host=host, folder=folder, cpus=cpus))
        (folder / "rank.py").write_text(RANK)
        (folder / "job.sh").write_text(JOB.format(python=sys.executable, folder=folder))
        os.environ["SLURM_CONF"] = str(folder / "slurm.conf")
        start_daemon(("slurmctld", "-D"), stack)
        for node in NODES:
            start_daemon(("slurmd", "-D", "-N", node), stack)
        wait_until(
            lambda: output_of("sinfo", "-h", "-N", "-t", "idle", "-o", "%N").split() == list(NODES), "idle nodes"
        )
        log = folder / "job.out"
        job = output_of(
            "sbatch",
            "--parsable",
            "--nodes=2",
            "--ntasks-per-node=2",
            "--overcommit",
            f"--output={log}",
            str(folder / "job.sh"),
        )
        stack.callback(subprocess.run, ("scancel", job), check=False)
        wait_until(lambda: log.exists() and log.read_text().count("step 12") == 4, "four ranks")
        result = gather_bundle(Slurm(job), NodeOptions(seconds=30.0), folder / "b.tar.zst", python=sys.executable)
        for node in result.nodes:
            print(f"{node.name}: ranks {node.ranks}, {node.files} files, {node.seconds} s, {node.error or 'answered'}")
        if [node.name for node in result.nodes] != list(NODES) or str(result.ranks) != "0-3":
            raise SystemExit("not every rank answered")


if __name__ == "__main__":
    main()
