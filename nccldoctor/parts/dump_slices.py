"""Writes the recorded calls of some dumps as two members of a part, and reads them again.

Ranks that issue the same calls in the same order have equal columns, so each distinct set of columns (a *layout*), each list of words
and each list of group members stands once in a part; a dump refers to it by its number. Only times differ from rank to rank: they stand
in a member of their own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Sequence
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from msgspec import Meta, Struct
from msgspec.structs import astuple

from nccldoctor.model.ranks import spans_of
from nccldoctor.model.recorded_calls import (
    STATES,
    UNSET,
    Batch,
    Calls,
    CommState,
    DumpHead,
    Frame,
    GroupConfig,
    GroupStatus,
    Interner,
    Shape,
    Vocabulary,
)
from nccldoctor.parts.columns import Ints, Packing, Turns, pack_column, unpack_column
from nccldoctor.parts.container import Int64, PartError, read_document
from nccldoctor.parts.masked_values import masked_values

MOST_ROWS = 4_000_000
"""Entries of one dump: more than a file of the largest size that is read can hold."""

MOST_MEMBERS = 8_000_000
"""Members of all groups that a part lists."""

MOST_RANK = 10_000_000

TIMES = ("created_ns", "started_ns", "completed_ns", "duration_ms")
"""The columns in which ranks differ."""

BESIDE = {"started_ns": "created_ns", "completed_ns": "created_ns"}
COUNTED = ("seq", "p2p_seq", "op_id")
"""Columns that count in each process group."""

WORDS = {"op": "ops", "sizes": "sizes", "dtypes": "dtypes", "stack": "stacks"}
"""The columns of codes, beside ``group``, with their list in the vocabulary."""

_DTYPES = {name: form.removeprefix("npt.NDArray[np.").rstrip("]_") for name, form in Calls.__annotations__.items()}
_FIRST = ("group", "is_p2p", "created_ns")
"""Columns that others are packed beside."""

_LENGTH = 4

_Ref = Annotated[int, Meta(ge=0)]
_Packing = tuple[str, Int64, Int64, int]
_Dtypes = tuple[tuple[str, ...], tuple[str, ...]]


class _Layout(Struct, frozen=True, forbid_unknown_fields=True):
    """Columns of ``rows`` entries: for each its packing, and the numbers of its words."""

    rows: Annotated[int, Meta(ge=0, le=MOST_ROWS)]
    columns: dict[str, _Packing]
    words: dict[str, _Ref]


class _DumpRecord(Struct, frozen=True, forbid_unknown_fields=True):
    """A dump: its input, its head, and the numbers of what it has in common with others."""

    input: _Ref
    form: str
    version: str
    entries: _Ref
    wrapped: bool
    backend: str
    library: str
    config: tuple[_Ref, ...]
    status: tuple[tuple[Int64, Int64, Int64, Int64], ...]
    has_frames: bool
    problem: str
    comms: tuple[tuple[str, Int64, Int64, Int64, Int64, str, Int64, str, bool], ...]
    groups: _Ref
    layout: _Ref
    times: dict[str, _Packing]
    rank: int | None = None


class _SliceHead(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a slice adds to the tables of its part, and its dumps."""

    frames: tuple[Frame, ...] = ()
    groups: tuple[tuple[tuple[str, str], ...], ...] = ()
    ops: tuple[tuple[str, ...], ...] = ()
    sizes: tuple[tuple[tuple[Shape, Shape], ...], ...] = ()
    dtypes: tuple[tuple[_Dtypes, ...], ...] = ()
    stacks: tuple[tuple[tuple[_Ref, ...], ...], ...] = ()
    configs: tuple[tuple[str, str, tuple[tuple[_Ref, _Ref], ...]], ...] = ()
    layouts: tuple[_Layout, ...] = ()
    dumps: tuple[_DumpRecord, ...]


