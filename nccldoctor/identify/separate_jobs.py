"""Files of several jobs in one place: those of other runs are kept apart before anybody is told who is who.

Dumps tell runs apart by themselves (see ``dump_runs``). A folder that holds dumps of another run alone holds its logs too. Logs
without dumps are of two jobs where folders or files tell of different world sizes, of one rank on two hosts, or at two places of
its work at the same time.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from nccldoctor.discover.filename_hints import run_id
from nccldoctor.events import CallTimeout, Event, Progress, Setting, TearDown, WorkStatus
from nccldoctor.identify.clocks import event_seconds
from nccldoctor.identify.separate_dumps import FAR, Recorded, dump_runs, main_run, without_dumps
from nccldoctor.ingest.ingest import Ingested
from nccldoctor.model import Gap, Source, SourceKind
from nccldoctor.model.hosts import short_host
from nccldoctor.model.recorded_calls import Batch
from nccldoctor.parsers.base import Parsed

PAUSE = 60.0
"""Seconds between two runs of the same ranks."""


def one_job(read: Ingested) -> Ingested:
    """What was read, without the files of other runs; what was left out is a Gap."""
    return _one_of_logs(_one_of_dumps(read))


def _one_of_dumps(read: Ingested) -> Ingested:
    sources = {one.source.id: one.source for one in read.parsed}
    runs = dump_runs(read.batch, sources)
    if len(runs) < 2:
        return read
    mine = main_run(runs)
    others = [run for run in runs if run is not mine]
    paths = {i: read.batch.dumps[i].path for run in runs for i in run.dumps}
    left = {read.batch.dumps[i].source for run in others for i in run.dumps}
    kept = {read.batch.dumps[i].source for i in mine.dumps}
    depth = _parting([[paths[i] for i in mine.dumps], *([paths[i] for i in run.dumps] for run in others)])
    if depth is not None:
        foreign = {_at(paths[i], depth) for run in others for i in run.dumps}
        left |= {s.id for s in sources.values() if _at(s.path, depth) in foreign and s.id not in kept}
    gone = [i for i, dump in enumerate(read.batch.dumps) if dump.source in left]
    gaps = [_gap([paths[i] for i in run.dumps], _why(run, mine)) for run in others]
    return Ingested(
        tuple(one for one in read.parsed if one.source.id not in left),
        without_dumps(read.batch, gone),
        (*read.gaps, *gaps),
    )


def _parting(paths: Sequence[Sequence[str]]) -> int | None:
    """The part of the path by which the files of all runs differ; None where some lie in one folder."""
    depth = min(path.count("/") for of_run in paths for path in of_run)
    for at in range(depth):
        names = [{_at(path, at) for path in of_run} for of_run in paths]
        if len(frozenset[str]().union(*names)) == sum(map(len, names)):
            return at
    return None


def _at(path: str, depth: int) -> str:
    """The path down to one of its folders."""
    return "/".join(path.split("/")[: depth + 1])


def _gap(paths: Sequence[str], why: str) -> Gap:
    first = min(paths)
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return Gap(f"{first}{more}: of another run", why, apart=True)


def _why(run: Recorded, mine: Recorded) -> str:
    if run.size is not None and mine.size is not None and run.size != mine.size:
        why = f"its job has {run.size} ranks, that of the others {mine.size}"
    elif run.last < mine.first or run.first > mine.last:
        hours = abs(run.last - mine.last) / 3600
        far = f"{hours / 24:,.0f} days" if hours >= 48 else f"{hours:.1f} h" if hours >= 1 else f"{hours * 60:.0f} min"
        why = f"its calls are {far} {'older' if run.last < mine.last else 'newer'} than those of the others"
    else:
        why = "its calls of the same numbers were made at another time"
    return f"{why}; kept apart, only one run is diagnosed"


@dataclass(slots=True)
class _Told:
    """What the lines of one folder, or of one file, say of their job: its size, between which numbers each rank was and on which host,
    who gave up or ended, and when.
    """

    run: str | None = None
    sources: list[Source] = field(default_factory=list)
    sizes: set[str] = field(default_factory=set)
    numbers: dict[tuple[int, str], tuple[int, int]] = field(default_factory=dict)
    hosts: dict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    ended: set[int] = field(default_factory=set)
    first: float = math.inf
    last: float = -math.inf

    @property
    def ranks(self) -> set[int]:
        """The ranks that tell where they are."""
        return {rank for rank, _ in self.numbers}

    @property
    def named(self) -> set[int]:
        """All ranks of which it says anything."""
        return self.ranks | self.hosts.keys() | self.ended


@dataclass(slots=True)
class _Run:
    """Folders or files of one run, and where to look for those that a further one can be compared with: thousands of files of one rank
    each have nothing in common.
    """

    units: list[_Told] = field(default_factory=list)
    sizes: set[frozenset[str]] = field(default_factory=set)
    ids: set[str] = field(default_factory=set)
    of_rank: dict[int, list[_Told]] = field(default_factory=lambda: defaultdict(list))

    def take(self, unit: _Told) -> None:
        """Add what is of this run."""
        self.units.append(unit)
        self.sizes |= {frozenset(unit.sizes)} if unit.sizes else set()
        self.ids |= {unit.run} if unit.run else set()
        for rank in unit.named:
            self.of_rank[rank].append(unit)

    def near(self, unit: _Told) -> list[_Told]:
        """What speaks of a rank that the unit speaks of, or names its run where that does."""
        found = {id(other): other for rank in unit.named for other in self.of_rank.get(rank, ())}
        if unit.run:
            found |= {id(other): other for other in self.units if other.run}
        return list(found.values())

    def holds(self, unit: _Told) -> bool:
        """Whether nothing shows that the unit is of another run."""
        if unit.sizes and any(not unit.sizes & sizes for sizes in self.sizes):
            return False
        return not (unit.run and self.ids - {unit.run}) and not any(_differ(unit, other) for other in self.near(unit))


def _one_of_logs(read: Ingested) -> Ingested:
    runs: list[_Run] = []
    for unit in sorted(_units(read.parsed), key=lambda one: -len(one.ranks)):
        home = next((run for run in runs if run.holds(unit)), None)
        if home is None:
            home = _Run()
            runs.append(home)
        home.take(unit)
    if len(runs) < 2:
        return read
    dumped = {dump.source for dump in read.batch.dumps}
    mine = max(runs, key=lambda run: _weight(run, runs, dumped))
    others = [run for run in runs if run is not mine]
    left = {source.id for run in others for unit in run.units for source in unit.sources}
    gaps = [_gap([s.path for unit in run.units for s in unit.sources], _why_lines(run, mine)) for run in others]
    if not _in_order(runs):
        why = "whether it is older than what is diagnosed is not known: not all of its lines have a time"
        gaps = [replace(gap, why=why, lost=True) for gap in gaps]
    gone = [i for i, dump in enumerate(read.batch.dumps) if dump.source in left]
    return Ingested(
        tuple(one for one in read.parsed if one.source.id not in left),
        without_dumps(read.batch, gone) if gone else read.batch,
        (*read.gaps, *gaps),
    )


def _weight(run: _Run, runs: Sequence[_Run], dumped: set[int]) -> tuple[bool, int, int, float]:
    """What no other run came after goes first, then the run with dumps, the one with most ranks, the newest."""
    last = not any(_earlier(mine, unit) for mine in run.units for other in runs for unit in other.near(mine))
    ranks = {rank for unit in run.units for rank in unit.ranks}
    held = sum(source.id in dumped for unit in run.units for source in unit.sources)
    return last, held, len(ranks), max(unit.last for unit in run.units)


def _units(parsed: Sequence[Parsed]) -> list[_Told]:
    """What one launcher wrote under one run id; folders that stand beside each other where the paths part first; files where no
    folders do.
    """
    depth = 0
    folders = [one.source.path.split("/")[:-1] for one in parsed]
    while folders and all(len(f) > depth for f in folders) and len({f[depth] for f in folders}) == 1:
        depth += 1
    out: dict[str, _Told] = defaultdict(_Told)
    for one in parsed:
        run = run_id(one.source.path)
        unit = out[run or _at(one.source.path, depth)]
        unit.run = run
        unit.sources.append(one.source)
        _learn(unit, one)
    return list(out.values())


def _learn(unit: _Told, one: Parsed) -> None:
    own = one.source.rank if one.source.local_rank is None else None
    telling = [e for e in one.events if isinstance(e, CallTimeout | Progress | Setting | TearDown | WorkStatus)]
    dated = one.events if one.source.kind is SourceKind.LOG else ()
    times = [at for at in event_seconds(dated, Batch.empty(), ()).tolist() if not math.isnan(at)]
    unit.first, unit.last = min([unit.first, *times]), max([unit.last, *times])
    for event in one.events:
        if event.rank is not None and event.host:
            unit.hosts[event.rank].add(short_host(event.host))
    for event in telling:
        if isinstance(event, Setting):
            if event.name == "WORLD_SIZE" and event.value.isdigit():
                unit.sizes.add(event.value)
            continue
        rank = event.rank if event.rank is not None else own
        if rank is None:
            continue
        if isinstance(event, CallTimeout | TearDown):
            unit.ended.add(rank)
        for what, number in _numbers(event):
            low, high = unit.numbers.get((rank, what), (number, number))
            unit.numbers[rank, what] = min(low, number), max(high, number)


def _numbers(event: Event) -> Iterable[tuple[str, int]]:
    """Where a rank is in its work, by a line: its step, or the number of a call of one group."""
    if isinstance(event, Progress):
        return [("step", event.step)] if event.step is not None and not event.label else []
    found = event.failed if isinstance(event, WorkStatus) else event.seq if isinstance(event, CallTimeout) else None
    return [(f"call of {event.group}", found)] if found is not None else []


def _differ(one: _Told, other: _Told) -> bool:
    """Whether two of them tell of different jobs, or of different times of one."""
    if one.sizes and other.sizes and not one.sizes & other.sizes:
        return True
    if one.run and other.run and one.run != other.run:
        return True
    if _earlier(one, other) or _earlier(other, one) or _elsewhere(one, other):
        return True
    if one.first > other.last or other.first > one.last:
        return False
    both = [(one.numbers[key], other.numbers[key]) for key in one.numbers.keys() & other.numbers.keys()]
    return any(low > most + FAR or least > high + FAR for (low, high), (least, most) in both)


def _earlier(one: _Told, other: _Told) -> bool:
    """Whether ranks gave up or ended in the one, and go on in the other later than that, or a launcher began another run: a log
    that was merely split goes on too, but nobody ended before.
    """
    again = one.run != other.run if one.run and other.run else one.ended & other.ranks
    known = math.isfinite(one.last) and math.isfinite(other.first)
    return known and other.first > one.last + PAUSE and bool(again)


def _elsewhere(one: _Told, other: _Told) -> bool:
    """Whether all ranks that both of them place, two at least, are on other hosts."""
    placed = one.hosts.keys() & other.hosts.keys()
    return len(placed) > 1 and not any(one.hosts[rank] & other.hosts[rank] for rank in placed)


def _in_order(runs: Sequence[_Run]) -> bool:
    """Whether it is known when each run took place: of runs without a time nobody can say which is the newest."""
    return all(any(math.isfinite(unit.last) for unit in run.units) for run in runs)


def _why_lines(run: _Run, mine: _Run) -> str:
    sizes, ours = ({size for told in one.sizes for size in told} for one in (run, mine))
    pairs = [(unit, other) for unit in run.units for other in mine.near(unit)]
    if sizes and ours and not sizes & ours:
        why = f"its job has {', '.join(sorted(sizes))} ranks, that of the others {', '.join(sorted(ours))}"
    elif any(_earlier(unit, other) for unit, other in pairs):
        why = "its lines end before those of the others begin"
    elif any(_elsewhere(unit, other) for unit, other in pairs):
        why = "its ranks are on other hosts"
    else:
        why = "its ranks are elsewhere in their work at the same time"
    return f"{why}; kept apart, only one run is diagnosed"
