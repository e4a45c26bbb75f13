"""The Case: everything known, nothing judged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from nccldoctor.events import CallTimeout, Event
from nccldoctor.identify.groups import Groups
from nccldoctor.identify.nccl_counters import NcclCounters
from nccldoctor.model import Gap, Group, Source
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.recorded_calls import Batch, Calls, DumpHead, Vocabulary

_E = TypeVar("_E", bound=Event)


@dataclass(frozen=True, slots=True)
class Reading:
    """How one source was read: what ``inspect`` shows of it beside the Source itself."""

    source: int
    lines: int
    candidates: int
    understood: int
    first_unknown: str
    first_unknown_at: str
    first_time: str | None
    last_time: str | None


@dataclass(frozen=True, slots=True)
class Skew:
    """``seconds`` by which the clock of ``ranks`` is ahead of most others' (negative: behind), over ``calls`` calls.

    ``host`` is None where it is not known which host they run on.
    """

    ranks: Ranks
    host: str | None
    seconds: float
    calls: int

    def holds_for(self, event: Event) -> bool:
        """Whether an event was written by that clock."""
        return event.rank in self.ranks or (self.host is not None and event.host == self.host)


@dataclass(frozen=True, slots=True)
class Case:
    """Everything that the input says, with ranks, groups and clocks sorted out.

    ``call_rank`` and ``call_group`` run parallel to ``batch.calls``: the global rank of each call (-1 unknown)
    and the index of its group in ``groups`` (-1 unknown). ``dump_rank`` gives the rank of each dump.
    ``seconds`` gives each event a place on one clock (index as in ``events``), NaN where it has no time;
    ``order`` of events is that of the input. ``rank_host`` and ``rank_pid`` say where a rank ran. ``skews`` are the clocks
    by which ``seconds`` and the times of ``calls`` were set right. ``nccl_counters`` are the counts of NCCL's own observers.
    """

    sources: tuple[Source, ...]
    readings: tuple[Reading, ...]
    events: tuple[Event, ...]
    batch: Batch
    dump_rank: tuple[int | None, ...]
    call_rank: npt.NDArray[np.int32]
    call_group: npt.NDArray[np.int32]
    naming: Groups
    world_size: int | None
    seconds: npt.NDArray[np.float64]
    gaps: tuple[Gap, ...] = ()
    skews: tuple[Skew, ...] = ()
    nccl_counters: tuple[NcclCounters, ...] = ()
    rank_host: Mapping[int, str] = field(default_factory=dict)
    rank_pid: Mapping[int, int] = field(default_factory=dict)
    rank_device: Mapping[int, str] = field(default_factory=dict)
    torch: str | None = None
    nccl: str | None = None
    _of_kind: dict[type[Event], list[int]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _of_number: dict[int, list[int]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _groupless: dict[int, set[int]] = field(default_factory=dict, init=False, repr=False, compare=False)

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
        """What the codes in ``calls`` stand for."""
        return self.batch.vocabulary

    @property
    def dumps(self) -> tuple[DumpHead, ...]:
        """All dumps, with entries or without."""
        return self.batch.dumps

    @property
    def world(self) -> Ranks:
        """All global ranks of the job, as far as the world size or the members tell."""
        if self.world_size is not None:
            return Ranks(range(self.world_size))
        seen = Ranks(r for r in self.dump_rank if r is not None) | (e.rank for e in self.events if e.rank is not None)
        for group in self.groups:
            seen = seen | group.members
        return seen

    def of(self, cls: type[_E], rank: int | None = None) -> Iterator[_E]:
        """All events of one kind, in input order; of one rank where ``rank`` is given."""
        self._sort()
        kinds = [places for kind, places in self._of_kind.items() if issubclass(kind, cls)]
        for place in kinds[0] if len(kinds) == 1 else sorted(chain.from_iterable(kinds)):
            event = self.events[place]
            if isinstance(event, cls) and (rank is None or event.rank == rank):
                yield event

    def timeouts(self, seq: int) -> list[CallTimeout]:
        """All lines that give up on a call of this number, in input order, whatever the group."""
        self._sort()
        events = (self.events[place] for place in self._of_number.get(seq, ()))
        return [e for e in events if isinstance(e, CallTimeout)]

    def groupless(self, rank: int) -> dict[int, int]:
        """The numbers of the calls that a rank gave up on in lines that name no group, and how many ranks gave up on each in such lines."""
        self._sort()
        return {seq: len(ranks) for seq, ranks in self._groupless.items() if rank in ranks}

    def _sort(self) -> None:
        """Note once where the events of each kind stand: rules ask for some rank by rank, and there may be millions."""
        if self._of_kind:
            return
        for place, event in enumerate(self.events):
            self._of_kind.setdefault(type(event), []).append(place)
            if isinstance(event, CallTimeout) and event.seq is not None:
                self._of_number.setdefault(event.seq, []).append(place)
                if event.group is None and event.rank is not None:
                    self._groupless.setdefault(event.seq, set()).add(event.rank)
