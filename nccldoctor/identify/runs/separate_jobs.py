"""Keeps the files of other jobs apart before ranks are attributed; one run is diagnosed.

Dumps tell runs apart by themselves (see ``dump_runs``). A folder that holds only dumps of another run holds its logs too. Logs
without dumps are of two jobs where they name different world sizes, place their ranks on different hosts or in different processes, or
have one rank at two steps at the same time. Example: ``a/`` and ``b/`` both hold a log of rank 0, at step 4000 in one and at step 90 in
the other, over the same hour: they are two jobs. So are ``a_rank0.log`` and ``b_rank0.log``; a file that nothing ties to one of them,
``b_rank7.log``, goes with those whose names begin alike.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from itertools import accumulate
from os.path import commonprefix

from msgspec import Struct, field
from msgspec.structs import replace

from nccldoctor.discover.filename_hints import run_id
from nccldoctor.events import (
    CallTimeout,
    CommInit,
    Event,
    Events,
    Phase,
    ProcessExit,
    Progress,
    Setting,
    TearDown,
    WorkStatus,
)
from nccldoctor.events.base import Writer
from nccldoctor.identify.event_times import FARTHEST, NEAR, QUARTER, event_seconds, year_of
from nccldoctor.identify.runs.other_steps import newest_job_of_each_file, without_earlier_sruns, without_other_steps
from nccldoctor.identify.runs.restarts import EARLIER
from nccldoctor.identify.runs.separate_dumps import (
    FAR,
    TWICE,
    Recorded,
    dump_runs,
    main_run,
    without_copied_dumps,
    without_dumps,
    without_other_moments,
)
from nccldoctor.ingest.ingest import Ingested
from nccldoctor.model import Gap, Source, SourceKind
from nccldoctor.model.hosts import short_host
from nccldoctor.model.recorded_calls import Batch
from nccldoctor.parsers.base import Parsed
from nccldoctor.words.lists import first_of

PAUSE = 60.0
"""Seconds between two runs of the same ranks."""

LONG = 3600.0
"""Seconds from a failed run to the next, behind which no rank of it still waits for a timeout."""

_LOOKED_AT = 256
"""Files of a run with whose names that of another file is compared."""

_NO_DIGITS = str.maketrans("", "", "0123456789")


def one_job(read: Ingested) -> Ingested:
    """What was read, without the files of other runs; what was left out is a Gap."""
    newest = newest_job_of_each_file(without_copied_dumps(_of_last_folders(read)))
    return without_other_steps(without_earlier_sruns(_one_of_logs(without_other_moments(_one_of_dumps(newest)))))


def _of_last_folders(read: Ingested) -> Ingested:
    """What was read, without the folders of earlier attempts of each launcher."""
    told = [(run_id(one.source.path), one.source.attempt, one) for one in read.parsed if one.source.attempt is not None]
    last = {run: number for run, number, _ in sorted(told, key=lambda row: row[1])}
    old = [one for run, number, one in told if number < last[run]]
    if not old:
        return read
    events = sum(len(one.events) for one in old)
    why = f"{events} events left out, because only the newest attempt is diagnosed"
    gap = Gap(f"{first_of(sorted(one.source.path for one in old))}: {EARLIER}", why, apart=True)
    return without_sources(read, {one.source.id for one in old}, [gap])


def _one_of_dumps(read: Ingested) -> Ingested:
    sources = {one.source.id: one.source for one in read.parsed}
    runs = dump_runs(read.batch, sources)
    if len(runs) < 2:
        return read
    main = main_run(runs)
    others = [run for run in runs if run is not main]
    paths = {i: read.batch.dumps[i].path for run in runs for i in run.dumps}
    left_out = {read.batch.dumps[i].source for run in others for i in run.dumps}
    kept = {read.batch.dumps[i].source for i in main.dumps}
    gaps = [_gap([paths[i] for i in run.dumps], _why_dumps(run, main)) for run in others]
    depth = _parting_depth([[paths[i] for i in run.dumps] for run in (main, *others)])
    if depth is not None:
        foreign = {_folder_at(paths[i], depth) for run in others for i in run.dumps}
        without_dump = [source for source in sources.values() if source.id not in kept and source.id not in left_out]
        beside = [source for source in without_dump if _folder_at(source.path, depth) in foreign]
        left_out |= {source.id for source in beside}
        if beside:
            why = "it lies in the folder of the dumps of a different run"
            gaps.append(_gap([source.path for source in beside], why))
    gone = Ingested(tuple(one for one in read.parsed if one.source.id in left_out), read.batch, ())
    has_failed = any(unit.troubled for unit in _units(gone))
    return without_sources(read, left_out, [replace(gap, failed=has_failed) for gap in gaps])


def without_sources(read: Ingested, left_out: Collection[int], gaps: Iterable[Gap]) -> Ingested:
    """What was read, without some sources and their dumps."""
    gone = [i for i, dump in enumerate(read.batch.dumps) if dump.source in left_out]
    return Ingested(
        tuple(one for one in read.parsed if one.source.id not in left_out),
        without_dumps(read.batch, gone) if gone else read.batch,
        (*read.gaps, *gaps),
    )


def _parting_depth(paths: Sequence[Sequence[str]]) -> int | None:
    """The depth of the folder by which the files of all runs differ; None where some lie in one folder."""
    depth = min(path.count("/") for of_run in paths for path in of_run)
    for at in range(depth):
        names = [{_folder_at(path, at) for path in of_run} for of_run in paths]
        if len(frozenset[str]().union(*names)) == sum(map(len, names)):
            return at
    return None


def _folder_at(path: str, depth: int) -> str:
    """The path down to one of its folders."""
    return "/".join(path.split("/")[: depth + 1])


def _gap(paths: Sequence[str], why: str) -> Gap:
    says = f"{why}; left out, because one run is diagnosed at a time"
    return Gap(f"{first_of(sorted(paths))}: a different run", says, apart=True)


def _why_dumps(run: Recorded, main: Recorded) -> str:
    if run.size is not None and main.size is not None and run.size != main.size:
        return f"its job has {run.size} ranks, the diagnosed job has {main.size}"
    if run.last < main.first or run.first > main.last:
        hours = abs(run.last - main.last) / 3600
        far = f"{hours / 24:,.0f} days" if hours >= 48 else f"{hours:.1f} h" if hours >= 1 else f"{hours * 60:.0f} min"
        return f"its calls are {far} {'older' if run.last < main.last else 'newer'} than those of the diagnosed run"
    return "its calls with the same numbers were made at a different time"


class _Unit(Struct):
    """What the lines of one folder, or of one file, say of their job.

    ``sizes`` are world sizes as printed, ``comms`` those of communicators. ``numbers`` maps (rank, kind of number) to the lowest and
    highest step or sequence number, ``steps`` (rank, words of the line, step) to the time of the first such line, and ``pids`` (rank, who
    says so) to its processes. ``waits`` are the times at which ranks gave up on a call, with the seconds that each had waited.
    ``ended`` ranks gave up or were torn down, ``troubled`` is true where something went wrong, ``alive`` where
    ranks worked or ran into a timeout. ``first`` and ``last`` are times in seconds. ``writers`` are the ranks that wrote its lines, or for
    which its files are named. ``low`` and ``high`` are the steps of anybody, the last one at ``stepped``; ``loose``: some name no rank.
    ``done``: its program says that it finished.
    """

    run: str | None = None
    sources: list[Source] = []
    sizes: set[str] = set()
    comms: set[int] = set()
    numbers: dict[tuple[int, str], tuple[int, int]] = {}
    steps: dict[tuple[int, str, int], float] = {}
    hosts: dict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    pids: dict[tuple[int, str], set[int]] = field(default_factory=lambda: defaultdict(set))
    waits: list[tuple[int, float, float]] = []
    ended: set[int] = set()
    writers: set[int] = set()
    troubled: bool = False
    alive: bool = False
    loose: bool = False
    done: bool = False
    first: float = math.inf
    last: float = -math.inf
    low: float = math.inf
    high: float = -math.inf
    stepped: float = -math.inf

    @property
    def placed_ranks(self) -> set[int]:
        """The ranks with steps or sequence numbers."""
        return {rank for rank, _ in self.numbers}

    @property
    def named_ranks(self) -> set[int]:
        """All ranks that the lines name."""
        return self.placed_ranks | self.hosts.keys() | self.ended | {rank for rank, _ in self.pids}

    def add_number(self, rank: int, what: str, number: int) -> None:
        """Add a number of a rank."""
        low, high = self.numbers.get((rank, what), (number, number))
        self.numbers[rank, what] = min(low, number), max(high, number)

    def join(self, other: _Unit) -> None:
        """Add what other files of the same run say."""
        self.run = self.run or other.run
        self.sources += other.sources
        self.sizes |= other.sizes
        self.comms |= other.comms
        for (rank, what), ends in other.numbers.items():
            for number in ends:
                self.add_number(rank, what, number)
        self.steps = {**other.steps, **self.steps}
        for rank, hosts in other.hosts.items():
            self.hosts[rank] |= hosts
        for key, pids in other.pids.items():
            self.pids[key] |= pids
        self.waits += other.waits
        self.ended |= other.ended
        self.writers |= other.writers
        self.troubled |= other.troubled
        self.alive |= other.alive
        self.loose |= other.loose
        self.done |= other.done
        self.first, self.last = min(self.first, other.first), max(self.last, other.last)
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)
        self.stepped = max(self.stepped, other.stepped)


class _Run(Struct):
    """Folders or files of one run, with an index by rank.

    A further unit is compared only with those that name its ranks: thousands of files of one rank each have nothing in common.
    """

    units: list[_Unit] = []
    sizes: set[frozenset[str]] = set()
    ids: set[str] = set()
    of_rank: dict[int, list[_Unit]] = field(default_factory=lambda: defaultdict(list))

    def take(self, unit: _Unit) -> None:
        """Add a unit of this run."""
        self.units.append(unit)
        self.sizes |= {frozenset(unit.sizes)} if unit.sizes else set()
        self.ids |= {unit.run} if unit.run else set()
        for rank in unit.named_ranks:
            self.of_rank[rank].append(unit)

    def near(self, unit: _Unit) -> list[_Unit]:
        """The units that share a rank with this one, have a run id as it has, or steps of nobody."""
        near = {id(other): other for rank in unit.named_ranks for other in self.of_rank.get(rank, ())}
        near |= {id(other): other for other in self.units[:_LOOKED_AT] if unit.loose or other.loose}
        if unit.run:
            near |= {id(other): other for other in self.units if other.run}
        return list(near.values())

    def can_hold(self, unit: _Unit) -> bool:
        """True when nothing shows that the unit is of another run."""
        if unit.sizes and any(not unit.sizes & sizes for sizes in self.sizes):
            return False
        return not (unit.run and self.ids - {unit.run}) and not any(
            _is_of_another_job(unit, other) for other in self.near(unit)
        )

    def likeness(self, unit: _Unit) -> tuple[int, bool, int]:
        """A sort key: folders in common, trouble in both (when dumps are written), and how names begin alike."""
        own = unit.sources[0].path
        paths = [one.sources[0].path for one in self.units[:_LOOKED_AT]]
        folders = max(commonprefix([own, path]).count("/") for path in paths)  # noqa: RUF071
        is_in_trouble = unit.troubled or unit.sources[0].kind is SourceKind.RECORDER
        fits = is_in_trouble == any(one.troubled for one in self.units)
        return folders, fits, max(len(commonprefix([own, path])) for path in paths)  # noqa: RUF071


def _one_of_logs(read: Ingested) -> Ingested:
    ids = {run_id(one.source.path) for one in read.parsed} - {None}
    if len(ids) < 2 and not any(one.events for one in read.parsed):
        return read
    units = _units(read)
    old = _earlier(units)
    if old:
        gone = {source.id: source.path for unit in old for source in unit.sources}
        gap = replace(_gap([*gone.values()], "its lines end long before all others begin"), failed=True)
        rest = without_sources(read, gone, ())
        folders = (
            {path.rpartition("/")[0] for path in paths}
            for paths in (gone.values(), (one.source.path for one in rest.parsed))
        )
        return replace(rest, gaps=(*rest.gaps, replace(gap, in_folders=not set.intersection(*folders))))
    runs = _runs(units)
    if len(runs) < 2:
        return read
    dumped = {dump.source for dump in read.batch.dumps}
    main = max(runs, key=lambda run: _weight(run, runs, dumped))
    others = [run for run in runs if run is not main]
    left_out = {source.id for run in others for unit in run.units for source in unit.sources}
    troubled = {id(run): any(unit.troubled for unit in run.units) for run in runs}
    gaps = [
        replace(
            _gap([s.path for unit in run.units for s in unit.sources], _why_lines(run, main)),
            failed=troubled[id(run)],
            lost=not troubled[id(run)] and not troubled[id(main)],  # no line tells which of them is meant
        )
        for run in others
    ]
    if not all(any(math.isfinite(unit.last) for unit in run.units) for run in runs):
        why = "not all of its lines have a time, so it may be newer than the diagnosed run"
        gaps = [replace(gap, why=why, lost=True) for gap in gaps]
    return without_sources(read, left_out, gaps)


def _earlier(units: Sequence[_Unit]) -> list[_Unit]:
    """The units of failed runs that were over long before the first line of all others.

    Ends of processes and words of the scheduler may come long after a hang: only ranks that work or wait are of a later run.
    """
    dated = sorted((unit for unit in units if math.isfinite(unit.last)), key=lambda unit: unit.first)
    ends = [*accumulate((unit.last for unit in dated), max)]
    undated = [unit for unit in units if not math.isfinite(unit.last)]
    for at in range(len(dated) - 1, 0, -1):
        old, pause = dated[:at], dated[at].first - ends[at - 1]
        if pause > LONG and any(unit.troubled for unit in old) and _is_over(old, [*dated[at:], *undated], pause):
            return old
    return []


def _is_over(old: Sequence[_Unit], new: Sequence[_Unit], pause: float) -> bool:
    """True where units before a pause are of another job, or ranks work or wait behind it.

    Another job has another size, or far different steps or calls. Where the ranks are others, zones of two hosts may explain the pause:
    then both end at once, by the zones.
    """
    ours, theirs = map(_summed, (old, new))
    if ours.comms and theirs.comms and max(ours.comms) != max(theirs.comms):
        return True
    spans = [_spans(unit) for unit in (ours, theirs)]
    both = [(spans[0][what], spans[1][what]) for what in spans[0].keys() & spans[1].keys()]
    if any(low > most + FAR or least > high + FAR for (low, high), (least, most) in both):
        return True
    is_known = bool(ours.writers) and ours.writers <= theirs.writers
    apart = (theirs.last - ours.last) % (2 * QUARTER)
    return theirs.alive and (is_known or pause > FARTHEST + LONG or NEAR < apart < 2 * QUARTER - NEAR)


def _spans(unit: _Unit) -> dict[str, tuple[int, int]]:
    """The lowest and the highest step of all ranks, and number of a call of the default group."""
    out = _Unit()
    for (_, what), ends in unit.numbers.items():
        for number in ends if what == "step" or "default_pg" in what else ():
            out.add_number(0, what, number)
    return {what: ends for (_, what), ends in out.numbers.items()}


def _summed(units: Sequence[_Unit]) -> _Unit:
    whole = _Unit()
    for unit in units:
        whole.join(unit)
    return whole


def _runs(units: Iterable[_Unit]) -> list[_Run]:
    """The units by run: each goes to a possible run, with the paths most like its own."""
    runs: list[_Run] = []
    for unit in sorted(units, key=lambda one: -len(one.placed_ranks)):
        homes = [run for run in runs if run.can_hold(unit)]
        if not homes:
            runs.append(home := _Run())
        else:
            home = homes[0] if len(homes) < 2 else max(homes, key=lambda run: run.likeness(unit))
        home.take(unit)
    return runs


def _weight(run: _Run, runs: Sequence[_Run], dumped: set[int]) -> tuple[bool, bool, int, int, float]:
    """A sort key: the last run, then one in which something went wrong, with dumps, most ranks, the newest.

    A run that failed came after all those that had ended before its first line.
    """
    end = max(unit.last for unit in run.units)
    is_before = any(
        any(unit.troubled for unit in other.units) and end < min(unit.first for unit in other.units) < math.inf
        for other in runs
    )
    last = not any(_is_earlier(own, unit) for own in run.units for other in runs for unit in other.near(own))
    ranks = {rank for unit in run.units for rank in unit.placed_ranks}
    held = sum(source.id in dumped for unit in run.units for source in unit.sources)
    return last and not is_before, any(unit.troubled for unit in run.units), held, len(ranks), end


def _units(read: Ingested) -> list[_Unit]:
    """What one launcher wrote under one run id, else the folders in which paths first differ.

    Files of one folder that contradict each other are several units. Those that differ by the number of their rank alone are one.
    """
    parsed, depth = read.parsed, 0
    year = year_of((event for one in parsed for event in one.events), read.batch)
    folders = [one.source.path.split("/")[:-1] for one in parsed]
    while folders and all(len(f) > depth for f in folders) and len({f[depth] for f in folders}) == 1:
        depth += 1
    families: dict[str, dict[str, _Unit]] = defaultdict(lambda: defaultdict(_Unit))
    no_dumps = Batch.empty()
    for one in parsed:
        run, family = run_id(one.source.path), _family(one.source)
        folder = _folder_at(one.source.path, depth)
        unit = families[run or (family if folder == one.source.path else folder)][family]
        unit.run = run
        unit.sources.append(one.source)
        if one.source.kind is SourceKind.LOG and one.source.rank is not None and one.source.local_rank is None:
            unit.writers.add(one.source.rank)
        _read_lines(unit, one, no_dumps, year)
    out: list[_Unit] = []
    for of_folder in families.values():
        out += [_summed(run.units) for run in _runs(of_folder.values())]
    return out


def _family(source: Source) -> str:
    """The path of a file without the number of its rank: ``a/rank_#.log``."""
    rank = source.rank if source.local_rank is None else source.local_rank
    head, number, tail = source.path.rpartition(str(rank))
    head = head.rstrip("0")
    return source.path if not number or head[-1:].isdigit() or tail[:1].isdigit() else f"{head}#{tail}"


