"""Builds a large job in memory, as if read from dumps and logs; one rank never issues a call.

Tensor ranks stand next to each other, then data, then pipeline; expert groups are neighbours in data parallel. Which
calls complete follows from a small model: a collective completes if all its members reach it, a transfer if both do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nccldoctor.events import CollectiveTimeout, DumpSignal, Event, GroupRef, WorkStatus
from nccldoctor.ingest.ingest import Ingested
from nccldoctor.model import Place, Source, SourceKind
from nccldoctor.model.recorded_calls import UNSET, Batch, Calls, DumpHead, GroupConfig, GroupStatus, Vocabulary
from nccldoctor.parsers.base import Parsed

Ints = npt.NDArray[np.int64]

TENSOR, STAGES, EXPERTS = 8, 8, 8
MICROBATCHES = 4
AHEAD = 2
"""Calls that a host issues behind the one its device waits in."""

FIRST_STEP = 1000
START_NS = 1_780_000_000_000_000_000
FORWARD = ("recv", "tp", "ep", "tp", "send")
BACKWARD = ("recv_grad", "tp", "ep", "send_grad")
STEP = (*FORWARD * MICROBATCHES, *BACKWARD * MICROBATCHES, "dp", "world")
"""The calls of one step, each at its slot; the first stage receives nothing, the last sends nothing."""

PEER = {
    "send": (1, "send {0}->{1}"),
    "recv": (-1, "recv {0}<-{1}"),
    "recv_grad": (1, "recv {0}<-{1}"),
    "send_grad": (-1, "send {0}->{1}"),
}
MATCHING = {"send": "recv", "send_grad": "recv_grad"}
KINDS = ("world", "tp", "pp", "dp", "ep")
NAMES = {"world": "default_pg", "tp": "TENSOR", "pp": "PIPELINE", "dp": "DATA", "ep": "EXPERT"}
OPS = {"tp": "all_reduce", "ep": "all_to_all", "dp": "reduce_scatter", "world": "all_reduce"}


@dataclass(frozen=True, slots=True)
class Layout:
    """The groups of each kind as a table of members, and which of them each rank is in."""

    world: int
    groups: dict[str, Ints]
    of: dict[str, Ints]

    @property
    def stage(self) -> Ints:
        """The pipeline stage of each rank."""
        return np.arange(self.world) // (self.world // STAGES)


def layout(world: int) -> Layout:
    """Tensor ranks next to each other, then data, then pipeline; expert groups are neighbours in data parallel."""
    grid = np.arange(world).reshape(STAGES, -1, TENSOR)
    experts = min(EXPERTS, grid.shape[1])
    groups = {
        "world": grid.reshape(1, -1),
        "tp": grid.reshape(-1, TENSOR),
        "pp": grid.reshape(STAGES, -1).T,
        "dp": grid.transpose(0, 2, 1).reshape(STAGES * TENSOR, -1),
        "ep": grid.transpose(0, 2, 1).reshape(-1, experts),
    }
    of = {}
    for kind, members in groups.items():
        of[kind] = np.empty(world, dtype=np.int64)
        of[kind][members] = np.arange(len(members))[:, None]
    return Layout(world, {k: np.ascontiguousarray(m) for k, m in groups.items()}, of)


def takes_part(what: str, stage: int) -> bool:
    """True when a stage issues the call at all."""
    return what not in PEER or 0 <= stage + PEER[what][0] < STAGES


def where_all_stop(jobs: Layout, culprit: int, slot: int) -> Ints:
    """The slot at which each rank's device waits, when ``culprit`` never issues its call at ``slot``."""
    stop = np.full(jobs.world, len(STEP), dtype=np.int64)
    stop[culprit] = slot
    block = jobs.world // STAGES
    before = stop + 1
    while not np.array_equal(before, stop):
        before = stop.copy()
        for at, what in enumerate(STEP):
            if what in OPS:
                members = jobs.groups[what]
                held = (stop[members] <= at).any(axis=1)
                stop[members[held]] = np.minimum(stop[members[held]], at)
            elif what in MATCHING:
                turn = STEP[:at].count(what)
                other = [i for i, name in enumerate(STEP) if name == MATCHING[what]][turn]
                ranks = np.flatnonzero([takes_part(what, s) for s in jobs.stage])
                peers = ranks + PEER[what][0] * block
                stuck = (stop[ranks] <= at) | (stop[peers] <= other)
                stop[ranks[stuck]] = np.minimum(stop[ranks[stuck]], at)
                stop[peers[stuck]] = np.minimum(stop[peers[stuck]], other)
    return stop


