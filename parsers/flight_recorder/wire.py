"""Packs a dump for the way from the sandboxed child to its parent.

A pack is a JSON header and the raw bytes of the columns. Nothing on this way can run code, whatever a file made the
child do: the header is JSON, the columns are numbers.
``pack`` runs in the child on the standard library; ``unpack`` in the parent, where numpy is.
"""

from __future__ import annotations

import json
from array import array
from dataclasses import fields
from itertools import chain
from typing import TYPE_CHECKING, Any

from nccldoctor.parsers.flight_recorder.dump import Dump, Run

if TYPE_CHECKING:
    from nccldoctor.model.recorded_calls import Batch, Calls, GroupConfig
    from nccldoctor.parsers.flight_recorder.repeats import Repeats

_LENGTH = 4
"""Bytes of the header's length, little-endian."""

_OWN_BLOCK = 64 << 10
"""Bytes of columns from which a dump has a block of memory of its own."""

_AROUND = ("form", "version", "library", "config", "status", "wrapped", "problem", "comms")
_ENTRIES = ("rows", "backend", "backends", "groups", "ops", "sizes", "dtypes", "frames", "stacks")
_NUMPY_CODES = {"b": "int8", "i": "int32", "q": "int64", "f": "float32"}
_WIDTHS = {"b": 1, "i": 4, "q": 8, "f": 4}


def pack(dump: Dump) -> bytes:
    """The dump as bytes."""
    entries = dump.entries
    _check_widths()
    header = {
        **{name: getattr(dump, name) for name in _AROUND},
        **{name: getattr(entries, name) for name in _ENTRIES},
        "columns": [(name, column.typecode) for name, column in entries.columns.items()],
    }
    text = json.dumps(header, separators=(",", ":")).encode()
    return b"".join((len(text).to_bytes(_LENGTH, "little"), text, *(c.tobytes() for c in entries.columns.values())))


def _check_widths() -> None:
    if any(array(code).itemsize != width for code, width in _WIDTHS.items()):
        raise RuntimeError("this platform's C integers have other widths than the columns")


class Unpacker:
    """Makes batches of what children sent.

    Member lists are kept once for all dumps: thousands of ranks name the same groups.
    """

    def __init__(self) -> None:
        self._members: dict[tuple[Run, ...], tuple[int, ...]] = {}

    def unpack(self, data: bytes, source: int, path: str) -> Batch:
        """A batch of one dump, ``source`` and ``path`` in its head. Raises :class:`ValueError` on damaged data."""
        header, columns = _unpacked(data)
        return self._batch(header, columns, source, path)

    def unpack_rest(self, data: bytes, source: int, path: str, repeats: Repeats) -> Batch | None:
        """The same where the child did not see the repeats; None where it lost entries or found something odd."""
        header, columns = _unpacked(data)
        if header["problem"] or header["rows"] != repeats.sorts or header["backends"] > 1:
            return None
        return self._batch(header, repeats.restore(columns), source, path)

    def _batch(self, header: dict[str, Any], columns: dict[str, Any], source: int, path: str) -> Batch:
        import numpy as np

        from nccldoctor.model.recorded_calls import Batch, Calls, CommState, DumpHead, GroupStatus, Vocabulary

        rows = len(columns["entry"]) if columns else 0
        columns["dump"] = np.zeros(rows, dtype=np.int32)
        frames = [(name, file, line) for name, file, line in header["frames"]]
        words = Vocabulary(
            groups=tuple((uid, desc) for uid, desc in header["groups"]),
            ops=tuple(header["ops"]),
            sizes=tuple((_tensor_shapes(inputs), _tensor_shapes(outputs)) for inputs, outputs in header["sizes"]),
            dtypes=tuple((tuple(inputs), tuple(outputs)) for inputs, outputs in header["dtypes"]),
            stacks=tuple(tuple(frames[code] for code in stack) for stack in header["stacks"]),
        )
        head = DumpHead(
            source=source,
            path=path,
            form=header["form"],
            version=header["version"],
            entries=rows,
            wrapped=header["wrapped"],
            backend=header["backend"],
            library=header["library"],
            config=tuple(self._group_config(*item) for item in header["config"]),
            status=tuple(GroupStatus(*item) for item in header["status"]),
            has_frames=any(words.stacks),
            problem=header["problem"],
            comms=tuple(CommState(*item) for item in header["comms"]),
        )
        return Batch((head,), _in_one_block(Calls.build(columns)), words)

    def _group_config(self, uid: str, desc: str, runs: list[list[int]]) -> GroupConfig:
        from nccldoctor.model.recorded_calls import GroupConfig

        key = tuple((first, last, step) for first, last, step in runs)
        if key not in self._members:
            self._members[key] = tuple(chain.from_iterable(range(first, last + 1, step) for first, last, step in key))
        return GroupConfig(uid, desc, self._members[key])


def _in_one_block(calls: Calls) -> Calls:
    """The columns in memory of their own, which goes back to the system with the last of them.

    Thousands of arrays of some kilobytes would leave the heap in pieces when the dumps are put together.
    """
    import mmap

    import numpy as np

    columns = {field.name: getattr(calls, field.name) for field in fields(calls)}
    size = sum(-(-column.nbytes // 8) * 8 for column in columns.values())
    if size < _OWN_BLOCK:
        return calls
    block, start = mmap.mmap(-1, size), 0
    for name, column in columns.items():
        columns[name] = np.frombuffer(block, column.dtype, len(column), start)
        columns[name][:] = column
        start += -(-column.nbytes // 8) * 8
    return type(calls)(**columns)


def _unpacked(data: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """The header and the columns."""
    import numpy as np

    start = _LENGTH + int.from_bytes(data[:_LENGTH], "little")
    header = json.loads(data[_LENGTH:start])
    columns: dict[str, Any] = {}
    for name, code in header["columns"]:
        columns[name] = np.frombuffer(data, _NUMPY_CODES[code], header["rows"], start)
        start += header["rows"] * _WIDTHS[code]
    return header, columns


def _tensor_shapes(sizes: list[list[int]]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(dims) for dims in sizes)
