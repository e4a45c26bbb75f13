"""Declares the commands for jobs that still run; each imports its work when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from nccldoctor.cli.options import INPUT, Decorator, all_of, choice_option, format_option

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


COLLECT_CODES = """\b
Exit codes:
  0  every node answered
  2  usage error, or nothing could be collected
  3  some nodes did not answer, or no rank was found"""

LIVE_CODES = """\b
Exit codes, as for analyze:
  0  the job is well
  1  a hang or failure was diagnosed
  2  usage error, or nothing could be collected
  3  not enough to judge, or the cause is unknown"""

WATCH_CODES = """\b
Exit codes:
  0  the job ended well, or moved when you stopped the watch
  1  the job is stuck or failed
  2  usage error, or nothing to watch
  3  RAS answers no more
  4  the job is stuck or failed, and --exec or --webhook failed"""


@click.command("collect", epilog=COLLECT_CODES)
@reach_options
@output_option("Where the bundle goes (default: nccldoctor-TIME.tar.zst here).")
@click.option("--force", is_flag=True, help="Replace the file named by -o.")
@click.option("--print-collector", is_flag=True, help="Print the file that nodes run; ask none.")
def collect_command(output: Path | None, force: bool, **options: Any) -> None:
    """Gather stacks, dumps, logs and states of a running job into one file.

    Read-only: nothing is installed, killed or restarted. The collector is one
    file that is streamed to python3 on each node; secrets stay there.

    \b
    Examples:
      nccldoctor collect --pid all
      nccldoctor collect --slurm 4711 --twice 10 -o bundle.tar.zst
      nccldoctor collect --k8s -l job-name=train -n ml
      nccldoctor collect --ssh hosts.txt --print
    """
    from nccldoctor.cli.live.collecting import collect_job

    click.get_current_context().exit(collect_job(options, output, force))


@click.command("live", epilog=LIVE_CODES)
@reach_options
@format_option("text", "json", help="What goes to stdout: the summary, or JSON.")
@output_option("Keep the bundle (default: nccldoctor-TIME.tar.zst here).")
@click.option("--force", is_flag=True, help="Replace the files named by -o and --report.")
@click.option(
    "--report", type=click.Path(path_type=Path), metavar="FILE", help="Also write a report: .html, .json, .md or .zip."
)
@click.option(
    "--watch", type=click.FloatRange(1, 86400), metavar="SECONDS", help="Repeat, and say what moved, until it ends."
)
@choice_option("--color", "auto", "always", "never", help="Colours on stdout.")
def live_command(**options: Any) -> None:
    """Collect from a running job, analyse, and say which rank it waits for.

    \b
    Examples:
      nccldoctor live --pid all --twice 10
      nccldoctor live --slurm 4711 --report report.html
      nccldoctor live --ssh hosts.txt --watch 30
      nccldoctor live --pid all --format json | jq .verdict
    """
    from nccldoctor.cli.live.repeating import run_live

    click.get_current_context().exit(run_live(options))


@click.command("watch", epilog=WATCH_CODES)
@click.argument("source", type=INPUT, metavar="PATH|ras://HOST:PORT")
@click.option(
    "--every", type=click.FloatRange(0.1, 3600), default=10.0, show_default=True, help="Seconds between two looks."
)
@click.option(
    "--behind",
    type=click.FloatRange(1, 86400),
    default=30.0,
    show_default=True,
    help="Name ranks this late, in seconds.",
)
@click.option(
    "--stall",
    type=click.FloatRange(1, 86400),
    default=300.0,
    show_default=True,
    help="Seconds without a step: a stall.",
)
@click.option(
    "--exec",
    "hook",
    metavar="CMD",
    help="Run CMD when the job gets stuck, and keep watching; NCCLDOCTOR_* variables describe the verdict.",
)
@click.option(
    "--metrics",
    metavar="[HOST]:PORT",
    help="Serve Prometheus metrics at /metrics, and keep watching; without HOST for this machine alone.",
)
@click.option(
    "--webhook",
    metavar="URL",
    envvar="NCCLDOCTOR_WEBHOOK",
    show_envvar=True,
    help="Post JSON when the job gets stuck, fails or moves again, and keep watching.",
)
@choice_option("--color", "auto", "always", "never", help="Colours on stdout.")
def watch_command(source: str, **options: Any) -> None:
    """Analyse logs as they grow, and say who falls behind before the watchdog.

    PATH is the folder with the job's logs and dumps. ras://HOST:28028 asks the
    RAS service of NCCL 2.24 and newer on a node of the job.

    \b
    Examples:
      nccldoctor watch logs/
      nccldoctor watch ras://localhost:28028 --every 30
      nccldoctor watch logs/ --exec 'nccldoctor collect --slurm 4711'
      nccldoctor watch logs/ --metrics 0.0.0.0:9109 --webhook "$SLACK_URL"
    """
    from nccldoctor.cli.live.watching import watch_source

    click.get_current_context().exit(watch_source(source, **options))
