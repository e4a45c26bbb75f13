"""Numbers: which sequence numbers a call gets, and the run-up before the simulated steps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from simulator.discrete_events import Sim
from simulator.program import Call, Group, Issue, Job, Program
from simulator.state import Host, Work
from simulator.steps import calls_like

PERIOD = 1.05  # seconds from one earlier step to the next


@dataclass(slots=True)
class Count:
    """The three counters of a process group in one process (2.4 and later)."""

    coll: int = 0
    p2p: int = 0
    op: int = 0

    def add(self, call: Call, times: int = 1) -> None:
        if call.pieces:
            self.p2p += times
            self.op += times * len(call.pieces)
        else:
            self.coll += times
            self.op += times


@dataclass(slots=True)
class Record:
    """A call as the recorder of its rank keeps it; times in seconds of the simulation."""

    call: Call
    group_id: int
    coll: int
    p2p: int
    op: int
    issued: float
    begun: float
    ended: float
    record: int = 0
    work: Work | None = None

    @property
    def seq(self) -> int:
        """The number a reader of a release since 2.6 sees."""
        return self.p2p if self.call.pieces else self.coll


@dataclass(slots=True)
class Counters:
    """Where every (rank, group) counter stood when the simulation began, and what one step adds."""

    base: dict[tuple[int, Group], Count] = field(default_factory=dict)
    step: dict[tuple[int, Group], Count] = field(default_factory=dict)
    records: dict[int, int] = field(default_factory=dict)


def _calls(steps: Program) -> Iterator[Call]:
    for step in steps:
        for instruction in step:
            if isinstance(instruction, Issue):
                yield instruction.call


def entries(call: Call) -> int:
    """Recorder entries one call makes: a batch has its members and the closing entry."""
    return len(call.pieces) + 1 if call.op == "coalesced" else 1


def count_before(job: Job, healthy: list[Program], first: int) -> Counters:
    """Counters before step ``first``, from the healthy programs (whose first full step is step ``first``)."""
    out = Counters()
    saves = (first - 1) // job.knobs.ckpt_every
    barrier = calls_like(job.groups[0], "barrier", 1, "Float", "checkpoint_barrier")
    for rank, program in enumerate(healthy):
        for group in job.mine(rank):
            out.base[rank, group] = Count()
            out.step[rank, group] = Count()
        regular = [c for c in _calls([program[1 if first == 1 else 0]]) if c.site != "checkpoint_barrier"]
        for call in regular:
            out.step[rank, call.group].add(call)
        out.records[rank] = 0
        if first == 1:
            continue
        for call in regular:
            out.base[rank, call.group].add(call, first - 1)
            out.records[rank] += entries(call) * (first - 1)
        out.base[rank, job.groups[0]].add(barrier, saves + 3)  # two broadcasts and a barrier before the first step
        out.records[rank] += saves + 3
    return out


def number(sim: Sim, counters: Counters) -> None:
    """Give every issued work its sequence numbers, in the order of its own host."""
    for host in sim.hosts:
        now: dict[Group, Count] = defaultdict(Count)
        for group in sim.job.mine(host.rank):
            base = counters.base[host.rank, group]
            now[group] = Count(base.coll, base.p2p, base.op)
        for work in host.works:
            count = now[work.call.group]
            count.add(work.call)
            work.coll_seq, work.p2p_seq, work.op_id = count.coll, count.p2p, count.op


def _simulated(sim: Sim, host: Host, until: float) -> list[Record]:
    ids = {group: k for k, group in enumerate(sim.job.mine(host.rank))}
    return [
        Record(w.call, ids[w.call.group], w.coll_seq, w.p2p_seq, w.op_id, w.issued, w.start, w.end, work=w)
        for w in host.works
        if w.issued <= until
    ]


def history(sim: Sim, host: Host, counters: Counters, first: int, room: int) -> list[Record]:
    """Up to ``room`` entries from before step ``first``: the first simulated step, repeated backwards in time."""
    if first == 1:
        return []
    rank, job = host.rank, sim.job
    template = [w for w in host.works if w.step == first and w.call.site != "checkpoint_barrier"]
    ids = {group: k for k, group in enumerate(job.mine(rank))}
    barrier = calls_like(job.groups[0], "barrier", 1, "Float", "checkpoint_barrier")
    counts = {g: Count(c.coll, c.p2p, c.op) for g in job.mine(rank) if (c := counters.base[rank, g])}
    late = 0.0
    out: list[Record] = []

    def back(call: Call, issued: float, took: float) -> None:
        nonlocal room
        count = counts[call.group]
        took = max(took, 1e-4)
        out.append(
            Record(call, ids[call.group], count.coll, count.p2p, count.op, issued, issued + took / 2, issued + took)
        )
        count.add(call, -1)
        room -= entries(call)

    step = first - 1
    while step >= 1 and room > 0:
        if step % job.knobs.ckpt_every == 0:
            back(barrier, -PERIOD * (first - step) - late + PERIOD * 0.95, 0.01)
            late += 6.0
        for w in reversed(template):
            if room <= 0:
                break
            shift = -PERIOD * (first - step) - late
            took = w.end - w.issued if w.end != float("inf") else 0.01
            back(w.call, w.issued + shift, min(took, PERIOD))
        step -= 1
    return out[::-1]


def _newest(records: list[Record], ring: int) -> list[Record]:
    """The newest calls whose entries fit into the ring; a batch that is cut is left out as a whole."""
    room = ring
    for at in range(len(records) - 1, -1, -1):
        room -= entries(records[at].call)
        if room < 0:
            return records[at + 1 :]
    return records


def kept(sim: Sim, host: Host, counters: Counters, first: int, until: float) -> list[Record]:
    """The recorder ring of a rank at a moment: record numbers and calls, oldest first."""
    ring = sim.job.knobs.ring
    now = _simulated(sim, host, until)
    older = history(sim, host, counters, first, max(ring - sum(entries(r.call) for r in now), 0))
    out = _newest(older + now, ring)
    older = [r for r in out if r.work is None]
    first_work = next((r.work.index for r in out if r.work is not None), 0)
    number = counters.records[host.rank] - sum(entries(r.call) for r in older)
    number += sum(entries(w.call) for w in host.works[:first_work])
    for record in out:
        record.record = number
        number += entries(record.call)
    return out
