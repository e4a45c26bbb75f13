"""The table of recorded calls: numpy columns, one row for each flight-recorder entry.

16,384 ranks x 2,000 calls are 33 million rows: columns hold them in 2 GB, objects would not. Strings,
shapes and stacks stand once in a :class:`Vocabulary`; the columns hold their codes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from nccldoctor.model.operations import is_known_op

SCHEDULED, STARTED, COMPLETED, UNKNOWN_STATE = 0, 1, 2, 3
"""Values of ``Calls.state``; the last one stands for a name that no release of PyTorch writes."""

STATES = ("scheduled", "started", "completed", "unknown")
"""The states of a recorded call, by the number in its column."""

UNSET = -1
"""The value of integer columns where the entry has no such field."""

EARLIEST_NS = 1_400_000_000 * 10**9
"""2014, before any recorder: earlier times are in another unit, or of a wrong clock."""

Frame = tuple[str, str, int]
"""One stack frame: function, file, line."""

Shape = tuple[tuple[int, ...], ...]
"""Sizes of several tensors."""


class Calls(Struct, frozen=True):
    """Recorded calls by column, all of the same length, in dump order and entry order.

    ``dump`` is the index in the list of :class:`DumpHead`; ``entry`` the index inside the dump.
    ``group`` is a code into ``Vocabulary.groups`` (uid, desc) as recorded, before members are known.
    ``seq`` is ``collective_seq_id`` (``seq_id`` in 2.2), ``p2p_seq`` is ``p2p_seq_id``; ``op`` codes into
    ``Vocabulary.ops`` the recorded name without its backend (``"all_reduce"``, ``"send 0->1"``, ``"coalesced"``).
    ``sizes`` codes into ``Vocabulary.sizes``: (input sizes, output sizes); ``dtypes`` likewise. ``numel_in`` and ``numel_out``
    are sums of elements over the tensors. Times are nanoseconds since the epoch, 0 where absent.
    ``stack`` codes into ``Vocabulary.stacks``, innermost frame first; code 0 is the empty stack.
    """

    dump: npt.NDArray[np.int32]
    entry: npt.NDArray[np.int32]
    record_id: npt.NDArray[np.int64]
    pg_id: npt.NDArray[np.int32]
    group: npt.NDArray[np.int32]
    seq: npt.NDArray[np.int64]
    p2p_seq: npt.NDArray[np.int64]
    op_id: npt.NDArray[np.int64]
    op: npt.NDArray[np.int32]
    is_p2p: npt.NDArray[np.bool_]
    sizes: npt.NDArray[np.int32]
    dtypes: npt.NDArray[np.int32]
    numel_in: npt.NDArray[np.int64]
    numel_out: npt.NDArray[np.int64]
    state: npt.NDArray[np.int8]
    retired: npt.NDArray[np.bool_]
    created_ns: npt.NDArray[np.int64]
    started_ns: npt.NDArray[np.int64]
    completed_ns: npt.NDArray[np.int64]
    duration_ms: npt.NDArray[np.float32]
    timeout_ms: npt.NDArray[np.int64]
    stack: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return int(self.dump.shape[0])

    @classmethod
    def empty(cls) -> Calls:
        """A table without rows."""
        return cls.build({})

    @classmethod
    def build(cls, columns: dict[str, Any]) -> Calls:
        """A table of the declared dtypes from whatever numpy accepts; missing columns hold ``UNSET`` (times 0)."""
        rows = max((len(c) for c in columns.values()), default=0)
        out = {}
        for name, dtype in _DTYPES.items():
            if name in columns:
                out[name] = np.asarray(columns[name], dtype=dtype)
            else:
                fill: Any = 0 if dtype in ("bool", "int8") or name.endswith("_ns") else UNSET
                out[name] = np.full(rows, np.nan if dtype == "float32" else fill, dtype=dtype)
        return cls(**out)

    def number(self, row: int) -> int:
        """The sequence number of a call in its group. For a send or a receive that has one, that of the transfer."""
        numbers = self.p2p_seq if self.is_p2p[row] and self.p2p_seq[row] >= 0 else self.seq
        return int(numbers[row])

    def by_dump(self) -> Iterator[tuple[int, slice]]:
        """Each dump that has calls, with its rows, which stand together: no dump needs a pass over the whole table."""
        if len(self):
            edges = [0, *(np.flatnonzero(self.dump[1:] != self.dump[:-1]) + 1).tolist(), len(self)]
            for start, stop in pairwise(edges):
                yield int(self.dump[start]), slice(start, stop)

    def by_dumps(self, least: int = 2048) -> Iterator[slice]:
        """The rows in parts of whole dumps, each part of ``least`` rows or more: one pass asks many small dumps."""
        starts = np.concatenate([[0], np.flatnonzero(self.dump[1:] != self.dump[:-1]) + 1, [len(self)]])
        first = 0 if len(self) else len(starts)
        while first < len(starts) - 1:
            after = min(max(int(np.searchsorted(starts, starts[first] + least)), first + 1), len(starts) - 1)
            yield slice(int(starts[first]), int(starts[after]))
            first = after

    def between(self, first: int, after: int) -> Calls:
        """The rows from ``first`` to the one before ``after``, in the same memory."""
        return Calls(*[getattr(self, name)[first:after] for name in _DTYPES])

    def take(self, rows: npt.NDArray[Any]) -> Calls:
        """The rows selected by an index or mask."""
        return Calls(**{name: getattr(self, name)[rows] for name in _DTYPES})


_DTYPES = {name: form.removeprefix("npt.NDArray[np.").rstrip("]_") for name, form in Calls.__annotations__.items()}


class Vocabulary(Struct, frozen=True):
    """The values behind the codes of :class:`Calls`. Code 0 of ``stacks`` is the empty stack."""

    groups: tuple[tuple[str, str], ...] = ()
    ops: tuple[str, ...] = ()
    sizes: tuple[tuple[Shape, Shape], ...] = ()
    dtypes: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = ()
    stacks: tuple[tuple[Frame, ...], ...] = ((),)


class GroupConfig(Struct, frozen=True):
    """One item of ``pg_config``: a group as the dump's own process knew it; ``ranks`` are global."""

    uid: str
    desc: str
    ranks: tuple[int, ...]


