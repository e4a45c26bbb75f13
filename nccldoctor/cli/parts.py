"""Runs ``nccldoctor reduce`` and ``nccldoctor merge``: writes parts, joins them, and diagnoses what they hold."""

from __future__ import annotations

from pathlib import Path

import click

from nccldoctor.cli import report_file, terminal
from nccldoctor.cli.analyze import Options, analyze_paths
from nccldoctor.discover.discover import discover
from nccldoctor.model.errors import InputError
from nccldoctor.parts.container import write_joined
from nccldoctor.parts.in_memory import inputs_to_reduce
from nccldoctor.parts.opened import open_parts
from nccldoctor.parts.write import write_part


def reduce_paths(paths: tuple[str, ...], output: Path, force: bool, workers: int | None, quiet: bool) -> None:
    """Read what lies under ``paths`` and write it as a part that is named like its file.

    Raises :class:`~nccldoctor.model.errors.NccldoctorError` where nothing can be read or the part cannot be written.
    """
    report_file.check_target(output, force, (report_file.PART,))
    inputs, _ = inputs_to_reduce(paths)
    with terminal.Waiting(quiet) as waiting, report_file.replacing(output, force=force) as file:
        calls = write_part(inputs, file, output.stem, workers, waiting)
    if not quiet:
        size = max(1, output.stat().st_size // 1000)
        click.echo(f"wrote {output} ({size:,} kB): {len(inputs.inputs):,} files, {calls:,} recorded calls", err=True)


def merge_paths(paths: tuple[str, ...], options: Options) -> int:
    """Put the parts among ``paths`` together and report as ``analyze`` does, or write them to one file; the exit code.

    Raises :class:`~nccldoctor.model.errors.NccldoctorError` where there is no part, or nothing can be written.
    """
    inputs = discover(paths)
    if not inputs.parts:
        raise InputError(
            f"no part in {', '.join(paths[:3])}", "nccldoctor reduce writes parts; analyze reads logs and dumps"
        )
    if options.output is None or options.output.suffix.lower() != report_file.PART:
        return analyze_paths(paths, options)
    report_file.check_target(options.output, options.force, (report_file.PART,))
    parts, gaps = open_parts(inputs.parts)
    if gaps:
        raise InputError(f"{gaps[0].what}: {gaps[0].why}", "leave it out, or reduce that node again")
    with report_file.replacing(options.output, force=options.force) as file:
        write_joined(file, (part.stored() for part in parts))
    click.echo(f"wrote {options.output}: {len(parts):,} parts", err=True)
    return 0
