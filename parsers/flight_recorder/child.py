"""The child process that loads recorder dumps: a loop of *here is a file* and *here are its columns*.

A pickle may name code to run, ask for gigabytes in nine bytes, or never end (a tuple of tuples that is hashed).
So: every global and persistent id is refused, and the process runs under limits of memory and processor time that it
sets itself before each file; the parent adds a clock of its own. What a file can break is this process, and the parent
starts another.

Requests on stdin: a line of JSON with the limits and a list of ``"files"``, each a ``"path"``, or ``"bytes": n`` and n bytes behind
the line. Replies on stdout: eight bytes of length, then what :mod:`nccldoctor.parsers.flight_recorder.wire` packs; for several
files that cannot be read together, :data:`APART`.
"""

from __future__ import annotations

import gc
import io
import json
import os
import sys
from _pickle import Unpickler, UnpicklingError
from collections.abc import Iterable, Sequence
from typing import Any, BinaryIO

from nccldoctor.parsers.flight_recorder.dump import NOT_A_DUMP, Dump, is_pickle, read_dump, read_together
from nccldoctor.parsers.flight_recorder.other_recorders import read_other_recorder
from nccldoctor.parsers.flight_recorder.values import TooBig
from nccldoctor.parsers.flight_recorder.wire import pack, pack_together

BOOTSTRAP = """
import sys, types
for name, folder in zip(("nccldoctor", "nccldoctor.parsers"), sys.argv[1:]):
    sys.modules[name] = module = types.ModuleType(name)
    module.__path__ = [folder]
from nccldoctor.parsers.flight_recorder.child import serve
serve(sys.stdin.buffer, sys.stdout.buffer)
"""
"""What the child runs. The packages are entered by their folders, past their ``__init__``: the child needs a few small
modules, neither the other parsers nor numpy, and starts in a fifth of the time. It has no site packages: these modules import the
standard library alone, and their values are plain classes."""


class CodeRefused(Exception):
    """The pickle names a class, a function or a persistent object, which no recorder dump does."""


class _Plain(Unpickler):
    """An unpickler for numbers, strings, lists, tuples and dicts alone."""

    def find_class(self, module: str, name: str) -> Any:
        raise CodeRefused(f"{module}.{name}"[:80])

    def persistent_load(self, pid: Any) -> Any:
        raise CodeRefused("a persistent id")


class _Peekable:
    """Bytes as the C unpickler reads them fastest: with ``peek`` it takes them in one piece."""

    def __init__(self, data: bytes) -> None:
        buffer = io.BytesIO(data)
        self._data = data
        self.read, self.readline, self.readinto = buffer.read, buffer.readline, buffer.readinto
        self._buffer = buffer
        self._view = memoryview(data)

    def peek(self, size: int = 0) -> bytes:
        here, some = self._buffer.tell(), max(size, 1 << 20)
        return self._data if here == 0 and len(self._data) <= some else bytes(self._view[here : here + some])


def load_dump(data: bytes) -> Dump:
    """The dump in a file's bytes; never raises but MemoryError.

    What cannot be read comes back with a ``problem`` that begins with ``truncated``, ``refused`` or :data:`NOT_A_DUMP`.
    """
    form = "pickle" if is_pickle(data[:3]) else "json"
    try:
        if form == "json" and (other := read_other_recorder(data)) is not None:
            return other
        content = _Plain(_Peekable(data)).load() if form == "pickle" else json.loads(data)
        return read_dump(content, form, len(data))
    except CodeRefused as error:
        return Dump(form, problem=f"{NOT_A_DUMP}: a pickle that wants {error} to run")
    except TooBig:
        return Dump(form, problem="refused: expands beyond what a file of its size can hold")
    except RecursionError:
        return Dump(form, problem="refused: nested too deep")
    except MemoryError:
        raise
    except Exception as error:  # the unpickler raises whatever a broken opcode leads to
        return _refused(data, form, error)


def _refused(data: bytes, form: str, error: Exception) -> Dump:
    if form == "json":
        at_end = isinstance(error, json.JSONDecodeError) and error.pos >= len(error.doc.rstrip()) - 1 > 0
        cut = at_end or "Unterminated string" in str(error)
        return Dump("json", problem="truncated: the JSON text ends early" if cut else NOT_A_DUMP)
    feeds = data.count(b"\n")
    if feeds >= 4 and data.count(b"\r\n") == feeds:  # by chance a pickle has one such pair in 256
        return Dump("dict", problem="refused: fetched in text mode, which damaged it; copy it again in binary mode")
    if isinstance(error, EOFError) or (isinstance(error, UnpicklingError) and "truncated" in str(error)):
        from nccldoctor.parsers.flight_recorder.salvage import salvage

        return salvage(data)
    text = f"{type(error).__name__}: {error}"[:120].encode("ascii", "backslashreplace").decode()
    return Dump("dict", problem=f"refused: {text}")


