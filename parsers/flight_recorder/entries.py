"""Recorder entries to columns: the kernel that runs in the sandboxed child, on the standard library alone.

The child imports neither numpy nor the rest of the package: it starts in a few milliseconds and its memory limit
leaves no room for thread pools. See :mod:`nccldoctor.parsers.flight_recorder.values` for the care taken.
"""

from __future__ import annotations

import marshal
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import accumulate, chain, compress, islice
from operator import itemgetter
from typing import Any, NamedTuple

from nccldoctor.parsers.flight_recorder.shapes import DTYPE_KEYS, SIZE_KEYS, add_shapes, add_stacks
from nccldoctor.parsers.flight_recorder.values import INT64, UNSET, Codes, Entries, clean, integer
from nccldoctor.patterns import lazy

_STATES = {"scheduled": 0, "started": 1, "completed": 2}
_UNKNOWN_STATE = 3
DURATION = "duration_ms"
INTEGERS = {
    "record_id": ("q", "record_id"),
    "pg_id": ("i", "pg_id"),
    "seq": ("q", "collective_seq_id"),
    "p2p_seq": ("q", "p2p_seq_id"),
    "op_id": ("q", "op_id"),
    "timeout_ms": ("q", "timeout_ms"),
    "created_ns": ("q", "time_created_ns"),
    "started_ns": ("q", "time_discovered_started_ns"),
    "completed_ns": ("q", "time_discovered_completed_ns"),
}
KNOWN = (
    *(key for _, key in INTEGERS.values()),
    *("seq_id", "time_created_us", "process_group", "profiling_name", "is_p2p", "state", "retired", DURATION),
    *(*SIZE_KEYS, *DTYPE_KEYS, "frames"),
)
_OF_CALLS = (*("profiling_name", "is_p2p", "state", "retired"), *SIZE_KEYS, *DTYPE_KEYS, "frames")
"""Fields that differ little between the ranks of a job; numbers and groups differ in every dump."""

_NAME = lazy(r"[A-Za-z_]")
_BACKEND = lazy(r"([A-Za-z][\w-]{0,31}):")


def read_entries(entries: list[Any], budget: int) -> Entries:
    """Columns of the entries of one dump.

    ``budget`` bounds how many list items may be visited: an honest file spends bytes on each of them.
    Raises :class:`~nccldoctor.parsers.flight_recorder.values.TooBig` where it does not.
    """
    out = Entries()
    places = None
    if set(map(type, entries)) - {dict}:
        places = [i for i, entry in enumerate(entries) if type(entry) is dict]
        out.left_out = len(entries) - len(places)
        entries = [entries[i] for i in places]
    if not entries:
        return out
    out.rows = len(entries)
    bad: set[int] = set()
    table = _transpose(entries)
    _add_numbers(table, out, bad)
    _note_missing(table, out)
    _groups(table, out, [out.groups], [out.rows])
    _add_calls(table, out, budget)
    out.columns["entry"] = array("i", places if places is not None else range(out.rows))
    if bad:
        keep = [row not in bad for row in range(out.rows)]
        out.columns = {name: array(col.typecode, compress(col, keep)) for name, col in out.columns.items()}
        out.left_out += len(bad)
        out.rows -= len(bad)
    return out


def read_together(dumps: Sequence[list[Any]], budget: int) -> tuple[Entries, list[list[tuple[str, str]]]] | None:
    """Columns of the entries of several dumps, one after the other, and the groups of each dump.

    One pass over many small dumps costs a fraction of one pass over each. Only what all have in common can be read so:
    returns None where dumps differ in their fields or backends, where one has no entries, or an entry is odd. Raises as
    :func:`read_entries` does.
    """
    entries = [entry for one in dumps for entry in one]
    if not all(dumps) or set(map(type, entries)) != {dict}:
        return None
    table = _uniform(entries)
    if table is None:
        return None
    counts = list(map(len, dumps))
    alike = _dumps_alike(table, counts)
    out, bad = Entries(rows=sum(map(counts.__getitem__, alike.first))), set[int]()
    named = _add_calls(alike.table, out, budget)
    if named not in (0, out.rows) or out.backends > 1:
        return None
    out.columns = alike.expanded(out.columns)
    out.rows = len(entries)
    _add_numbers(table, out, bad)
    groups: list[list[tuple[str, str]]] = [[] for _ in dumps]
    _groups(table, out, groups, counts)
    _note_missing(table, out)
    if bad or out.notes:
        return None
    out.columns["entry"] = array("i", chain.from_iterable(map(range, counts)))
    return out, groups


