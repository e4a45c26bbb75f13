"""Flight-recorder dumps: from the loaded object, any form and version, to columns.

Forms met: a bare list (PyTorch 2.2), a dict (2.3 and later), and the JSON of ``_dump_nccl_trace_json`` and of the
worker's HTTP handlers. Fields come and go between versions (``torch/csrc/distributed/c10d/FlightRecorder.hpp``),
so any subset is taken and the version steers nothing. This module runs in the sandboxed child: see
:mod:`nccldoctor.parsers.flight_recorder.entries` for what follows from that.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from nccldoctor.parsers.flight_recorder.communicators import State, read_states
from nccldoctor.parsers.flight_recorder.entries import read_entries
from nccldoctor.parsers.flight_recorder.entries import read_together as entries_together
from nccldoctor.parsers.flight_recorder.values import Entries, clean, integer
from nccldoctor.patterns import lazy

NOT_A_DUMP = "not a recorder dump"
NO_ENTRIES = "recorder off: no entries"

_TOP_KEYS = frozenset({"entries", "pg_config", "pg_status", "nccl_comm_state", "nccl_version", "comm_lib_version"})
_ENTRY_KEYS = frozenset({"profiling_name", "seq_id", "collective_seq_id", "time_created_ns", "time_created_us"})
_JSON_SIGNS = lazy(
    rb'"(?:pg_config|pg_status|nccl_comm_state|comm_lib_version|collective_seq_id|profiling_name|p2p_seq_id)"\s{0,9}:'
)
_JSON_START = lazy(rb"(?:\xef\xbb\xbf)?\s{0,4096}(?:\{\s{0,99}[\"}]|\[\s{0,99}\{)")
_NAMED = lazy(r"(?:^|/)(?:fr_trace|(?:nccl|comm_lib)_trace_rank)_\d{1,7}(?:$|\.)")
_COUNTERS = ("last_enqueued_collective", "last_started_collective", "last_completed_collective")
_RANK_LIST = lazy(r"[\[\](){}\s,\d]*\Z")
_RANK_NUMBER = lazy(r"\d{1,9}")  # of a longer one each part is beyond any rank


Run = tuple[int, int, int]
"""Ranks in equal steps: the first, the last and the step. Groups are such: 0-7, or every eighth rank."""


class Dump:
    """One dump: what stands around its entries, and the entries by column.

    ``config`` holds (uid, description, runs of member ranks, in recorded order);
    ``status`` (local group index, enqueued, started, completed), -1 for none.
    ``comms`` are its communicators as NCCL itself dumped them. ``problem`` and ``rank`` as in
    :class:`nccldoctor.model.recorded_calls.DumpHead`.
    """

    def __init__(self, form: str, problem: str = "") -> None:
        self.form = form
        self.version = ""
        self.library = ""
        self.config: list[tuple[str, str, list[Run]]] = []
        self.status: list[tuple[int, int, int, int]] = []
        self.entries = Entries()
        self.wrapped = False
        self.problem = problem
        self.comms: list[State] = []
        self.rank: int | None = None


def is_pickle(head: bytes) -> bool:
    """True for the first bytes of a pickled dump. torch writes protocol 2; re-written dumps have 3 to 5."""
    return len(head) > 2 and head[0] == 0x80 and 2 <= head[1] <= 5


def is_named_for_dump(path: str) -> bool:
    """True of a file with a name that PyTorch gives its dumps: ``nccl_trace_rank_3``, ``fr_trace_3.json``."""
    return _NAMED.search(path) is not None


def is_json_dump(head: bytes) -> bool:
    """True when a file that begins with ``head`` reads like the JSON form."""
    return _JSON_START.match(head) is not None and _JSON_SIGNS.search(head) is not None


def read_dump(content: object, form: str, size: int) -> Dump:
    """The dump in ``content``, as the unpickler (``form`` ``pickle``) or the JSON decoder (``json``) made it.

    ``size`` is the length of the file in bytes; it bounds how far shared parts may be expanded. What is no dump comes
    back with ``problem`` :data:`NOT_A_DUMP`. Raises :class:`~nccldoctor.parsers.flight_recorder.values.TooBig`.
    """
    if type(content) is list:
        return _read_list(content, form, size)
    if type(content) is not dict or not _TOP_KEYS & {key for key in content if type(key) is str}:
        return Dump(form, problem=NOT_A_DUMP)
    dump = Dump("json" if form == "json" else "dict")
    entries = content.get("entries")
    _fill(dump, entries if type(entries) is list else [], size)
    _fill_around(dump, content)
    _drop_unused(dump)
    return dump


def read_together(contents: Iterable[object], size: int) -> tuple[list[Dump], Entries] | None:
    """The dumps in several loaded pickles, and the entries of all; None where that does not work.

    ``size`` is the length of all files in bytes. Of each pickle only its entries are kept while the next is loaded. When it works:
    :func:`nccldoctor.parsers.flight_recorder.entries.read_together`. Raises as :func:`read_dump` does.
    """
    dumps, of_each = list[Dump](), list[list[Any]]()
    for content in contents:
        if type(content) is not dict or type(content.get("entries")) is not list:
            return None
        dumps.append(Dump("dict"))
        _fill_around(dumps[-1], content)
        of_each.append(content["entries"])
    found = entries_together(of_each, 100_000 + 16 * size)
    if found is None:
        return None
    entries, first = found[0], 0
    for dump, groups, own in zip(dumps, found[1], of_each, strict=True):
        dump.entries.rows, dump.entries.groups = len(own), groups
        dump.wrapped = _is_wrapped(entries, first)
        _drop_unused(dump)
        first += len(own)
    return dumps, entries


def _fill_around(dump: Dump, content: dict[Any, Any]) -> None:
    """What stands around the entries."""
    dump.version = _clean_text(content.get("version"))
    dump.library = _clean_text(content.get("comm_lib_version")) or _clean_text(content.get("nccl_version"))
    dump.config = _config(content.get("pg_config"))
    dump.status = _status(content.get("pg_status"))
    dump.comms = read_states(content.get("nccl_comm_state"))


def _read_list(content: list[Any], form: str, size: int) -> Dump:
    """PyTorch 2.2 writes the entries alone; as JSON they name their groups as little."""
    first = content[0] if content else {}
    known = type(first) is dict and _ENTRY_KEYS & {key for key in first if type(key) is str}
    if content and not known:
        return Dump("json" if form == "json" else "list", problem=NOT_A_DUMP)
    dump = Dump("list")
    _fill(dump, content, size)
    return dump


def _fill(dump: Dump, entries: list[Any], size: int) -> None:
    """Read the entries; a list item takes two bytes of an honest file, sixteen times that is generous."""
    dump.entries = out = read_entries(entries, 100_000 + 16 * size)
    if not entries:
        dump.problem = NO_ENTRIES
        return
    notes = [f"{out.left_out} of {len(entries)} entries left out: values out of range"] if out.left_out else []
    dump.problem = "; ".join(notes + out.notes)
    if out.rows:
        dump.wrapped = _is_wrapped(out, 0)


def _is_wrapped(entries: Entries, first: int) -> bool:
    """True where the ring had dropped what came before the dump's first entry, which is in row ``first``."""
    numbers = entries.columns.get("record_id")
    if numbers is not None and numbers[first] >= 0:
        return bool(numbers[first] > 0)
    # 2.2 has no record ids; the first call of a group is number 1
    return "seq" in entries.columns and bool(entries.columns["seq"][first] > 1)


