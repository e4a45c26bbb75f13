"""Builds the process groups: which calls and lines belong to one group, and which ranks are its members.

A group is its agreed name *and* its members, never the name alone: ``split_group`` reuses names, and dumps of PyTorch 2.2
carry only a number that counts in each process for itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from nccldoctor.events import Event, GroupRef, Note, StoreError
from nccldoctor.identify.group_members import fill_silent_members, infer_groups
from nccldoctor.identify.nccl_counters import NcclCounters
from nccldoctor.model import Group
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.recorded_calls import Batch, Calls

Local = tuple[int, str]
"""A group as one rank knows it: that rank and the name (``"#3"`` for the bare numbers of 2.2)."""


LineKey = tuple[int, int, str | None, int | None]
"""The call of a line that names no group: rank, number, operation, elements."""


class Groups(Struct, frozen=True):
    """All groups, and how to find the one that a rank means by a name.

    ``by_local`` maps (rank, name) and ``by_pg_id`` maps (rank, PG ID) to the index in ``all``: PG IDs count creations and differ
    between processes. ``by_line`` does so for the calls of lines that name no group.
    """

    all: tuple[Group, ...]
    by_local: Mapping[Local, int]
    by_pg_id: Mapping[tuple[int, int], int]
    by_line: Mapping[LineKey, int] = {}

    def find(self, ref: GroupRef | None, rank: int | None) -> int | None:
        """The index of the group that ``rank`` means by ``ref``; None where it is not known."""
        if ref is None or rank is None:
            return None
        if ref.uid is not None and (found := self.by_local.get((rank, ref.uid))) is not None:
            return found
        if ref.pg_id is not None and (found := self.by_pg_id.get((rank, ref.pg_id))) is not None:
            return found
        default = ref.desc == "default_pg" or (
            ref.uid in (None, "0") and ref.pg_id in (None, 0) and (ref.uid or ref.pg_id == 0)
        )
        return self.by_local.get((rank, DEFAULT)) if default else None


DEFAULT = "0"
"""The name of the default group from PyTorch 2.3 on, and its number in 2.2."""


def build_groups(
    batch: Batch, dump_rank: Sequence[int | None], events: Sequence[Event], world: Ranks, learned: str
) -> tuple[Groups, npt.NDArray[np.int32]]:
    """Build the groups of the job, and that of each call (-1: unknown). ``world`` are all ranks; ``learned`` is how they are known."""
    registry = _Registry(batch, dump_rank, world)
    registry.add(DEFAULT, "default_pg", world, learned, world)
    _add_told(events, registry)
    names = _recorded_names(batch.calls)
    group_of = _add_recorded(registry, names)
    _add_printed(events, registry)
    by_pg_id = _indices_by_pg_id(registry, events, names)
    # the group of each call, -1 where unknown
    of_dump: dict[int, list[tuple[int, int | None, int]]] = defaultdict(list)
    for (dump, code, pg_id), index in group_of.items():
        of_dump[dump].append((code, pg_id, index))
    out = np.full(len(batch.calls), -1, dtype=np.int32)
    for dump, rows in batch.calls.by_dump():
        part, code_of, number_of = out[rows], batch.calls.group[rows], batch.calls.pg_id[rows]
        for code, pg_id, index in of_dump.get(dump, ()):
            mask = code_of == code
            part[mask if pg_id is None else mask & (number_of == pg_id)] = index
    return Groups(tuple(registry.groups), dict(registry.local), by_pg_id), out


def with_communicators(groups: Groups, counters: Sequence[NcclCounters]) -> tuple[Groups, tuple[NcclCounters, ...]]:
    """Adds a group for each communicator that NCCL's own observers count, and gives their counters its index.

    Of several observers of a communicator the first one counts.
    """
    extended, placed = list(groups.all), []
    taken: set[str] = set()
    for one in counters:
        index = -1
        if one.last and one.comm not in taken:
            taken.add(one.comm)
            index = len(extended)
            extended.append(Group(index, one.comm, "communicator", one.members, "nccl"))
        placed.append(replace(one, group=index))
    return replace(groups, all=tuple(extended)), tuple(placed)


def _recorded_names(calls: Calls) -> list[tuple[int, int, int]]:
    """The (dump, PG ID, name code) that occur in the table, in order."""
    names: list[tuple[int, int, int]] = []
    for rows in calls.by_dumps():
        keys = np.stack([calls.dump[rows], calls.pg_id[rows], calls.group[rows]])
        keys = keys[:, np.lexsort(keys[::-1])]
        is_new = np.append(True, (keys[:, 1:] != keys[:, :-1]).any(axis=0))
        names.extend(zip(*keys[:, is_new].tolist(), strict=True))
    return names


class _Registry:
    """Groups as they are found; one for each (name, members)."""

    def __init__(self, batch: Batch, dump_rank: Sequence[int | None], world: Ranks) -> None:
        self.batch, self.dump_rank, self.world = batch, dump_rank, world
        self.groups: list[Group] = []
        self.index: dict[tuple[str, Ranks], int] = {}
        self.local: dict[Local, int] = {}

    def add(self, uid: str, desc: str, members: Ranks, learned: str, who: Iterable[int]) -> int:
        """The index of the group of that name with those members, new or known; ranks ``who`` use that name."""
        index = self.index.setdefault((uid, members), len(self.groups))
        if index == len(self.groups):
            self.groups.append(Group(index, uid, desc, members, learned))
        for rank in who:
            self.local.setdefault((rank, uid), index)
        return index


def _add_recorded(registry: _Registry, named: Sequence[tuple[int, int, int]]) -> dict[tuple[int, int, int | None], int]:
    """Adds the groups of dumps: by their configuration, else by the ranks that recorded calls under that name.

    Returns the group index by (dump, name code, PG ID); the PG ID is None except in dumps of PyTorch 2.2.
    """
    batch, dump_rank = registry.batch, registry.dump_rank
    _add_configured(registry)
    callers: dict[tuple[str, str], set[int]] = defaultdict(set)
    unconfigured: list[tuple[int, int, int]] = []
    group_of: dict[tuple[int, int, int | None], int] = {}
    for dump, code in sorted({(dump, code) for dump, _, code in named}):
        rank = dump_rank[dump]
        if rank is None or code < 0 or batch.dumps[dump].form == "list":
            continue
        uid, desc = batch.vocabulary.groups[code]
        if uid == DEFAULT and desc in ("default_pg", ""):
            group_of[dump, code, None] = registry.local.get((rank, DEFAULT), 0)
        elif (rank, uid) in registry.local:
            group_of[dump, code, None] = registry.local[rank, uid]
        else:
            callers[uid, desc].add(rank)
            unconfigured.append((dump, code, rank))
    silent = registry.world - (r for d, r in zip(batch.dumps, dump_rank, strict=True) if r is not None and d.entries)
    members_of = fill_silent_members({name: Ranks(ranks) for name, ranks in callers.items()}, silent)
    for dump, code, rank in unconfigured:
        uid, desc = batch.vocabulary.groups[code]
        group_of[dump, code, None] = registry.add(uid, desc, members_of[uid, desc], "entries", [rank])
    for (uid, _), members in members_of.items():
        for rank in members:
            registry.local.setdefault((rank, uid), registry.index[uid, members])
    return group_of | _add_numbered(registry)


def _add_configured(registry: _Registry) -> None:
    """Adds the groups of each dump's configuration (``pg_config``), which names all their members."""
    dumps = registry.batch.dumps
    same = {registry.world: registry.world}  # one object for equal sets: comparing two is a walk over all members
    listed = {id(c.ranks): c.ranks for d in dumps for c in d.config}
    members_of = {key: same.setdefault(members, members) for key, members in ((k, Ranks(r)) for k, r in listed.items())}
    for dump, rank in zip(dumps, registry.dump_rank, strict=True):
        for config in {c.uid: c for c in dump.config if c.uid and c.ranks}.values() if rank is not None else ():
            index = registry.add(config.uid, config.desc, members_of[id(config.ranks)], "config", [rank or 0])
            if config.desc == "default_pg":
                registry.local[rank or 0, DEFAULT] = index