class GroupStatus(Struct, frozen=True):
    """One item of ``pg_status``: counters by local creation index; -1 means none."""

    pg_id: int
    enqueued: int
    started: int
    completed: int


class CommState(Struct, frozen=True):
    """A communicator as NCCL dumped it (``nccl_comm_state``): ``rank`` of ``nranks``.

    ``newest`` is the number of its newest call, ``unfinished`` that of the first one that did not finish (-1: none); ``op``,
    ``numel`` and ``dtype`` are of that one, else of the newest. ``uneven``: not all members issue all its calls.
    """

    comm: str
    rank: int
    nranks: int
    newest: int
    unfinished: int
    op: str
    numel: int
    dtype: str
    uneven: bool


class DumpHead(Struct, frozen=True):
    """One recorder dump without its entries.

    ``form`` is ``list`` (2.2), ``dict`` or ``json``; ``version`` is the recorder's own ("" for a list).
    ``problem`` says why there are no entries, or not all: "" where nothing is wrong.
    ``wrapped`` is true where the ring had dropped its oldest entries; ``unread`` older ones of the dump are not in the table.
    ``backend`` is the prefix of the recorded names (nccl, gloo, ...). ``comms`` are the communicators as NCCL itself dumped them.
    ``only_retires`` is true where nothing but ``retired`` tells that a call of this backend ended, ``hides_transfers`` where it
    records no sends and receives either; see :func:`with_habits`. ``rank`` is whose it says it is; in a communicator, without ``config``.
    """

    source: int
    path: str
    form: str
    version: str
    entries: int
    wrapped: bool
    backend: str
    library: str
    config: tuple[GroupConfig, ...]
    status: tuple[GroupStatus, ...]
    has_frames: bool
    problem: str = ""
    comms: tuple[CommState, ...] = ()
    only_retires: bool = False
    hides_transfers: bool = False
    unread: int = 0
    rank: int | None = None

    @property
    def has_lost_past(self) -> bool:
        """True where calls before the first entry are not known."""
        return self.wrapped or self.unread > 0

    @property
    def is_empty(self) -> bool:
        """True where the recorder held no call, and counted none: it was off, or its rank made none."""
        return "recorder off" in self.problem and not any(s.enqueued > 0 for s in self.status)


