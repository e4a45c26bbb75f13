"""The tables of a report as text: progress by rank, what was ruled out, coverage."""

from __future__ import annotations

from dataclasses import dataclass

from nccldoctor.model import Coverage, Diagnosis, Role
from nccldoctor.reports.charts import strip
from nccldoctor.reports.parts import rank_rows, wording
from nccldoctor.reports.parts.sanitize import line

ROWS = 24
PROBLEMS = 4
"""Problems listed in one row of coverage; more are counted."""


@dataclass(frozen=True, slots=True)
class RankRow:
    """A row of *progress by rank*. ``role`` is the key of the style, ``word`` and ``symbol`` what a reader sees."""

    ranks: str
    where: str
    device: str
    role: str
    word: str
    symbol: str
    group: str
    cells: tuple[strip.Cell, ...]
    done: str
    enqueued: str
    waits_in: str
    sign: str
    place: str


@dataclass(frozen=True, slots=True)
class Ruled:
    """A hypothesis that was looked at: ``word`` is *ruled out* or *not checked*."""

    hypothesis: str
    word: str
    says: str
    place: str


@dataclass(frozen=True, slots=True)
class Read:
    """A row of coverage: a kind of input, how many ranks of how many, who is missing, and the problems."""

    input: str
    counts: str
    complete: bool
    missing: str
    problems: tuple[str, ...]
    more: int


def ranks(diagnosis: Diagnosis) -> tuple[tuple[RankRow, ...], int]:
    """The rows, and how many ranks are in none of them."""
    rows = rank_rows.single(diagnosis)
    cause = diagnosis.verdict.cause
    cells = strip.strips(rows, diagnosis.ranks)
    shown = sum(len(row.ranks) for row in rows)
    return (
        tuple(
            RankRow(
                ranks=wording.ranks_phrase(row.ranks, 5),
                where=_hosts(row.hosts),
                device=line(row.device or "", 40),
                role=row.role.value,
                word=wording.role_word(row.role, cause),
                symbol=wording.SYMBOLS[row.role],
                group=line(row.group or "", 40),
                cells=squares,
                done="" if row.completed is None else str(row.completed),
                enqueued="" if row.enqueued is None else str(row.enqueued),
                waits_in=_waits(row),
                sign=line(row.last_sign, 120),
                place=line(str(row.where), 160) if row.where else "",
            )
            for row, squares in zip(rows, cells, strict=True)
        ),
        max(len(diagnosis.ranks) - shown, 0),
    )


def _waits(row: rank_rows.Row) -> str:
    """The call alone: its group stands in a column of its own."""
    call = (row.waits_in or "").removesuffix(f" of {row.group}")
    return line(call, 60) or ("nothing seen" if row.role is Role.CULPRIT else "")


def _hosts(hosts: tuple[str, ...]) -> str:
    more = f" +{len(hosts) - 2}" if len(hosts) > 2 else ""
    return ", ".join(line(host, 60) for host in hosts[:2]) + more


def ruled_out(diagnosis: Diagnosis) -> tuple[Ruled, ...]:
    """Hypotheses with the evidence against them, or with the input that is missing."""
    return tuple(
        Ruled(
            hypothesis=line(item.text, 120),
            word="ruled out" if item.met is False else "not checked",
            says=line(item.says, 300),
            place=line(item.where or "", 160),
        )
        for item in diagnosis.ruled_out[:ROWS]
    )


def coverage(diagnosis: Diagnosis) -> tuple[Read, ...]:
    """What was found of each kind of input."""
    return tuple(_read(item) for item in diagnosis.coverage[:ROWS])


def _read(item: Coverage) -> Read:
    missing = item.expected - item.found
    nothing = not item.expected and not item.found and not item.problems
    counts = f"{len(item.found):,} / {len(item.expected):,}" if item.expected else f"{len(item.found):,}"
    return Read(
        input=line(item.input, 80),
        counts=counts,
        complete=not missing and not item.problems and not nothing,
        missing=f"missing: {wording.ranks_phrase(missing, 5)}"
        if missing
        else "none of a known rank"
        if nothing
        else "",
        problems=tuple(line(problem, 240) for problem in item.problems[:PROBLEMS]),
        more=max(len(item.problems) - PROBLEMS, 0),
    )