def _add_numbered(registry: _Registry) -> dict[tuple[int, int, int | None], int]:
    """Adds the groups of dumps of PyTorch 2.2: bare lists with a number that counts in each process for itself."""
    batch, dump_rank = registry.batch, registry.dump_rank
    lists = [i for i, d in enumerate(batch.dumps) if d.form == "list" and dump_rank[i] is not None]
    if not lists:
        return {}
    out: dict[tuple[int, int, int | None], int] = {}
    members = infer_groups(batch, lists, dump_rank, registry.world)
    for dump in lists:
        rank = dump_rank[dump]
        own = batch.calls.dump == dump
        pairs = np.unique(np.stack([batch.calls.group[own], batch.calls.pg_id[own]], axis=1), axis=0)
        for code, pg_id in pairs.tolist():
            if rank is None or pg_id < 0:  # the entries say of no group that they are its
                continue
            if pg_id == 0:
                index = registry.local.get((rank, DEFAULT), 0)
            else:
                index = registry.add(f"#{pg_id}", "", members[(rank, pg_id)], "assumed", [rank])
            out[(dump, code, pg_id)] = index
    return out


def _add_told(events: Sequence[Event], registry: _Registry) -> None:
    """Adds the groups whose members capture lists in the log of each of them: dumps of gloo name none."""
    for note in (e for e in events if isinstance(e, Note) and e.what == "backend" and e.rank is not None):
        if note.rank is not None and note.group is not None and note.group.uid not in (None, DEFAULT):
            members = Ranks.parse(note.detail.rpartition(" ranks ")[2])
            registry.add(note.group.uid or "", note.group.desc or "", members, "config", [note.rank])