def _read_lines(unit: _Unit, one: Parsed, no_dumps: Batch, year: int) -> None:
    if not one.events:
        return
    own = one.source.rank if one.source.local_rank is None else None
    events = Events(one.events)
    unit.comms |= {e.nranks for e in events.of_kind(CommInit) if e.nranks}
    unit.done |= any(e.what == "finished" and not e.is_waiting for e in events.of_kind(Phase))
    unit.writers |= {e.rank for e in events if e.rank is not None and e.written_by is Writer.RANK}
    dated = events if one.source.kind is SourceKind.LOG else Events()
    seconds = event_seconds(dated, no_dumps, (), year).tolist()
    times = [at for at in seconds if not math.isnan(at)]
    unit.first, unit.last = min([unit.first, *times]), max([unit.last, *times])
    unit.troubled |= any(event.is_complaint or event.is_trouble for event in dated)
    unit.alive |= any(event.time is not None and _is_of_run(event) for event in dated)
    for event in events:
        if event.rank is not None and event.host:
            unit.hosts[event.rank].add(short_host(event.host))
        if event.rank is not None and event.pid is not None and isinstance(event, CommInit | ProcessExit):
            unit.pids[event.rank, getattr(event, "reporter", event.kind)].add(event.pid)
    for place, event in zip(dated.places_of(Progress), dated.of_kind(Progress), strict=True):
        rank = event.rank if event.rank is not None else own
        if event.step is None or math.isnan(seconds[place]):
            continue
        if not event.label:
            unit.low, unit.high = min(unit.low, event.step), max(unit.high, event.step)
            unit.stepped, unit.loose = max(unit.stepped, seconds[place]), unit.loose or rank is None
        if rank is not None:
            unit.steps.setdefault((rank, event.text.translate(_NO_DIGITS), event.step), seconds[place])
    for place, wait in zip(dated.places_of(CallTimeout), dated.of_kind(CallTimeout), strict=True):
        if wait.rank is not None and (ran := wait.ran_ms or wait.timeout_ms):
            unit.waits.append((wait.rank, seconds[place], ran / 1000))
    unit.sizes |= {e.value for e in events.of_kind(Setting) if e.name == "WORLD_SIZE" and e.value.isdigit()}
    for event in events.of_kind(CallTimeout, Progress, TearDown, WorkStatus):
        rank = event.rank if event.rank is not None else own
        if rank is None:
            continue
        if isinstance(event, CallTimeout | TearDown):
            unit.ended.add(rank)
        seq = event.failed if isinstance(event, WorkStatus) else event.seq if isinstance(event, CallTimeout) else None
        if seq is not None:
            unit.add_number(rank, f"call of {event.group}", seq)
        elif isinstance(event, Progress) and event.step is not None and not event.label:
            unit.add_number(rank, "step", event.step)


