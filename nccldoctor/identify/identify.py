"""Turns what was read into a Case with global ranks, hosts, process groups and one clock."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np

from nccldoctor.events import (
    BlockingWaitTimeout,
    CollectiveTimeout,
    Event,
    MonitoredBarrier,
    RasStatus,
    Setting,
    StoreError,
    Version,
    WorkStatus,
)
from nccldoctor.identify import clock_skew
from nccldoctor.identify.attribution import Attributed, attribute
from nccldoctor.identify.case import Case, Reading
from nccldoctor.identify.clocks import YEARLESS, event_seconds
from nccldoctor.identify.group_members import callers_by_group, known_world_size, world_size_from_groups
from nccldoctor.identify.groups import build_groups, with_communicators
from nccldoctor.identify.nccl_counters import NcclCounters, counters_from_dumps, counters_from_lines
from nccldoctor.identify.nccl_counters_ras import counters_from_ras
from nccldoctor.identify.processes import ProcessTable
from nccldoctor.ingest.ingest import Ingested
from nccldoctor.model import Gap
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.recorded_calls import Batch
from nccldoctor.parsers.base import Parsed


def identify(read: Ingested) -> Case:
    """Everything that was read, with each rank, group and clock sorted out. Nothing is judged here."""
    attributed = attribute(read.parsed, read.batch.dumps)
    settings = _sizes(attributed.events)
    size = known_world_size(read.batch, attributed.events, settings)
    if size is None:
        size = world_size_from_groups(callers_by_group(read.batch, attributed.dump_rank))
    ranks = _ranks_seen(attributed.events, attributed.dump_rank, attributed.processes, read.batch)
    if size is not None and ranks and max(ranks) >= size:
        size = None
    known = size is not None or _launched_whole(
        attributed.events, ranks, Ranks(r for r in attributed.dump_rank if r is not None)
    )
    world = Ranks(range(size if size is not None else max(ranks, default=-1) + 1))
    learned = "world" if size is not None else "listed" if known and _listed(attributed.events, world) else "assumed"
    groups, call_group = build_groups(read.batch, attributed.dump_rank, attributed.events, world, learned)
    counted = _launches(read.batch, attributed, len(world) if known else None)
    if not _numbered(read.batch, attributed.events):
        groups, counted = with_communicators(groups, counted)
    rank_of_dump = np.array([-1 if r is None else r for r in attributed.dump_rank], dtype=np.int32)
    calls = read.batch.calls
    call_rank = rank_of_dump[calls.dump] if len(calls) else np.empty(0, dtype=np.int32)
    skews = clock_skew.find_skews(read.batch, call_rank, call_group, attributed.processes.host)
    times = event_seconds(attributed.events, read.batch, attributed.dump_rank)
    recorded = _recorded(read.batch)
    return Case(
        sources=attributed.sources,
        readings=tuple(_reading(p, recorded.get(p.source.id, [])) for p in read.parsed),
        events=attributed.events,
        batch=clock_skew.correct_times(read.batch, call_rank, skews),
        dump_rank=attributed.dump_rank,
        call_rank=call_rank,
        call_group=call_group,
        naming=groups,
        world_size=len(world) if known else None,
        seconds=times - clock_skew.clock_offsets(attributed.events, skews) if skews else times,
        gaps=(
            *read.gaps,
            *attributed.gaps,
            *_dump_gaps(read.batch, attributed.dump_rank),
            *clock_skew.skew_gaps(skews),
        ),
        skews=skews,
        nccl_counters=counted,
        rank_host=attributed.processes.host,
        rank_pid=attributed.processes.pid,
        rank_device=attributed.processes.device,
        torch=_version(attributed.events, "torch"),
        nccl=_version(attributed.events, "nccl") or next((d.library for d in read.batch.dumps if d.library), None),
    )


def _launches(batch: Batch, attributed: Attributed, world: int | None) -> tuple[NcclCounters, ...]:
    """What NCCL's own observers counted, the finest counts first."""
    reports = [e for e in attributed.events if isinstance(e, RasStatus)]
    return (
        *counters_from_dumps(zip(attributed.dump_rank, batch.dumps, strict=True)),
        *counters_from_lines(attributed.events),
        *counters_from_ras(reports, attributed.processes.rank_of, world),
    )


