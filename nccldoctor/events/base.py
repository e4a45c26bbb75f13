"""Defines what all kinds of event share: common fields, who writes them, how they read, and the registry of kinds."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from datetime import datetime
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, TypedDict, TypeVar, Unpack, cast, dataclass_transform

from msgspec import Struct, StructMeta

from nccldoctor.model import CauseClass, EventRole, Place

CHARACTERS = 120
"""Length of a phrase at most."""


class Writer(StrEnum):
    """Who wrote a line: only what a rank writes itself is a sign of its life."""

    RANK = "rank"
    LAUNCHER = "launcher"
    SCHEDULER = "scheduler"
    KERNEL = "kernel"
    RAS = "ras"


class Meaning(TypedDict, total=False):
    """What holds for every line of a kind; where the fields decide, the class overrides a property of :class:`Event`.

    ``writer`` writes such lines (default: a rank). ``wording`` is how they read, with the field ``worded_by`` (where it is
    empty, the text of the line) behind a colon. ``symbol`` stands for them in a timeline: timeout, exit, exception, dump,
    stack, trouble or life. ``is_alarm``: the complaint of a rank that waited in a call and gave up. ``is_reaction``: it only
    ever answers or reports what happened elsewhere. ``moot_after_end``: a complaint that means nothing once every rank has
    finished, because the host of the store leaves first. ``host_matters``: equal lines of two hosts are two events.
    ``has_two_ends``: an error of a connection, which the host that prints it need not have caused. ``causes``: the verdicts
    that such an event can make true. The others are properties of :class:`Event` with one answer for all lines of the kind.
    """

    writer: Writer
    wording: str
    worded_by: str
    symbol: str
    is_alarm: bool
    is_reaction: bool
    moot_after_end: bool
    host_matters: bool
    has_two_ends: bool
    causes: frozenset[CauseClass]
    is_testimony: bool
    is_sign_of_life: bool
    is_complaint: bool
    is_trouble: bool
    is_end_of_process: bool
    consequence: EventRole


class GroupRef(Struct, frozen=True):
    """A process group as one line names it; any part may be missing.

    ``pg_id`` is the creation index in that process and differs between ranks; ``uid`` (PG GUID, or the
    name of 2.3 and 2.4) is agreed by all members; ``desc`` is the description.
    """

    pg_id: int | None = None
    uid: str | None = None
    desc: str | None = None

    def __str__(self) -> str:
        name = self.uid if self.uid is not None else (f"id {self.pg_id}" if self.pg_id is not None else "")
        return f"{name}({self.desc})" if self.desc else name

    @property
    def spoken(self) -> str:
        """What people call it: the description where there is one."""
        return self.desc or str(self)


class _Kind(StructMeta):
    """Makes every class below :class:`Event` a frozen struct whose fields are given by name, in order of declaration."""

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> _Kind:
        return super().__new__(cls, name, bases, namespace, **({"frozen": True, "kw_only": True} | options))


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Event(Struct, frozen=True, kw_only=True, metaclass=_Kind):
    """One thing a log line says.

    ``rank`` is the global rank, None until it is known; ``group_rank`` the rank inside ``group`` (the
    ``[Rank 3]`` of the watchdog). ``time`` is as printed: aware where the line names a zone, else naive; year 1900
    stands for a year that the line does not have (c10 and glog prefixes). ``text`` is the line without its
    prefixes and colours, at most 500 characters. ``host`` and ``pid`` are filled where the line names them,
    and so is ``pod``; where a line names the pod alone, ``host`` repeats it. ``actor`` is how Ray names its process:
    ``PolicyModelActor pid=101``.
    """

    kind: ClassVar[str] = ""
    writer: ClassVar[Writer] = Writer.RANK
    wording: ClassVar[str] = ""
    worded_by: ClassVar[str] = ""
    symbol: ClassVar[str] = ""
    is_alarm: ClassVar[bool] = False
    is_reaction: ClassVar[bool] = False
    moot_after_end: ClassVar[bool] = False
    host_matters: ClassVar[bool] = False
    has_two_ends: ClassVar[bool] = False
    causes: ClassVar[frozenset[CauseClass]] = frozenset()

    place: Place
    text: str
    rank: int | None = None
    group_rank: int | None = None
    group: GroupRef | None = None
    time: datetime | None = None
    host: str | None = None
    pod: str | None = None
    pid: int | None = None
    actor: str | None = None

    def details(self) -> dict[str, Any]:
        """The fields of this kind beside the common ones, in order of declaration."""
        return {name: getattr(self, name) for name in _own_fields(cast(Any, type(self)))}

    @property
    def written_by(self) -> Writer:
        """Who wrote this line."""
        return self.writer

    @property
    def is_sign_of_life(self) -> bool:
        """True where the line shows that its rank still ran."""
        return self.written_by is Writer.RANK

    @property
    def is_testimony(self) -> bool:
        """True where the line says what happened; a setting, a version or a piece of advice does not."""
        return True

    @property
    def is_complaint(self) -> bool:
        """True where the line says that something went wrong for its rank."""
        return self.is_alarm or self.is_reaction

    @property
    def is_whole_jobs(self) -> bool:
        """True where the line is about every rank of the job."""
        return False

    @property
    def consequence(self) -> EventRole | None:
        """The part of an event that only ever follows a cause: cascade or tear-down. None where it may be the cause."""
        return EventRole.CASCADE if self.is_alarm or self.is_reaction else None

    @property
    def can_cause(self) -> frozenset[CauseClass]:
        """The verdicts that such an event can make true; empty where it is no trouble."""
        return self.causes

    @property
    def is_trouble(self) -> bool:
        """True where the line may tell of a failure: only what comes after it can show that all is well."""
        return self.is_complaint or bool(self.can_cause)

    @property
    def is_end_of_process(self) -> bool:
        """True where another program recorded a failed process, host or job: steps of others do not answer it."""
        return False

    @property
    def is_stop_by_person(self) -> bool:
        """True where a person stopped the job."""
        return False

    def phrase(self) -> str:
        """The line in a reader's words, for example ``ended by SIGKILL``; the line itself where the kind has no words."""
        words = " ".join(self._phrase().split())[:CHARACTERS]
        return words + (self.group_rank_note if f"ank {self.group_rank}" in words else "")

    @property
    def group_rank_note(self) -> str:
        """Says that a rank in the text counts inside a group: ``[Rank 0]`` of tp is global rank 2."""
        inside, group = self.group_rank, self.group
        if inside is None or inside == self.rank or (group is None and self.rank is None):
            return ""
        name = group.spoken if group is not None else ""
        of_group = f"rank {inside} of {f'group {name}' if name else 'its group'}"
        return f" ({of_group} = global rank {self.rank})" if self.rank is not None else f" ({of_group}: no global rank)"

    def _phrase(self) -> str:
        if self.worded_by:
            return f"{self.wording}: {getattr(self, self.worded_by) or self.text}"
        return self.wording or self.text


@cache
def wordings() -> dict[str, dict[str, str]]:
    """The words for values of some fields, by the names of their tables."""
    return tomllib.loads(Path(__file__).with_name("wordings.toml").read_text(encoding="utf-8"))


@cache
def _own_fields(kind: type[Any]) -> tuple[str, ...]:
    return tuple(name for name in kind.__struct_fields__ if name not in Event.__struct_fields__)


_E = TypeVar("_E", bound=Event)

KINDS: dict[str, type[Event]] = {}
"""Every kind of event by name; filled by :func:`kind` below, in the order in which the package imports its modules."""


def kind(name: str, **meaning: Unpack[Meaning]) -> Callable[[type[_E]], type[_E]]:
    """Register a class as the kind ``name``, with what :class:`Meaning` says of it."""

    def register(cls: type[_E]) -> type[_E]:
        for attribute, value in {"kind": name, **meaning}.items():
            setattr(cls, attribute, value)
        KINDS[name] = cls
        return cls

    return register
