"""The rows of two tables of the page: coverage, and what is not the cause."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from nccldoctor.model import Condition, Coverage, Diagnosis
from nccldoctor.words import names
from nccldoctor.words.lists import and_list
from nccldoctor.words.sanitize import line
from nccldoctor.words.sentences import uncapitalized

ROWS = 24


class CoverageRow(Struct, frozen=True):
    """A kind of input: how many ranks of how many, who is missing, and the problems."""

    input: str
    counts: str
    is_complete: bool
    missing: str
    problems: tuple[str, ...]


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
        problems=tuple(line(problem, 240) for problem in row.problems),
    )


class RuledOutRow(Struct, frozen=True):
    """Causes that one fact rules out; ``done`` is false where the input to check them is missing, which ``says`` names."""

    name: str
    done: bool
    says: str


def ruled_out(conditions: Sequence[Condition]) -> tuple[RuledOutRow, ...]:
    """One row for the causes of which the same is said: *GPU fault and storage stall: no kernel log*."""
    causes: dict[tuple[bool, str], list[str]] = {}
    for item in conditions:
        causes.setdefault((item.met is False, item.says), []).append(item.text)
    rows = []
    for (done, says), named in causes.items():
        words = [
            text if number == 0 or text[1:2].isupper() else uncapitalized(text) for number, text in enumerate(named)
        ]
        rows.append(RuledOutRow(and_list(words), done, says))
    return tuple(rows)


def ruled_out_words(rows: Sequence[RuledOutRow]) -> str:
    """``Ruled out: network. Not checked: GPU fault, storage stall, out of memory.``"""
    parts = (
        ("Ruled out", [row.name for row in rows if row.done]),
        ("Not checked", [row.name for row in rows if not row.done]),
    )
    return " ".join(f"{label}: {', '.join(names)}." for label, names in parts if names)
