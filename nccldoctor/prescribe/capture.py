"""What to capture next time: exact exports for the PyTorch seen, sized by this run, each only where it would have told
more.
"""

from __future__ import annotations

import math

import numpy as np

from nccldoctor.events import CallTimeout
from nccldoctor.identify.case import Case
from nccldoctor.model import CauseClass, Finding, SourceKind
from nccldoctor.prescribe import exports
from nccldoctor.prescribe.conditions.environment import version_tuple

DEFAULT, _LARGEST = 2000, 20_000
"""Recorder entries: PyTorch 2.13's default, and the size from which a dump of thousands of ranks gets slow to write
(about 10 MB a rank).
"""


def capture(findings: tuple[Finding, ...], case: Case) -> tuple[str, ...]:
    """Shell lines and one-line advice, in the order of their worth; a ``#`` says what a line would have shown."""
    if not findings or findings[0].cause is CauseClass.NONE:
        return ()
    lines = [*_recorder(case), *_stacks(case), *_library(case)]
    if any(
        finding.cause in (CauseClass.NETWORK, CauseClass.UNFINISHED, CauseClass.DEVICE_STALLED) for finding in findings
    ):
        lines += _ras(case)
    return tuple(lines)


SPAN_S = 120
"""Seconds of calls that the ring should hold: what happened between the step that went wrong and the stall."""


def buffer_size(case: Case) -> int:
    """Entries of the ring: at least the default, twice a ring that had wrapped, and :data:`SPAN_S` of this run's
    calls.
    """
    wrapped = max((head.entries for head in case.dumps if head.wrapped), default=0) * 2
    size = max(DEFAULT, wrapped, math.ceil(call_rate(case) * SPAN_S / 1000) * 1000)
    return min(size, _LARGEST)


def call_rate(case: Case) -> float:
    """Calls that the busiest rank issued in a second, by the times in its dump; 0 where no dump tells.

    The newest tenth is left out, so that the stall itself does not count.
    """
    fastest = 0.0
    for _, rows in case.calls.by_dump():
        made = np.sort(case.calls.created_ns[rows])
        made = made[made > 0]
        if len(made) > 10:
            steady = made[: max(11, int(len(made) * 0.9))]
            span = float(steady[-1] - steady[0]) / 1e9
            fastest = max(fastest, (len(steady) - 1) / span if span > 0.001 else 0.0)
    return fastest


def _recorder(case: Case) -> list[str]:
    """The flight recorder, unless every rank left a dump with entries, stacks and no lost past."""
    dumped = {rank for rank, head in zip(case.dump_rank, case.dumps, strict=False) if rank is not None and head.entries}
    whole = bool(dumped) and set(case.world) <= dumped
    if whole and not any(head.wrapped or not head.has_frames or head.problem for head in case.dumps):
        return []
    return [one.line() for one in exports.recorder(case.torch, buffer_size(case))]


def _stacks(case: Case) -> list[str]:
    """Stacks of every rank: the only record of what a rank does outside a collective."""
    if case.world and {e.rank for e in case.events if e.kind == "stack"} >= set(case.world):
        return []
    limit = min((e.timeout_ms for e in case.of(CallTimeout) if e.timeout_ms), default=600_000) // 1000
    seconds = max(30, int(limit * 0.8))
    return [
        f"faulthandler.dump_traceback_later({seconds}, repeat=True)  # in the training script, re-armed each step: "
        f"what the late rank does, before the limit of {limit} s",
        "faulthandler.register(signal.SIGUSR1, all_threads=True)  # `kill -USR1 <pid>` then prints its stacks",
    ]


def _library(case: Case) -> list[str]:
    """NCCL's own warnings with time stamps, and a log for each rank."""
    lines = []
    if not any(e.kind in ("comm-init", "nccl-warn") for e in case.events):
        lines += [one.line() for one in exports.library(case.nccl)]
    logs = {source.rank for source in case.sources if source.kind is SourceKind.LOG and source.rank is not None}
    if case.world and not logs >= set(case.world):
        lines.append(
            'torchrun --log-dir "$LOG_DIR" --redirects 3 --tee 3 …  # one log for each rank, the silent ones too'
        )
    return lines


def _ras(case: Case) -> list[str]:
    """NCCL's RAS service, asked while the job hangs; JSON since 2.28.7, text since 2.24."""
    version = version_tuple(case.nccl) if case.nccl else None
    if version is not None and version < (2, 24, 3):
        return []
    option = "-v" if version is not None and version < (2, 28, 7) else "-f json -v"
    why = "# on any node of the job while it hangs: whose counts stand still"
    return [f"ncclras {option} > ras1; sleep 10; ncclras {option} > ras2  {why}"]
