"""A layout is one kind of prefix: its pattern, and what it says about the writer of a line."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime

from msgspec import Struct

from nccldoctor.parsers.line_prefix.timestamps import printed_time
from nccldoctor.patterns import lazy


class PartialMark(Struct):
    """A Mark in the making. ``places`` are names of what holds several writers (a pod, a node, a task);
    ``process`` names one writer, ``actor`` an actor of Ray; ``message`` is true once a logger said where its message begins.
    """

    rank: int | None = None
    local_rank: int | None = None
    task: int | None = None
    host: str | None = None
    pod: str | None = None
    pid: int | None = None
    severity: str | None = None
    file: str | None = None
    line: int | None = None
    time: datetime | None = None
    collected: datetime | None = None
    repeated: int = 1
    places: list[str] = []
    process: str = ""
    actor: str | None = None
    message: bool = False

    def stamp(self, when: datetime | None) -> None:
        """Note a time; one that was noted before was the collector's."""
        if when is not None:
            self.collected = self.collected or self.time
            self.time = when


_LETTERS = {"N": "I", "C": "F", "S": "I", "T": "V", "D": "V"}

LEVELS = r"(?:DEBUG|INFO|NOTICE|WARNING|WARN|ERROR|CRITICAL|FATAL|TRACE|SUCCESS)"


def severity(level: str) -> str:
    """The letter of a level: I for ``INFO`` and ``NOTICE``, F for ``CRITICAL``, V for ``DEBUG``."""
    return _LETTERS.get(level[0], level[0])


_FIELDS: dict[str, tuple[str, Callable[[str], object]]] = {
    **{name: (name, int) for name in ("rank", "local_rank", "task", "pid", "line")},
    **{name: (name, str) for name in ("host", "pod", "file", "severity")},
    "level": ("severity", severity),
}
"""The fields of a mark by the names of groups, and how to read them."""


def note_groups(mark: PartialMark, m: re.Match[str]) -> None:
    """Note every named group: fields of the mark by their names, ``level`` as its severity, and the time."""
    groups = m.groupdict()
    for name, text in groups.items():
        if text is not None and name in _FIELDS:
            field_name, read = _FIELDS[name]
            setattr(mark, field_name, read(text))
    if groups.get("hms") or "seconds" in groups:
        mark.stamp(printed_time(groups))


class Layout(Struct, frozen=True, eq=False):
    """One kind of prefix. ``note`` says what its groups mean; with ``before_message`` no other prefix follows it.

    ``weak`` layouts look like ordinary text, and count only in front of something that does not.
    """

    pattern: lazy[str]
    note: Callable[[PartialMark, re.Match[str]], None] = note_groups
    before_message: bool = False
    weak: bool = False
