"""Opens parts: their inputs are read at once, their events and calls when they are asked for."""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from msgspec import Struct
from msgspec.structs import replace

from nccldoctor.discover.discover import NamedFile
from nccldoctor.discover.paths import Found, printable
from nccldoctor.events import Event
from nccldoctor.model import Gap, Source
from nccldoctor.parts.container import PartError, StoredPart, stored_parts
from nccldoctor.parts.dump_slices import DumpSliceReader, StoredDump
from nccldoctor.parts.input_records import InputRecord, unpack_events, unpack_inputs
from nccldoctor.parts.kept_lines import unpack_lines
from nccldoctor.parts.masked_values import Lines


def part_in_memory(name: str, data: bytes) -> Found:
    """The bytes of a part as a file that can be opened; gaps call it ``name``."""
    return Found(name, name, len(data), lambda: io.BytesIO(data), lambda: io.BytesIO(data))


class OpenedPart(Struct, frozen=True):
    """A part: in which file it is, and which of the parts there.

    ``records`` are its inputs, ``rows`` its recorded calls, ``told`` its gaps of no input. ``folder`` is where reports show its
    inputs; "" where their paths need none.
    """

    found: Found
    digest: str
    name: str
    rows: int
    records: tuple[InputRecord, ...]
    told: tuple[Gap, ...]
    folder: str = ""

    @contextmanager
    def stored(self) -> Iterator[StoredPart]:
        """The part itself, while its file is open. What goes wrong with it is raised as :class:`DamagedPart`."""
        try:
            with parts_of_file(self.found) as parts:
                yield next(part for part in parts if part.digest == self.digest)
        except (PartError, StopIteration) as error:
            raise DamagedPart(self, str(error) or "its file was replaced") from None

    def file_named(self, number: int) -> NamedFile:
        """An input as it is called beside those of other parts."""
        one = self.records[number].named
        if not self.folder:
            return one
        return replace(one, path=f"{self.folder}/{one.path}", hint_name=f"{self.folder}/{one.hint_name}")

    def gaps_of_no_input(self) -> list[Gap]:
        """What the part does not hold, apart from the gaps of its inputs."""
        inside = f"{self.folder}/" if self.folder else ""
        # the packages of parsers that failed to load lie in no folder
        return [
            replace(gap, source=None, what=gap.what if gap.what.startswith("parsers of ") else inside + gap.what)
            for gap in self.told
        ]

    def events_by_input(self, stored: StoredPart, sources: Sequence[Source]) -> dict[int, list[Event]]:
        """The events of each input by its number; ``sources`` has the source of each input."""
        out: dict[int, list[Event]] = defaultdict(list)
        for member in stored.of_kind("events"):
            for number, event in unpack_events(stored.read_member(member), sources):
                out[number].append(event)
        return out

    def stored_dumps(self, stored: StoredPart) -> Iterator[tuple[int, StoredDump]]:
        """All dumps, each with the number of its slice."""
        reader = DumpSliceReader()
        listed = {number for number, record in enumerate(self.records) if record.has_calls}
        rows = 0
        for number, member in enumerate(stored.of_kind("calls")):
            for dump in reader.unpack(stored.read_member(member)):
                rows += dump.size
                if rows > self.rows or dump.input not in listed:
                    raise PartError("damaged: dumps that it does not list")
                listed.remove(dump.input)
                yield number, dump
        if listed:
            raise PartError("damaged: dumps are missing")

    def lines_kept_of(self, stored: StoredPart, numbers: Sequence[int]) -> dict[int, Lines]:
        """The lines that the part keeps of some inputs."""
        out: dict[int, Lines] = {}
        for member in stored.of_kind("lines"):
            own = [n for n in numbers if member.first <= n < member.first + member.count]
            if own:
                kept = unpack_lines(stored.read_member(member))
                out |= {n: kept[n - member.first] for n in own if n - member.first < len(kept)}
        return out


class DamagedPart(Exception):
    """A part turned out to be damaged while it was read."""

    def __init__(self, part: OpenedPart, why: str) -> None:
        super().__init__(why)
        self.part = part


def open_parts(files: Sequence[Found]) -> tuple[list[OpenedPart], list[Gap]]:
    """All parts in these files, each once, in the order of their names. Each file that is damaged gives a gap."""
    opened: dict[str, OpenedPart] = {}
    gaps: list[Gap] = []
    for found in sorted(files, key=lambda found: found.path):
        try:
            with parts_of_file(found) as parts:
                for one in [_opened(found, part) for part in parts]:
                    opened.setdefault(one.digest, one)
        except PartError as error:
            gaps.append(unread(found, error.message))
    return sorted(opened.values(), key=lambda part: (part.name, part.digest)), gaps


def unread(found: Found, why: str) -> Gap:
    """The gap for a file with a part that cannot be read."""
    return Gap(found.path, f"a part, not read: {why}", lost=True)


@contextmanager
def parts_of_file(found: Found) -> Iterator[list[StoredPart]]:
    """The parts in a file, while it is open. Raises :class:`PartError` where it cannot be read."""
    try:
        with found.seekable() as file:
            yield stored_parts(file)
    except OSError as error:
        raise PartError(f"cannot be read: {error.strerror or error}"[:200]) from None


def _opened(found: Found, part: StoredPart) -> OpenedPart:
    records = [record for member in part.of_kind("inputs") for record in unpack_inputs(part.read_member(member))]
    manifest = part.manifest
    if len(records) != manifest.inputs:
        raise PartError("damaged: inputs are missing")
    return OpenedPart(found, part.digest, printable(manifest.name), manifest.rows, tuple(records), manifest.gaps)
