"""Runs ``nccldoctor demo --live``: a real job with a fault, captured, collected from while it hangs, analysed and ended."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path

import click

from nccldoctor.cli.report_file import is_report
from nccldoctor.collect.gather import gather_bundle
from nccldoctor.collect.node_options import NodeOptions
from nccldoctor.collect.reach.this_machine import ThisMachine
from nccldoctor.model.errors import InputError, NccldoctorError, OutputError
from nccldoctor.rehearsal.faults import WORLD, Fault, fault_named
from nccldoctor.rehearsal.launch import Rehearsal, rehearsed

PATIENCE_S = 60.0
"""Seconds until a fault must show: a busy machine may need half of them to import torch."""

COLLECT_S = 10.0


def has_torch() -> bool:
    """True where a live job can run; torch is not imported."""
    return importlib.util.find_spec("torch") is not None


def run_rehearsal(name: str, folder: Path | None, force: bool, analyze: Callable[[Path, Path, bool], None]) -> Path:
    """Run the job of one fault, and call ``analyze`` while it hangs; the path of the report.

    ``analyze`` gets the folder of the evidence, the report to write, and whether one may be replaced. Every process is ended before this
    returns or raises. Raises :class:`NccldoctorError` where there is no such fault, no torch, or no place to write.
    """
    fault = fault_named(name)
    if fault is None:
        raise InputError(f"no live fault is called {name!r}", "nccldoctor demo --live list shows them")
    if not has_torch():
        raise InputError("a live job needs torch", 'pip install "nccldoctor[torch]"')
    folder = folder or Path("incident", f"live-{name}")
    if folder.exists() and any(folder.iterdir()):
        raise OutputError(f"{folder} is not empty", "choose another folder with --to")
    report = folder.with_name(f"{folder.name}.html")
    click.echo(f"starting {WORLD} ranks on gloo. {fault.about}.", err=True)
    try:
        with rehearsed(fault, folder.absolute()) as job:
            _look_at(job, fault)
            analyze(folder, report, force or is_report(report))
    except OSError as error:
        raise OutputError(f"cannot write to {folder}: {error.strerror}", "choose another folder with --to") from error
    return report


def _look_at(job: Rehearsal, fault: Fault) -> None:
    """Wait for the fault, and collect from the ranks that are left."""
    if not job.is_shown_within(fault, PATIENCE_S):
        click.echo(f"the fault did not show within {PATIENCE_S:g} s; these are the files until now", err=True)
    if not job.pids:
        click.echo("the job has ended by itself", err=True)
        return
    click.echo("the job stands: collecting from its processes", err=True)
    options = NodeOptions(pid=",".join(map(str, job.pids)), seconds=COLLECT_S)
    try:
        gather_bundle(ThisMachine(), options, job.folder / "bundle.tar.zst", python=sys.executable)
    except NccldoctorError as error:
        click.echo(f"nothing was collected: {error}", err=True)