class _Table:
    """Numbers distinct values in order of first sight, and tells those that are new since it was last asked."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self.new: list[Any] = []

    def number_of(self, key: Hashable, value: Callable[[], Any]) -> int:
        """The number of the value with this key; ``value`` makes what is written of a new one."""
        known = self._numbers.get(key)
        if known is None:
            known = self._numbers[key] = len(self._numbers)
            self.new.append(value())
        return known

    def take_new(self) -> list[Any]:
        """What is new since the last call."""
        new, self.new = self.new, []
        return new


class _KnownLayout(Struct, frozen=True):
    """A layout that has a number: the numbers of its words, and the calls that it was made of."""

    number: int
    numbers: dict[str, int]
    calls: Calls


class DumpSliceWriter:
    """Packs dumps slice by slice; what earlier slices of the part hold is not written again."""

    def __init__(self) -> None:
        self._tables = {name: _Table() for name in ("groups", *WORDS.values(), "configs", "layouts")}
        self._frames = Interner()
        self._frames_told = 0
        self._blobs: list[bytes] = []
        self._last_layouts: list[_KnownLayout] = []

    def pack(self, dumps: Sequence[tuple[int, Batch]]) -> tuple[bytes, bytes]:
        """The two members for some dumps, each with the number of its input: calls, and their times."""
        self._blobs = []
        times: list[bytes] = []
        records = [self._record(number, batch, times) for number, batch in dumps]
        frames = self._frames.values()[self._frames_told :]
        self._frames_told += len(frames)
        head = {"frames": frames, **{name: table.take_new() for name, table in self._tables.items()}, "dumps": records}
        text = json.dumps(masked_values(head), separators=(",", ":")).encode()
        return b"".join((len(text).to_bytes(_LENGTH, "little"), text, *self._blobs)), b"".join(times)

    def _record(self, number: int, batch: Batch, times: list[bytes]) -> dict[str, Any]:
        head, words, values = batch.dumps[0], batch.vocabulary, _as_integers(batch.calls, TIMES)
        packed_times = {}
        for name in TIMES:
            beside = values[BESIDE[name]] if name in BESIDE else None
            packed_times[name], data = pack_column(values[name], beside=beside)
            times.append(data)
        return {
            "input": number,
            **{name: getattr(head, name) for name in _AS_IT_IS},
            "config": [self._config(item) for item in head.config],
            "status": [[s.pg_id, s.enqueued, s.started, s.completed] for s in head.status],
            "comms": [astuple(comm) for comm in head.comms],
            "groups": self._tables["groups"].number_of(words.groups, lambda: words.groups),
            "layout": self._layout(batch.calls, words),
            "times": packed_times,
        }

    def _config(self, item: GroupConfig) -> int:
        return self._tables["configs"].number_of(item, lambda: (item.uid, item.desc, spans_of(item.ranks)))

    def _layout(self, calls: Calls, words: Vocabulary) -> int:
        """The number of the layout: that of equal columns among the last ones, else that of these, packed."""
        numbers = {name: self._words(name, getattr(words, name)) for name in WORDS.values()}
        for known in self._last_layouts:
            columns = ((getattr(known.calls, name), getattr(calls, name)) for name in _COMMON)
            if known.numbers == numbers and all(np.array_equal(own, given) for own, given in columns):
                return known.number
        number = self._packed_layout(_as_integers(calls, _COMMON), numbers)
        # neighbours among the ranks mostly have one of the last layouts
        self._last_layouts = [_KnownLayout(number, numbers, calls), *self._last_layouts[:3]]
        return number

    def _packed_layout(self, values: dict[str, Ints], numbers: dict[str, int]) -> int:
        columns: dict[str, Packing] = {}
        pieces: list[bytes] = []
        turns = Turns.by_group(values["group"], values["is_p2p"])
        for name in _COMMON:
            columns[name], data = pack_column(values[name], turns if name in COUNTED else None)
            pieces.append(data)
        rows, content = len(values["entry"]), b"".join(pieces)
        key = (rows, content, tuple(columns.values()), tuple(numbers.values()))

        def written() -> dict[str, Any]:
            self._blobs.append(content)
            return {"rows": rows, "columns": columns, "words": numbers}

        return self._tables["layouts"].number_of(key, written)

    def _words(self, name: str, values: tuple[Any, ...]) -> int:
        if name != "stacks":
            return self._tables[name].number_of(values, lambda: values)
        return self._tables[name].number_of(values, lambda: [[self._frames.code(f) for f in stack] for stack in values])


_COMMON = tuple(sorted(_DTYPES.keys() - {"dump", *TIMES}, key=lambda name: (name not in _FIRST, name)))
"""The columns of a layout in the order in which they are packed and unpacked."""

_AS_IT_IS = ("form", "version", "entries", "wrapped", "backend", "library", "has_frames", "problem", "rank")


def _as_integers(calls: Calls, names: Sequence[str]) -> dict[str, Ints]:
    """Some columns as integers; of floats the bits."""
    columns = {name: getattr(calls, name) for name in names}
    return {
        name: (column.view(np.int32) if column.dtype == np.float32 else column).astype(np.int64)
        for name, column in columns.items()
    }


Columns = dict[str, npt.NDArray[Any]]


class StoredDump(Struct, frozen=True):
    """A dump as a part holds it. ``input`` is a number; ``head`` names no source yet, ``columns`` has no times."""

    input: int
    head: DumpHead
    words: Vocabulary
    columns: Columns
    _times: dict[str, Packing]
    _offset: int

    @property
    def size(self) -> int:
        """The number of its entries."""
        return len(self.columns["entry"])

    def created(self, data: bytes) -> Ints:
        """When its calls were made; ``data`` is as in :meth:`times`."""
        packing = self._times["created_ns"]
        return _unpacked_column(packing, data[self._offset : self._offset + packing[3] * self.size], self.size)

    def times(self, data: bytes) -> Columns:
        """The columns of its times; ``data`` is the second member of its slice. Raises :class:`PartError` where they are damaged."""
        out: Columns = {"created_ns": self.created(data)}
        at = self._offset + self._times["created_ns"][3] * self.size
        for name in TIMES[1:]:
            size = self._times[name][3] * self.size
            beside = out.get(BESIDE.get(name, ""))
            out[name] = _unpacked_column(self._times[name], data[at : at + size], self.size, beside=beside)
            at += size
        out["duration_ms"] = _cast("duration_ms", out["duration_ms"], np.int32).view(np.float32)
        return out


class DumpSliceReader(Struct):
    """Unpacks the slices of a part, in their order."""

    frames: list[Frame] = []
    words: dict[str, list[tuple[Any, ...]]] = {}
    configs: list[GroupConfig] = []
    layouts: list[tuple[_Layout, Columns]] = []
    members: int = 0

    def unpack(self, data: bytes) -> list[StoredDump]:
        """The dumps of the next slice. Raises :class:`PartError` where anything does not fit."""
        start = _LENGTH + int.from_bytes(data[:_LENGTH], "little")
        head = read_document(_SliceHead, data[_LENGTH:start])
        self.frames += head.frames
        for name in ("groups", "ops", "sizes", "dtypes"):
            self.words.setdefault(name, []).extend(getattr(head, name))
        known = self.words.setdefault("stacks", [])
        for stacks in head.stacks:
            if any(code >= len(self.frames) for stack in stacks for code in stack):
                raise PartError("damaged: a stack of unknown frames")
            if not stacks or stacks[0]:
                raise PartError("damaged: the first stack is not empty")
            known.append(tuple(tuple(self.frames[code] for code in stack) for stack in stacks))
        self.configs += [self._config(*item) for item in head.configs]
        for layout in head.layouts:
            columns, start = self._columns(layout, data, start)
            self.layouts.append((layout, columns))
        offset, dumps = 0, []
        for record in head.dumps:
            dumps.append(self._dump(record, offset))
            offset += sum(packing[3] for packing in record.times.values()) * dumps[-1].size
        return dumps

    def _config(self, uid: str, desc: str, runs: tuple[tuple[int, int], ...]) -> GroupConfig:
        self.members += sum(max(0, last - first + 1) for first, last in runs)
        if self.members > MOST_MEMBERS or any(last >= MOST_RANK for _, last in runs):
            raise PartError("damaged: groups of too many ranks")
        return GroupConfig(uid, desc, tuple(rank for first, last in runs for rank in range(first, last + 1)))

    def _columns(self, layout: _Layout, data: bytes, start: int) -> tuple[Columns, int]:
        """The columns of a layout, and where its bytes end."""
        if set(layout.columns) != set(_COMMON) or set(layout.words) != set(WORDS.values()):
            raise PartError("damaged: columns are missing")
        out: Columns = {}
        turns = None
        for name in _COMMON:
            packing = layout.columns[name]
            size = packing[3] * layout.rows
            if name in COUNTED and turns is None:
                turns = Turns.by_group(out["group"], out["is_p2p"])
            out[name] = _unpacked_column(packing, data[start : start + size], layout.rows, turns)
            start += size
        limits = {column: len(self._words_numbered(name, layout.words[name])) for column, name in WORDS.items()}
        limits |= {"state": len(STATES), "is_p2p": 2, "retired": 2, "group": layout.rows}
        for name, limit in limits.items():
            lowest = UNSET if name in ("group", "sizes", "dtypes", "stack") else 0
            if layout.rows and not lowest <= int(out[name].min()) <= int(out[name].max()) < limit:
                raise PartError(f"damaged: codes of {name} out of range")
        return {name: _cast(name, column, np.dtype(_DTYPES[name])) for name, column in out.items()}, start

    def _words_numbered(self, name: str, number: int) -> tuple[Any, ...]:
        if number >= len(self.words[name]):
            raise PartError(f"damaged: unknown {name}")
        return self.words[name][number]

    def _dump(self, record: _DumpRecord, offset: int) -> StoredDump:
        if record.layout >= len(self.layouts) or any(number >= len(self.configs) for number in record.config):
            raise PartError("damaged: a dump of unknown columns or groups")
        layout, columns = self.layouts[record.layout]
        words = Vocabulary(
            groups=self._words_numbered("groups", record.groups),
            **{name: self._words_numbered(name, layout.words[name]) for name in WORDS.values()},
        )
        if set(record.times) != set(TIMES) or record.entries != layout.rows:
            raise PartError("damaged: columns are missing")
        if layout.rows and int(columns["group"].max()) >= len(words.groups):
            raise PartError("damaged: codes of group out of range")
        head = DumpHead(
            source=UNSET,
            path="",
            config=tuple(self.configs[number] for number in record.config),
            status=tuple(GroupStatus(*item) for item in record.status),
            comms=tuple(CommState(*item) for item in record.comms),
            **{name: getattr(record, name) for name in _AS_IT_IS},
        )
        return StoredDump(record.input, head, words, columns, record.times, offset)


def _unpacked_column(
    packing: Packing, data: bytes, rows: int, turns: Turns | None = None, beside: Ints | None = None
) -> Ints:
    try:
        return unpack_column(packing, data, rows, turns, beside)
    except (ValueError, OverflowError) as error:
        raise PartError(f"damaged: {error}") from None


def _cast(name: str, column: Ints, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    out = column.astype(dtype)
    if not np.array_equal(out, column):
        raise PartError(f"damaged: values of {name} out of range")
    out.setflags(write=False)
    return out
