"""The desync report that a watchdog prints with TORCH_NCCL_DESYNC_DEBUG=1; ranks in it are those of the group."""

from __future__ import annotations

from collections import defaultdict

from simulator.discrete_events import Sim
from simulator.program import OPS
from simulator.state import Work

State = tuple[int, str, str]  # number, started or finished, operation


def latest(sim: Sim, work: Work, at: float) -> dict[int, State]:
    """The last event of every member of the group that reached the store before that moment."""
    out: dict[int, State] = {}
    for place, rank in enumerate(work.call.group.members):
        host = sim.hosts[rank]
        limit = min(at, host.since) if host.how in ("stopped", "ended") else at
        for other in host.works:
            if other.call.group is not work.call.group or other.call.pieces:
                continue
            if other.start <= limit:
                out[place] = (other.coll_seq, "started", OPS[other.call.op][0])
            if other.end <= limit:
                out[place] = (other.coll_seq, "finished", OPS[other.call.op][0])
    return out


def report(sim: Sim, work: Work, at: float) -> str:
    """The report as text: who lags behind, and the snapshot of all members."""
    states = latest(sim, work, at)
    place = work.call.group.members.index(work.rank)
    mine = states.get(place, (work.coll_seq, "started", OPS[work.call.op][0]))
    out = [f"\n\t - [{place}] Timeout at collective: {mine[2]}, #{mine[0]}"]
    missing = [k for k in range(len(work.call.group.members)) if k not in states]
    if missing:
        out.append(
            f"\n\t - To our best knowledge, ranks {missing} are the lagging ranks that caused this timeout. "
            "They never joined any collectives"
        )
    else:
        out.append("\n\t - To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:")
        low = min(seq for seq, _, _ in states.values())
        begun = [k for k, (seq, event, _) in states.items() if seq == low and event == "started"]
        ended = [k for k, (seq, event, _) in states.items() if seq == low and event == "finished"]
        if begun:
            out.append(f"\n\t   - {begun} joined but didn't finish collective #{low} (count from 1)")
        if ended:
            out.append(
                f"\n\t     {ended} finished collective #{low}, but didn't join collective #{low + 1} (count from 1)"
            )
    out.append("\n\t - Snapshot of ranks' latest states:")
    rows: dict[tuple[int, str], dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for k, (seq, event, op) in sorted(states.items()):
        rows[seq, event][op].append(k)
    for (seq, event), ops in sorted(rows.items(), key=lambda row: (row[0][0], row[0][1] == "finished")):
        out.append(f"\n\t   #{seq} {event} ranks:")
        out += [f"\n\t     {ranks} {event} {op}" for op, ranks in sorted(ops.items())]
    return "".join(out)
