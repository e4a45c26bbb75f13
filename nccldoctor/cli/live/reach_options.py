"""The options that say how to reach the nodes of a job, shared by ``collect`` and ``live``."""

from __future__ import annotations

from pathlib import Path

import click

from nccldoctor.cli.options import Decorator, all_of

SECONDS = 90.0
"""Seconds that a node may take for one look."""

reach_options = all_of(
    click.option("--pid", metavar="all|PID,...", help="This machine: all training processes, or these."),
    click.option("--local", is_flag=True, help="This machine: the same as --pid all."),
    click.option("--slurm", metavar="JOBID", help="All nodes of a Slurm job, by srun --overlap."),
    click.option("--k8s", is_flag=True, help="The pods that -l names, by kubectl exec."),
    click.option("-l", "--selector", metavar="LABEL", default="", help="Label of the pods, such as job-name=train."),
    click.option("-n", "--namespace", metavar="NAME", default="", help="Namespace of the pods."),
    click.option("-c", "--container", metavar="NAME", default="", help="Container of the pods (default: the first)."),
    click.option(
        "--ssh", type=click.Path(path_type=Path), metavar="FILE", help="The hosts in FILE, one a line, by ssh."
    ),
    click.option("--where", multiple=True, metavar="NAME=VALUE", help="Only processes with this variable."),
    click.option(
        "--gdb",
        is_flag=True,
        help="Where py-spy fails, read native stacks by gdb: this stops each process for seconds.",
    ),
    click.option(
        "--twice", type=click.FloatRange(0, 3600), default=0.0, metavar="SECONDS", help="Look again after SECONDS."
    ),
    click.option(
        "--seconds", type=click.FloatRange(1, 3600), default=SECONDS, show_default=True, help="Most seconds per node."
    ),
    click.option("--limit-mb", type=click.IntRange(1, 4096), default=512, show_default=True, help="Most MB per node."),
    click.option("--python", default="python3", metavar="PATH", help="Python 3.8 or newer on the nodes."),
    click.option("--print", "only_print", is_flag=True, help="Print every command and read; run nothing."),
)
"""All options, passed by their long names."""


def output_option(help: str) -> Decorator:
    """``-o``: where the bundle goes."""
    return click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE.tar.zst", help=help)