def _clean_text(value: Any) -> str:
    return clean(value) if type(value) is str else ""


def _drop_unused(dump: Dump) -> None:
    """Gloo leaves one item without a name in the configuration: it belongs to no group, unless entries use it."""
    if not any(uid == "" for uid, _ in dump.entries.groups):
        dump.config = [item for item in dump.config if item[0]]


def _config(value: Any) -> list[tuple[str, str, list[Run]]]:
    """Groups with their members."""
    out = []
    for key, item in value.items() if type(value) is dict else ():
        fields = item if type(item) is dict else {"ranks": item}
        uid = clean(key) if type(key) is str else _clean_text(fields.get("name")) or str(integer(key))
        members = _members(fields.get("ranks"))
        if members:
            out.append((uid, _clean_text(fields.get("desc")), members))
    return out


def _members(ranks: Any) -> list[Run]:
    """Runs of ranks out of ``"[0, 1, 2]"``, ``"0,1,2"`` or a list; empty where it is something else."""
    if type(ranks) is str and ranks.count(",") < _MOST_RANKS:
        return list(_listed_members(_RankList(ranks)))
    if type(ranks) in (list, tuple) and len(ranks) <= _MOST_RANKS and set(map(type, ranks)) <= {int}:
        return _in_equal_steps(ranks)
    return []


_MOST_RANKS, _MOST_RUNS = 1 << 17, 1 << 12
"""Ranks of the largest job, and runs of a group. A list with more or with a later rank is damaged or forged: it tells no members."""


class _RankList(str):
    """The text of a list of ranks. Each dump of a job repeats those of its groups, and hashing all of it takes long."""

    __slots__ = ()

    def __hash__(self) -> int:
        return hash((len(self), self[-40:]))


@lru_cache(maxsize=512)
def _listed_members(ranks: _RankList) -> tuple[Run, ...]:
    if not _RANK_LIST.match(ranks):
        return ()
    return tuple(_in_equal_steps(map(int, _RANK_NUMBER.findall(ranks))))


def _in_equal_steps(numbers: Iterable[int]) -> list[Run]:
    """The numbers, in their order, as runs of equal steps; none where one is no rank or stands twice."""
    numbers = list(numbers)
    if not 0 <= min(numbers, default=0) <= max(numbers, default=0) < _MOST_RANKS or len({*numbers}) < len(numbers):
        return []
    if len(numbers) > 1 and (step := numbers[1] - numbers[0]) > 0:
        even = range(numbers[0], numbers[-1] + 1, step)
        if len(even) == len(numbers) and list(even) == numbers:
            return [(numbers[0], numbers[-1], step)]
    runs: list[Run] = []
    for number in numbers:
        first, last, step = runs[-1] if runs else (number, number, 0)
        if runs and number > last and (first == last or number == last + step):
            runs[-1] = (first, number, number - last)
        else:
            runs.append((number, number, 1))
    return runs if len(runs) <= _MOST_RUNS else []


def _status(value: Any) -> list[tuple[int, int, int, int]]:
    """Counters by local group index; the JSON form has them as strings."""
    out = []
    for key, item in value.items() if type(value) is dict else ():
        index = integer(key)
        if index is None or type(item) is not dict:
            continue
        enqueued, started, completed = (-1 if n is None else n for n in map(integer, map(item.get, _COUNTERS)))
        out.append((index, enqueued, started, completed))
    return sorted(out)
