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
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from nccldoctor.parsers.flight_recorder.dump import Dump
from nccldoctor.parsers.flight_recorder.process import Child, Clock, Limits, refusal
from nccldoctor.parsers.flight_recorder.repeats import LARGEST, RepeatFinder
from nccldoctor.parsers.flight_recorder.wire import Unpacker, pack

if TYPE_CHECKING:
    from nccldoctor.model.recorded_calls import Batch

FEW = 32
"""Up to here one child does the work: a second one costs more to start than it saves."""

MOST_CHILDREN = 8

PATIENCE = 2.0
"""Seconds for which a thread that must end is waited for: it may be reading from a slow disk."""


@dataclass(frozen=True, slots=True)
class DumpFile:
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
    children = 1 if len(files) <= FEW else min(workers or os.cpu_count() or 1, MOST_CHILDREN)
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


class _Work:
    """The files to load and the batches of those that are loaded. Each thread that shares it has a child of its own."""

    def __init__(self, files: Sequence[DumpFile], limits: Limits, on_done: Callable[[int], None] | None) -> None:
        self.files = files
        self.limits = limits
        self.on_done = on_done
        self.results: dict[int, Batch] = {}
        self.unpacker = Unpacker()
        turns = sorted((file.turn, n) for n, file in enumerate(files) if file.turn is not None)
        self.ordered = deque(n for _, n in turns)
        self.rest = deque(n for n, file in enumerate(files) if file.turn is None)
        self.clock = Clock()
        self.children: list[Child] = []
        self.lock = threading.Lock()

    def load_files(self, first: bool) -> None:
        """Take files until there are none; the ordered ones are the first thread's."""
        child, finder = Child(self.limits, self.clock), RepeatFinder()
        self.children.append(child)
        try:
            for queue in (self.ordered, self.rest) if first else (self.rest,):
                for number in _taken(queue):
                    self.finish(number, self.load(child, finder, self.files[number]))
        finally:
            child.close()

    def load(self, child: Child, finder: RepeatFinder, file: DumpFile) -> Batch | None:
        """The batch of a file; None where its bytes broke the reader."""
        try:
            data = self.bytes_of(file)
        except Exception as error:  # damaged archives raise many types
            return self.unpacked(file, pack(Dump("dict", problem=f"unreadable: {type(error).__name__}")))
        batch = None if data is None else self.load_without_repeats(child, finder, file, data)
        if batch is not None:
            return batch
        if file.file is not None:
            return self.unpacked(file, child.load_path(file.file))
        return self.unpacked(file, child.load_bytes(data or b""))

    def load_without_repeats(self, child: Child, finder: RepeatFinder, file: DumpFile, data: bytes) -> Batch | None:
        """The batch of a file of which the child reads one entry of each sort; None where that fails."""
        with suppress(Exception):  # what goes wrong here goes right when the child reads the whole file
            repeats = finder.find_repeats(data)
            if repeats is not None:
                return self.unpacker.unpack_rest(child.load_bytes(repeats.rest), file.source, file.path, repeats)
        return None

    def bytes_of(self, file: DumpFile) -> bytes | None:
        """The bytes of a file; None for a large or unreadable one, which only a child reads."""
        if file.file is None:
            with file.open() as stream:
                return _read_all(stream, self.limits.file_bytes + 1)
        most = min(LARGEST, self.limits.file_bytes)
        try:
            with file.file.open("rb") as stream:
                data = stream.read(most + 1)
        except OSError:
            return None
        return data if len(data) <= most else None

    def unpacked(self, file: DumpFile, reply: bytes) -> Batch | None:
        """The batch in the reply of a child; None where there is none."""
        with suppress(ValueError, KeyError, TypeError):
            return self.unpacker.unpack(reply, file.source, file.path)
        return None

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
        self.ordered.clear()
        self.rest.clear()
        self.clock.stop()
        for child in list(self.children):
            child.kill()


def _taken(queue: deque[int]) -> Iterable[int]:
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
