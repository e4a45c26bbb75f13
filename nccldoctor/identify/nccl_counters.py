"""Counts the calls that each member of a communicator issued, as NCCL's own observers report them.

RAS counts launched calls by operation, COLL lines carry ``opCount``, and dumps of communicators number their calls. None of these is
the sequence number of PyTorch, and numbers of two observers are never compared. One RAS query proves nothing: hosts run ahead of
each other in every healthy job. Two queries with equal counts prove a stall.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from itertools import pairwise

from msgspec import Struct, field
from msgspec.structs import replace

from nccldoctor.events import CollCall, CommInit, Event, Events, RasStatus
from nccldoctor.model import Place
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.recorded_calls import CommState, DumpHead

UNEVEN = frozenset({"Send", "Recv", "AlltoAll", "AllToAll", "SendRecv", "PutSignal", "Signal", "WaitSignal"})
"""Operations that only some members issue: a communicator with them counts differently on each rank."""


def counters_from_dumps(dumps: Iterable[tuple[int | None, DumpHead]]) -> Iterator[NcclCounters]:
    """The counters of communicators that all their members dumped."""
    members: dict[str, dict[int, tuple[CommState, CollCall]]] = defaultdict(dict)
    for rank, dump in dumps:
        for state in dump.comms if rank is not None else ():
            state_of = f"{state.op} #{state.unfinished} not finished" if state.unfinished >= 0 else "all finished"
            text = f"communicator {state.comm}: newest call #{state.newest}, {state_of}"
            call = CollCall(
                place=Place(dump.source, dump.path), text=text, rank=rank, op=state.op,
                op_count=state.newest if state.unfinished < 0 else state.unfinished,
                numel=state.numel if state.numel >= 0 else None, dtype=state.dtype or None, comm=state.comm,
            )  # fmt: skip
            members[state.comm].setdefault(rank or 0, (state, call))
    for comm, by_rank in sorted(members.items()):
        states = [state for state, _ in by_rank.values()]
        if len(states) < 2 or any(s.uneven or s.nranks != len(states) for s in states):
            continue
        last = {rank: state.newest for rank, (state, _) in sorted(by_rank.items())}
        least = min(last.values())
        uneven = max(last.values()) > least
        waiting = [s.unfinished for s in states if s.unfinished > (least if uneven else -1)]
        first = min(waiting, default=least + uneven)
        stuck = next((c for s, c in by_rank.values() if s.unfinished == first), None)
        yield NcclCounters(
            "comm-dump",
            comm,
            Ranks(last),
            last,
            {rank: call for rank, (_, call) in by_rank.items()},
            op=stuck.op or None if stuck else None,
            first=first,
            call=stuck,
            is_steady=all(s.unfinished >= 0 for s in states if s.newest > least or not uneven),
        )


def calls_by_communicator(inits: Iterable[CommInit], lines: Iterable[CollCall]) -> dict[str, list[CollCall]]:
    """COLL lines by communicator; a pointer is private to its process, so that names come from INIT lines."""
    calls = [call for call in lines if call.rank is not None and call.comm is not None]
    if not calls:
        return {}
    names = _names(inits)
    names |= _names_by_size(calls, names)
    by_name: dict[str, list[CollCall]] = defaultdict(list)
    for call in calls:
        name = names.get((call.rank, call.comm))
        if name is not None:
            by_name[name].append(call)
    return by_name


Local = tuple[int | None, str | None]
"""A communicator as one rank knows it: that rank and the pointer."""


def _names(inits: Iterable[CommInit]) -> dict[Local, str]:
    """One name for each communicator on all its members: its id, or its parent's name and the split."""
    names: dict[Local, str] = {}
    for event in inits:
        if event.what not in ("start", "complete") or event.rank is None or event.comm is None:
            continue
        parent = names.get((event.rank, event.parent)) if event.parent else None
        if event.comm_id is not None:
            names[event.rank, event.comm] = event.comm_id.lower()
        elif parent is not None and event.split is not None:
            names[event.rank, event.comm] = f"{parent}/{event.split}"
    return names


