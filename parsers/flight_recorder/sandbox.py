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
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from nccldoctor.parsers.flight_recorder.dump import Dump
from nccldoctor.parsers.flight_recorder.process import Child, Clock, Limits, refusal
from nccldoctor.parsers.flight_recorder.wire import Unpacker, pack

if TYPE_CHECKING:
    from nccldoctor.model.recorded_calls import Batch

FEW = 32
"""Up to here one child does the work: a second one costs more to start than it saves."""

MOST_CHILDREN = 8


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
    on_done: Callable[[], None] | None = None,
) -> Iterator[Callable[[], list[Batch]]]:
    """Begins to load the files; the function that it yields waits for one batch per file, in the given order.

    A file that gives nothing has no calls and a ``problem`` in its head. ``workers`` bounds the child processes
    (default: one up to 32 files, then one for each core, at most 8). Leaving the block drops what was not waited for.
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


class _Work:
    """The files to load and the batches of those that are loaded. Each thread that shares it has a child of its own."""

    def __init__(self, files: Sequence[DumpFile], limits: Limits, on_done: Callable[[], None] | None) -> None:
        self.files = files
        self.limits = limits
        self.on_done = on_done
        self.results: dict[int, Batch] = {}
        self.unpacker = Unpacker()
        turns = sorted((file.turn, n) for n, file in enumerate(files) if file.turn is not None)
        self.ordered = deque(n for _, n in turns)
        self.rest = deque(n for n, file in enumerate(files) if file.turn is None)
        self.clock = Clock()
        self.lock = threading.Lock()

    def load_files(self, first: bool) -> None:
        """Take files until there are none; the ordered ones are the first thread's."""
        child = Child(self.limits, self.clock)
        try:
            for queue in (self.ordered, self.rest) if first else (self.rest,):
                for number in _taken(queue):
                    self.finish(number, self.ask(child, self.files[number]))
        finally:
            child.close()

    def ask(self, child: Child, file: DumpFile) -> bytes:
        """The packed dump, or a packed refusal."""
        if file.file is not None:
            return child.load_path(file.file)
        try:
            with file.open() as stream:
                data = _read_all(stream, self.limits.file_bytes + 1)
        except Exception as error:  # damaged archives raise many types
            return pack(Dump("dict", problem=f"unreadable: {type(error).__name__}"))
        return child.load_bytes(data)

    def finish(self, number: int, reply: bytes) -> None:
        file = self.files[number]
        with self.lock:
            try:
                self.results[number] = self.unpacker.unpack(reply, file.source, file.path)
            except (ValueError, KeyError, TypeError):
                self.results[number] = self.unpacker.unpack(refusal("the reader broke"), file.source, file.path)
            if self.on_done is not None:
                self.on_done()

    def result(self, number: int) -> Batch:
        """The batch of a file; a refusal where its thread broke."""
        if number not in self.results:
            self.finish(number, refusal("the reader broke"))
        return self.results[number]

    def stop(self) -> None:
        """Let the clock end, and the threads after the file they are at."""
        self.ordered.clear()
        self.rest.clear()
        self.clock.stop()


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
