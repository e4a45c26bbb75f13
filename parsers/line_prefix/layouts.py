"""A layout is one kind of prefix: its pattern, and what it says about the writer of a line.

``layouts_table.toml`` holds them; the functions here say what groups mean that are more than fields of a mark.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime

from msgspec import Struct

from nccldoctor.parsers.line_prefix.engine_places import rank_in_engine
from nccldoctor.parsers.line_prefix.timestamps import MONTHS, ZONES, printed_time
from nccldoctor.parsers.rows import Table
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


def _naming(place: str, process: str) -> Callable[[PartialMark, re.Match[str]], None]:
    """Notes the groups, and the place and the process that they name, such as ``{pod}/{box}``."""

    def note(mark: PartialMark, m: re.Match[str]) -> None:
        note_groups(mark, m)
        groups = m.groupdict("")
        mark.places += [place.format_map(groups)] if place else []
        mark.process = process.format_map(groups).rstrip("|") or mark.process

    return note


def _note_worker(mark: PartialMark, m: re.Match[str]) -> None:
    """Ray names a process; ``rank=`` in it is the actor's. SkyPilot's ``(worker1, rank=1, pid=9)`` counts nodes, and the
    process is the shell that started the launcher.
    """
    inside = m["inside"]
    pid = re.search(r"\bpid=(\d{1,10})", inside)
    rank = re.search(r"\brank=(\d{1,7})", inside)
    address = re.search(r"\bip=([\w.:-]{1,60})", inside)
    if address:
        mark.host = address[1]
    if re.match(r"(?:[\w.-]{1,60}, ){1,2}rank=", inside):
        mark.task = int(rank[1]) if rank else None
        mark.places.append(f"node{mark.task}")
    else:
        mark.pid = int(pid[1]) if pid else mark.pid
        mark.rank = int(rank[1]) if rank else rank_in_engine(inside) if inside.startswith(_OF_VLLM) else mark.rank
        mark.process = mark.actor = inside


_OF_VLLM = ("Worker_", "VllmWorker ")
_ACTOR = lazy(r"(?P<kind>[A-Za-z_.:]{1,60}).{0,200}?\bpid=(?P<pid>\d{1,10})")


def actor_of(label: str) -> tuple[str, int] | None:
    """Kind and process id of an actor of Ray: ``PolicyModelActor`` and 101 in ``PolicyModelActor pid=101, ip=10.0.0.1``.

    The kind is the class or function that the process runs, without the numbers that tell processes apart.
    """
    m = _ACTOR.match(label)
    return (m["kind"], int(m["pid"])) if m is not None else None


def _note_cri(mark: PartialMark, m: re.Match[str]) -> None:
    mark.collected = printed_time(m.groupdict())


def _note_labels(mark: PartialMark, m: re.Match[str]) -> None:
    labels = dict(re.findall(r'(\w{1,60})="([^"]{0,200})"', m[0]))
    mark.pod = labels.get("pod") or mark.pod
    mark.host = labels.get("node_name") or labels.get("node") or labels.get("hostname") or mark.host
    place = "/".join(filter(None, (labels.get("pod") or labels.get("hostname"), labels.get("container"))))
    mark.places += [place] if place else []


def _note_nccl(mark: PartialMark, m: re.Match[str]) -> None:
    """NCCL's own prefix stays in the body; it only says who writes."""
    note_groups(mark, m)
    mark.process = mark.process or f"{m['host']}:{m['pid']}"


def _note_padded(mark: PartialMark, m: re.Match[str]) -> None:
    """Python loggers print a process id where C++ glog prints a thread id."""
    pid = mark.pid
    note_groups(mark, m)
    if not m["file"].endswith(".py"):
        mark.pid = pid


def _note_place(mark: PartialMark, m: re.Match[str]) -> None:
    note_groups(mark, m)
    mark.rank = rank_in_engine(m["place"])
    mark.process = m["place"].strip()


class Layout(Struct, frozen=True, eq=False):
    """One kind of prefix. ``note`` says what its groups mean; for the rest see the table."""

    pattern: lazy[str]
    note: Callable[[PartialMark, re.Match[str]], None] = note_groups
    before_message: bool = False
    weak: bool = False


_TABLE = Table(__file__)
_TABLE.data["parts"] |= {"zones": "|".join(sorted(ZONES, key=len, reverse=True)), "months": "|".join(MONTHS)}


_NOTES = {
    note.__name__.removeprefix("_note_"): note
    for note in (_note_worker, _note_cri, _note_labels, _note_nccl, _note_padded, _note_place)
}


def _layout_of(
    pattern: str,
    note: str = "",
    place: str = "",
    process: str = "",
    before_message: bool = False,
    weak: bool = False,
) -> Layout:
    noted = _NOTES[note] if note else _naming(place, process) if place or process else note_groups
    return Layout(_TABLE.pattern(pattern), noted, before_message, weak)


LAYOUTS = {name: _layout_of(**about) for name, about in _TABLE.data["layouts"].items()}
BY_FIRST = {first: tuple(LAYOUTS[name] for name in names) for first, names in _TABLE.data["by_first"].items()}
"""The layouts of each first character; ``0``, ``A`` and ``a`` stand for all digits, capitals and small letters."""

TAILS = tuple(_TABLE.pattern(pattern) for pattern in _TABLE.data["behind_stamp"]["patterns"])
"""What loggers put between the time and the message."""
