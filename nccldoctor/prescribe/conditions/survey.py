"""Holds what some hundred conditions ask of a job, so that none has to work it out again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from itertools import filterfalse
from typing import TypeVar

from msgspec import Struct

from nccldoctor.align.facts import Facts
from nccldoctor.events import Event, Heartbeat, Phase, ProcessExit, Progress, SchedulerEvent, Setting, Stack
from nccldoctor.identify.case import Case
from nccldoctor.model import Source, SourceKind
from nccldoctor.model.hosts import host_key
from nccldoctor.model.ranks import Ranks, ranks_by
from nccldoctor.questions.backends import Needs, backends_of, met_needs

_E = TypeVar("_E", bound=Event)

Writer = tuple[int, int]
"""Who writes: a rank (and -1), or -1 and the source where no rank is known."""


class Survey(Struct, frozen=True, dict=True):
    """What remedies ask of a whole job, whatever the finding: once for all of them."""

    facts: Facts
    texts: dict[int, str] = {}

    @property
    def case(self) -> Case:
        """What the input says."""
        return self.facts.case

    def events_of(self, cls: type[_E]) -> tuple[_E, ...]:
        """All events of one class, in input order."""
        return self.case.events.of_kind(cls)

    @cached_property
    def stacks(self) -> Mapping[int, tuple[Stack, ...]]:
        """The stacks of each rank that left one, those of the newest look first."""
        return {rank: own.stacks for rank, own in self.facts.liveness.by_rank.items() if own.stacks}

    @cached_property
    def backends(self) -> frozenset[str]:
        """The libraries that carry the collectives; empty where no file shows any."""
        return backends_of(self.case)

    @cached_property
    def met_needs(self) -> frozenset[Needs]:
        """What remedies need that this job may have."""
        return met_needs(self.case, self.backends)

    @cached_property
    def ranks_of_pids(self) -> Mapping[int, Ranks]:
        """The ranks whose processes have this id, each on its host."""
        return ranks_by((pid, rank) for rank, pid in self.case.rank_pid.items())

    @cached_property
    def sources(self) -> Mapping[int, Source]:
        """The files of the input by number."""
        return {source.id: source for source in self.case.sources}

    def owner_of(self, setting: Setting) -> int | None:
        """The rank that shows a setting, by its process or its file. Identify leaves it open: a script shows what all ranks have."""
        if setting.rank is not None:
            return setting.rank
        hosts, at = self.case.rank_host, host_key(setting.host) if setting.host else None
        of_pid = self.ranks_of_pids.get(-1 if setting.pid is None else setting.pid, ())
        own = [rank for rank in of_pid if at is None or rank not in hosts or host_key(hosts[rank]) == at]
        file = self.sources.get(setting.place.source)
        return own[0] if len(own) == 1 else file.rank if file is not None else None

    def host_of(self, event: Event) -> str | None:
        """The host of an event by its short name; of a pod that is its node, where known."""
        return host_key(self.case.pods.place(event.host)) if event.host else None

    @cached_property
    def last_activity(self) -> Mapping[Writer, Event]:
        """The last phase, step or heartbeat of each writer before the first complaint, by rank, then by file."""
        last: dict[Writer, Event] = {}
        over = {phase.place.source for phase in self.events_of(Phase) if phase.what in ("finished", "epoch-end")}
        events: list[Event] = [*self.events_of(Phase), *self.events_of(Progress), *self.events_of(Heartbeat)]
        for event in sorted(events, key=lambda event: (event.place.source, event.place.line or 0)):
            if isinstance(event, Progress) and event.step == event.total and event.place.source in over:
                continue  # a bar that is complete says no more than the line that ended the run
            if not self.facts.liveness.is_after_alarm(event):
                last[(event.rank, -1) if event.rank is not None else (-1, event.place.source)] = event
        return dict(sorted(last.items()))

    @property
    def last_step(self) -> Progress | None:
        """The last step before the first complaint; a bar of files or shards counts none."""
        steps = (e for e in reversed(self.events_of(Progress)) if e.is_step)
        return next(filterfalse(self.facts.liveness.is_after_alarm, steps), None)

    @property
    def last_phase(self) -> Phase | None:
        """The last phase before the first complaint, by any rank."""
        return next(filterfalse(self.facts.liveness.is_after_alarm, reversed(self.events_of(Phase))), None)

    @cached_property
    def launcher(self) -> str:
        """What started the job, as far as its own lines and names of files show.

        It is slurm, kubernetes or ray, and ssh for anything else.
        """
        told = {end.reporter for end in self.events_of(ProcessExit)} | {e.by for e in self.events_of(SchedulerEvent)}
        names = {setting.name.partition("_")[0] for setting in self.events_of(Setting)}
        names |= {
            part.partition("-")[0].upper() for source in self.case.sources for part in source.path.split("/")[-1:]
        }
        if self.case.pods.nodes or "kubernetes" in told:
            return "kubernetes"
        is_slurm = told & {"srun", "slurm"} or "SLURM" in names
        return "ray" if "ray" in told else "slurm" if is_slurm else "ssh"

    def has_stacks_of(self, ranks: Ranks) -> bool:
        """True where a stack of each of these ranks was read, and there are any."""
        return bool(ranks) and all(self.stacks.get(rank) for rank in ranks)

    @cached_property
    def source_kinds(self) -> frozenset[SourceKind]:
        """The kinds of files that the input holds."""
        return frozenset(source.kind for source in self.case.sources)

    def hosts_of(self, ranks: Iterable[int]) -> tuple[str, ...]:
        """The known hosts of these ranks, sorted. Of a pod that is its node, where known."""
        hosts = (self.case.rank_host[r] for r in ranks if r in self.case.rank_host)
        return tuple(sorted({self.case.pods.place(host) for host in hosts}))

    def machines_of(self, ranks: Iterable[int]) -> tuple[str, ...]:
        """The hosts of these ranks that are no pods: what a scheduler can take out of service."""
        return tuple(host for host in self.hosts_of(ranks) if not self.case.pods.is_pod(host))

    def is_single_host(self) -> bool:
        """True where every rank is known to run on one and the same host."""
        known = self.case.rank_host
        return len(set(map(host_key, self.hosts_of(known)))) == 1 and known.keys() >= set(self.case.world)

    def searchable_text(self, event: Event) -> str:
        """The line and all fields of an event in lower case, for substring search."""
        text = self.texts.get(id(event))
        if text is None:
            details = (str(value) for value in event.details().values() if value is not None)
            text = self.texts[id(event)] = "\n".join((event.text, *details)).lower()
        return text
