"""What all kinds of event share: the group that a line names, the common fields, and the shelf of kinds."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, ClassVar, TypeVar

from nccldoctor.model import Place


@dataclass(frozen=True, slots=True)
class GroupRef:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing a log line says.

    ``rank`` is the global rank, None until it is known; ``group_rank`` the rank inside ``group`` (the
    ``[Rank 3]`` of the watchdog). ``time`` is as printed: aware where the line names a zone, else naive; year 1900
    stands for a year that the line does not have (c10 and glog prefixes). ``text`` is the line without its
    prefixes and colours, at most 500 characters. ``host`` and ``pid`` are filled where the line tells them.
    """

    kind: ClassVar[str] = ""

    place: Place
    text: str
    rank: int | None = None
    group_rank: int | None = None
    group: GroupRef | None = None
    time: datetime | None = None
    host: str | None = None
    pid: int | None = None

    def details(self) -> dict[str, Any]:
        """The fields of this kind beside the common ones, in order of declaration."""
        common = {f.name for f in fields(Event)}
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in common}


_E = TypeVar("_E", bound=Event)

KINDS: dict[str, type[Event]] = {}
"""Every kind of event by name; filled by :func:`kind` below, in the order in which the package imports its modules."""


def kind(cls: type[_E]) -> type[_E]:
    """Put an event class on the shelf."""
    KINDS[cls.kind] = cls
    return cls
