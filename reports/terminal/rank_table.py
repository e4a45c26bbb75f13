"""The ranks in a table that fits the terminal: what tells rows apart is never cut."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nccldoctor.model import Diagnosis, Family, Role
from nccldoctor.model.standings import Involvement, Standing
from nccldoctor.reports.parts import wording
from nccldoctor.reports.parts.standing_titles import waited_title
from nccldoctor.reports.terminal.layout import DIM, Line, Span
from nccldoctor.words import names, numbers
from nccldoctor.words.sanitize import line, shortened

ROWS = 12
"""Rows of the table; the ranks of more are counted."""

FEWEST = 2


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table.

    It is cut to ``least`` characters at most (0: never), and gives way in the order of ``yields`` (1 first, 0 never).
    """

    head: str
    least: int = 0
    yields: int = 0


COLUMNS = (
    Column("ranks"),
    Column("state"),
    Column("in"),
    Column("waits for", yields=4),
    Column("at", least=12, yields=2),
    Column("hosts", least=12, yields=3),
    Column("end", yields=1),
)

STYLES = {Involvement.CULPRIT: "bold red", Involvement.SUSPECT: "yellow"}


def rank_table(diagnosis: Diagnosis, width: int) -> Iterator[Line]:
    """A row for ranks that stand alike; nothing where one row would say it all."""
    rows = diagnosis.standings
    if len(rows) < FEWEST or (diagnosis.verdict.family is Family.UNDETERMINED and len(rows) == FEWEST):
        return
    cells = [_cells(row, diagnosis) for row in rows[:ROWS]]
    widths = _fitting(cells, width)
    yield (Span(shortened(_row_text([column.head for column in COLUMNS], widths), width), DIM),)
    for row, texts in zip(rows, cells, strict=False):
        yield (Span(shortened(_row_text(texts, widths), width), STYLES.get(row.involvement, "")),)
    if len(rows) > ROWS:
        yield (Span(f"and {numbers.plural(sum(len(row.ranks) for row in rows[ROWS:]), 'rank')} more", DIM),)


def _cells(row: Standing, diagnosis: Diagnosis) -> list[str]:
    state = row.involvement.value
    if row.involvement is Involvement.CULPRIT:
        state = wording.role_word(Role.CULPRIT, diagnosis.verdict.cause)
    hosts = line(row.hosts[0], 30) if len(row.hosts) == 1 else f"{len(row.hosts)} hosts" if row.hosts else ""
    return [
        names.few(row.ranks, 4),
        state,
        waited_title(row.call) if row.call is not None else line(row.frame, 40),
        names.few(row.waits_for, 3) if row.waits_for else "",
        _code(row),
        hosts,
        line(row.end, 30),
    ]


def _code(row: Standing) -> str:
    """The function and its place; the place alone where the function is in the column before."""
    if row.call is None or not row.frame:
        return line(row.frame_at, 60)
    return line(f"{row.frame} ({row.frame_at})" if row.frame_at else row.frame, 80)


def _fitting(cells: list[list[str]], room: int) -> list[int]:
    """The width of each column; 0 for one that is empty or had to give way."""
    widths = [max(map(len, texts)) for texts in zip(*cells, strict=True)]
    widths = [max(w, len(column.head)) if w else 0 for w, column in zip(widths, COLUMNS, strict=True)]
    for number in sorted(range(len(COLUMNS)), key=lambda n: COLUMNS[n].yields):
        column, over = COLUMNS[number], sum(widths) + 2 * (sum(map(bool, widths)) - 1) - room
        if over > 0 and column.yields and widths[number]:
            shorter = widths[number] - over
            widths[number] = shorter if column.least and shorter >= column.least else 0
    return widths


def _row_text(texts: list[str], widths: list[int]) -> str:
    return "  ".join(shortened(text, w).ljust(w) for text, w in zip(texts, widths, strict=True) if w).rstrip()