class Batch(Struct, frozen=True):
    """Some dumps and their calls, with one vocabulary.

    ``rows`` of ``table`` are theirs; None where all of them are. Dumps that were read together share a table: to slice its columns for
    each of thousands costs more than to read them.
    """

    dumps: tuple[DumpHead, ...]
    table: Calls
    vocabulary: Vocabulary
    rows: tuple[int, int] | None = None

    @property
    def calls(self) -> Calls:
        """The calls of these dumps."""
        return self.table if self.rows is None else self.table.between(*self.rows)

    def with_calls(self, calls: Calls) -> Batch:
        """The same dumps with other calls."""
        return Batch(self.dumps, calls, self.vocabulary)

    @property
    def bounds(self) -> tuple[int, int]:
        """The first row of ``table`` that is theirs, and the one behind the last."""
        return self.rows if self.rows is not None else (0, len(self.table))

    @classmethod
    def empty(cls) -> Batch:
        """No dump at all."""
        return cls((), Calls.empty(), Vocabulary())


class Interner:
    """Hands out a code for each distinct value, in order of first sight."""

    __slots__ = ("codes",)

    def __init__(self, values: Iterable[Any] = ()) -> None:
        self.codes: dict[Any, int] = {}
        for value in values:
            self.code(value)

    def code(self, value: Any) -> int:
        """The code of ``value``, new or known."""
        return self.codes.setdefault(value, len(self.codes))

    def values(self) -> tuple[Any, ...]:
        """All values, by code."""
        return tuple(self.codes)


def merge(batches: Sequence[Batch]) -> Batch:
    """One batch out of several, in the given order: dumps renumbered, vocabularies joined."""
    if not batches:
        return Batch.empty()
    if len(batches) == 1:
        return with_habits(with_shared_names(batches[0].with_calls(batches[0].calls)))
    words = {
        name: Interner([()] if name == "stacks" else ()) for name in ("groups", "ops", "sizes", "dtypes", "stacks")
    }
    coded = {"group": "groups", "op": "ops", "sizes": "sizes", "dtypes": "dtypes", "stack": "stacks"}
    rows = [after - first for first, after in (batch.bounds for batch in batches)]
    pieces = _joined_rows(batches)
    columns = {}
    for name in _DTYPES:
        values = np.concatenate([getattr(table, name)[first:after] for table, first, after in pieces])
        if name == "dump":
            heads = [len(batch.dumps) for batch in batches]
            values += np.repeat(np.cumsum([0, *heads[:-1]], dtype=np.int32), rows)
        elif name in coded:
            values = _recoded(
                values, rows, [getattr(batch.vocabulary, coded[name]) for batch in batches], words[coded[name]]
            )
        columns[name] = values
    dumps = [dump for batch in batches for dump in batch.dumps]
    calls = Calls(**columns)
    vocabulary = Vocabulary(**{name: table.values() for name, table in words.items()})
    return with_habits(with_shared_names(Batch(tuple(dumps), calls, vocabulary)))


def _joined_rows(batches: Sequence[Batch]) -> list[tuple[Calls, int, int]]:
    """The rows of all batches as pieces of tables: neighbours in one table are one piece."""
    pieces: list[tuple[Calls, int, int]] = []
    for batch in batches:
        first, after = batch.bounds
        if pieces and pieces[-1][0] is batch.table and pieces[-1][2] == first:
            first = pieces.pop()[1]
        pieces.append((batch.table, first, after))
    return pieces


