"""Writes the variables that record the most about the next hang, for a shell, a Slurm script or a pod."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

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
        """Whether NCCL's watchdog may run in it, which alone writes dumps by itself. Not where other libraries alone are seen."""
        return "nccl" in self.backends or not self.backends

    @property
    def exports(self) -> tuple[Export, ...]:
        """The variables, the recorder's first."""
        others = tuple(export for name in sorted(self.backends) for export in LIBRARY_LOGS.get(name, ()))
        if self.has_nccl:
            return (*recorder_exports(self.torch, self.entries), *nccl_exports(self.nccl), *others)
        return (Export("TORCH_FR_BUFFER_SIZE", str(self.entries), "calls that nccldoctor.capture keeps"), *others)


_CAPTURE = '-m nccldoctor.capture --to "$LOG_DIR" train.py ...'


def render(form: str, run: NextRun) -> str:
    """All of it for ``form`` (shell, slurm or kubernetes), ready to paste, ending in a newline."""
    from jinja2 import StrictUndefined, Template

    text = Path(__file__).with_suffix(".j2").read_text(encoding="utf-8")
    template = Template(
        text, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    values = {"blocking": BLOCKING_WAIT, "capture": _CAPTURE, "log_each_rank": LOG_EACH_RANK}
    has_recorder = not run.torch or bool(recorder_exports(run.torch, run.entries))
    return str(template.render(values, form=form, run=run, has_recorder=has_recorder))
