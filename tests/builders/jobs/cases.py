"""Builds a Case from small jobs: the recorder and the log lines of each rank.

A :class:`RecordedRank` counts as torch counts (one collective and one p2p counter for each group); a :class:`Log` is a file
with events at consecutive lines. Everything goes through the recorder's own reader and through ``identify``.
"""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from nccldoctor.align.facts import Facts, align
from nccldoctor.events import CollectiveTimeout, Event, GroupRef
from nccldoctor.identify.case import Case
from nccldoctor.identify.identify import identify
from nccldoctor.ingest.ingest import Ingested
from nccldoctor.model import Place, Source, SourceKind
from nccldoctor.model.recorded_calls import Batch, merge
from nccldoctor.parsers.base import Parsed
from nccldoctor.parsers.flight_recorder.child import load_dump
from nccldoctor.parsers.flight_recorder.wire import Unpacker, pack

START = 1_780_000_000
"""Epoch seconds at which recorded time begins."""

NOWHERE = Place(0, "")


def wall(second: float) -> datetime:
    """The time ``second`` seconds after :data:`START`, in UTC."""
    return datetime.fromtimestamp(START, UTC) + timedelta(seconds=second)


@dataclasses.dataclass(frozen=True)
class Team:
    """A process group of the job."""

    uid: str
    desc: str
    members: tuple[int, ...]

    @property
    def ref(self) -> GroupRef:
        return GroupRef(uid=self.uid, desc=self.desc)


def world(size: int) -> Team:
    return Team("0", "default_pg", tuple(range(size)))


WORLD = world(4)


class RecordedRank:
    """The recorder of one rank. Methods add calls in issue order and return the recorder, so that they chain."""

    def __init__(self, rank: int, *teams: Team, backend: str = "nccl", numbers: Iterable[int] | None = None) -> None:
        self.rank = rank
        self.teams = [t for t in (teams or (WORLD,)) if rank in t.members]
        self.pg_id = dict(zip((t.uid for t in self.teams), numbers or range(len(self.teams)), strict=False))
        self.backend = backend
        self.entries: list[dict[str, Any]] = []
        self.dropped: list[dict[str, Any]] = []
        self.seq = {t.uid: 0 for t in self.teams}
        self.p2p = {t.uid: 0 for t in self.teams}
        self.second = 0.0
        self.more: dict[str, Any] = {}

    def call(
        self, op: str = "all_reduce", team: Team | None = None, *, done: bool = True, n: int = 8, **more: Any
    ) -> RecordedRank:
        """Issue one collective."""
        group = team or self.teams[0]
        self.seq[group.uid] += 1
        return self._put(group, op, n, done, **more)

    def calls(self, count: int, op: str = "all_reduce", team: Team | None = None, **more: Any) -> RecordedRank:
        """Issue several alike."""
        for _ in range(count):
            self.call(op, team, **more)
        return self

    def send(self, to: int, team: Team | None = None, *, done: bool = True, **more: Any) -> RecordedRank:
        """Send to a global rank."""
        return self._transfer("send", to, team, done, **more)

    def recv(self, of: int, team: Team | None = None, *, done: bool = True, **more: Any) -> RecordedRank:
        """Receive from a global rank."""
        return self._transfer("recv", of, team, done, **more)

    def batch(self, *ends: tuple[str, int], team: Team | None = None, done: bool = True, **more: Any) -> RecordedRank:
        """A batch of sends and receives: members whose state never changes, and the closing entry."""
        group = team or self.teams[0]
        self.p2p[group.uid] += 1
        for what, peer in ends:
            self._put(group, self._ends(group, what, peer), 8, False, is_p2p=True)
        return self._put(group, "coalesced", 0, done, input_sizes=[], output_sizes=[], **more)

    def pause(self, seconds: float) -> RecordedRank:
        """Let time pass."""
        self.second += seconds
        return self

    def kept(self, newest: int) -> RecordedRank:
        """The ring dropped all but the newest entries."""
        self.dropped += self.entries[:-newest]
        self.entries = self.entries[-newest:]
        return self

    def other(self, **more: Any) -> RecordedRank:
        """Replace top-level keys of the dump."""
        self.more |= more
        return self

    def _transfer(self, what: str, peer: int, team: Team | None, done: bool, **more: Any) -> RecordedRank:
        group = team or self.teams[0]
        self.p2p[group.uid] += 1
        return self._put(group, self._ends(group, what, peer), 8, done, is_p2p=True, **more)

    def _ends(self, group: Team, what: str, peer: int) -> str:
        arrow = "->" if what == "send" else "<-"
        return f"{what} {group.members.index(self.rank)}{arrow}{group.members.index(peer)}"

    def _put(self, group: Team, op: str, n: int, done: bool, **more: Any) -> RecordedRank:
        gloo = self.backend == "gloo"
        entry = {
            "record_id": len(self.entries),
            "pg_id": self.pg_id[group.uid],
            "process_group": (group.uid, group.desc),
            "collective_seq_id": self.seq[group.uid],
            "p2p_seq_id": self.p2p[group.uid],
            "op_id": len(self.entries) + 1,
            "profiling_name": f"{self.backend}:{op}",
            "time_created_ns": int((START + self.second) * 10**9) + len(self.entries),
            "input_sizes": [[n]],
            "input_dtypes": ["Float"],
            "output_sizes": [[n]],
            "output_dtypes": ["Float"],
            "state": "completed" if done and not gloo else "scheduled",
            "retired": done,
            "timeout_ms": 600_000,
            "is_p2p": False,
            "frames": [],
        }
        self.entries.append(entry | more)
        return self

    def content(self) -> dict[str, Any]:
        """The dump as an object; counters as the watchdog keeps them, also of what the ring dropped."""
        status = {}
        for team in self.teams:
            mine = [e for e in (*self.dropped, *self.entries) if e["process_group"][0] == team.uid and not e["is_p2p"]]
            finished = [e["collective_seq_id"] for e in mine if e["state"] == "completed"]
            status[str(self.pg_id[team.uid])] = {
                "last_enqueued_collective": max((e["collective_seq_id"] for e in mine), default=-1),
                "last_started_collective": -1,
                "last_completed_collective": max(finished, default=-1),
            }
        config = {t.uid: {"name": t.uid, "desc": t.desc, "ranks": str(list(t.members))} for t in self.teams}
        return {"version": "2.10", "pg_config": config, "pg_status": status, "entries": self.entries} | self.more

    def data(self) -> bytes:
        """The dump as a file."""
        return pickle.dumps(self.content(), protocol=2)