def _recoded(
    codes: npt.NDArray[np.int32], rows: Sequence[int], vocabularies: Sequence[Sequence[Any]], words: Interner
) -> npt.NDArray[np.int32]:
    """The codes of several batches as codes of one vocabulary; ``rows`` of them are of each batch."""
    new: list[int] = []
    first: list[int] = []
    before: Sequence[Any] = ()
    for values in vocabularies:
        if values is not before or not first:  # dumps that were read together have one vocabulary
            start, before = len(new), values
            new.extend(map(words.code, values))
        first.append(start)
    table = np.array(new or [UNSET], dtype=np.int32)
    place = codes + np.repeat(first, rows)
    return np.where(codes == UNSET, np.int32(UNSET), table[np.minimum(place, len(table) - 1)])


def with_shared_names(batch: Batch) -> Batch:
    """The batch without names of operations that no release gives and one dump of several holds: that dump is odd."""
    calls, ops, heads = batch.calls, batch.vocabulary.ops, list(batch.dumps)
    is_strange = np.array([bool(name) and not is_known_op(name) for name in ops] or [False])
    rows = np.flatnonzero(is_strange[calls.op])
    first, last = np.full(len(is_strange), len(heads)), np.zeros(len(is_strange), dtype=np.int64)
    np.minimum.at(first, calls.op[rows], calls.dump[rows])
    np.maximum.at(last, calls.op[rows], calls.dump[rows])
    rows = rows[(first == last)[calls.op[rows]]] if calls.dump.any() else rows[:0]
    for dump, count in zip(*map(np.ndarray.tolist, np.unique(calls.dump[rows], return_counts=True)), strict=True):
        note = f"{count} entries of an operation that no release and no other dump names"
        heads[dump] = replace(heads[dump], problem="; ".join(filter(None, (heads[dump].problem, note))))
    lone = set(calls.op[rows].tolist())
    words = replace(batch.vocabulary, ops=tuple("" if code in lone else name for code, name in enumerate(ops)))
    return replace(batch, dumps=tuple(heads), vocabulary=words)


def with_habits(batch: Batch) -> Batch:
    """The batch with what its records show of how each backend keeps its recorder.

    A backend without events of a device never calls an entry started or completed: it only retires it when its work has ended. That is
    gloo, and every backend that is recorded by the hooks of a process group. What the dumps show counts, since names change: two dumps
    of ``xyz:`` in which 40 calls are retired and none is completed are of such a backend. Where no call was retired yet, as in a first call
    that hangs, only ``nccl`` is known to do better. Tools that mend a dump write *completed* where it says retired: of other backends
    a time, a call that has started, or one that is completed and not retired or the reverse shows a device.
    """
    calls, dumps = batch.calls, batch.dumps
    if not len(calls):
        return batch
    timed = (calls.state == STARTED) | (calls.started_ns > 0) | (calls.completed_ns > 0)
    ended = calls.state == COMPLETED

    def backends(rows: npt.NDArray[np.bool_]) -> set[str]:
        return {dumps[i].backend for i in np.flatnonzero(np.bincount(calls.dump[rows])).tolist()}

    with_states = backends(timed) | (backends(ended) & ({*_WITH_EVENTS} | backends(ended != calls.retired)))
    retiring, with_transfers = backends(calls.retired), backends(calls.is_p2p)

    def habits(dump: DumpHead) -> DumpHead:
        if not dump.entries or dump.backend in with_states:
            return dump
        only_retires = dump.backend in retiring or dump.backend not in _WITH_EVENTS
        return replace(
            dump, only_retires=only_retires, hides_transfers=only_retires and dump.backend not in with_transfers
        )

    return replace(batch, dumps=tuple(map(habits, dumps)))


_WITH_EVENTS = ("nccl", "ncclx", "")
"""Backends that note when the device ended a call; "" where a dump names none."""