def _is_of_run(event: Event) -> bool:
    """True of what happens to ranks while their job runs, not of a cancellation hours after the hang."""
    if isinstance(event, CallTimeout | WorkStatus):
        return True
    is_own = (isinstance(event, ProcessExit) and event.exitcode) or event.written_by is Writer.RANK
    return bool(is_own) and event.consequence is None and not event.is_stop_by_person


def _is_of_another_job(one: _Unit, other: _Unit) -> bool:
    """True when two units are of different jobs, or of different runs of one."""
    if (one.sizes and other.sizes and not one.sizes & other.sizes) or (one.run and other.run and one.run != other.run):
        return True
    if _is_earlier(other, one) or any(is_apart(one, other) for is_apart in (_is_earlier, *_ANY_TIME)):
        return True
    if one.first > other.last or other.first > one.last:
        return False
    if any(is_apart(one, other) for is_apart in _SAME_TIME):
        return True
    both = [(one.numbers[key], other.numbers[key]) for key in one.numbers.keys() & other.numbers.keys()]
    return any(low > most + FAR or least > high + FAR for (low, high), (least, most) in both)


def _is_earlier(one: _Unit, other: _Unit) -> bool:
    """True when ranks that ended in one unit go on in the other, repeat steps after trouble, or were restarted.

    A log that was merely split goes on too, but no rank ended in its first part.
    """
    is_repeated = one.troubled and len(one.steps.keys() & other.steps.keys()) > 1
    again = one.run != other.run if one.run and other.run else is_repeated or one.ended & other.placed_ranks
    known = math.isfinite(one.last) and math.isfinite(other.first)
    return known and other.first > one.last + PAUSE and bool(again)


