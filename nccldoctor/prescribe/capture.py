"""Names what to capture next time: exact variables for the PyTorch seen, sized by this run.

``analyze`` gives each line only where it would have shown more.
"""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np
from msgspec import Struct

from nccldoctor.events import CaptureNotice, Stack
from nccldoctor.identify.case import Case
from nccldoctor.model import CauseClass, Finding, SourceKind
from nccldoctor.prescribe.conditions.environment import version_tuple
from nccldoctor.questions.backends import backends_of
from nccldoctor.questions.patience import DEFAULT_LIMIT_MS, limit_ms

DEFAULT, _LARGEST = 2000, 20_000
"""Flight recorder entries: PyTorch 2.13's default, and the size from which a dump of thousands of ranks gets slow to write
(about 10 MB a rank).
"""
LOG_EACH_RANK = '--log-dir "$LOG_DIR" --redirects 3 --tee 3'


class Export(Struct, frozen=True):
    """One variable. ``value`` may refer to ``$LOG_DIR``; ``why`` is a clause without a full stop, or empty."""

    name: str
    value: str
    why: str = ""

    def line(self) -> str:
        """The POSIX shell line: the value in double quotes where it holds a variable, else as it is."""
        value = f'"{self.value}"' if "$" in self.value else self.value
        return f"export {self.name}={value}" + (f"  # {self.why}" if self.why else "")


def recorder_exports(torch: str | None, entries: int) -> tuple[Export, ...]:
    """The flight recorder's variables for a release of PyTorch (None: any); empty before 2.2, which has none.

    Both names of each are set: the first is read since PyTorch 2.8, the second alone before, and up to 2.9 parts of
    ProcessGroupNCCL look at the old name only (pytorch, ProcessGroupNCCL.cpp and FlightRecorder.hpp of 2.9.1).
    """
    version = version_tuple(torch) if torch else None
    if version is not None and version < (2, 2, 0):
        return ()
    is_old, is_new = version is not None and version < (2, 8, 0), version is not None and version >= (2, 10, 0)
    sizes = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")[is_old:]
    stems = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")[is_old:]
    return (
        *_under_each(sizes, str(entries), "which calls each rank issued and finished, and from which line"),
        Export("TORCH_NCCL_DUMP_ON_TIMEOUT", "1", "writes the dump at a timeout" + ("" if is_new else "; off by default in early 2.x")),
        *_under_each(stems, "$LOG_DIR/nccl_trace_rank_", "on a disk that all nodes share; the rank is appended"),
    )  # fmt: skip


def _under_each(names: tuple[str, ...], value: str, why: str) -> list[Export]:
    """One value under all names of a setting; the first says why."""
    return [Export(name, value, _OLDER if number else why) for number, name in enumerate(names)]


_OLDER = "the same under its older name: PyTorch 2.2 to 2.9 reads it, newer ones warn about it"


def nccl_exports(nccl: str | None) -> tuple[Export, ...]:
    """NCCL's own warnings with time stamps, as its release (None: any) can print them."""
    version = version_tuple(nccl) if nccl else None
    exports = [Export("NCCL_DEBUG", "WARN", "transport errors in NCCL's words")]
    if version is None or version >= (2, 26, 2):
        exports.append(Export("NCCL_DEBUG_TIMESTAMP_LEVELS", "ALL", "a time on every line, from NCCL 2.26 on"))
    return (*exports, Export("NCCL_SET_THREAD_NAME", "1", "names NCCL's threads in stacks"))


LIBRARY_LOGS = {
    "gloo": (Export("TORCH_DISTRIBUTED_DEBUG", "DETAIL", "compares shapes and order of calls over all ranks; slow"),),
    "horovod": (
        Export("HOROVOD_TIMELINE", "$LOG_DIR/timeline.json", "which rank was ready for each tensor, and when"),
    ),
    "hccl": (Export("ASCEND_GLOBAL_LOG_LEVEL", "1", "plog files at INFO level"),),
    "oneccl": (Export("CCL_LOG_LEVEL", "info", "init and transport errors in oneCCL's words"),),
}
"""What the other libraries log (Horovod's docs/timeline.rst, CANN's and oneCCL's manuals of environment variables)."""
_OWN_LAUNCHER = {"horovod": 'horovodrun --output-filename "$LOG_DIR" …', "jax": ""}
"""How jobs that torchrun does not start write a log for each rank; empty where their launcher has no way."""


def capture(findings: tuple[Finding, ...], case: Case) -> tuple[str, ...]:
    """Shell lines and one-line advice, in the order of their worth; a ``#`` says what a line would have shown."""
    if not findings or findings[0].cause is CauseClass.NONE:
        return ()
    backends = backends_of(case) or {"nccl"}
    if any(case.of(CaptureNotice)):  # it records calls and stacks, and writes a log for each rank
        return tuple(_library(case, backends & {"nccl"}))
    inside = {CauseClass.NETWORK, CauseClass.UNFINISHED, CauseClass.DEVICE_STALLED} & {f.cause for f in findings}
    lines = [
        *(_own_recorder(case, backends) if backends & DEFAULT_LIMIT_MS.keys() else []),
        *_recorder(case, backends),
        *_stacks(findings[0], case, backends),
        *_library(case, backends),
        *_rank_logs(case, backends),
    ]
    return tuple(lines + (_ras(case) if inside and "nccl" in backends else []))