def _add_printed(events: Sequence[Event], registry: _Registry) -> None:
    """Adds the groups that only lines name, with the ranks whose lines name them."""
    callers: dict[tuple[str, str], set[int]] = defaultdict(set)
    for event in events:
        ref = event.group
        if ref is None or event.rank is None or (ref.uid is None and ref.pg_id is None):
            continue
        if ref.desc == "default_pg" or (ref.uid in (None, DEFAULT) and ref.pg_id in (None, 0)):
            continue
        uid = ref.uid if ref.uid is not None else f"#{ref.pg_id}"
        if (event.rank, uid) in registry.local or isinstance(event, StoreError):
            continue
        callers[(uid, ref.desc or "")].add(event.rank)
    for (uid, desc), of_group in callers.items():
        ranks = Ranks(of_group)
        known = next((g for g in registry.groups if g.uid == uid and ranks <= g.members), None)
        members = known.members if known else ranks
        registry.add(uid, known.desc if known else desc, members, "log", ranks)


def _indices_by_pg_id(
    registry: _Registry, events: Sequence[Event], named: Sequence[tuple[int, int, int]]
) -> dict[tuple[int, int], int]:
    """The group that a rank means by a PG ID (``pg_status``, ``PG ID`` of a line), by (rank, PG ID).

    Calls and lines that carry both PG ID and name tell it. For a rank without such calls, PG IDs and decimal names are paired in
    their order, where both lists have the same length: both count creations.
    """
    dumps, words, dump_rank = registry.batch.dumps, registry.batch.vocabulary, registry.dump_rank
    told = [
        (dump_rank[number], pg_id, words.groups[code][0])
        for number, pg_id, code in reversed(named)  # the last one counts
        if code >= 0 and dumps[number].form != "list"
    ]
    references = ((e.rank, ref) for e in events if (ref := e.group) is not None)
    told += dict.fromkeys(
        (r, ref.pg_id, ref.uid) for r, ref in references if ref.pg_id is not None and ref.uid is not None
    )
    for dump, rank in zip(dumps, dump_rank, strict=True):
        uids = sorted((c.uid for c in dump.config if c.uid.isdigit()), key=int)
        numbers = sorted(s.pg_id for s in dump.status)
        if len(uids) == len(numbers):
            told += [(rank, pg_id, uid) for pg_id, uid in zip(numbers, uids, strict=True)]
    out: dict[tuple[int, int], int] = {}
    for rank, pg_id, uid in (*told, *((rank, 0, DEFAULT) for rank in dump_rank)):
        index = registry.local.get((rank, uid)) if rank is not None else None
        if rank is not None and index is not None:
            out.setdefault((rank, pg_id), index)
    return out