@dataclasses.dataclass
class Log:
    """A file with events, one a line; the events' places are filled in."""

    path: str
    events: Sequence[Event] = ()
    rank: int | None = None
    host: str | None = None
    local_rank: int | None = None
    kind: SourceKind = SourceKind.LOG
    size: int = 100

    def parsed(self, number: int) -> Parsed:
        source = Source(number, self.path, self.kind, self.size, self.rank, self.local_rank, self.host)
        placed = [replace(e, place=Place(number, self.path, i)) for i, e in enumerate(self.events, 1)]
        return Parsed(source, tuple(placed), lines=len(placed))


def said(
    kind: type[Event], rank: int | None = None, second: float | None = None, text: str = "", **fields: Any
) -> Event:
    """One event that a line of ``rank`` says, ``second`` seconds after :data:`START`."""
    time = fields.pop("time", wall(second) if second is not None else None)
    return kind(place=NOWHERE, text=text or kind.kind, rank=rank, time=time, **fields)


def gave_up(
    rank: int | None, seq: int | None, second: float | None = 600.0, team: Team | None = None, **fields: Any
) -> Event:
    """The watchdog's timeout line."""
    values = {"op": "ALLREDUCE", "numel_in": 8, "numel_out": 8, "timeout_ms": 600_000, "ran_ms": 600_000} | fields
    return said(CollectiveTimeout, rank, second, seq=seq, group=team.ref if team else None, **values)


def read_dump(data: bytes, source: int, path: str) -> Batch:
    """One dump as the recorder's reader gives it."""
    return Unpacker().unpack(pack(load_dump(data)), source=source, path=path)


def ingested(*recorded_ranks: RecordedRank | tuple[int | None, bytes], logs: Sequence[Log] = ()) -> Ingested:
    """The value that reading these files gives. A dump may also be given as (rank in its file name, bytes)."""
    parsed: list[Parsed] = []
    batches = []
    for recorded in recorded_ranks:
        rank, data = (recorded.rank, recorded.data()) if isinstance(recorded, RecordedRank) else recorded
        path = f"dumps/fr_{len(parsed)}" if rank is None else f"dumps/nccl_trace_rank_{rank}"
        parsed.append(Parsed(Source(len(parsed), path, SourceKind.RECORDER, len(data), rank)))
        batches.append(read_dump(data, len(parsed) - 1, path))
    for log in logs:
        parsed.append(log.parsed(len(parsed)))
    return Ingested(tuple(parsed), merge(batches), ())


def case(*recorded_ranks: RecordedRank | tuple[int | None, bytes], logs: Sequence[Log] = ()) -> Case:
    """The Case of these files."""
    return identify(ingested(*recorded_ranks, logs=logs))


def facts(*recorded_ranks: RecordedRank | tuple[int | None, bytes], logs: Sequence[Log] = ()) -> Facts:
    """The aligned facts of these files."""
    return align(case(*recorded_ranks, logs=logs))


def group_named(found: Case, uid: str) -> int:
    """The index of the only group of that name."""
    (index,) = [g.index for g in found.groups if g.uid == uid]
    return index