def _numbered(batch: Batch, events: Sequence[Event]) -> bool:
    """Whether PyTorch's own numbers tell where the ranks stand: NCCL's own observers then are witnesses, not the record."""
    lines = (BlockingWaitTimeout, CollectiveTimeout, WorkStatus)
    return any(d.entries or d.status for d in batch.dumps) or any(isinstance(e, lines) for e in events)


def _sizes(events: Sequence[Event]) -> dict[str, int]:
    return {
        e.name: int(e.value) for e in events if isinstance(e, Setting) and e.name == "WORLD_SIZE" and e.value.isdigit()
    }


def _ranks_seen(
    events: Sequence[Event], dump_rank: Sequence[int | None], processes: ProcessTable, batch: Batch
) -> Ranks:
    """Every rank that a dump, a line, a launcher or a group names."""
    seen = {r for r in dump_rank if r is not None} | set(processes.host)
    seen |= {e.rank for e in events if e.rank is not None}
    seen.update(r for e in events if isinstance(e, MonitoredBarrier) for r in e.missing)
    for ranks in {id(c.ranks): c.ranks for d in batch.dumps for c in d.config}.values():
        seen.update(ranks)
    return Ranks(r for r in seen if 0 <= r < 10_000_000)


def _launched_whole(events: Sequence[Event], ranks: Ranks, dumped: Ranks) -> bool:
    """Whether the ranks heard of are the whole job: a number of ranks that nodes hold, nearly all of them seen, the last one too.

    A store that counted its clients says that some are missing. One silent rank leaves a hole; a collector that lost files leaves many.
    """
    joined = [e for e in events if isinstance(e, StoreError) and e.operation == "clients-missing"]
    if joined or len(ranks) < 2:
        return False
    size = max(ranks) + 1
    holes = size - len(ranks)
    whole = size % 8 == 0 or size in (2, 4, 6)
    seen_last = size - 1 in dumped or any(e.rank == size - 1 for e in events)
    return (
        whole
        and seen_last
        and (holes == 0 or holes <= max(1, size // 8))
        and (bool(events) or (len(dumped) + holes == size and holes > 0))
    )


def _listed(events: Sequence[Event], world: Ranks) -> bool:
    """Whether lines of the ranks, or of their launchers, name every rank of a world that nothing else counts."""
    return frozenset(world) <= {e.rank for e in events}


def _version(events: Sequence[Event], of: str) -> str | None:
    return next((e.version for e in events if isinstance(e, Version) and e.of == of), None)


def _dump_gaps(batch: Batch, dump_rank: Sequence[int | None]) -> list[Gap]:
    out = []
    for dump, rank in zip(batch.dumps, dump_rank, strict=True):
        ranks = Ranks([rank] if rank is not None else [])
        if dump.problem:
            lost = dump.problem.startswith(("truncated", "refused", "unreadable"))
            out.append(Gap(dump.path, dump.problem, ranks, dump.source, lost))
        elif dump.wrapped:
            out.append(
                Gap(f"{dump.path}: older calls", "the ring buffer was full and dropped them", ranks, dump.source)
            )
    return out


def _recorded(batch: Batch) -> dict[int, list[datetime]]:
    """The first and the last moment that the dumps of each source hold."""
    out: dict[int, list[datetime]] = {}
    for dump, rows in batch.calls.by_dump():
        stamps = np.concatenate([batch.calls.created_ns[rows], batch.calls.completed_ns[rows]])
        stamps = stamps[stamps > 0]
        if len(stamps):
            ends = [datetime.fromtimestamp(int(at) // 10**9, UTC) for at in (stamps.min(), stamps.max())]
            out.setdefault(batch.dumps[dump].source, []).extend(ends)
    return out


def _reading(parsed: Parsed, recorded: list[datetime]) -> Reading:
    """The span is that of the lines with a date; where no line has a year, it is told without one."""
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
    )


def _moment(time: datetime) -> str:
    return time.isoformat() if time.year != YEARLESS else time.isoformat()[5:]
