"""Holds the Case: everything that the input says, with ranks, groups and clocks sorted out, nothing judged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from nccldoctor.events import (
    CallTimeout,
    Event,
    Events,
    ExceptionRaised,
    Note,
    ProcessExit,
    SchedulerEvent,
    Setting,
    WorkStatus,
)
from nccldoctor.identify.groups import Groups
from nccldoctor.identify.launcher_tables import LauncherTable, Reporter, launcher_tables, ranks_off_table
from nccldoctor.identify.nccl_counters import NcclCounters
from nccldoctor.identify.pods import Pods
from nccldoctor.model import Gap, Group, Place, Source, Unexplained
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.recorded_calls import Batch, Calls, DumpHead, Vocabulary

_E = TypeVar("_E", bound=Event)


class Reading(Struct, frozen=True):
    """How one source was read, as ``inspect`` shows it: numbers of lines, and the span of their times.

    ``unexplained`` are the last lines that look like failures and were not understood.
    """

    source: int
    lines: int
    candidates: int
    understood: int
    first_unknown: str
    first_unknown_at: str
    first_time: str | None
    last_time: str | None
    unexplained: tuple[Unexplained, ...] = ()


class Skew(Struct, frozen=True):
    """A clock that differs from most others: that of ``ranks``, which run on ``host`` (None: not known).

    It is ``seconds`` ahead (negative: behind), by ``calls`` calls, or ``moments`` that lines of several hosts name. ``of_lines`` is true
    where it holds for lines alone: they may be of another time zone, recorded calls are not.
    """

    ranks: Ranks
    host: str | None
    seconds: float
    calls: int
    moments: str = "calls that they finished together"
    of_lines: bool = False

    def is_clock_of(self, event: Event) -> bool:
        """True when the event's time is by this clock."""
        return event.rank in self.ranks or (self.host is not None and event.host == self.host)


class Fold(Struct, frozen=True):
    """Ranks without a line of a kind that Ray folded. *Repeated 4x* are that line and three of others.

    ``is_of_all``: as many lines were folded as ranks are silent. Else some rank printed none, and nobody knows which.
    """

    ranks: Ranks
    line: Event
    is_of_all: bool