def _names_by_size(calls: Iterable[CollCall], names: Mapping[Local, str]) -> dict[Local, str]:
    """Names without INIT lines, where every rank calls in only one communicator of a size, and as many ranks do.

    Eight ranks each print one pointer with ``nranks 8``: these pointers are one communicator. So are those of ranks 0-5 alone: of the
    lowest ranks more than half stand together. Ranks 0-2 and 7 are of two.
    """
    pointers: dict[int, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    for call in calls:
        if call.nranks is not None and call.rank is not None and call.comm is not None:
            pointers[call.nranks][call.rank].add(call.comm)
    by_size: dict[Local, str] = {}
    for size, by_rank in pointers.items():
        places = [(rank, pointer) for rank, of_rank in by_rank.items() for pointer in of_rank]
        ranks = sorted(by_rank)
        is_whole = size == len(ranks) and len({after - rank for rank, after in pairwise(ranks)}) <= 1
        has_one_each = len(ranks) == len(places) and not any(place in names for place in places)
        if has_one_each and (is_whole or 2 * len(ranks) > size > ranks[-1]):
            by_size |= dict.fromkeys(places, f"of {size} ranks")
    return by_size


def counters_from_lines(events: Events) -> Iterator[NcclCounters]:
    """The counters of communicators of which the COLL lines of all members were read."""
    lines = events.of_kind(CollCall)
    inits = events.of_kind(CommInit) if lines else ()
    sizes = {e.comm_id.lower(): e.nranks for e in inits if e.comm_id and e.nranks}
    logging = {e.rank for e in lines}
    joined: dict[str, set[int]] = defaultdict(set)
    for (rank, _), name in _names(inits).items():
        if rank is not None and rank in logging:
            joined[name].add(rank)
    for comm, calls in sorted(calls_by_communicator(inits, lines).items()):
        if any(call.op in UNEVEN for call in calls):
            continue
        newest: dict[int, CollCall] = {}
        for call in calls:
            if call.rank is not None and call.op_count >= newest.get(call.rank, call).op_count:
                newest[call.rank] = call
        size = sizes.get(comm) or next((c.nranks for c in calls if c.nranks), None)
        members = Ranks(newest) | joined[comm]
        if len(members) < 2 or (size is not None and size != len(members)):
            continue  # a member whose lines were not read may have issued anything
        last = {rank: newest[rank].op_count if rank in newest else -1 for rank in members}
        least = min(last.values())
        ahead = sorted((c for c in calls if c.op_count > least), key=lambda c: (c.op_count, c.rank or 0))
        yield NcclCounters(
            "coll",
            comm,
            members,
            last,
            dict(newest),
            op=ahead[0].op or None if ahead else None,
            first=ahead[0].op_count if ahead else least + 1,
            call=ahead[0] if ahead else None,
        )


class NcclCounters(Struct, frozen=True, dict=True):
    """The call counts of one communicator, as one observer (*ras*, *coll* or *comm-dump*) gives them.

    ``last`` maps each global rank to the number of its last call, ``lines`` to the event that says so; ``silent`` members did not
    answer. ``first`` is the first number that not every member reached, or the number that all members wait in; ``op`` is its
    operation (None: not known) and ``call`` a line of it. ``is_steady``: two queries gave the same counts, or the call is
    unfinished wherever it was issued. ``advanced`` members had a higher count in the second query; ``lagging`` members have fewer
    calls than the furthest one. ``by_op`` are the counts by operation where the observer gives them, ``totals`` the counts over
    all operations. ``group`` is the index of the group that stands for the communicator (-1: none).

    Ranks 0-6 counted 412 all-reduces and rank 7 counted 411: ``first`` is 412 and ``lagging`` is rank 7.
    """

    observer: str
    comm: str
    members: Ranks
    last: Mapping[int, int]
    lines: Mapping[int, Event]
    op: str | None = None
    first: int = 0
    call: CollCall | None = None
    silent: Ranks = Ranks()
    when: datetime | None = None
    is_steady: bool = False
    advanced: Ranks = Ranks()
    by_op: Mapping[int, Mapping[str, int]] = {}
    group: int = -1

    @cached_property
    def lagging(self) -> Ranks:
        """The members that have fewer calls than the furthest one."""
        most = max(self.last.values(), default=0)
        return Ranks(r for r, n in self.last.items() if n < most)

    @cached_property
    def totals(self) -> Mapping[int, int]:
        """The counts over all operations."""
        return {r: sum(by_kind.values()) for r, by_kind in self.by_op.items()} or self.last

    @property
    def is_moving(self) -> bool:
        """True when a lagging member (or any, if none lags) advanced: no rank is stuck on it."""
        return bool((self.lagging or self.members) & self.advanced)


APART = timedelta(seconds=5)
"""Time between two queries after which a running job has advanced."""

MOST_MEMBERS = 1 << 22
"""Members of all communicators that are read: the number comes from untrusted text."""

Seats = Callable[[str | None, int], int | None]
"""Finds the global rank of a process by host and process id."""


class _Report(Struct):
    """One query's answer about one communicator, by rank inside it; rank -1 stands for those that are not listed."""

    size: int | None = None
    when: datetime | None = None
    counts: dict[str, dict[int, list[int]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    lines: dict[int, Event] = {}
    silent: set[int] = set()
    processes: dict[int, tuple[str, int]] = {}

    def counts_of(self, rank: int) -> dict[str, int] | None:
        """The counts of one member by operation; None where the text gives none, or several."""
        by_op = {}
        for op, by_rank in self.counts.items():
            counts = by_rank.get(rank) or by_rank.get(-1, [])
            if len(counts) != 1:
                return None
            by_op[op] = counts[0]
        return by_op


def counters_from_ras(events: Sequence[RasStatus], seats: Seats, world: int | None) -> Iterator[NcclCounters]:
    """The counters of communicators with known global ranks: the newest report, compared with the one before."""
    asked: dict[str, list[_Report]] = defaultdict(list)
    # reports without a time come first, in the order of the input
    for report in sorted(_reports(events), key=lambda r: r[0].time.isoformat() if r[0].time is not None else ""):
        for comm, one in _communicators(report).items():
            asked[comm].append(one)
    room = MOST_MEMBERS
    for comm, reports in sorted(asked.items()):
        room -= 2 * (reports[-1].size or 0)
        if room < 0:
            return
        newest = _in_global_ranks(comm, reports[-1], seats, world)
        if newest is None:
            continue
        before = _in_global_ranks(comm, reports[-2], seats, world) if len(reports) > 1 else None
        yield _with_advance(newest, before)


def _reports(events: Iterable[RasStatus]) -> Iterator[list[RasStatus]]:
    """Splits the lines of each file into queries: a line of a kind already read begins the next."""
    report: list[RasStatus] = []
    seen: set[tuple[object, ...]] = set()
    for event in events:
        if event.what in ("NEW", "DEAD", "OUTLIER", "TIMEOUT") and event.comm_id is None:
            continue
        ops = tuple(sorted({op for _, op, _ in event.counts}))
        key = (event.place.source, event.what, event.comm_id, event.table, ops, event.group_rank, event.pid)
        if report and (key in seen or event.place.source != report[-1].place.source):
            yield report
            report, seen = [], set()
        seen.add(key)
        report.append(event)
    if report:
        yield report


def _communicators(report: Sequence[RasStatus]) -> dict[str, _Report]:
    sizes: dict[int | None, int | None] = {
        e.table: e.nranks for e in report if e.comm_id is None and e.table is not None
    }
    out: dict[str, _Report] = defaultdict(_Report)
    for event in report:
        if event.comm_id is None:
            continue
        one = out[event.comm_id]
        one.size = event.nranks or sizes.get(event.table) or one.size
        one.when = event.time
        one.lines[-1] = event
        for rank, op, count in event.counts:
            one.counts[op][rank].append(count)
            if rank in event.missing:
                one.lines[rank] = event
        one.processes |= {rank: (host, pid) for rank, host, pid in event.processes}
        if event.what == "INCOMPLETE" or event.nranks is not None:
            one.silent |= set(event.missing)
    return out


def _in_global_ranks(comm: str, report: _Report, seats: Seats, world: int | None) -> NcclCounters | None:
    """The report in global ranks; None where they are not known, or it holds neither counts nor silent ranks."""
    if not report.size or report.size < 2 or (report.size != world and len(report.processes) < report.size):
        return None
    members = range(report.size)
    if report.size == world:  # which then count as the job does
        ranks: dict[int, int | None] = dict(zip(members, members, strict=True))
    else:
        ranks = {inside: seats(*report.processes.get(inside, (None, -1))) for inside in members}
    at = {inside: rank for inside, rank in ranks.items() if rank is not None}
    if len(at) < len(ranks):
        return None
    silent = Ranks(at[inside] for inside in report.silent if inside in at)
    by_op_of = {at[n]: by_op for n in at if n not in report.silent and (by_op := report.counts_of(n))}
    differ = [op for op in report.counts if len({by_op[op] for by_op in by_op_of.values()}) > 1]
    total = {rank: sum(by_op.values()) for rank, by_op in by_op_of.items()}
    last = {rank: by_op[differ[0]] for rank, by_op in by_op_of.items()} if len(differ) == 1 else total
    lines = {rank: report.lines.get(n, report.lines[-1]) for n, rank in at.items() if rank in (last or silent)}
    if not lines:
        return None
    return NcclCounters(
        "ras",
        comm,
        Ranks(at.values()),
        last,
        lines,
        op=differ[0] if len(differ) == 1 else None,
        first=min(last.values(), default=0) + (1 if differ else 0),
        silent=silent,
        when=report.when,
        by_op=by_op_of,
    )


def _with_advance(newest: NcclCounters, before: NcclCounters | None) -> NcclCounters:
    """The newest counts with what changed since the query before, unless that was moments ago."""
    if before is None or (newest.when and before.when and newest.when - before.when < APART):
        return newest
    advanced = Ranks(r for r in newest.totals if newest.totals[r] > before.totals.get(r, newest.totals[r]))
    return replace(newest, is_steady=newest.by_op == before.by_op, advanced=advanced)
