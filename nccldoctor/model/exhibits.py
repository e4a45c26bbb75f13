"""The proof of a verdict: a few exhibits, each a claim and the part of the input that shows it."""

from __future__ import annotations

from dataclasses import dataclass

from nccldoctor.model.excerpts import SourceLine
from nccldoctor.model.figures import CallDiff
from nccldoctor.model.inputs import Place


@dataclass(frozen=True, slots=True)
class QuotedLines:
    """Lines as they stand in a file. ``shown`` hold every value that is cited; ``before`` and ``after`` are their context.

    ``marked`` are the numbers of the lines that decide. ``is_whole`` is false where the file could not be read again and a line is the
    start of what the first reading kept.
    """

    path: str
    shown: tuple[SourceLine, ...]
    marked: frozenset[int]
    before: tuple[SourceLine, ...] = ()
    after: tuple[SourceLine, ...] = ()
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class CallCell:
    """A recorded call as one cell: the fields that may differ between ranks, and the place of its entry."""

    op: str
    sizes: str
    dtype: str
    state: str
    site: str
    where: Place


@dataclass(frozen=True, slots=True)
class CallsSide:
    """A column of a table of calls: a rank, and the path of its dump."""

    rank: int
    path: str


@dataclass(frozen=True, slots=True)
class CallsRow:
    """One sequence number: the call of each side, None where its dump has no entry.

    ``differs`` names the fields in which the sides differ: ``op``, ``sizes``, ``dtype``, ``state``, ``entry``.
    """

    seq: int
    cells: tuple[CallCell | None, ...]
    differs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CallsTable:
    """The last calls of one group on a peer (left) and on a culprit (right), formatted from their dumps."""

    group: str
    sides: tuple[CallsSide, ...]
    rows: tuple[CallsRow, ...]


@dataclass(frozen=True, slots=True)
class FormattedRow:
    """One record of a dump or of RAS, formatted: ``says`` what it shows, ``text`` its fields, ``where`` the file."""

    says: str
    text: str
    where: Place


@dataclass(frozen=True, slots=True)
class Exhibit:
    """One step of the proof. ``cites`` are the values that the claim names and that the exhibit shows.

    ``evidence`` are the numbers, counted from 1, of the pieces of the finding's evidence that it stands for.
    """

    claim: str
    cites: tuple[str, ...]
    evidence: tuple[int, ...]
    lines: QuotedLines | None = None
    calls: CallsTable | None = None
    order: CallDiff | None = None
    records: tuple[FormattedRow, ...] = ()


@dataclass(frozen=True, slots=True)
class LastLines:
    """The lines of one rank's log around the silence.

    ``before`` are its last lines before the gap, ``within`` the line that explains it if there is one, ``after`` its first lines behind.
    ``gap_ms`` is None where no time is known. Without ``after`` the log ends there.
    """

    rank: int
    path: str
    before: tuple[SourceLine, ...]
    within: tuple[SourceLine, ...]
    after: tuple[SourceLine, ...]
    gap_ms: float | None
