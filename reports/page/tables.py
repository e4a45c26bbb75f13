"""The rows of two tables of the page: progress by rank and coverage."""

from __future__ import annotations

from dataclasses import dataclass

from nccldoctor.model import Coverage, Diagnosis, Role
from nccldoctor.reports.charts import progress
from nccldoctor.reports.parts import rank_rows, wording
from nccldoctor.reports.parts.listed import Listed, first
from nccldoctor.reports.parts.sanitize import line

ROWS = 24
PROBLEMS = 4
"""Problems listed in one row of coverage; more are counted."""


@dataclass(frozen=True, slots=True)
class RankRow:
    """A row of *progress by rank*: ranks that stand alike, and their role, hosts and call in words."""

    row: rank_rows.Row
    role: str
    symbol: str
    hosts: str
    cells: tuple[progress.Cell, ...]
    waits_in: str


@dataclass(frozen=True, slots=True)
class CoverageRow:
    """A kind of input: how many ranks of how many, who is missing, and the problems."""

    input: str
    counts: str
    is_complete: bool
    missing: str
    problems: Listed[str]


def ranks(diagnosis: Diagnosis) -> Listed[RankRow]:
    """The rows, and how many ranks are in none of them."""
    rows = rank_rows.single(diagnosis)
    shown = tuple(
        RankRow(
            row=row,
            role=wording.role_word(row.role, diagnosis.verdict.cause),
            symbol=wording.SYMBOLS[row.role],
            hosts=", ".join(line(host, 60) for host in row.hosts[:2]) + _and_more(len(row.hosts) - 2),
            cells=cells,
            waits_in=_waits_in(row),
        )
        for row, cells in zip(rows, progress.strips(rows, diagnosis.ranks), strict=True)
    )
    return Listed(shown, max(len(diagnosis.ranks) - sum(len(row.ranks) for row in rows), 0))


def _and_more(count: int) -> str:
    return f" +{count}" if count > 0 else ""


def _waits_in(row: rank_rows.Row) -> str:
    """The call alone: its group stands in a column of its own."""
    call = (row.waits_in or "").removesuffix(f" of {row.group}")
    return line(call, 60) or ("nothing seen" if row.role is Role.CULPRIT else "")


def coverage(diagnosis: Diagnosis) -> tuple[CoverageRow, ...]:
    """A row for each kind of input."""
    return tuple(_coverage_row(row) for row in diagnosis.coverage[:ROWS])


def _coverage_row(row: Coverage) -> CoverageRow:
    absent = row.expected - row.found
    is_empty = not (row.expected or row.found or row.problems)
    missing = f"missing: {wording.ranks_phrase(absent, 5)}" if absent else ""
    return CoverageRow(
        input=line(row.input, 80),
        counts=f"{len(row.found):,} / {len(row.expected):,}" if row.expected else f"{len(row.found):,}",
        is_complete=not (absent or row.problems or is_empty),
        missing="none of a known rank" if is_empty else missing,
        problems=first([line(problem, 240) for problem in row.problems], PROBLEMS),
    )
