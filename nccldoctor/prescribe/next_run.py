"""Writes the variables that record the most about the next hang, for a shell, a Slurm script or a pod."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator

from msgspec import Struct

from nccldoctor.prescribe.capture import LIBRARY_LOGS, LOG_EACH_RANK, Export, nccl_exports, recorder_exports
from nccldoctor.prescribe.setting_table import BLOCKING_WAIT


class NextRun(Struct, frozen=True):
    """What is known of the run to record.

    Releases are None where any is meant. ``entries`` is the size of the flight recorder and ``because`` says where it comes from.
    ``backends`` are the libraries seen to carry its collectives (``nccl``, ``gloo`` …).
    """

    torch: str | None
    nccl: str | None
    entries: int
    because: str
    backends: Collection[str] = ()

    @property
    def has_nccl(self) -> bool:
        """Whether NCCL's watchdog may run in it, which alone writes dumps by itself.

        Only a run that shows gloo and no NCCL is without.
        """
        return "nccl" in self.backends or "gloo" not in self.backends

    @property
    def exports(self) -> tuple[Export, ...]:
        """The variables, the recorder's first."""
        others = tuple(export for name in sorted(self.backends) for export in LIBRARY_LOGS.get(name, ()))
        if self.has_nccl:
            return (*recorder_exports(self.torch, self.entries), *nccl_exports(self.nccl), *others)
        return (Export("TORCH_FR_BUFFER_SIZE", str(self.entries), "calls that nccldoctor.capture keeps"), *others)

    @property
    def notes(self) -> tuple[str, str]:
        """For which release the variables are, and why the recorder has its size."""
        release = "for any PyTorch from 2.2 on; --torch 2.13 leaves older names out"
        if self.torch or not self.has_nccl:
            release = f"for PyTorch {self.torch}" if self.torch else "for any PyTorch"
        if not self.has_nccl:
            release += (
                f" with {', '.join(sorted(self.backends))}, which writes no dump by itself; nccldoctor.capture does"
            )
        if self.torch and self.has_nccl and not recorder_exports(self.torch, self.entries):
            return release, "this PyTorch has no flight recorder; the first release that has one is 2.2"
        return release, f"the flight recorder keeps {self.entries} calls of each rank: {self.because}"


_CAPTURE = '-m nccldoctor.capture --to "$LOG_DIR" train.py ...'


def render(form: str, run: NextRun) -> str:
    """All of it for ``form`` (shell, slurm or kubernetes), ready to paste, ending in a newline."""
    lines = {"shell": _shell, "slurm": _slurm, "kubernetes": _kubernetes}[form](run)
    return "".join(f"{line}\n" for line in (*(f"# {note}" for note in run.notes), *lines))


def _shell(run: NextRun) -> Iterator[str]:
    yield from _exports(run, "$PWD/logs", f"torchrun {LOG_EACH_RANK} {'...' if run.has_nccl else _CAPTURE}")


def _slurm(run: NextRun) -> Iterator[str]:
    yield "# in the batch script, below the #SBATCH lines"
    program = "..." if run.has_nccl else f"python {_CAPTURE}"
    command = f'srun --export=ALL --label --output="$LOG_DIR/%x-%j-%n-%t.out" {program}'
    yield from _exports(run, "$SLURM_SUBMIT_DIR/logs-$SLURM_JOB_ID", command)


def _exports(run: NextRun, folder: str, command: str) -> Iterator[str]:
    yield f'export LOG_DIR="${{LOG_DIR:-{folder}}}"  # a folder that all nodes see'
    yield 'mkdir -p "$LOG_DIR"'
    if run.has_nccl:
        yield f"unset {' '.join(BLOCKING_WAIT)}  # they turn off the watchdog and every dump"
    yield from (export.line() for export in run.exports)
    yield f"# then: {command}"


def _kubernetes(run: NextRun) -> Iterator[str]:
    """Under a container; ``$(NAME)`` is how a pod refers to a variable defined above."""
    rest = f"; remove {' and '.join(BLOCKING_WAIT)}: they turn off every dump" if run.has_nccl else ""
    yield f"# in each container of the job{rest}"
    yield "env:"
    yield "  - name: LOG_DIR"
    yield '    value: "/nccl-logs"  # a volume that outlives the pod and that all pods mount'
    for export in run.exports:
        yield f"  - name: {export.name}"
        value = json.dumps(export.value.replace("$LOG_DIR", "$(LOG_DIR)"))
        yield f"    value: {value}" + (f"  # {export.why}" if export.why else "")
    if not run.has_nccl:
        yield f"# then: torchrun {_CAPTURE}"