APART = b"apart"
"""The reply for several files of which each has to be asked for by itself."""


def load_together(files: Iterable[bytes | None], size: int) -> bytes:
    """The packed dumps of several files of ``size`` bytes, read as one table.

    :data:`APART` where that does not work, or a file is None. Never raises but MemoryError.
    """
    try:
        found = read_together(map(_content, files), size)
        return APART if found is None else pack_together(*found)
    except MemoryError:
        raise
    except Exception:  # what is wrong, and with which file, shows when each is loaded by itself
        return APART


def _content(data: bytes | None) -> object:
    """What a pickle holds; None for other files."""
    return _Plain(_Peekable(data)).load() if data is not None and is_pickle(data[:3]) else None


def serve(requests: BinaryIO, replies: BinaryIO) -> None:
    """Answer until the requests end."""
    gc.disable()
    while line := requests.readline():
        reply = _reply(json.loads(line), requests)
        _limit_memory(None)
        replies.write(len(reply).to_bytes(8, "little"))
        replies.write(reply)
        replies.flush()
        del reply
        if _address_space() > TOTAL_MEMORY // 3:
            return  # what these files left behind is no later file's burden: the parent starts another child


def _reply(request: dict[str, Any], requests: BinaryIO) -> bytes:
    _limit_memory(None)
    most: int = request["most"]
    files = [requests.read(one["bytes"]) if "bytes" in one else one["path"] for one in request["files"]]
    if len(files) > 1:
        return _reply_together(files, request)
    data = _bytes_of(files[0], most)
    if data is None or len(data) > most:
        lost = "unreadable: it went away or may not be read"
        return pack(Dump("dict", problem=lost if data is None else f"refused: larger than {most >> 20} MB"))
    _limit(len(data), request)
    try:
        return pack(load_dump(data))
    except MemoryError:
        return pack(Dump("dict", problem="refused: needs more memory than a file of its size should"))


def _reply_together(files: Sequence[bytes | str], request: dict[str, Any]) -> bytes:
    """Files on the disk are read one after the other, each in the memory of the last."""
    try:
        size = sum(len(one) if isinstance(one, bytes) else os.stat(one).st_size for one in files)  # noqa: PTH116
        if size > request["most"]:
            return APART
        _limit(size, request)
        return load_together((_bytes_of(one, request["most"]) for one in files), size)
    except (OSError, MemoryError):
        return APART


def _bytes_of(file: bytes | str, most: int) -> bytes | None:
    """The bytes of a file, one more than ``most`` of a larger one; None where it cannot be read."""
    if isinstance(file, bytes):
        return file
    try:
        with open(file, "rb") as stream:  # noqa: PTH123  # a path object costs as much as the opening
            return stream.read(min(os.fstat(stream.fileno()).st_size, most) + 1)
    except OSError:
        return None


def _limit(size: int, request: dict[str, Any]) -> None:
    """Set the limits for files of ``size`` bytes."""
    _limit_time(min(request["cpu_s"], 2 + size // (20 << 20)))  # 20 MB in a second at the least; some 40 are usual
    _limit_memory(max(request["memory"], 20 * size))


def _limit_time(seconds: int) -> None:
    """Let the processor time spent from now on end the process, where the platform can."""
    try:
        import resource
    except ImportError:  # Windows: the parent's clock alone
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    soft = int(used.ru_utime + used.ru_stime) + 1 + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (soft if hard < 0 else min(soft, hard), hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


TOTAL_MEMORY = 2 << 30
"""Address space of the child at most, in bytes."""


def _limit_memory(more: int | None) -> None:
    """Allow ``more`` bytes beyond what the process has, at most :data:`TOTAL_MEMORY`; None lifts the limit.

    Linux only: elsewhere the address space cannot be limited, and the parent's clock has to do.
    """
    if sys.platform != "linux":
        return
    import resource

    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    soft = hard if more is None else min(_address_space() + more, TOTAL_MEMORY)
    soft = soft if hard < 0 else min(soft, hard)
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _address_space() -> int:
    """Bytes of address space that the process has; 0 where the platform does not tell."""
    if sys.platform != "linux":
        return 0
    import resource

    with open("/proc/self/statm", "rb", buffering=0) as file:  # noqa: PTH123  # read twice for each dump
        return int(file.read(200).split()[0]) * resource.getpagesize()
