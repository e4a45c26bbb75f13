"""Declares the commands for jobs that still run; each imports its work when it runs."""

# click keeps the lines of a paragraph that begins with a real backspace; in a raw docstring it is two characters.
# ruff: noqa: D301

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from nccldoctor.cli.live.reach_options import output_option, reach_options
from nccldoctor.cli.options import INPUT, choice_option, format_option

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
  4  the job is stuck or failed, and the command of --exec failed"""


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
    """
    from nccldoctor.cli.live.watching import watch_source

    click.get_current_context().exit(watch_source(source, **options))
