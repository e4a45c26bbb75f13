"""What was not read and would tell: for each kind of input whose files are missing, and where they lie."""

from __future__ import annotations

from dataclasses import dataclass

from nccldoctor.model import Confidence, Coverage, Diagnosis, Family
from nccldoctor.reports.parts import wording
from nccldoctor.reports.parts.sanitize import line

KINDS = {
    "flight recorder": (
        "flight-recorder dumps",
        "`/tmp/nccl_trace_rank_<N>` or `~/.cache/torch/comm_lib_trace_rank_<N>` on each node, unless "
        "`TORCH_FR_DUMP_TEMP_FILE` or `TORCH_NCCL_DEBUG_INFO_TEMP_FILE` named another place",
    ),
    "logs": (
        "logs",
        "the folder of `torchrun --log-dir`, the output files of Slurm, or `kubectl logs`",
    ),
}
"""The inputs that tell most, as rows of coverage call them: what they are called here, and where they lie."""

PROBLEMS = 2


@dataclass(frozen=True, slots=True)
class Absent:
    """One kind of input: ``what`` was not read, in words; ``where`` it lies, as CommonMark."""

    what: str
    where: str


def wanted(diagnosis: Diagnosis) -> tuple[Absent, ...]:
    """What is missing, where the answer rests on too little; empty where it does not."""
    finding = diagnosis.verdict
    unsure = not finding.ranks and (finding.suspects or finding.confidence is Confidence.LOW)
    open_ = finding.family is Family.UNDETERMINED or unsure
    if not open_:
        return ()
    found = ((row, KINDS[row.input]) for row in diagnosis.coverage if row.input in KINDS)
    return tuple(
        Absent(noun + whose, where) for row, (noun, where) in found if (whose := _whose(row, diagnosis.job.world_size))
    )


def _whose(row: Coverage, world: int | None) -> str:
    """Whose files are missing, to stand behind their name; "" where all are there."""
    if row.expected:
        missing = row.expected - row.found
        return f" of {wording.ranks_phrase(missing, 5)}" if missing else ""
    if world is not None:
        return ""
    return f" of ranks other than {wording.few(row.found, 5)}" if row.found else " of each rank"


def named(diagnosis: Diagnosis) -> str:
    """The same in one phrase: ``flight-recorder dumps of ranks 0-3; logs of rank 2``."""
    return "; ".join(item.what for item in wanted(diagnosis))


def read(diagnosis: Diagnosis) -> str:
    """What was read instead, with the first problems: for a summary that has no table of it."""
    parts = [_count(row) for row in diagnosis.coverage if row.expected or row.found or row.input in KINDS]
    problems = [line(problem, 160) for row in diagnosis.coverage for problem in row.problems]
    more = f"and {len(problems) - PROBLEMS} more" if len(problems) > PROBLEMS else ""
    files = wording.plural(len(diagnosis.sources), "file")
    return "; ".join(filter(None, (f"{files}: {', '.join(parts)}" if parts else files, *problems[:PROBLEMS], more)))


def _count(row: Coverage) -> str:
    kind = line(row.input, 80)
    if row.expected:
        return f"{kind} of {len(row.found):,} of {wording.plural(len(row.expected), 'rank')}"
    return f"{kind} of {wording.ranks_phrase(row.found, 5)}"
