"""The input: sources, places in them, the process groups that they name, and the gaps."""

from __future__ import annotations

from datetime import datetime, time
from enum import StrEnum

from msgspec import Struct

from nccldoctor.model.ranks import Ranks


class SourceKind(StrEnum):
    """The kind of a file, by its content."""

    LOG = "log"
    RECORDER = "flight recorder"
    STACKS = "stacks"
    KERNEL_LOG = "kernel log"
    JSON = "json"
    EMPTY = "empty"
    UNREADABLE = "unreadable"
    UNKNOWN = "unknown"
    CODE = "source code"
    SCRIPT = "launch script"
    CONFIG = "configuration"
    NOTEBOOK = "notebook"
    DASHBOARD = "dashboard"
    NOTES = "notes"
    CHAT = "chat"
    PAGE = "web page"
    BUILD = "build output"
    DATA = "data"

    @property
    def role(self) -> SourceRole:
        """What a source of this kind may say."""
        return _ROLES.get(self, SourceRole.OUTPUT)


class SourceRole(StrEnum):
    """What a source may say: only output of the job, its launcher, scheduler and kernel testifies to what happened.

    *settings* and *prose* come from people or from other programs, before or after: they tell variables, limits and advice.
    """

    OUTPUT = "output"
    SETTINGS = "settings"
    PROSE = "prose"


_ROLES = {
    SourceKind.CODE: SourceRole.SETTINGS,
    SourceKind.SCRIPT: SourceRole.SETTINGS,
    SourceKind.CONFIG: SourceRole.SETTINGS,
    SourceKind.NOTEBOOK: SourceRole.SETTINGS,
    SourceKind.DASHBOARD: SourceRole.SETTINGS,
    SourceKind.NOTES: SourceRole.PROSE,
    SourceKind.CHAT: SourceRole.PROSE,
    SourceKind.PAGE: SourceRole.PROSE,
    SourceKind.BUILD: SourceRole.PROSE,
    SourceKind.DATA: SourceRole.SETTINGS,
}


class CollectedFile(Struct, frozen=True):
    """What the manifest of a bundle says of a file: its kind, and whose it is.

    ``kind`` is a word of the collector (``stack``, ``log``, ``environment``). ``parent`` is the pid of the rank whose worker is process
    ``pid``, None for a rank's own process. ``look`` counts looks from 1 on; ``taken`` has the offset of the host's clock.
    ``job`` tells jobs on the same hosts apart, empty where the manifest does not. ``grown`` are the bytes that were written to a log
    between two looks, ``lines`` what it had at the first.
    """

    kind: str
    host: str | None = None
    rank: int | None = None
    local_rank: int | None = None
    pid: int | None = None
    parent: int | None = None
    look: int | None = None
    taken: datetime | None = None
    job: str = ""
    grown: int | None = None
    lines: int | None = None


class Source(Struct, frozen=True):
    """One input file, or one member of an archive.

    ``path`` is relative to the input, with ``/``; never absolute. ``rank`` and ``host`` are hints
    from names and launchers (``why`` says from which), to be overruled by content.
    ``local_rank`` is the torchrun folder or ``[default3]:`` number; ``attempt`` its restart count. Of a file with stacks, ``look``
    tells one look at the job from another, ``taken`` is when it was taken (a time without a date where the path has none), and
    ``pid`` the process that its name ends in. ``collected`` is what the manifest of its bundle says.
    """

    id: int
    path: str
    kind: SourceKind
    size: int
    rank: int | None = None
    local_rank: int | None = None
    host: str | None = None
    attempt: int | None = None
    why: str = ""
    look: str = ""
    taken: datetime | time | None = None
    pid: int | None = None
    collected: CollectedFile | None = None


class Place(Struct, frozen=True, order=True):
    """The place of a fact: a source and a line (1-based), or a recorder entry (0-based).

    ``path`` is repeated here so that a place can be printed alone: ``path:line`` or ``path#entries[i]``.
    """

    source: int
    path: str
    line: int | None = None
    entry: int | None = None

    def __str__(self) -> str:
        if self.entry is not None:
            return f"{self.path}#entries[{self.entry}]"
        return self.path if self.line is None else f"{self.path}:{self.line}"

    def is_below(self, other: Place) -> bool:
        """True of a place further down in the same file."""
        return self.source == other.source and (self.line or 0) > (other.line or 0)


NOT_NAMED = "not named"
"""The label of the groups of calls that no line and no dump gives a group."""


class Group(Struct, frozen=True):
    """A process group: its agreed name and its members; never the name alone.

    ``learned`` says where the members come from: ``config`` (pg_config of a dump), ``entries`` (who recorded calls in it), ``log`` (lines
    that name it), ``seats`` (these, and the number of members), ``world`` (the size of the job is on record), ``listed`` (the launcher
    lists every known rank), ``nccl`` (a communicator whose members NCCL itself prints), ``assumed``, ``unnamed`` (it stands for one call
    of one rank, of which no line names the group). ``is_assumed`` is true of a default group that nothing names: its lines may be of it.
    """

    index: int
    uid: str
    desc: str
    members: Ranks
    learned: str
    is_assumed: bool = False

    @property
    def label(self) -> str:
        """Its name in reports: the description if it has one, and the name."""
        if self.learned == "unnamed":
            return NOT_NAMED
        if self.is_assumed:
            return f"{self.desc} (assumed)"
        return f"{self.desc} ({self.uid})" if self.desc and self.desc != "undefined" else self.uid


class Unexplained(Struct, frozen=True):
    """A line that looks like a failure and that no parser understood.

    ``rank`` is the global rank that its prefix names; None where it names none.
    """

    place: Place
    text: str
    rank: int | None = None


class Gap(Struct, frozen=True):
    """Something that is not known, and why: a missing dump, a cut file, a wrapped ring.

    ``lost`` is true where a file, or part of it, could not be read, or where the attempt of its lines is not known: it may hold
    anything. ``apart`` is true of what was left out on purpose: another run, an earlier attempt. ``odd`` is true of a file that
    contradicts its own name, or holds values that no release writes: a high confidence must stand without it. ``looks_like`` names
    the format of a file that is recognised and not understood. ``holes`` is true where lines or calls are missing between others: what is
    left shows no order. ``of_worlds`` is true where ranks of several worlds share their numbers; ``apart`` too where they were separated.
    ``beside`` is true of another job that ran on the same hosts at the same time: no attempt of this one. ``in_folders`` is true where
    folders tell it apart. ``failed`` is true of another run in which something went wrong, ``went_on`` where a dump that
    was left out ends at an earlier call of its rank.
    """

    what: str
    why: str
    ranks: Ranks = Ranks()
    source: int | None = None
    lost: bool = False
    apart: bool = False
    odd: bool = False
    looks_like: str = ""
    holes: bool = False
    of_worlds: bool = False
    beside: bool = False
    in_folders: bool = False
    failed: bool = False
    went_on: bool = False

    @property
    def is_of_other_run(self) -> bool:
        """True of what was left out because it is of another run or an earlier attempt."""
        return self.apart and not self.of_worlds and not self.beside
