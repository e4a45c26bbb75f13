"""Reads some inputs and writes a part: what ``nccldoctor reduce`` does. Dumps are read a slice at a time, so that memory is bounded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import BinaryIO, TypeVar

from msgspec.structs import replace

from nccldoctor.discover.discover import Discovered, Input
from nccldoctor.events import Event
from nccldoctor.ingest.ingest import collector_off, read_inputs
from nccldoctor.model import SourceKind
from nccldoctor.parsers import registry
from nccldoctor.parsers.base import Parsed
from nccldoctor.parts.container import PartWriter
from nccldoctor.parts.dump_slices import DumpSliceWriter
from nccldoctor.parts.input_records import input_record, pack_events, pack_inputs
from nccldoctor.parts.kept_lines import kept_lines, pack_lines
from nccldoctor.parts.masked_values import Lines, masked_texts

SLICE_FILES, SLICE_BYTES = 128, 64 << 20
"""Dumps that are read together: so many, or files of so many bytes."""

EVENTS = 20_000
"""Events in one member."""

INPUTS = 2_000
"""Inputs in one member."""

CHARACTERS = 4 << 20
"""Characters of lines in one member, about."""

MOST_CHARACTERS = 64 << 20
"""Characters of lines kept in a part, about."""

Progress = Callable[[int, int], None]
_T = TypeVar("_T")


def write_part(
    discovered: Discovered,
    file: BinaryIO,
    name: str,
    workers: int | None = None,
    on_progress: Progress | None = None,
    texts_in_all: int | None = None,
) -> int:
    """Read all inputs and write them as the part ``name``; the number of recorded calls.

    ``texts_in_all`` is how many texts share the budgets of all texts (default: those among the inputs). No input can make this raise.
    """
    writer, calls = PartWriter(file, name), _Calls()
    inputs = discovered.inputs
    texts = [number for number, one in enumerate(inputs) if one.source.kind is not SourceKind.RECORDER]
    dumps = [number for number, one in enumerate(inputs) if one.source.kind is SourceKind.RECORDER]
    read: dict[int, Parsed] = {}
    total = sum(one.source.size for one in inputs)
    for numbers in filter(None, (texts, *in_slices(dumps, lambda number: inputs[number].source.size))):
        done = sum(inputs[number].source.size for number in read)

        def tell(now: int, _: int, done: int = done) -> None:
            if on_progress is not None:
                on_progress(done + now, total)

        with collector_off():
            found = read_inputs([inputs[number] for number in numbers], workers, tell, texts_in_all=texts_in_all)
            read |= calls.write_calls(writer, dict(zip(numbers, found, strict=True)))
    _write_inputs(writer, inputs, [read[number] for number in range(len(inputs))], calls.inputs)
    gaps = (*discovered.gaps, *(registry.load_parsers() if texts else ()))
    writer.close(len(inputs), calls.rows, gaps)
    return calls.rows


class _Calls:
    """Writes recorded calls as they come, and keeps the inputs that they are of."""

    def __init__(self) -> None:
        self.rows = 0
        self.inputs: set[int] = set()
        self._slices = DumpSliceWriter()

    def write_calls(self, writer: PartWriter, read: dict[int, Parsed]) -> dict[int, Parsed]:
        """Write the calls of what was read; the rest of it."""
        batches = [(number, parsed.batch) for number, parsed in read.items() if parsed.batch is not None]
        if batches:
            calls, times = self._slices.pack(batches)
            writer.add_member("calls", calls, batches[0][0], len(batches))
            writer.add_member("times", times, batches[0][0], len(batches))
        self.rows += sum(len(batch.calls) for _, batch in batches)
        self.inputs |= {number for number, _ in batches}
        return {number: replace(parsed, batch=None) for number, parsed in read.items()}


def in_slices(items: Iterable[_T], size_of: Callable[[_T], int], most: int = SLICE_FILES) -> Iterator[list[_T]]:
    """Neighbours, at most so many and of so many bytes as are read together."""
    own: list[_T] = []
    size = 0
    for one in items:
        if len(own) == most or (own and size + size_of(one) > SLICE_BYTES):
            yield own
            own, size = [], 0
        own.append(one)
        size += size_of(one)
    yield from [own] if own else ()


def _write_inputs(writer: PartWriter, inputs: Sequence[Input], read: Sequence[Parsed], with_calls: set[int]) -> None:
    """Write what was read of all inputs but their calls."""
    for first in range(0, len(inputs), INPUTS):
        numbers = range(first, min(first + INPUTS, len(inputs)))
        records = (input_record(inputs[n].named, read[n], has_calls=n in with_calls) for n in numbers)
        writer.add_member("inputs", pack_inputs(records), first, len(numbers))
    events: list[tuple[int, Event]] = []
    for number, parsed in enumerate(read):
        for event in parsed.events:
            events.append((number, event))
            if len(events) == EVENTS:
                writer.add_member("events", pack_events(events), events[0][0], number + 1 - events[0][0])
                events = []
    if events:
        writer.add_member("events", pack_events(events), events[0][0], len(inputs) - events[0][0])
    _write_lines(writer, _kept(inputs, read, with_calls))


def _kept(inputs: Sequence[Input], read: Sequence[Parsed], with_calls: set[int]) -> list[Lines]:
    """The lines of each input to keep, masked; members of one archive are read in their order."""
    kept: list[Lines] = [()] * len(inputs)
    left = MOST_CHARACTERS
    for number in sorted(range(len(inputs)), key=lambda number: (inputs[number].lane, inputs[number].turn)):
        if number not in with_calls and left > 0:
            kept[number] = kept_lines(inputs[number], read[number])
            left -= sum(len(text) for _, text in kept[number])
    return masked_texts(kept)


def _write_lines(writer: PartWriter, kept: Sequence[Lines]) -> None:
    first = size = 0
    for number, lines in enumerate(kept, 1):
        size += sum(len(text) for _, text in lines)
        if size > CHARACTERS or (size and number == len(kept)):
            writer.add_member("lines", pack_lines(kept[first:number]), first, number - first)
            first, size = number, 0
