"""The data of a report's pictures: plain values, bounded at any size of job.

The stages before fill them, reports draw them, and the JSON holds them.
"""

from __future__ import annotations

from msgspec import Struct

from nccldoctor.model.ranks import Ranks

NEVER = -1.0
"""Lateness of a rank that never issued a call that others issued."""

UNKNOWN = -2.0
"""Lateness of a rank without a record of the call, or of its time."""

LEVELS = (5.0, 50.0, 250.0, 1000.0)
"""Bounds in milliseconds between the levels of lateness: below the first is level 0, above the last level 4."""

LEVEL_NEVER, LEVEL_UNKNOWN = 5, 6
"""Levels of what has no lateness."""

SEVERITY = bytes((1, 2, 3, 4, 5, 6, 0))
"""The severity of each level: of several cells merged into one the worst shows."""


def level(late_ms: float) -> int:
    """The level of a lateness: 0 to 4 by :data:`LEVELS`, 5 never arrived, 6 not known."""
    if late_ms == NEVER:
        return LEVEL_NEVER
    if late_ms == UNKNOWN:
        return LEVEL_UNKNOWN
    return sum(late_ms >= bound for bound in LEVELS)


class RankLateness(Struct, frozen=True):
    """Lateness of one rank: ``late_ms`` for each call, and in how many of them it was the ``last``."""

    rank: int
    late_ms: tuple[float, ...]
    last: int


class Lateness(Struct, frozen=True):
    """The lateness of each rank in each of the last recorded calls of the stalled group and its sister groups.

    Where a transfer stalls, it is the group in which both its ends issued most collectives.

    ``rows`` holds the ranks to look at one by one; ``levels`` one byte for each of ``ranks`` and each of ``seqs`` (row by
    row), so that no odd rank of a large job is lost. ``ops`` names the calls. ``correction_ms`` is the largest
    correction of a clock, ``corrected`` says from what it was learned.
    """

    group: str
    seqs: tuple[int, ...]
    ops: tuple[str, ...]
    rows: tuple[RankLateness, ...]
    ranks: Ranks
    levels: bytes
    correction_ms: float = 0.0
    corrected: str = ""


class StackLine(Struct, frozen=True):
    """One frame: ``own`` marks the user's code, ``parts`` the first frame in which two stacks differ."""

    function: str
    file: str
    line: int | None
    own: bool
    parts: bool = False


class StackSide(Struct, frozen=True):
    """The stack of one rank, innermost frame first, by ``what`` kind of record at ``where``; ``cut`` frames are left out."""

    rank: int
    what: str
    where: str
    frames: tuple[StackLine, ...]
    cut: int = 0


class StackDiff(Struct, frozen=True):
    """A culprit's stack and a peer's; ``peer`` is None where no peer left one."""

    culprit: StackSide
    peer: StackSide | None


class IssuedCall(Struct, frozen=True):
    """One call as a rank issued it; ``done`` where it completed."""

    op: str
    group: str
    seq: int | None
    site: str
    sizes: str
    done: bool

    @property
    def key(self) -> tuple[str, str, int | None]:
        """Equal for the same call on two ranks."""
        return self.op, self.group, self.seq


class CallDiffRow(Struct, frozen=True):
    """The same position in two sequences of calls; ``kind`` is same, differs, left-only, right-only."""

    left: IssuedCall | None
    right: IssuedCall | None
    kind: str


class CallDiff(Struct, frozen=True):
    """The calls of a culprit (left) and of a peer (right) around their first difference, without ``before`` equal rows."""

    left: int
    right: int
    rows: tuple[CallDiffRow, ...]
    before: int = 0
    after: int = 0


class Mark(Struct, frozen=True):
    """Something that happened at one moment: ``kind`` is timeout, exit, exception, dump, stack, life or trouble."""

    kind: str
    at: float
    text: str
    where: str = ""


class TimeRow(Struct, frozen=True):
    """One rank, or ranks that did the same, over time."""

    ranks: Ranks
    marks: tuple[Mark, ...]


class Timeline(Struct, frozen=True):
    """The time around the stall.

    ``zone`` is UTC, or empty where no time in the input has one; ``hidden`` ranks have no row. ``began`` is when the stall began, None
    where unknown. ``flags`` are the decisive moments of the whole job, one of each kind. The logs print ``ahead`` seconds more than
    the job's clock shows.
    """

    rows: tuple[TimeRow, ...]
    start: float
    end: float
    zone: str
    hidden: int = 0
    note: str = ""
    began: float | None = None
    flags: tuple[Mark, ...] = ()
    ahead: float = 0.0


class CallField(Struct, frozen=True):
    """One field of a call on each side: "" where a side has none, *varies* where its ranks have several."""

    name: str
    values: tuple[str, ...]

    @property
    def is_different(self) -> bool:
        """True where the sides have different values."""
        return len(set(self.values)) > 1


class FieldDiff(Struct, frozen=True):
    """The same call on ranks that disagree: a side for each way it was issued, that of the culprits last.

    ``source`` says what the fields were read from. The fields that differ come first.
    """

    op: str
    seq: int
    sides: tuple[Ranks, ...]
    fields: tuple[CallField, ...]
    source: str


class StripCell(Struct, frozen=True):
    """One call of the ranks of a row: the field that differs, and ``done`` where all of them completed it.

    ``value`` is *varies* where the ranks have several; ``differs`` where the first row has another.
    """

    value: str
    done: bool
    differs: bool


class StripRow(Struct, frozen=True):
    """Ranks that issued the stalled call alike; a cell is None where none of them recorded the call."""

    ranks: Ranks
    cells: tuple[StripCell | None, ...]


class CallStrip(Struct, frozen=True):
    """The calls around a mismatch: a row for each side of its :class:`FieldDiff`, a column for each sequence number.

    ``shown`` names the field in the cells. ``ops`` holds the operation of each column, "" where the ranks issued several.
    """

    group: str
    stalled: int
    shown: str
    seqs: tuple[int, ...]
    ops: tuple[str, ...]
    rows: tuple[StripRow, ...]


class LinkEnd(Struct, frozen=True):
    """One end of a connection, as far as known: host, address, adapter and port, and what its ranks reported."""

    host: str
    address: str
    ranks: Ranks
    device: str
    reports: tuple[str, ...]


class BrokenLink(Struct, frozen=True):
    """A connection that failed: the end that is at fault or reported it first, the other end, and the error."""

    near: LinkEnd
    far: LinkEnd
    error: str


class SnapshotRow(Struct, frozen=True):
    """Ranks that stood alike in every look: the innermost own frame of each look, "" where none was seen."""

    ranks: Ranks
    frames: tuple[str, ...]
    is_culprit: bool

    @property
    def has_moved(self) -> bool:
        """True where two looks show different frames."""
        return len({frame for frame in self.frames if frame}) > 1


class Snapshots(Struct, frozen=True):
    """Stacks of the same processes at several moments: seconds on the job's clock, None where a look has no time."""

    times: tuple[float | None, ...]
    rows: tuple[SnapshotRow, ...]