def calls_of(jobs: Layout, stop: Ints, culprit: int, steps: int) -> tuple[Calls, Vocabulary]:
    """The recorded calls of all ranks: whole steps, then what each issued of the last one."""
    ops = ["all_reduce", "all_to_all", "reduce_scatter"]
    ops += [PEER[w][1].format(s, s + PEER[w][0]) for w in PEER for s in range(STAGES) if takes_part(w, s)]
    index = {kind: sum(len(jobs.groups[k]) for k in KINDS[:i]) for i, kind in enumerate(KINDS)}
    names = tuple((str(index[kind] + i), NAMES[kind]) for kind in KINDS for i in range(len(jobs.groups[kind])))
    parts = [_stage(jobs, stop, culprit, steps, stage, ops, index) for stage in range(STAGES)]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    frames = tuple((("issue", f"/opt/train/{STEP[i]}.py", 10 + i),) for i in range(len(STEP)))
    words = Vocabulary(
        names, tuple(ops), ((((4096, 8192),), ((4096, 8192),)),), ((("BFloat16",), ("BFloat16",)),), ((), *frames)
    )
    return Calls.build(columns), words


def _stage(
    jobs: Layout, stop: Ints, culprit: int, steps: int, stage: int, ops: list[str], index: dict[str, int]
) -> dict[str, npt.NDArray[Any]]:
    """The columns of one stage: a table of ranks x calls, of which each rank keeps what it issued."""
    ranks = np.flatnonzero(jobs.stage == stage)
    slots = [i for i, what in enumerate(STEP) if takes_part(what, stage)]
    kinds = ["pp" if STEP[i] in PEER else STEP[i] for i in slots]
    seqs = np.array([kinds[:i].count(kind) + 1 for i, kind in enumerate(kinds)])
    per_step = np.array([kinds.count(kind) for kind in kinds])
    op = np.array([ops.index(_name(STEP[i], stage)) for i in slots])
    at, step = np.tile(np.array(slots), steps), np.repeat(np.arange(steps), len(slots))
    which = np.tile(np.arange(len(slots)), steps)
    number = (seqs + per_step * FIRST_STEP)[which] + per_step[which] * step
    place = step * len(STEP) + at
    limit = stop[ranks][:, None] + (steps - 1) * len(STEP)
    reach = np.array([_reach(slots, int(s), r == culprit) for r, s in zip(ranks, stop[ranks], strict=True)])[:, None]
    kept = place[None, :] < reach + (steps - 1) * len(STEP)
    done = np.broadcast_to(place[None, :] < limit, kept.shape)[kept]
    group = np.stack([jobs.of[kind][ranks] + index[kind] for kind in kinds], axis=1)[:, which]
    p2p = np.array([kind == "pp" for kind in kinds])[which]
    entry = np.arange(len(place))
    zero = np.zeros_like(entry)

    def wide(row: npt.NDArray[Any]) -> npt.NDArray[Any]:
        out: npt.NDArray[Any] = np.broadcast_to(row[None, :], kept.shape)[kept]
        return out

    created = START_NS + place * 20_000_000
    return {
        "dump": np.broadcast_to(ranks[:, None], kept.shape)[kept],
        "entry": wide(entry), "record_id": wide(entry + 50_000), "op_id": wide(number), "op": wide(op[which]),
        "pg_id": wide(np.array([KINDS.index(kind) for kind in kinds])[which]), "group": group[kept],
        "seq": wide(np.where(p2p, 0, number)), "p2p_seq": wide(np.where(p2p, number, 0)), "is_p2p": wide(p2p),
        "sizes": wide(zero), "dtypes": wide(zero), "numel_in": wide(zero + 4096 * 8192),
        "numel_out": wide(zero + 4096 * 8192), "state": np.where(done, 2, 0), "retired": done,
        "created_ns": wide(created), "completed_ns": np.where(done, wide(created) + 9_000_000, 0),
        "timeout_ms": wide(zero + 600_000), "stack": wide(at + 1),
    }  # fmt: skip


def _name(what: str, stage: int) -> str:
    return OPS[what] if what in OPS else PEER[what][1].format(stage, stage + PEER[what][0])


def _reach(slots: list[int], stop: int, absent: bool) -> int:
    """The first slot that a rank did not issue: its host runs ahead of its device, the culprit's stands."""
    if absent:
        return stop
    later = [s for s in slots if s > stop][:AHEAD]
    return (later[-1] if later else stop) + 1


