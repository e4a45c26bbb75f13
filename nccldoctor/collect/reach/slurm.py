"""Reaches the nodes of a running Slurm job: ``srun --overlap``, one step of one task on each node.

A step shares the CPUs, memory and GPUs of the job with ``--overlap`` (Slurm 20.11 and newer), so that it starts while the job runs.
"""

from __future__ import annotations

import re

from nccldoctor.collect.reach.way import NODE, Command, LookUp, Target, Way, checked_name
from nccldoctor.model.errors import InputError

_JOB = re.compile(r"\d{1,12}(?:[_+]\d{1,9})?")


class Slurm(Way, frozen=True):
    """The nodes of one job: ``4711``, ``4711_3`` of an array, or all parts of a heterogeneous job.

    ``alone``: processes of other jobs on the same nodes are left out, by their ``SLURM_JOB_ID``.
    """

    job: str
    alone: bool = True

    def __post_init__(self) -> None:
        if not _JOB.fullmatch(self.job):
            raise InputError(
                f"{self.job[:40]!r} isn't a Slurm job id", "give a number such as 4711, or 4711_3 of an array"
            )

    def listing(self) -> tuple[Command, ...]:
        """The job's parts with their states and node lists, then the names in one list."""
        return self._job_parts(), _host_names("NODES")  # stands for the list of nodes before it is known

    def _job_parts(self) -> Command:
        return "squeue", "--noheader", f"--jobs={self.job}", "--format=%A|%i|%T|%N"

    def find_targets(self, look_up: LookUp, python: Command) -> tuple[Target, ...]:
        """One ``srun`` for each node of each running part."""
        parts = [line.strip().split("|") for line in look_up(self._job_parts()).splitlines() if line.count("|") == 3]
        running = [(number, name, nodes) for number, name, state, nodes in parts if state == "RUNNING" and nodes]
        if not running:
            states = ", ".join(dict.fromkeys(part[2] for part in parts)) or "unknown to squeue"
            raise InputError(f"job {self.job} isn't running ({states})", "squeue --me lists your jobs")
        tasks = [name for _, name, _ in running if "_" in name]
        if len(tasks) > 1:
            raise InputError(f"job {self.job} is an array", f"choose one of its tasks: {', '.join(tasks[:8])}")
        return tuple(
            self._step_on(checked_name(node, "the name of a node"), number, python, is_part="+" in name)
            for number, name, nodes in running
            for node in dict.fromkeys(look_up(_host_names(nodes)).split())
        )

    def planned_targets(self, python: Command) -> tuple[Target, ...]:
        """One step, on ``NODE``."""
        return (self._step_on(NODE, self.job, python),)

    def _step_on(self, node: str, number: str, python: Command, is_part: bool = False) -> Target:
        """``srun`` with every number given: variables of an ``salloc`` around it would otherwise count.

        Parts of a heterogeneous job may have the ``SLURM_JOB_ID`` of the first part.
        """
        one_task = ("--nodes=1", "--ntasks=1", "--ntasks-per-node=1", "--cpus-per-task=1")
        step = ("srun", f"--jobid={number}", "--overlap", *one_task, f"--nodelist={node}", "--quiet", "--", *python)
        return Target(node, (*step, "--where", f"SLURM_JOB_ID={number}") if self.alone and not is_part else step)


def _host_names(nodes: str) -> Command:
    return "scontrol", "show", "hostnames", nodes
