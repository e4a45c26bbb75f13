"""The commands about environment variables: what to set for the next run, and what is wrong with those set."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from nccldoctor.cli import terminal
from nccldoctor.cli.options import INPUT, format_option

if TYPE_CHECKING:
    from nccldoctor.prescribe.next_run import NextRun

FIX = 1
"""Exit code of ``env check`` where a setting has no effect, does harm, or has a value that makes no sense."""


class Defaulting(click.Group):
    """``nccldoctor env --format slurm run/`` means ``env show``: the export of variables is what is asked for most."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put ``show`` in front, unless another command or help for the group is asked for."""
        if not args or (args[0] not in self.commands and args[0] not in ("-h", "--help")):
            args = ["show", *args]
        return super().parse_args(ctx, args)


@click.group(cls=Defaulting)
def env() -> None:
    """Variables to set for the next run, and what the variables you set really do.

    \b
    Examples:
      nccldoctor env                          # the same as: nccldoctor env show
      nccldoctor env logs/ --format slurm     # sized by that run
      nccldoctor env check launch.sh train.py env.txt
    """


def _checked_version(text: str | None) -> str | None:
    from nccldoctor.model.errors import InputError
    from nccldoctor.prescribe.conditions.environment import version_tuple

    if text is not None and version_tuple(text) == (0, 0, 0):
        raise InputError(f"{text!r} isn't a version", hint="write it like 2.9.1")
    return text


@env.command("show")
@click.argument("paths", nargs=-1, type=INPUT, metavar="[PATH...]")
@click.option("--torch", metavar="VERSION", help="PyTorch release (default: the one found in PATH, else any).")
@click.option("--nccl", metavar="VERSION", help="NCCL release (default: the one found in PATH, else any).")
@format_option("shell", "slurm", "kubernetes", help="Where the variables go.")
def show_exports(paths: tuple[str, ...], torch: str | None, nccl: str | None, form: str) -> None:
    """Print the variables that record the most about the next hang.

    With PATH (logs or dumps of a run) the flight recorder is sized by that run's rate of
    calls, and the variables are those of the libraries that carried its collectives.

    \b
    Examples:
      nccldoctor env show --torch 2.7.1
      nccldoctor env show logs/ --format kubernetes
    """
    from nccldoctor.prescribe.capture import DEFAULT
    from nccldoctor.prescribe.next_run import NextRun, render

    torch, nccl = _checked_version(torch), _checked_version(nccl)
    run = NextRun(torch, nccl, DEFAULT, "PyTorch's default; pass PATH to size it by a run")
    terminal.out(render(form, _sized_by(run, paths) if paths else run))


def _sized_by(run: NextRun, paths: tuple[str, ...]) -> NextRun:
    """``run`` with the libraries, the rate of calls and, where none was given, the releases of the run in ``paths``."""
    from nccldoctor.pipeline import read
    from nccldoctor.prescribe.capture import buffer_size, call_rate
    from nccldoctor.prescribe.next_run import NextRun
    from nccldoctor.questions.backends import backends_of
    from nccldoctor.words.times import duration

    case = read(paths)
    rate, entries = call_rate(case), buffer_size(case)
    because = (
        f"{duration(1000 * entries / rate)} of this run at {rate:.1f} calls per second"
        if rate
        else "PyTorch's default, because no dump in PATH shows how many calls a rank makes per second"
    )
    if any(head.wrapped for head in case.dumps):
        because += "; the last run's ring had dropped older calls"
    backends = backends_of(case) | ({"nccl"} if case.nccl else set())
    return NextRun(run.torch or case.torch, run.nccl or case.nccl, entries, because, backends)


@env.command("check")
@click.argument("files", nargs=-1, required=True, type=INPUT, metavar="FILE...")
@click.option("--torch", metavar="VERSION", help="Check against this PyTorch release.")
@click.option("--nccl", metavar="VERSION", help="Check against this NCCL release.")
@click.option("--each", is_flag=True, help="FILEs are of different jobs: print what to fix as FILE:LINE.")
@format_option("text", "json")
def check(files: tuple[str, ...], torch: str | None, nccl: str | None, each: bool, form: str) -> None:
    """Check each NCCL_*, TORCH_* and GLOO_* variable, and timeouts in code.

    FILE is the output of env, a shell or sbatch script, a pod, Python code or a log.
    Several are of one job, unless --each says otherwise. Exits with 1 if a setting needs
    a fix, else with 0.

    \b
    Examples:
      env | nccldoctor env check -
      nccldoctor env check launch.sbatch train.py --torch 2.9.1
      nccldoctor env check --each jobs/*.sbatch Dockerfile
    """
    from msgspec.structs import asdict

    from nccldoctor.cli import env_check
    from nccldoctor.pipeline import read

    _checked_version(torch), _checked_version(nccl)
    if each:
        rows = [row for file in files for row in env_check.rows_of_file(file, torch, nccl)]
    else:
        rows = [*env_check.check_case(read(files), torch, nccl)]
    if each and form == "text":
        terminal.out("".join(env_check.fix_lines(rows)))
    elif form == "json":
        document = {"settings": list(map(asdict, rows))}
        terminal.out(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    else:
        terminal.out("".join(env_check.settings_lines(rows)))
    click.get_current_context().exit(FIX if any(row.verdict == "fix" for row in rows) else 0)
