"""The proof of a verdict: a few exhibits, each a claim and the part of the input that shows it."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from nccldoctor.model.excerpts import SourceLine
from nccldoctor.model.figures import CallDiff
from nccldoctor.model.inputs import Place
from nccldoctor.model.ranks import Ranks


class Part(StrEnum):
    """What an exhibit shows in the argument: a peer's deed, the culprit's, or the culprit's condition."""

    PEER = "peer"
    CULPRIT = "culprit"
    CONDITION = "condition"


class QuotedLines(Struct, frozen=True):
    """Lines as they stand in a file. ``shown`` hold every value that is cited; ``before`` and ``after`` are their context.

    ``where`` is the place that is cited, ``marked`` are the numbers of the lines that decide. ``frame`` is the function at which a
    quoted stack ends, ``raised_in`` that at which a quoted traceback begins; "" for other lines. ``is_whole`` is false until the file
    was read again: a line is then the start of what the first reading kept.
    """

    where: Place
    shown: tuple[SourceLine, ...]
    marked: frozenset[int]
    before: tuple[SourceLine, ...] = ()
    after: tuple[SourceLine, ...] = ()
    frame: str = ""
    raised_in: str = ""
    is_whole: bool = False

    @property
    def path(self) -> str:
        """The file."""
        return self.where.path


class CallCell(Struct, frozen=True):
    """A recorded call as one cell: the fields that may differ between ranks, and the place of its entry.

    ``state`` is in the words of the dump. ``is_done`` tells what it means: the call ended.
    """

    op: str
    sizes: str
    dtype: str
    state: str
    site: str
    where: Place
    is_done: bool = False


class CallsSide(Struct, frozen=True):
    """A column of a table of calls: a rank, and the path of its dump."""

    rank: int
    path: str


class CallsRow(Struct, frozen=True):
    """One call by number, or by ``label``: the call of each side, None where its dump has no entry.

    ``differs`` names the fields in which the sides differ: ``op``, ``sizes``, ``dtype``, ``state``, ``entry``.
    """

    seq: int
    cells: tuple[CallCell | None, ...]
    differs: tuple[str, ...] = ()
    label: str = ""


class CallsTable(Struct, frozen=True):
    """The last calls of one group on a peer (left) and on a culprit (right), formatted from their dumps."""

    group: str
    sides: tuple[CallsSide, ...]
    rows: tuple[CallsRow, ...]

    @property
    def places(self) -> tuple[Place, ...]:
        """The entries of the last row that has any: what a reader prints again."""
        filled = [[cell.where for cell in row.cells if cell is not None] for row in self.rows]
        return tuple(next((cells for cells in reversed(filled) if cells), ()))


class CountsRow(Struct, frozen=True):
    """How far ranks came in a group.

    ``cells`` hold a count for each head of the table, "" where none is known; a row that ``lags`` is marked.
    """

    ranks: Ranks
    cells: tuple[str, ...]
    lags: bool
    where: Place | None = None


class CountsTable(Struct, frozen=True):
    """Ranks by counters, formatted from the records of one observer; ``source`` names it: *the dumps*, *RAS*."""

    group: str
    source: str
    heads: tuple[str, ...]
    rows: tuple[CountsRow, ...]


class Exhibit(Struct, frozen=True):
    """One step of the proof, *Exhibit A*. ``cites`` are the values that the claim names and that the exhibit shows.

    ``parts`` are what it shows in the argument. ``evidence`` are the numbers, counted from 1, of the pieces of the finding's evidence
    that it stands for, and ``alike`` further ranks of which the same is on record. ``rank`` is the one whose line is quoted.
    """

    id: str
    claim: str
    parts: tuple[Part, ...]
    cites: tuple[str, ...]
    evidence: tuple[int, ...]
    lines: QuotedLines | None = None
    calls: CallsTable | None = None
    order: CallDiff | None = None
    counts: CountsTable | None = None
    alike: Ranks = Ranks()
    rank: int | None = None

    @property
    def places(self) -> tuple[Place, ...]:
        """Where the input shows it; empty for an order of calls, which is of whole dumps."""
        if self.lines is not None:
            return (self.lines.where,)
        if self.calls is not None:
            return self.calls.places
        rows = self.counts.rows if self.counts is not None else ()
        return tuple(row.where for row in rows if row.where is not None)


class Unshown(Struct, frozen=True):
    """A part of the argument that the input cannot show, and the sentence that names what is missing."""

    part: Part
    says: str


class LastLines(Struct, frozen=True):
    """The lines of one rank's log around the silence.

    ``before`` are its last lines before the gap, ``within`` the line that explains it if there is one, ``after`` its first lines behind.
    ``gap_ms`` is None where no time is known; ``since`` is the time that the last line before the gap prints. Without ``after`` the log
    ends there.
    """

    rank: int
    path: str
    before: tuple[SourceLine, ...]
    within: tuple[SourceLine, ...]
    after: tuple[SourceLine, ...]
    gap_ms: float | None
    since: datetime | None = None
