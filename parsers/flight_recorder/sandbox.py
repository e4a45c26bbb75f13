"""Loads recorder dumps in child processes under limits, so that a hostile or broken file costs itself alone.

Files go to a child one at a time; it answers with columns (:mod:`nccldoctor.parsers.flight_recorder.wire`). When it dies, or
its time is up and it is killed, that file is refused and the next one goes to a new child. Memory and processor time
are limited by the child itself (:mod:`nccldoctor.parsers.flight_recorder.child`), on Linux; the clock here works everywhere.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from msgspec import Struct

from nccldoctor.parsers.flight_recorder.dump import Dump
from nccldoctor.parsers.flight_recorder.process import Child, Clock, Limits, refusal
from nccldoctor.parsers.flight_recorder.repeats import LARGEST, TOO_SHORT, RepeatFinder, Repeats
from nccldoctor.parsers.flight_recorder.wire import Packed, Unpacker, pack

if TYPE_CHECKING:
    from nccldoctor.model.recorded_calls import Batch

FEW = 32
"""Up to here one child does the work: a second one costs more to start than it saves."""

TOGETHER = 4 << 20
"""Bytes of such files together, unless one alone is larger."""

PATIENCE = 2.0
"""Seconds for which a thread that must end is waited for: it may be reading from a slow disk."""


class DumpFile(Struct, frozen=True):
    """One file to load: its source id and path for the result, and how to get at its bytes.

    ``file`` is set where it lies on the disk as it is: the child reads it from there. Files with a ``turn`` come out of
    archives that are read from front to back: they are opened in that order, by one thread.
    """

    source: int
    path: str
    open: Callable[[], BinaryIO]
    file: Path | None = None
    turn: tuple[int, int] | None = None


@contextmanager
def loading(
    files: Sequence[DumpFile],
    workers: int | None = None,
    limits: Limits | None = None,
    on_done: Callable[[int], None] | None = None,
) -> Iterator[Callable[[], list[Batch]]]:
    """Begins to load the files; the function that it yields waits for one batch per file, in the given order.

    ``on_done`` is called with the number of each file that is done, from any thread.
    A file that gives nothing has no calls and a ``problem`` in its head. ``workers`` bounds the child processes
    (default: one up to 32 files, then one for each core, at most 8). Leaving the block drops what was not waited for, and no child is
    left.
    """
    if not files:
        yield list
        return
    children = 1 if len(files) <= FEW else min(workers or os.cpu_count() or 1, 8)
    work = _Work(files, limits or Limits(), on_done)
    threads = [threading.Thread(target=work.load_files, args=(n == 0,), daemon=True) for n in range(children)]

    def batches() -> list[Batch]:
        for thread in threads:
            thread.join()
        return [work.result(n) for n in range(len(files))]

    for thread in threads:
        thread.start()
    try:
        yield batches
    finally:
        work.stop()
        for thread in threads:
            thread.join(PATIENCE)


class _Opened(Struct, frozen=True):
    """A file whose bytes were looked at; a large or unreadable one has ``size`` :data:`TOGETHER`."""

    number: int
    file: DumpFile
    size: int
    whole: Path | bytes
    repeats: Repeats | None

    @property
    def asked(self) -> Path | bytes:
        """What the child is asked to read."""
        return self.whole if self.repeats is None else self.repeats.rest


class _Work:
    """The files to load and the batches of those that are loaded. Each thread that shares it has a child of its own."""

    def __init__(self, files: Sequence[DumpFile], limits: Limits, on_done: Callable[[int], None] | None) -> None:
        self.files = files
        self.limits = limits
        self.on_done = on_done
        self.results: dict[int, Batch] = {}
        self.unpacker = Unpacker()
        turns = sorted((file.turn, n) for n, file in enumerate(files) if file.turn is not None)
        most = max(1, min(64, len(files) // 8))  # read as one table: what each costs by itself is then paid once
        self.ordered = deque(_in_parts([n for _, n in turns], most))
        self.rest = deque(_in_parts([n for n, file in enumerate(files) if file.turn is None], most))
        self.is_stopped = False
        self.clock = Clock()
        self.children: list[Child] = []
        self.lock = threading.Lock()

    def load_files(self, first: bool) -> None:
        """Take files until there are none; the ordered ones are the first thread's."""
        child, finder = Child(self.limits, self.clock), RepeatFinder()
        self.children.append(child)
        try:
            for queue in (self.ordered, self.rest) if first else (self.rest,):
                for numbers in _taken(queue):
                    self.load_some(child, finder, numbers)
        finally:
            child.close()

    def load_some(self, child: Child, finder: RepeatFinder, numbers: Sequence[int]) -> None:
        """Load some files: those of moderate size together, as many as come to :data:`TOGETHER` bytes."""
        some: list[_Opened] = []
        size = 0
        for number in numbers:
            if self.is_stopped:
                return
            opened = self.looked_at(finder, number)
            if opened is None:
                continue
            size += opened.size
            if size > TOGETHER:
                self.load_opened(child, some)
                some, size = [], opened.size
            some.append(opened)
        self.load_opened(child, some)

    def load_opened(self, child: Child, some: Sequence[_Opened]) -> None:
        """Load opened files with one question to the child; each by itself where that fails."""
        batches: list[Batch] | None = None
        if len(some) > 1:
            with suppress(Exception):  # what goes wrong here goes right when each file is loaded by itself
                reply = child.pack_together([one.asked for one in some])
                if reply is not None:
                    packed = [Packed(one.file.source, one.file.path, one.repeats) for one in some]
                    batches = self.unpacker.unpack_together(reply, packed)
        for place, one in enumerate(some):
            self.finish(one.number, batches[place] if batches else self.batch_of(child, one))

    def batch_of(self, child: Child, one: _Opened) -> Batch | None:
        """The batch of one file; None where its bytes broke the reader."""
        if one.repeats is not None:
            with suppress(Exception):  # what goes wrong here goes right when the child reads the whole file
                packed = [Packed(one.file.source, one.file.path, one.repeats)]
                batches = self.unpacker.unpack_together(child.pack_of(one.repeats.rest), packed)
                if batches is not None:
                    return batches[0]
        with suppress(ValueError, KeyError, TypeError):
            return self.unpacker.unpack(child.pack_of(one.whole), one.file.source, one.file.path)
        return None

    def looked_at(self, finder: RepeatFinder, number: int) -> _Opened | None:
        """A file that can be loaded; None where it cannot be read, and is done."""
        file = self.files[number]
        try:
            data, size = self.bytes_of(file, finder)
        except Exception as error:  # damaged archives raise many types
            why = pack(Dump("dict", problem=f"unreadable: {type(error).__name__}"))
            self.finish(number, self.unpacker.unpack(why, file.source, file.path))
            return None
        repeats = None
        if data is not None:
            with suppress(Exception):
                repeats = finder.find_repeats(data)
        whole = data or b"" if file.file is None else file.file
        return _Opened(number, file, size, whole, repeats)

    def bytes_of(self, file: DumpFile, finder: RepeatFinder) -> tuple[bytes | None, int]:
        """The bytes of a file and their number as in :class:`_Opened`; None where only a child reads it.

        These are files that are large, that cannot be read here, and that have few entries.
        """
        if file.file is None:
            with file.open() as stream:
                data = _read_all(stream, self.limits.file_bytes + 1)
            return data, len(data)
        most = min(LARGEST, self.limits.file_bytes)
        try:
            size = os.stat(file.file).st_size  # noqa: PTH116  # so does its own method
            if size > most or size <= finder.small:
                return None, TOGETHER if size > most else size
            with open(file.file, "rb") as stream:  # noqa: PTH123  # a path object costs as much as the opening
                stream.seek(max(0, size - TOO_SHORT))
                if finder.has_few_entries(size, stream.read(TOO_SHORT)):
                    return None, size
                stream.seek(0)
                data = stream.read(size + 1)
        except OSError:
            return None, TOGETHER
        return (data, len(data)) if len(data) <= most else (None, TOGETHER)

    def finish(self, number: int, batch: Batch | None) -> None:
        file = self.files[number]
        with self.lock:
            self.results[number] = batch or self.unpacker.unpack(refusal("the reader broke"), file.source, file.path)
            if self.on_done is not None:
                self.on_done(number)

    def result(self, number: int) -> Batch:
        """The batch of a file; a refusal where its thread broke."""
        if number not in self.results:
            self.finish(number, None)
        return self.results[number]

    def stop(self) -> None:
        """Let the clock end, the children, and the threads after the file they are at."""
        self.is_stopped = True
        self.ordered.clear()
        self.rest.clear()
        self.clock.stop()
        for child in list(self.children):
            child.kill()


def _in_parts(numbers: Sequence[int], most: int) -> Iterator[Sequence[int]]:
    """The numbers in parts of at most so many. They follow from the files alone, so that a part of a job has the same bytes everywhere."""
    for first in range(0, len(numbers), most):
        yield numbers[first : first + most]


def _taken(queue: deque[Sequence[int]]) -> Iterable[Sequence[int]]:
    while True:
        try:
            yield queue.popleft()
        except IndexError:
            return


def _read_all(stream: BinaryIO, most: int) -> bytes:
    data = bytearray()
    while len(data) < most and (block := stream.read(min(1 << 20, most - len(data)))):
        data += block
    return bytes(data)
