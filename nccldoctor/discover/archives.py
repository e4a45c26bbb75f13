"""Reads zip and tar archives as sequences of members, packed or not, nested once; nothing reaches the disk.

A compressed tar can only be read from front to back, so all archives are read like that: :func:`walk` yields the members in order,
once to list them and once more to read them. A :class:`Lane` remembers how far its walk has come.
"""

from __future__ import annotations

import io
import stat
import threading
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct

from nccldoctor.discover import tar
from nccldoctor.discover.streams import (
    HEAD,
    MOST_FILES,
    REST,
    Budget,
    Rejoined,
    Stream,
    damaged,
    opened,
    problem_of,
    reader,
)
from nccldoctor.discover.unwrapping import LARGEST, unwrapped
from nccldoctor.parsers.flight_recorder.pages import dumps_of_page, is_page_of_dumps

ARCHIVES = ("zip", "tar")
DEEPEST = 2
MOST_DIRECTORY = 32 << 20
"""Bytes of the directory of a zip: 65,536 members have 10 MB of it, and each of its entries takes ten times its bytes."""
TOO_MANY = f"more than {MOST_FILES:,} files in all{REST}"
_IN_MEMORY = 256 << 20
"""Largest zip inside another archive: it is held in memory, since its directory stands at its end."""

Note = Callable[[str, str], None]
"""Called with a member's name and why it was not read."""


class Member(Struct, frozen=True):
    """One file inside an archive: ``stream`` gives its bytes, unpacked, until the next member is asked for."""

    name: str
    size: int
    head: bytes
    stream: Any


def walk(raw: Any, kind: str, budget: Budget, note: Note, depth: int = 1, prefix: str = "") -> Iterator[Member]:
    """The members of an archive and of archives inside it, in order; what is refused goes to ``note``.

    Damage ends the walk; the members before it have been yielded.
    """
    try:
        for name, size, part, refused in _zip(raw, budget) if kind == "zip" else _tar(raw):
            if not budget.has_taken_member():
                note(prefix, TOO_MANY)
                return
            if part is None:
                if refused:
                    note(prefix + name, refused)
                continue
            # paths that leave the archive: ``/etc/passwd``, ``../a.log`` and ``C:/a.log``
            parts = name.replace("\\", "/").split("/")
            if name.startswith(("/", "\\")) or ".." in parts or (len(parts[0]) == 2 and parts[0][1] == ":"):
                note(prefix + name, "a path that leaves the archive, refused")
                continue
            inner = opened(part, budget)
            if not inner.packing and is_page_of_dumps(inner.head):
                yield from _page(prefix + name, size, inner.stream)
            elif not inner.packing:
                yield Member(prefix + name, size, inner.head, inner.stream)
            elif inner.packing not in ARCHIVES or depth >= DEEPEST:
                note(prefix + name, "packed more than twice, not opened")
            elif inner.packing == "zip":
                yield from _inner_zip(inner.stream, budget, note, depth, f"{prefix}{name}/")
            else:
                yield from walk(inner.stream, "tar", budget, note, depth + 1, f"{prefix}{name}/")
        if problem := problem_of(raw):  # cut between two members
            note(prefix, problem)
    except Exception as error:  # damaged archives raise many types; the members before the damage are good
        note(prefix, problem_of(raw) or damaged(error))


def _inner_zip(stream: Any, budget: Budget, note: Note, depth: int, prefix: str) -> Iterator[Member]:
    data = bytearray()
    while len(data) <= _IN_MEMORY and (block := stream.read(1 << 20)):
        data += block
    if len(data) > _IN_MEMORY:
        note(prefix, f"a zip of more than {_IN_MEMORY >> 20} MB inside an archive, not opened")
        return
    yield from walk(io.BytesIO(data), "zip", budget, note, depth + 1, prefix)


