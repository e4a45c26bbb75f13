"""The rows of two tables of the page: progress by rank and coverage."""

from __future__ import annotations

from dataclasses import dataclass

from nccldoctor.model import Coverage, Diagnosis
from nccldoctor.reports.parts.listed import Listed, first
from nccldoctor.words import names
from nccldoctor.words.sanitize import line

ROWS = 24
PROBLEMS = 4
"""Problems listed in one row of coverage; more are counted."""


@dataclass(frozen=True, slots=True)
class CoverageRow:
    """A kind of input: how many ranks of how many, who is missing, and the problems."""

    input: str
    counts: str
    is_complete: bool
    missing: str
    problems: Listed[str]


def coverage(diagnosis: Diagnosis) -> tuple[CoverageRow, ...]:
    """A row for each kind of input."""
    return tuple(_coverage_row(row) for row in diagnosis.coverage[:ROWS])


def _coverage_row(row: Coverage) -> CoverageRow:
    absent = row.expected - row.found
    is_empty = not (row.expected or row.found or row.problems)
    missing = f"missing: {names.ranks_phrase(absent, 5)}" if absent else ""
    return CoverageRow(
        input=line(row.input, 80),
        counts=f"{len(row.found):,} / {len(row.expected):,}" if row.expected else f"{len(row.found):,}",
        is_complete=not (absent or row.problems or is_empty),
        missing="none of a known rank" if is_empty else missing,
        problems=first([line(problem, 240) for problem in row.problems], PROBLEMS),
    )