def heads_of(jobs: Layout, calls: Calls, words: Vocabulary) -> tuple[DumpHead, ...]:
    """The head of each dump: the members of the rank's groups, and their counters."""
    configs: dict[int, GroupConfig] = {}
    code = 0
    for kind in KINDS:
        for members in jobs.groups[kind]:
            uid, desc = words.groups[code]
            configs[code] = GroupConfig(uid, desc, tuple(members.tolist()))
            code += 1
    index = {kind: sum(len(jobs.groups[k]) for k in KINDS[:i]) for i, kind in enumerate(KINDS)}
    last = np.full((jobs.world, len(KINDS)), UNSET, dtype=np.int64)
    finished = last.copy()
    np.maximum.at(last, (calls.dump, calls.pg_id), calls.seq)
    np.maximum.at(finished, (calls.dump, calls.pg_id), np.where(calls.state == 2, calls.seq, UNSET))
    counts = np.bincount(calls.dump, minlength=jobs.world).tolist()
    out = []
    for rank in range(jobs.world):
        config = tuple(configs[index[kind] + int(jobs.of[kind][rank])] for kind in KINDS)
        status = tuple(
            GroupStatus(i, int(last[rank, i]), UNSET, int(finished[rank, i]))
            for i, kind in enumerate(KINDS)
            if kind != "pp"
        )
        path = f"fr/nccl_trace_rank_{rank}"
        out.append(DumpHead(rank, path, "dict", "2.10", counts[rank], True, "nccl", "2.27.5", config, status, True))
    return tuple(out)


def lines_of(jobs: Layout, heads: tuple[DumpHead, ...], stop: Ints, culprit: int) -> list[tuple[Event, ...]]:
    """The lines of each rank: the dump signal, and for ranks inside a collective its timeout and counters."""
    return [
        _lines(jobs.world, rank, heads[rank], STEP[min(int(stop[rank]), len(STEP) - 1)], rank != culprit)
        for rank in range(jobs.world)
    ]


def _lines(world: int, rank: int, head: DumpHead, what: str, waits: bool) -> tuple[Event, ...]:
    places = [Place(world + rank, f"logs/rank_{rank}.log", line) for line in range(900, 903)]
    signal = DumpSignal(place=places[2], text="dump signal", rank=rank, group=GroupRef(0, "0", "default_pg"))
    if what in PEER or not waits:
        return (signal,)
    pg_id = KINDS.index(what)
    status = next(s for s in head.status if s.pg_id == pg_id)
    group, seq = GroupRef(pg_id, head.config[pg_id].uid, head.config[pg_id].desc), status.completed + 1
    timeout = CollectiveTimeout(
        place=places[0],
        text="timeout",
        rank=rank,
        group=group,
        op=OPS[what].upper().replace("_", ""),
        seq=seq,
        numel_in=4096 * 8192,
        numel_out=4096 * 8192,
        timeout_ms=600_000,
        ran_ms=600_000,
    )
    counters = WorkStatus(
        place=places[1],
        text="counters",
        rank=rank,
        group=group,
        failed=seq,
        last_enqueued=status.enqueued,
        last_completed=status.completed,
    )
    return timeout, counters, signal


def job(ranks: int, steps: int, lines: bool, dumps: bool = True) -> tuple[Ingested, int, int]:
    """The job as read, the culprit, and the number of the tensor-parallel call it did not issue."""
    jobs = layout(ranks)
    culprit, slot = ranks // 3, len(FORWARD) * 2 + 1
    stop = where_all_stop(jobs, culprit, slot)
    calls, words = calls_of(jobs, stop, culprit, steps)
    heads = heads_of(jobs, calls, words)
    tensor = (calls.dump == culprit) & (calls.pg_id == KINDS.index("tp"))
    seq = int(calls.seq[tensor].max()) + 1
    parsed = [Parsed(_source(rank, rank, heads[rank].path, SourceKind.RECORDER)) for rank in range(ranks) if dumps]
    for rank, events in enumerate(lines_of(jobs, heads, stop, culprit)) if lines else ():
        source = _source(ranks + rank, rank, f"logs/rank_{rank}.log", SourceKind.LOG)
        parsed.append(Parsed(source, events, lines=1000, candidates=len(events), understood=len(events)))
    return Ingested(tuple(parsed), Batch(heads, calls, words) if dumps else Batch.empty(), ()), culprit, seq


def _source(number: int, rank: int, path: str, kind: SourceKind) -> Source:
    return Source(number, path, kind, 1 << 18, rank=rank, host=f"node{rank // 8:04d}", why="rank in the name")