def _page(name: str, size: int, stream: Any) -> Iterator[Member]:
    """A page of the debug server, and the dumps in it."""
    data = reader(stream).read(_IN_MEMORY)
    yield Member(name, size, data[:HEAD], Stream(io.BytesIO(data)))
    yield from dumps_in(Stream(io.BytesIO(data)), f"{name}/")


def dumps_in(page: Any, prefix: str = "") -> Iterator[Member]:
    """The recorder dumps in a page of the debug server, as files named by their ranks."""
    for rank, text in dumps_of_page(reader(page)):
        yield Member(f"{prefix}rank_{rank}.json", len(text), text[:HEAD], Stream(io.BytesIO(text)))


def parts_in(raw: Any) -> Iterator[Member]:
    """The dumps and texts inside a file, as files named by their ranks; "" is the file itself."""
    content = reader(raw).read(LARGEST + 1)
    if len(content) > LARGEST:  # it was packed, so that nobody knew
        yield Member("", len(content), content[:HEAD], Stream(Rejoined(content, raw)))
        return
    for part in unwrapped(content):
        yield Member(part.name, len(part.content), part.content[:HEAD], Stream(io.BytesIO(part.content)))


_Entry = tuple[str, int, Any, str]
"""An entry of an archive: its name, size and stream; without a stream, why it is refused ("" for a folder)."""


def _tar(raw: Any) -> Iterator[_Entry]:
    for member in tar.members(raw):
        if member.part is None:
            yield member.name, 0, None, member.refused and f"a {member.refused}, not followed"
        else:
            yield member.name.removeprefix("./"), member.size, Stream(member.part), ""


class _SmallReads:
    """A file of which no read is large: a zip's directory takes memory for each of its entries."""

    def __init__(self, raw: Any) -> None:
        self.seek, self.tell, self.seekable, self._raw = raw.seek, raw.tell, raw.seekable, raw
        self.read = self._at_most

    def _at_most(self, size: int = -1) -> Any:
        """Read on. Raises :class:`zipfile.BadZipFile` for more than :data:`MOST_DIRECTORY` bytes at once."""
        if size > MOST_DIRECTORY:
            import zipfile

            raise zipfile.BadZipFile(f"a directory of more than {MOST_DIRECTORY >> 20} MB")
        return self._raw.read(size)


def _zip(raw: Any, budget: Budget) -> Iterator[_Entry]:
    import zipfile

    archive = zipfile.ZipFile(_SmallReads(raw))
    names = archive.infolist()
    if any(info.filename.endswith("/data.pkl") for info in names):
        yield "", 0, None, "a torch.save file, not a flight recorder dump"
        return
    begun: set[int] = set()
    for info in names:
        mode = info.external_attr >> 16
        if info.is_dir():
            yield info.filename, 0, None, ""
            continue
        if info.header_offset in begun:
            yield info.filename, 0, None, "another name for data that was read"
            continue
        begun.add(info.header_offset)
        if stat.S_ISLNK(mode):
            yield info.filename, 0, None, "a link, not followed"
        elif info.flag_bits & 1:
            yield info.filename, 0, None, "encrypted, not read"
        else:
            try:
                member = archive.open(info)
            except (NotImplementedError, zipfile.BadZipFile) as error:
                yield info.filename, 0, None, f"not read: {error}"[:120]
                continue
            with member:
                yield info.filename, info.file_size, Stream(member, budget=budget), ""


class Lane:
    """One archive of the input, read by one thread from front to back.

    Each thread has a walk of its own; asking for an earlier member starts it anew.
    """

    def __init__(self, start: Callable[[], Iterator[Member]]) -> None:
        self._start = start
        self._threads = threading.local()

    def member(self, number: int) -> Any:
        """The stream of a member by its number. Raises :class:`OSError` where it is no longer there."""
        here = self._threads.__dict__
        if "walk" not in here or here["next"] > number:
            here["walk"], here["next"] = self._start(), 0
        for member in here["walk"]:
            here["next"] += 1
            if here["next"] > number:
                return member.stream
        del here["walk"]
        raise OSError("the archive has changed")