def _is_on_other_hosts(one: _Unit, other: _Unit) -> bool:
    """True when all ranks whose host both units name, at least two, are on different hosts."""
    placed = one.hosts.keys() & other.hosts.keys()
    return len(placed) > 1 and not any(one.hosts[rank] & other.hosts[rank] for rank in placed)


def _is_in_other_processes(one: _Unit, other: _Unit) -> bool:
    """True when lines of one kind name different processes for every rank that both units name so."""
    shared = one.pids.keys() & other.pids.keys()
    return bool(shared) and not any(one.pids[key] & other.pids[key] for key in shared)


def _is_at_other_times(one: _Unit, other: _Unit) -> bool:
    """True when a rank printed every step that both units have of it, at least two, at different times.

    A difference of whole quarters of an hour may be that of two time zones.
    """
    apart = [abs(other.steps[key] - at) for key, at in one.steps.items() if key in other.steps]
    return len(apart) > 1 and min(apart) > TWICE and any(TWICE < far % QUARTER < QUARTER - TWICE for far in apart)


def _is_in_other_calls(one: _Unit, other: _Unit) -> bool:
    """True when two ranks or more gave up in both units, all on other calls of the same group."""
    calls = [key for key in one.numbers.keys() & other.numbers.keys() if key[1] != "step"]
    both = [(one.numbers[key], other.numbers[key]) for key in calls]
    return len({rank for rank, _ in calls}) > 1 and all(
        low > most or least > high for (low, high), (least, most) in both
    )


