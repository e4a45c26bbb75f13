"""The variables that leave the best evidence next time, and how a shell, a Slurm script and a pod are given them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from nccldoctor.prescribe.conditions.environment import version_tuple

FORMS = ("shell", "slurm", "kubernetes")

BLOCKING = ("TORCH_NCCL_BLOCKING_WAIT", "NCCL_BLOCKING_WAIT")
"""Where one of these is on, current PyTorch starts no watchdog, and nothing of the recorder's advice takes effect."""


@dataclass(frozen=True, slots=True)
class Export:
    """One variable. ``value`` may refer to ``$LOG_DIR``; ``why`` is a clause without a full stop, or empty."""

    name: str
    value: str
    why: str = ""

    def line(self) -> str:
        """The POSIX shell line: the value in double quotes where it holds a variable, else as it is."""
        value = f'"{self.value}"' if "$" in self.value else self.value
        return f"export {self.name}={value}" + (f"  # {self.why}" if self.why else "")


def recorder(torch: str | None, entries: int) -> tuple[Export, ...]:
    """The flight recorder's variables for a release of PyTorch (None: any); empty before 2.2, which has none.

    Both names of each are set: the first is read since PyTorch 2.8, the second alone before, and up to 2.9 parts of
    ProcessGroupNCCL look at the old name only (pytorch, ProcessGroupNCCL.cpp and FlightRecorder.hpp of 2.9.1).
    """
    version = version_tuple(torch) if torch else None
    if version is not None and version < (2, 2, 0):
        return ()
    old, new = version is not None and version < (2, 8, 0), version is not None and version >= (2, 10, 0)
    sizes = [Export("TORCH_NCCL_TRACE_BUFFER_SIZE", str(entries))]
    stems = [Export("TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "$LOG_DIR/nccl_trace_rank_")]
    if not old:
        sizes.insert(0, Export("TORCH_FR_BUFFER_SIZE", str(entries)))
        stems.insert(0, Export("TORCH_FR_DUMP_TEMP_FILE", "$LOG_DIR/nccl_trace_rank_"))
    sizes[0] = Export(sizes[0].name, sizes[0].value, "which calls each rank issued and finished, and from which line")
    stems[0] = Export(stems[0].name, stems[0].value, "on a disk that all nodes share; the rank is appended")
    dump = Export("TORCH_NCCL_DUMP_ON_TIMEOUT", "1", "" if new else "off by default in early 2.x")
    return (*sizes, dump, *stems)


def library(nccl: str | None) -> tuple[Export, ...]:
    """NCCL's own warnings with time stamps, as its release (None: any) can print them."""
    version = version_tuple(nccl) if nccl else None
    found = [Export("NCCL_DEBUG", "WARN", "transport errors, in NCCL's words")]
    if version is None or version >= (2, 26, 2):
        found.append(Export("NCCL_DEBUG_TIMESTAMP_LEVELS", "ALL", "since NCCL 2.26: a time on every line"))
    return (*found, Export("NCCL_SET_THREAD_NAME", "1", "NCCL's threads carry names in stacks"))


def render(form: str, torch: str | None, nccl: str | None, entries: int, because: str) -> str:
    """All of it for ``form`` (one of :data:`FORMS`), ready to paste, ending in a newline.

    ``because`` says where the number of entries comes from.
    """
    wanted = (*recorder(torch, entries), *library(nccl))
    notes = [f"for PyTorch {torch}" if torch else "for any PyTorch from 2.2 on", f"{entries} entries: {because}"]
    if torch and not recorder(torch, entries):
        notes[1] = "this PyTorch has no flight recorder; the first release that has one is 2.2"
    lines = {"shell": _shell, "slurm": _slurm, "kubernetes": _kubernetes}[form](wanted, notes)
    return "".join(f"{line}\n" for line in lines)


def _exports(wanted: tuple[Export, ...]) -> Iterator[str]:
    yield 'mkdir -p "$LOG_DIR"'
    yield f"unset {' '.join(BLOCKING)}  # they turn off the watchdog, and with it every dump"
    yield from (one.line() for one in wanted)


def _shell(wanted: tuple[Export, ...], notes: list[str]) -> Iterator[str]:
    yield from (f"# {note}" for note in notes)
    yield 'export LOG_DIR="${LOG_DIR:-$PWD/logs}"  # a folder that all nodes see'
    yield from _exports(wanted)
    yield '# then: torchrun --log-dir "$LOG_DIR" --redirects 3 --tee 3 ...'


def _slurm(wanted: tuple[Export, ...], notes: list[str]) -> Iterator[str]:
    yield from (f"# {note}" for note in notes)
    yield "# in the batch script, below the #SBATCH lines"
    yield 'export LOG_DIR="${LOG_DIR:-$SLURM_SUBMIT_DIR/logs-$SLURM_JOB_ID}"  # a folder that all nodes see'
    yield from _exports(wanted)
    yield '# then: srun --export=ALL --label --output="$LOG_DIR/%x-%j-%n-%t.out" ...'


def _kubernetes(wanted: tuple[Export, ...], notes: list[str]) -> Iterator[str]:
    """Under a container; ``$(NAME)`` is how a pod refers to a variable defined above."""
    yield from (f"# {note}" for note in notes)
    yield f"# in each container of the job; remove {' and '.join(BLOCKING)}: they turn off every dump"
    yield "env:"
    yield "  - name: LOG_DIR"
    yield '    value: "/nccl-logs"  # a volume that outlives the pod and that all pods mount'
    for one in wanted:
        yield f"  - name: {one.name}"
        value = json.dumps(one.value.replace("$LOG_DIR", "$(LOG_DIR)"))
        yield f"    value: {value}" + (f"  # {one.why}" if one.why else "")