class Case(Struct, frozen=True, dict=True):
    """Everything that the input says, with ranks, groups and clocks sorted out.

    ``call_rank`` and ``call_group`` are int32 arrays of shape ``(number of recorded calls,)`` parallel to ``batch.calls``: the
    global rank of each call and the index of its group in ``groups`` (-1: unknown). ``dump_rank`` gives the rank of each dump.
    ``seconds`` is a float64 array parallel to ``events``, which are in input order: epoch seconds on one clock, NaN for no time.
    ``world_size`` is None where ranks may be missing; ``world_at_least`` as many there are in any case.
    ``skews`` are the clocks by which ``seconds`` and the times of ``calls`` were corrected, ``compared`` the ranks whose clocks were
    compared. ``rank_host``, ``rank_pid`` and
    ``rank_device`` say where a rank ran, ``pods`` which of those hosts are pods, and on which nodes.
    ``nccl_counters`` are the counts of NCCL's own observers.
    """

    sources: tuple[Source, ...]
    readings: tuple[Reading, ...]
    events: Events
    batch: Batch
    dump_rank: tuple[int | None, ...]
    call_rank: npt.NDArray[np.int32]
    call_group: npt.NDArray[np.int32]
    naming: Groups
    world_size: int | None
    seconds: npt.NDArray[np.float64]
    world_at_least: int = 0
    gaps: tuple[Gap, ...] = ()
    skews: tuple[Skew, ...] = ()
    compared: Ranks = Ranks()
    nccl_counters: tuple[NcclCounters, ...] = ()
    rank_host: Mapping[int, str] = {}
    rank_pid: Mapping[int, int] = {}
    rank_device: Mapping[int, str] = {}
    pods: Pods = Pods()
    torch: str | None = None
    nccl: str | None = None

    @property
    def groups(self) -> tuple[Group, ...]:
        """All process groups; ``naming`` finds the one that a rank means by a name."""
        return self.naming.all

    @property
    def calls(self) -> Calls:
        """The table of recorded calls."""
        return self.batch.calls

    @property
    def vocabulary(self) -> Vocabulary:
        """The words that the codes in ``calls`` stand for."""
        return self.batch.vocabulary

    @property
    def dumps(self) -> tuple[DumpHead, ...]:
        """All dumps, with entries or without."""
        return self.batch.dumps

    @property
    def world(self) -> Ranks:
        """All global ranks: by the world size, else those that a dump, a line or a group names."""
        if self.world_size is not None:
            return Ranks(range(self.world_size))
        seen = Ranks(r for r in self.dump_rank if r is not None) | (e.rank for e in self.events if e.rank is not None)
        for group in self.groups:
            seen = seen | group.members
        return seen

    @property
    def is_size_guessed(self) -> bool:
        """True where nothing states ``world_size``: it is one more than the highest rank that was seen."""
        size = self.world_size
        if size is None or self.groups[0].learned == "world":  # the default group is always the first
            return False
        told = ("world-size", "job-size", "least-size")
        noted = any(note.what in told and note.detail == str(size) for note in self.of(Note))
        return not noted and not any(len(g.ranks) == size for dump in self.dumps for g in dump.config if g.ranks)

    @cached_property
    def job_id(self) -> str | None:
        """The number of the Slurm job, without its step: of ``8841207.0`` it is 8841207."""
        told = [event.job for event in self.of(SchedulerEvent) if event.job]
        told += [event.value for event in self.of(Setting) if event.name == "SLURM_JOB_ID"]
        numbers = (job.partition(".")[0] for job in told)
        return next((job for job in numbers if job.replace("_", "").isdigit()), None)

    def place_of_call(self, row: int) -> Place:
        """Where a recorded call stands: its dump, and the number of its entry there."""
        dump = self.dumps[self.calls.dump[row]]
        return Place(dump.source, dump.path, entry=int(self.calls.entry[row]))

    def has_clock_of(self, one: int | None, other: int | None) -> bool:
        """True where two ranks run on one host, or their clocks were compared, or one may be on any host."""
        hosts = {self.rank_host.get(rank, "") for rank in (one, other) if rank is not None}
        return len(hosts) < 2 or "" in hosts or {one, other} <= self.compared

    def of(self, cls: type[_E], rank: int | None = None) -> Iterator[_E]:
        """All events of one kind, in input order; of one rank where ``rank`` is given."""
        found = self.events.of_kind(cls)
        return iter(found) if rank is None else (event for event in found if event.rank == rank)

    def launcher_of(self, end: ProcessExit) -> LauncherTable:
        """The ends that the launcher lists which reports this one."""
        return self._launchers.get((end.place.source, end.reporter), LauncherTable())

    def timeouts(self, seq: int) -> Sequence[CallTimeout]:
        """All lines that give up on a call of this sequence number, in input order, in any group."""
        return self._of_number.get(seq, ())

    @cached_property
    def _of_number(self) -> Mapping[int, list[CallTimeout]]:
        out: dict[int, list[CallTimeout]] = {}
        for event in self.events.of_kind(CallTimeout):
            if event.seq is not None:
                out.setdefault(event.seq, []).append(event)
        return out

    @cached_property
    def fold(self) -> Fold | None:
        """The silent ranks whose lines Ray may have folded into one that another rank printed."""
        counts = {e.place: int(e.detail) - 1 for e in self.of(Note) if e.what == "folded"}
        for kind in (WorkStatus, CallTimeout, ExceptionRaised) if counts and self.world_size is not None else ():
            events = self.events.of_kind(kind)
            places = {e.place: e for e in events if e.place in counts}
            if places and (silent := self.world - Ranks(e.rank for e in events if e.rank is not None)):
                return Fold(silent, list(places.values())[-1], len(silent) <= sum(map(counts.__getitem__, places)))
        return None

    @cached_property
    def unlisted_ranks(self) -> Mapping[int, list[ProcessExit]]:
        """The ranks that torchrun's table of their node leaves out, with its rows: they had ended with 0."""
        return ranks_off_table(self.events, self.rank_host, self.world_size)

    @cached_property
    def _launchers(self) -> Mapping[Reporter, LauncherTable]:
        return launcher_tables(self.events.of_kind(ProcessExit))