def _add_calls(table: dict[str, Sequence[Any]], out: Entries, budget: int) -> int:
    """Add what the ranks of a group have in common: columns of :data:`_OF_CALLS`; returns how many names tell their backend."""
    names = _texts(table.get("profiling_name") or ("",) * out.rows)
    odd = {name for name in set(names) if not _NAME.match(name)}  # no operation has such a name
    names = ["" if name in odd else name for name in names] if odd else names
    if unnamed := sum(not name for name in names):
        out.notes.append(f"{unnamed} entries without the name of their operation")
    codes = Codes(_without_backend, out.ops)
    out.columns["op"] = array("i", map(codes.__getitem__, names))
    backends = Counter(m[1] for m in map(_BACKEND.match, names) if m)
    out.backends = len(backends)
    out.backend = min(backends, key=lambda name: (-backends[name], name), default="")
    named = backends.total()
    _flags(table, out)
    add_shapes(table, out, budget)
    add_stacks(table, out, budget)
    return named


class _Alike(NamedTuple):
    """Dumps of the same calls: ``first`` has one place for each sort of dump, ``like`` the sort of each dump.

    ``table`` has the rows of the first ones, and ``counts`` how many each of them has.
    """

    first: list[int]
    like: list[int]
    counts: list[int]
    table: dict[str, Sequence[Any]]

    def expanded(self, columns: dict[str, array[Any]]) -> dict[str, array[Any]]:
        """The columns of all dumps, given those of the first ones."""
        return {name: self._expanded(column) for name, column in columns.items()}

    def _expanded(self, column: array[Any]) -> array[Any]:
        ends = list(accumulate(self.counts))
        parts = [column[end - count : end].tobytes() for count, end in zip(self.counts, ends, strict=True)]
        return array(column.typecode, b"".join(map(parts.__getitem__, self.like)))


def _dumps_alike(table: dict[str, Sequence[Any]], counts: Sequence[int]) -> _Alike:
    """Find the dumps that differ in numbers and groups alone, as those of most ranks do.

    They are compared as :mod:`marshal` writes them: it writes nothing twice, however often a file refers to it.
    """
    columns = [table[key] for key in _OF_CALLS if key in table]
    kinds: dict[bytes | int, int] = {}
    first, like, begin = list[int](), list[int](), 0
    for place, count in enumerate(counts):
        own = [column[begin : begin + count] for column in columns]
        begin += count
        like.append(kinds.setdefault(_written(own, place), len(kinds)))
        if like[-1] == len(first):
            first.append(place)
    ends = list(accumulate(counts))
    rows = [slice(ends[place] - counts[place], ends[place]) for place in first]
    part: dict[str, Sequence[Any]] = {
        key: [value for own in rows for value in table[key][own]] for key in _OF_CALLS if key in table
    }
    return _Alike(first, like, [counts[place] for place in first], part)


def _written(columns: list[Sequence[Any]], place: int) -> bytes | int:
    """Equal for equal columns; ``place`` where they are nested too deep to be written."""
    try:
        return marshal.dumps(columns)
    except ValueError:
        return place


def _note_missing(table: dict[str, Sequence[Any]], out: Entries) -> None:
    """Note fields that a recorder gives all of its entries or none, and that only some have."""
    for name in ("pg_id", "collective_seq_id", "process_group", "time_created_ns", *SIZE_KEYS, *DTYPE_KEYS):
        column = table.get(name, ())
        missing = column.count(None)
        if 0 < missing < len(column):
            out.notes.append(f"{missing} entries without their {name}")


def _transpose(entries: list[dict[Any, Any]]) -> dict[str, Sequence[Any]]:
    """The known fields by column; None stands where an entry lacks the field."""
    table = _uniform(entries)
    if table is not None:
        return table
    keys = [key for key in KNOWN if any(key in entry for entry in entries)]
    return {key: [entry.get(key) for entry in entries] for key in keys}


def _uniform(entries: list[dict[Any, Any]]) -> dict[str, Sequence[Any]] | None:
    """The known fields by column; None where entries differ in their fields."""
    keys = [key for key in KNOWN if key in entries[0]]
    if len(keys) > 1 and len(set(map(len, entries))) == 1:
        with suppress(KeyError):  # entries of equal length with different keys
            return dict(zip(keys, zip(*map(itemgetter(*keys), entries), strict=True), strict=True))
    return None


def _add_numbers(table: dict[str, Sequence[Any]], out: Entries, bad: set[int]) -> None:
    if "collective_seq_id" not in table and "seq_id" in table:
        table["collective_seq_id"] = table["seq_id"]
    if "time_created_ns" not in table and "time_created_us" in table:
        stamps = (integer(v) for v in table["time_created_us"])
        table["time_created_ns"] = [None if v is None else v * 1000 for v in stamps]
    for name, (code, key) in INTEGERS.items():
        if key in table:
            out.columns[name] = _integer_column(table[key], code, 0 if name.endswith("_ns") else UNSET, bad)
    if DURATION in table:
        spans = [float(v) if type(v) in (float, int) and abs(v) < 1e30 else float("nan") for v in table[DURATION]]
        out.columns[DURATION] = array("f", spans)


