"""Input that is missing and would settle an open verdict, and the places where it lies."""

from __future__ import annotations

from msgspec import Struct

from nccldoctor.model import Confidence, Coverage, Diagnosis, Family
from nccldoctor.words import names, numbers
from nccldoctor.words.sanitize import line

KINDS = {
    "flight recorder": (
        "flight-recorder dumps",
        "`/tmp/nccl_trace_rank_<N>` or `~/.cache/torch/comm_lib_trace_rank_<N>` on each node, unless "
        "`TORCH_FR_DUMP_TEMP_FILE` or `TORCH_NCCL_DEBUG_INFO_TEMP_FILE` named another place",
    ),
    "logs": ("logs", "the folder of `torchrun --log-dir`, the output files of Slurm, or `kubectl logs`"),
}
"""The inputs that tell most, by their name in coverage: their noun, and where they lie."""

PROBLEMS = 2


class MissingInput(Struct, frozen=True):
    """One kind of input: ``what`` is missing, in words; ``where`` it lies, as CommonMark."""

    what: str
    where: str


def wanted(diagnosis: Diagnosis) -> tuple[MissingInput, ...]:
    """The missing inputs of a verdict that names no rank for sure; empty for any other."""
    finding = diagnosis.verdict
    is_unsure = not finding.ranks and (finding.suspects or finding.confidence is Confidence.LOW)
    if finding.family is not Family.UNDETERMINED and not is_unsure:
        return ()
    rows = [
        (KINDS[row.input], _whose(row, diagnosis.job.world_size)) for row in diagnosis.coverage if row.input in KINDS
    ]
    return tuple(MissingInput(noun + whose, where) for (noun, where), whose in rows if whose)


def _whose(row: Coverage, world: int | None) -> str:
    """`` of ranks 2, 5``: the ranks without this input, to stand behind its noun; "" where all have it."""
    if row.expected:
        missing = row.expected - row.found
        return f" of {names.ranks_phrase(missing, 5)}" if missing else ""
    if world is not None:
        return ""
    return f" of ranks other than {names.few(row.found, 5)}" if row.found else " of each rank"


def named(diagnosis: Diagnosis) -> str:
    """One phrase: ``flight-recorder dumps of ranks 0-3; logs of rank 2``."""
    return "; ".join(item.what for item in wanted(diagnosis))


def input_line(diagnosis: Diagnosis) -> str:
    """The input that was read, and how many notes there are on it: for the summary of a folded table."""
    parts = [_count(row) for row in diagnosis.coverage if row.expected or row.found or row.input in KINDS]
    problems = sum(len(row.problems) for row in diagnosis.coverage)
    noted = f"; {numbers.plural(problems, 'note')}" if problems else ""
    files = numbers.plural(len(diagnosis.sources), "file")
    return (f"{files}: {', '.join(parts)}" if parts else files) + noted


def input_problems(diagnosis: Diagnosis) -> str:
    """The first problems with the input, and how many more there are; "" for none."""
    problems = [line(problem, 160) for row in diagnosis.coverage for problem in row.problems]
    more = [f"and {numbers.plural(len(problems) - PROBLEMS, 'more note')}"] if len(problems) > PROBLEMS else []
    return "; ".join([*problems[:PROBLEMS], *more])


def _count(row: Coverage) -> str:
    kind = line(row.input, 80)
    if row.expected:
        return f"{kind} {len(row.found):,} of {len(row.expected):,}"
    return f"{kind} of {names.ranks_phrase(row.found, 5)}"