def _is_at_work_meanwhile(one: _Unit, other: _Unit) -> bool:
    """True when ranks wait in a call in one unit, and make steps in the other one all the while.

    They are two, or the only one that waits. Where the last step is whole half hours from the begin of the wait, that may be the
    difference of two time zones.
    """
    for waiting, working in ((one, other), (other, one)):
        at_work = set()
        for rank, end, ran in waiting.waits:
            steps = [at for (of, _, _), at in working.steps.items() if of == rank]
            meanwhile = sum(end - ran + NEAR < at < end - NEAR for at in steps)
            if meanwhile > 1 and NEAR < (max(steps) - end + ran) % (2 * QUARTER) < 2 * QUARTER - NEAR:
                at_work.add(rank)
        if at_work and len(at_work) >= min(2, len({rank for rank, _, _ in waiting.waits})):
            return True
    return False


def _is_finished_amid(one: _Unit, other: _Unit) -> bool:
    """True when one unit's program ended well amid the steps of the other, which are far from its own."""
    for over, going in ((one, other), (other, one)):
        is_amid = going.first + PAUSE < over.last < going.stepped - PAUSE
        if over.done and is_amid and (over.low > going.high + FAR or going.low > over.high + FAR):
            return True
    return False


_ANY_TIME = {
    _is_on_other_hosts: "its ranks are on other hosts",
    _is_in_other_processes: "its ranks are other processes",
}
_SAME_TIME = {
    _is_at_other_times: "its ranks do the same steps at a different time",
    _is_in_other_calls: "its ranks timed out in other calls",
    _is_finished_amid: "it or the diagnosed run finished amid steps of the other, which are far from its own",
    _is_at_work_meanwhile: "its ranks were at work while those of the diagnosed run waited in a call",
}
"""How units of two jobs differ, whenever they ran, and where they ran at the same time; and what a gap says of it."""


def _why_lines(run: _Run, main: _Run) -> str:
    sizes, ours = ({size for of_unit in one.sizes for size in of_unit} for one in (run, main))
    if sizes and ours and not sizes & ours:
        return f"its job has {', '.join(sorted(sizes))} ranks, the diagnosed job has {', '.join(sorted(ours))}"
    pairs = [(unit, other) for unit in run.units for other in main.near(unit)]
    whys = {_is_earlier: "its lines end before the diagnosed run begins"} | _ANY_TIME | _SAME_TIME
    found = (why for is_apart, why in whys.items() if any(is_apart(unit, other) for unit, other in pairs))
    return next(found, "its ranks are at a different step at the same time")