SPAN_S = 120
"""Seconds of calls that the ring should hold: what happened between the step that went wrong and the stall."""


def buffer_size(case: Case) -> int:
    """Entries of the ring: the default, twice a ring that had wrapped, or :data:`SPAN_S` of this run's calls."""
    wrapped = max((head.entries + head.unread for head in case.dumps if head.wrapped), default=0) * 2
    size = max(DEFAULT, wrapped, math.ceil(call_rate(case) * SPAN_S / 1000) * 1000)
    return min(size, _LARGEST)


def call_rate(case: Case) -> float:
    """Calls that the busiest rank issued in a second, by the times in its dump; 0 where no dump tells.

    The newest tenth is left out, so that the stall itself does not count.
    """
    fastest = 0.0
    for _, rows in case.calls.by_dump():
        created = np.sort(case.calls.created_ns[rows])
        created = created[created > 0]
        if len(created) > 10:
            steady = created[: max(11, int(len(created) * 0.9))]
            span = float(steady[-1] - steady[0]) / 1e9
            fastest = max(fastest, (len(steady) - 1) / span if span > 0.001 else 0.0)
    return fastest


def _recorder(case: Case, backends: Collection[str]) -> list[str]:
    """The flight recorder, unless every rank left a dump with entries, stacks and no lost past.

    Only NCCL's watchdog writes dumps by itself; for other libraries the ring is made larger where the job dumps it already.
    """
    dumped = {rank for rank, head in zip(case.dump_rank, case.dumps, strict=False) if rank is not None and head.entries}
    whole = bool(dumped) and set(case.world) <= dumped
    if whole and not any(head.wrapped or not head.has_frames or head.problem for head in case.dumps):
        return []
    if "nccl" in backends:
        return [export.line() for export in recorder_exports(case.torch, buffer_size(case))]
    size = Export("TORCH_FR_BUFFER_SIZE", str(buffer_size(case)), "calls that each rank's dump keeps")
    return [size.line()] if dumped else []


def _own_recorder(case: Case, backends: Collection[str]) -> list[str]:
    """Our own recorder, where a rank left no stack or no dump. It takes both when a job stalls, on gloo as well."""
    dumped = {rank for rank, head in zip(case.dump_rank, case.dumps, strict=False) if rank is not None and head.entries}
    seen = {event.rank for event in case.of(Stack)}
    if case.world and set(case.world) <= dumped & seen:
        return []
    rest = "only NCCL's own settings below are needed" if "nccl" in backends else "the rest isn't needed"
    why = f"stacks, calls and the end of each rank; with it {rest}"
    return [f'torchrun … -m nccldoctor.capture --to "$LOG_DIR" train.py …  # {why}']


def _stacks(verdict: Finding, case: Case, backends: Collection[str]) -> list[str]:
    """Stacks of every rank: the only record of what a rank does outside a collective."""
    if case.world and {e.rank for e in case.events if e.kind == "stack"} >= set(case.world):
        return []
    stalled = verdict.stalled.timeout_ms if verdict.stalled is not None else None
    usual = min((ms for name, ms in DEFAULT_LIMIT_MS.items() if name in backends), default=0)
    known = (limit_ms(case, stalled) or usual) // 1000
    seconds = max(1, int(known * 0.8)) if known else 30
    limit = f"the {known} s timeout" if known else "the timeout; choose fewer seconds than it has"
    return [
        f"faulthandler.dump_traceback_later({seconds}, repeat=True)  # in the training script, re-armed each step: "
        f"where a straggler is, before {limit}",
        "faulthandler.register(signal.SIGUSR1, all_threads=True)  # `kill -USR1 <pid>` then prints its stacks",
    ]


def _library(case: Case, backends: Collection[str]) -> list[str]:
    """The warnings of the libraries in use, NCCL's with times."""
    exports = [export for name in sorted(backends) for export in LIBRARY_LOGS.get(name, ())]
    if "nccl" in backends and not any(e.kind in ("comm-init", "nccl-warn") for e in case.events):
        exports += nccl_exports(case.nccl)
    return [export.line() for export in exports]


def _rank_logs(case: Case, backends: Collection[str]) -> list[str]:
    """A log for each rank, by the launcher of the job."""
    logs = {source.rank for source in case.sources if source.kind is SourceKind.LOG and source.rank is not None}
    if not case.world or logs >= set(case.world):
        return []
    launcher = next(
        (_OWN_LAUNCHER[name] for name in sorted(backends) if name in _OWN_LAUNCHER), f"torchrun {LOG_EACH_RANK} …"
    )
    return [f"{launcher}  # one log per rank, silent ranks too"] if launcher else []


def _ras(case: Case) -> list[str]:
    """NCCL's RAS service, asked while the job hangs; JSON since 2.28.7, text since 2.24."""
    version = version_tuple(case.nccl) if case.nccl else None
    if version is not None and version < (2, 24, 3):
        return []
    option = "-v" if version is not None and version < (2, 28, 7) else "-f json -v"
    why = "# on any node of the job while it hangs: shows whose counts don't move"
    return [f"ncclras {option} > ras1; sleep 10; ncclras {option} > ras2  {why}"]