def _integer_column(column: Sequence[Any], code: str, absent: int, bad: set[int]) -> array[int]:
    """An array of the values; rows that hold something else than a number in range or None go to ``bad``."""
    kinds = set(map(type, column))
    if kinds == {int}:
        with suppress(OverflowError):
            return array(code, column)
    if kinds == {type(None)}:
        return array(code, (absent,)) * len(column)
    if kinds == {int, type(None)}:
        with suppress(OverflowError):
            return array(code, [absent if value is None else value for value in column])
    low, high = (-INT64, INT64) if code == "q" else (-(2**31), 2**31)
    values = []
    for row, value in enumerate(column):
        number = absent if value is None else integer(value)
        if number is None or not low <= number < high:
            bad.add(row)
            number = absent
        values.append(number)
    return array(code, values)


def _texts(column: Sequence[Any]) -> Sequence[str]:
    """The column with "" for whatever is not a string."""
    return column if set(map(type, column)) == {str} else [v if type(v) is str else "" for v in column]


def _without_backend(name: str) -> str:
    backend = _BACKEND.match(name)
    return clean(name[backend.end() :] if backend else name)


def _groups(
    table: dict[str, Sequence[Any]], out: Entries, groups: Sequence[list[tuple[str, str]]], counts: Sequence[int]
) -> None:
    """Add the groups, of each dump as codes into its own list.

    Ranks in different groups that issue the same calls so have equal columns.
    """
    column = table.get("process_group")
    if column is None:
        return
    if set(map(type, column)) == {tuple} and set(map(len, column)) == {2}:
        uids, descs = zip(*column, strict=True)
        pairs: Iterable[tuple[Any, Any]] = zip(_texts(uids), _texts(descs), strict=True)
    else:
        are_names = set(map(type, column)) == {str}  # torch 2.3 writes the name alone
        pairs = [(value, "") if are_names else _pair(value) for value in column]
    rest, column_of_codes = iter(pairs), array("i")
    for own, count in zip(groups, counts, strict=True):
        codes = Codes(lambda pair: (clean(pair[0]), clean(pair[1])), own)
        column_of_codes.extend([UNSET if pair == ("", "") else codes[pair] for pair in islice(rest, count)])
    out.columns["group"] = column_of_codes


def _pair(value: Any) -> tuple[str, str]:
    if type(value) not in (list, tuple) or not 1 <= len(value) <= 2:
        return "", ""
    uid, desc = value[0], value[1] if len(value) == 2 else ""
    uid = str(integer(uid)) if type(uid) is int else uid
    return uid if type(uid) is str else "", desc if type(desc) is str else ""


def _flags(table: dict[str, Sequence[Any]], out: Entries) -> None:
    states = table.get("state", (None,) * out.rows)
    known = [_STATES.get(v, UNSET) if type(v) is str else UNSET for v in states]
    if UNSET in known:
        out.notes.append(f"{known.count(UNSET)} entries in a state of unknown name, which show nothing")
        known = [_UNKNOWN_STATE if state == UNSET else state for state in known]
    out.columns["state"] = array("b", known)
    retired = table.get("retired", (None,) * out.rows)
    if set(map(type, retired)) != {bool}:
        # where an integer is 1, nobody filled in zeros
        kinds = (bool, int) if 1 in [v for v in retired if type(v) is int] else (bool,)
        retired = [bool(v) if type(v) in kinds and v in (0, 1) else None for v in retired]
    # other backends than these only retire an entry, and do not note when the device ended its call; "" where none is named
    if None in retired and out.backend not in ("nccl", "ncclx", ""):
        unsaid = retired.count(None)
        out.notes.append(f"{unsaid} entries that don't say whether they ended, so their states show nothing")
        known = [_UNKNOWN_STATE if flag is None else state for flag, state in zip(retired, known, strict=True)]
        out.columns["state"] = array("b", known)
    if "retired" in table:
        out.columns["retired"] = array("b", [flag is True for flag in retired])
    p2p = table.get("is_p2p")
    if p2p is None:  # not recorded before 2.4: the names of the point-to-point calls tell
        by_op = [op.startswith(("send", "recv")) for op in out.ops]
        out.columns["is_p2p"] = array("b", map(by_op.__getitem__, out.columns["op"]))
    else:
        out.columns["is_p2p"] = array("b", [v is True for v in p2p])
