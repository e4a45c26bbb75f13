"""Packs a dump for the way from the sandboxed child to its parent.

A pack is a JSON header and the raw bytes of the columns. Nothing on this way can run code, whatever a file made the
child do: the header is JSON, the columns are numbers.
``pack`` runs in the child on the standard library; ``unpack`` in the parent, where numpy is.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from nccldoctor.parsers.flight_recorder.dump import Dump
from nccldoctor.parsers.flight_recorder.values import Entries

if TYPE_CHECKING:
    from nccldoctor.model.recorded_calls import Batch, Calls, DumpHead, GroupConfig
    from nccldoctor.parsers.flight_recorder.repeats import Repeats

_LENGTH = 4
"""Bytes of the header's length, little-endian."""

_AROUND = ("form", "version", "library", "config", "status", "wrapped", "problem", "comms", "rank")
_OWN = ("rows", "groups")
_SHARED = ("rows", "backend", "backends", "ops", "sizes", "dtypes", "frames", "stacks")
_NUMPY_CODES = {"b": "int8", "i": "int32", "q": "int64", "f": "float32"}
_WIDTHS = {"b": 1, "i": 4, "q": 8, "f": 4}


def pack(dump: Dump) -> bytes:
    """The dump as bytes."""
    return pack_together([dump], dump.entries)


def pack_together(dumps: Sequence[Dump], entries: Entries) -> bytes:
    """Several dumps, and the entries of all of them, as bytes."""
    if any(array(code).itemsize != width for code, width in _WIDTHS.items()):
        raise RuntimeError("this platform's C integers have other widths than the columns")
    header = {
        "dumps": [
            {name: getattr(dump, name) for name in _AROUND} | {name: getattr(dump.entries, name) for name in _OWN}
            for dump in dumps
        ],
        **{name: getattr(entries, name) for name in _SHARED},
        "columns": [(name, column.typecode) for name, column in entries.columns.items()],
    }
    text = json.dumps(header, separators=(",", ":")).encode()
    return b"".join((len(text).to_bytes(_LENGTH, "little"), text, *(c.tobytes() for c in entries.columns.values())))


class Packed(NamedTuple):
    """Whose a dump in a pack is: the number and path of its source.

    ``repeats`` are what the child did not see of it; None where it saw all.
    """

    source: int
    path: str
    repeats: Repeats | None = None


class Unpacker:
    """Makes batches of what children sent.

    Member lists are kept once for all dumps: thousands of ranks name the same groups.
    """

    def __init__(self) -> None:
        self._members: dict[tuple[tuple[int, ...], ...], tuple[int, ...]] = {}

    def unpack(self, data: bytes, source: int, path: str) -> Batch:
        """A batch of one dump, ``source`` and ``path`` in its head. Raises :class:`ValueError` on damaged data."""
        return self._batches(*_unpacked(data), [Packed(source, path)])[0]

    def unpack_together(self, data: bytes, packed: Sequence[Packed]) -> list[Batch] | None:
        """A batch for each dump; None where the child lost entries of one that has repeats, or found something odd.

        All batches have the same list of operations, of sizes, of dtypes and of stacks. Raises :class:`ValueError` on damaged data.
        """
        from nccldoctor.parsers.flight_recorder.repeats import restored

        header, columns = _unpacked(data)
        for one, dump in zip(packed, header["dumps"], strict=True):
            if one.repeats is not None and (dump["problem"] or dump["rows"] != one.repeats.sorts):
                return None
        if header["backends"] > 1 and any(one.repeats is not None for one in packed):
            return None
        rows = [dump["rows"] for dump in header["dumps"]]
        return self._batches(header, restored(columns, rows, [one.repeats for one in packed]), packed)

    def _batches(self, header: dict[str, Any], columns: dict[str, Any], packed: Sequence[Packed]) -> list[Batch]:
        import numpy as np
        from msgspec.structs import replace

        from nccldoctor.model.recorded_calls import Batch, Calls, Vocabulary

        frames = [(name, file, line) for name, file, line in header["frames"]]
        words = Vocabulary(
            ops=tuple(header["ops"]),
            sizes=tuple((_tensor_shapes(inputs), _tensor_shapes(outputs)) for inputs, outputs in header["sizes"]),
            dtypes=tuple((tuple(inputs), tuple(outputs)) for inputs, outputs in header["dtypes"]),
            stacks=tuple(tuple(frames[code] for code in stack) for stack in header["stacks"]),
        )
        rows = [
            one.repeats.entries if one.repeats is not None else dump["rows"]
            for one, dump in zip(packed, header["dumps"], strict=True)
        ]
        columns["dump"] = np.zeros(sum(rows), dtype=np.int32)
        calls = _in_one_block(Calls.build(columns))
        before = np.concatenate([[0], np.cumsum(calls.stack > 0)])
        edges = np.cumsum([0, *rows])
        with_frames: list[bool] = (before[edges[1:]] > before[edges[:-1]]).tolist()
        batches, first = [], 0
        for one, dump, count, has_frames in zip(packed, header["dumps"], rows, with_frames, strict=True):
            head = self._head(one, dump, count, header["backend"], has_frames)
            own = replace(words, groups=tuple((uid, desc) for uid, desc in dump["groups"]))
            batches.append(Batch((head,), calls, own, (first, first + count)))
            first += count
        return batches

    def _head(self, one: Packed, dump: dict[str, Any], entries: int, backend: str, has_frames: bool) -> DumpHead:
        from nccldoctor.model.recorded_calls import CommState, DumpHead, GroupStatus

        return DumpHead(
            source=one.source,
            path=one.path,
            form=dump["form"],
            version=dump["version"],
            entries=entries,
            wrapped=dump["wrapped"],
            backend=backend,
            library=dump["library"],
            config=tuple(self._group_config(*item) for item in dump["config"]),
            status=tuple(GroupStatus(*item) for item in dump["status"]),
            has_frames=has_frames,
            problem=dump["problem"],
            comms=tuple(CommState(*item) for item in dump["comms"]),
            rank=dump["rank"],
        )

    def _group_config(self, uid: str, desc: str, runs: list[list[int]]) -> GroupConfig:
        from nccldoctor.model.recorded_calls import GroupConfig

        key = tuple(map(tuple, runs))
        members = self._members.get(key)
        if members is None:
            members = tuple(chain.from_iterable(range(first, last + 1, step) for first, last, step in runs))
            self._members[key] = members
        return GroupConfig(uid, desc, members)


def _in_one_block(calls: Calls) -> Calls:
    """The columns in memory of their own, which goes back to the system with the last of them.

    Thousands of arrays of some kilobytes would leave the heap in pieces when the dumps are put together.
    """
    import mmap

    import numpy as np
    from msgspec.structs import asdict

    columns = asdict(calls)
    size = sum(-(-column.nbytes // 8) * 8 for column in columns.values())
    if size < 64 << 10:
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
