"""The ranks in a table that fits the terminal: what tells rows apart is never cut."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from nccldoctor.model import Diagnosis, Family, Role
from nccldoctor.model.standings import Involvement, Standing
from nccldoctor.reports.parts import wording
from nccldoctor.reports.parts.standing_titles import waited_title
from nccldoctor.reports.terminal.columns import Column, table_lines
from nccldoctor.reports.terminal.layout import DIM, Line, Span
from nccldoctor.words import names, numbers
from nccldoctor.words.sanitize import line

ROWS = 12
"""Rows of the table; the ranks of more are counted."""

FEWEST = 2


COLUMNS = (
    Column("ranks"),
    Column("state"),
    Column("in", least=20, yields=4),
    Column("waits for", least=9, yields=5),
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
    head, *body = table_lines(COLUMNS, [_cells(row, diagnosis) for row in rows[:ROWS]], width)
    yield (Span(head, DIM),)
    for row, text in zip(rows, body, strict=False):
        yield (Span(text, STYLES.get(row.involvement, "")),)
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
        waited_title(replace(row.call, site="")) if row.call is not None else line(row.frame, 40),
        names.few(row.waits_for, 3) if row.waits_for else "",
        _code(row),
        hosts,
        line(row.end, 30),
    ]


def _code(row: Standing) -> str:
    """The function and its place, by the stack or the traceback; its place alone where another column has the function."""
    if row.call is not None and not row.frame:
        return line(row.call.site or row.frame_at, 80)
    if row.call is None:
        return line(row.frame_at, 60)
    return line(f"{row.frame} ({row.frame_at})" if row.frame_at else row.frame, 80)
