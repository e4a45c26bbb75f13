"""Counts the calls of communicators by the reports of NCCL RAS, in global ranks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from msgspec import Struct, field
from msgspec.structs import replace

from nccldoctor.events import Event, RasStatus
from nccldoctor.identify.nccl_counters import NcclCounters
from nccldoctor.model.ranks import Ranks

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
    for report in sorted(_reports(events), key=lambda r: _stamp(r[0])):
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


def _stamp(event: RasStatus) -> tuple[bool, str]:
    """A sort key: reports without a time come first, in the order of the input."""
    return event.time is not None, event.time.isoformat() if event.time is not None else ""


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
