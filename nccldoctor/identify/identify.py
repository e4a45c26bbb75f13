"""Turns what was read into a Case with global ranks, hosts, process groups and one clock."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import numpy as np
from msgspec import Struct

from nccldoctor.events import (
    Absence,
    BlockingWaitTimeout,
    CollectiveTimeout,
    Events,
    FrAnalysis,
    MonitoredBarrier,
    RasStatus,
    StoreError,
    Version,
    WorkStatus,
)
from nccldoctor.identify import clock_skew
from nccldoctor.identify.attribution import Attributed, attribute
from nccldoctor.identify.case import Case, Reading
from nccldoctor.identify.event_times import YEARLESS, event_seconds
from nccldoctor.identify.flaws.file_flaws import dump_gaps, has_no_number, line_gaps, owed_look_gaps
from nccldoctor.identify.group_members import callers_by_group, world_size, world_size_from_groups
from nccldoctor.identify.groups import build_groups, with_communicators
from nccldoctor.identify.nccl_counters import counters_from_dumps, counters_from_lines, counters_from_ras
from nccldoctor.identify.told_lines import with_counted_bars, without_copies
from nccldoctor.ingest.ingest import Ingested
from nccldoctor.model import SourceKind
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.recorded_calls import Batch
from nccldoctor.parsers.base import Parsed

_NEVER = np.iinfo(np.int64).max
_NO_DIGITS = str.maketrans("", "", "0123456789")


def identify(read: Ingested) -> Case:
    """Everything that was read, with each rank, group and clock sorted out; nothing is judged here."""
    batch, who = read.batch, attribute(read.parsed, read.batch.dumps)
    events, dump_rank = without_copies(with_counted_bars(who.events), who.sources), who.dump_rank
    world = _world(batch, who)
    groups, call_group = build_groups(batch, dump_rank, events, world.ranks, world.learned)
    call_group = np.where(has_no_number(batch.calls), np.int32(-1), call_group)
    counters = (
        *counters_from_dumps(zip(who.dump_rank, batch.dumps, strict=True)),
        *counters_from_lines(who.events),
        *counters_from_ras(who.events.of_kind(RasStatus), who.processes.rank_of, world.size),
    )
    # where PyTorch's own numbers show the progress of ranks, NCCL's counts only confirm them
    lines = events.of_kind(BlockingWaitTimeout, CollectiveTimeout, WorkStatus)
    is_compared = any(e.what == "ranks-missing" and e.seq is not None for e in events.of_kind(FrAnalysis))
    if not (lines or is_compared or any(d.entries or d.status for d in batch.dumps)):
        groups, counters = with_communicators(groups, counters)
    rank_of_dump = np.array([-1 if r is None else r for r in dump_rank], dtype=np.int32)
    call_rank = rank_of_dump[batch.calls.dump] if len(batch.calls) else np.empty(0, dtype=np.int32)
    clocks = clock_skew.find_skews(batch, call_rank, call_group, who.processes.host)
    times = event_seconds(events, batch, dump_rank)
    times = times - clock_skew.clock_offsets(events, clocks.skews) if clocks.skews else times
    is_measured = bool((batch.calls.completed_ns > 0).any())
    of_lines = clock_skew.find_line_skews(events, times, who.processes.host, is_measured=is_measured)
    skews = (*clocks.skews, *of_lines.skews)
    recorded = _recorded_spans(batch)
    return Case(
        sources=who.sources,
        readings=tuple(_reading(p, recorded.get(p.source.id, [])) for p in read.parsed),
        events=events,
        batch=clock_skew.correct_times(batch, call_rank, skews),
        dump_rank=dump_rank,
        call_rank=call_rank,
        call_group=call_group,
        naming=groups,
        world_size=world.size,
        world_at_least=world.at_least,
        seconds=times - clock_skew.clock_offsets(events, of_lines.skews) if of_lines.skews else times,
        gaps=(
            *read.gaps,
            *who.gaps,
            *dump_gaps(batch, dump_rank, call_group),
            *line_gaps(events, who.sources),
            *owed_look_gaps(events, world.ranks),
            *clock_skew.skew_gaps(skews),
        ),
        skews=skews,
        compared=clocks.compared | of_lines.compared,
        nccl_counters=counters,
        rank_host=who.processes.host,
        rank_pid=who.processes.pid,
        rank_device=who.processes.device,
        pods=who.processes.pods,
        torch=_version(events, "torch"),
        nccl=_version(events, "nccl") or next((d.library for d in batch.dumps if d.library), None),
    )


class _World(Struct, frozen=True):
    """All ranks of the job, how they are known (``world``, ``listed``, ``assumed``), and how many there are.

    ``size`` is None where some may be missing; ``at_least`` as many there are in any case.
    """

    ranks: Ranks
    learned: str
    size: int | None
    at_least: int


def _world(batch: Batch, who: Attributed) -> _World:
    events, dump_rank = who.events, who.dump_rank
    seen = _ranks_seen(who, batch)
    known = world_size(batch, events, seen)
    size = known.exact or world_size_from_groups(callers_by_group(batch, dump_rank))
    if size is not None and (not seen or max(seen) < size):
        return _World(Ranks(range(size)), "world", size, size)
    ranks = Ranks(range(known.at_least))
    highest = max(seen, default=-1) + 1
    dumped = Ranks(r for r in dump_rank if r is not None)
    is_whole = known.at_least == highest and _is_whole_job(events, seen, dumped)
    is_listed = is_whole and frozenset(ranks) <= {e.rank for e in events}
    return _World(ranks, "listed" if is_listed else "assumed", highest if is_whole else None, known.at_least)


def _ranks_seen(who: Attributed, batch: Batch) -> Ranks:
    """Every rank that a dump, a line, a launcher, a group or the name of its log names."""
    seen = {r for r in who.dump_rank if r is not None} | set(who.processes.host)
    seen |= {e.rank for e in who.events if e.rank is not None}
    seen |= _ranks_of_silent_logs(who)
    seen.update(r for e in who.events.of_kind(MonitoredBarrier, Absence) for r in e.missing | e.reached)
    for ranks in {id(c.ranks): c.ranks for d in batch.dumps for c in d.config}.values():
        seen.update(ranks)
    return Ranks(r for r in seen if 0 <= r < 10_000_000)


def _ranks_of_silent_logs(who: Attributed) -> set[int]:
    """The ranks of logs without a known line that stand beside logs with such lines and are named like them.

    Example: ``rank0.log`` to ``rank6.log`` hold complaints, and ``rank7.log`` ends in the middle of a validation.
    """
    telling = {e.place.source for e in who.events if e.rank is not None}
    logs = [s for s in who.sources if s.kind is SourceKind.LOG and s.rank is not None]
    shapes = Counter(s.path.translate(_NO_DIGITS) for s in logs if s.id in telling)
    return {
        s.rank for s in logs if s.rank is not None and s.id not in telling and shapes[s.path.translate(_NO_DIGITS)] > 1
    }


def _is_whole_job(events: Events, ranks: Ranks, dumped: Ranks) -> bool:
    """True when the ranks that were seen are the whole job, up to a few silent ones.

    Their number must be one that nodes hold (a multiple of 8, or 2, 4, 6), with the last rank and nearly all others seen. One
    silent rank leaves a hole; a collector that lost files leaves many. A store that waited for its clients says that ranks are
    missing. Ranks 0-4, 6 and 7 were seen: the job has 8 ranks, and rank 5 is silent.
    """
    clients_missing = any(e.operation == "clients-missing" for e in events.of_kind(StoreError))
    if clients_missing or len(ranks) < 2:
        return False
    size = max(ranks) + 1
    holes = size - len(ranks)
    is_usual = size % 8 == 0 or size in (2, 4, 6)
    has_last = size - 1 in dumped or any(e.rank == size - 1 for e in events)
    has_records = bool(events) or (len(dumped) + holes == size and holes > 0)
    return is_usual and has_last and holes <= max(1, size // 8) and has_records


def _version(events: Events, of: str) -> str | None:
    return next((e.version for e in events.of_kind(Version) if e.of == of), None)


def _recorded_spans(batch: Batch) -> dict[int, list[datetime]]:
    """The first and the last time of the calls in the dumps of each source, by source id."""
    spans: dict[int, list[datetime]] = {}
    for rows in batch.calls.by_dumps():
        dumps = batch.calls.dump[rows]
        starts = np.flatnonzero(np.diff(dumps, prepend=-1))
        stamps = np.stack([batch.calls.created_ns[rows], batch.calls.completed_ns[rows]])
        last = np.maximum.reduceat(stamps.max(axis=0), starts)
        first = np.minimum.reduceat(np.where(stamps > 0, stamps, _NEVER).min(axis=0), starts)
        for dump, *ends in zip(dumps[starts].tolist(), first.tolist(), last.tolist(), strict=True):
            if ends[1] > 0:
                moments = [datetime.fromtimestamp(at // 10**9, UTC) for at in ends]
                spans.setdefault(batch.dumps[dump].source, []).extend(moments)
    return spans


def _reading(parsed: Parsed, recorded: list[datetime]) -> Reading:
    """How a source was read, and the span of its times (without a year where no line has one)."""
    span = recorded
    if parsed.events:
        times = [*recorded, *(e.time for e in parsed.events if e.time is not None)]
        dated = [t for t in times if t.year != YEARLESS]
        aware = [t for t in dated if t.tzinfo is not None]
        span = aware if dated and len(aware) == len(dated) else [t.replace(tzinfo=None) for t in dated or times]
    return Reading(
        source=parsed.source.id,
        lines=parsed.lines,
        candidates=parsed.candidates,
        understood=parsed.understood,
        first_unknown=parsed.first_unknown,
        first_unknown_at=str(parsed.first_unknown_at or ""),
        first_time=_moment(min(span)) if span else None,
        last_time=_moment(max(span)) if span else None,
        unexplained=parsed.unexplained if parsed.source.kind is SourceKind.LOG else (),
    )


def _moment(time: datetime) -> str:
    return time.isoformat() if time.year != YEARLESS else time.isoformat()[5:]
