"""Measures how late each rank issued each of the last recorded calls before the stall.

A rank is late by the time since the first rank of its group issued the same call, as the recorder has it. Those are wall
clocks of different hosts. Calls that complete together on all members show clocks that differ, which are corrected.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from nccldoctor.align.facts import Facts
from nccldoctor.model import Finding, Group
from nccldoctor.model.figures import NEVER, UNKNOWN, Lateness, RankLateness, level
from nccldoctor.model.operations import op_type
from nccldoctor.model.ranks import Ranks

CALLS = 24
"""Calls shown, up to the stalled one."""

ROWS = 24
"""Ranks shown one by one."""

CLOCK_NOISE = 250.0
"""Milliseconds below which a difference of clocks may be the watchdog's own rhythm: it looks for completed calls every
100 ms (``kWatchdogThreadSleepMillis``, pytorch ``ProcessGroupNCCL.cpp``)."""

Floats = npt.NDArray[np.float64]


class _Window(Struct, frozen=True):
    """Times in milliseconds by (rank, call), NaN where there is none; ``group`` codes the group of each rank."""

    ranks: npt.NDArray[np.int64]
    group: npt.NDArray[np.int64]
    seqs: npt.NDArray[np.int64]
    created: Floats
    completed: Floats
    newest: npt.NDArray[np.int64]
    ops: tuple[str, ...]


def lateness(facts: Facts, findings: tuple[Finding, ...]) -> Lateness | None:
    """Returns the lateness of ranks in the calls up to the verdict's stalled one.

    Where nothing is stalled, it is of the calls up to the straggler's last. None where no such call, or no time of it, was recorded.
    """
    stalled = findings[0].stalled
    if stalled is None:
        last = _last_of_straggler(facts, findings[0])
    elif stalled.seq is None:
        return None
    elif stalled.kind == "p2p":
        # the group in which both ends of a transfer issue most collectives, and the last one that every member issued
        counts: list[tuple[int, int]] = []
        for group in facts.case.groups:
            fronts = [f for r in group.members if (f := facts.progress.by_group_rank.get((group.index, r))) is not None]
            if findings[0].members <= group.members and fronts:
                counts.append((min(front.enqueued for front in fronts), -group.index))
        most, index = max(counts, default=(0, 0))
        last = (-index, most) if most > 1 else None
    else:
        last = next(((g.index, stalled.seq) for g in facts.case.groups if g.label == stalled.group), None)
    window = _window(facts, *last) if last is not None else None
    if last is None or window is None:
        return None
    shift = _corrections(facts, window)
    late = _lateness(window, window.created - shift[:, None])
    return _report(facts, findings, facts.case.groups[last[0]], window, late, shift)


def _last_of_straggler(facts: Facts, finding: Finding) -> tuple[int, int] | None:
    """The group in which the rank at fault is late, and the last call that it issued there."""
    late = [facts.lateness.late[rank] for rank in finding.ranks if rank in facts.lateness.late]
    worst = max(late, key=lambda one: one.share, default=None)
    front = facts.progress.by_group_rank.get((worst.group, worst.rank)) if worst is not None else None
    return (worst.group, front.enqueued) if worst is not None and front is not None else None


def _window(facts: Facts, group: int, seq: int) -> _Window | None:
    """Times of the last calls up to ``seq`` of the group and of its sisters."""
    case, calls = facts.case, facts.case.calls
    group_of = {rank: sister for sister in _sisters(case.groups, group) for rank in case.groups[sister].members}
    lookup = np.zeros(len(case.groups) + 1, dtype=bool)
    lookup[list({*group_of.values(), group})] = True
    is_timed = facts.progress.collective & lookup[case.call_group] & (calls.seq <= seq) & (calls.created_ns > 0)
    rows = np.flatnonzero(is_timed)
    seqs = np.unique(calls.seq[rows[case.call_group[rows] == group]])[-CALLS:]
    if len(seqs) < 2:
        return None
    ranks = np.array(sorted(group_of), dtype=np.int64)
    rows = rows[np.isin(calls.seq[rows], seqs)]
    rows = rows[np.isin(case.call_rank[rows], ranks)]
    at, column = np.searchsorted(ranks, case.call_rank[rows]), np.searchsorted(seqs, calls.seq[rows])
    base = int(calls.created_ns[rows].min())
    created, completed = np.full((2, len(ranks), len(seqs)), np.nan)
    created[at, column] = (calls.created_ns[rows] - base) / 1e6
    done = calls.completed_ns[rows] > 0
    completed[at[done], column[done]] = (calls.completed_ns[rows][done] - base) / 1e6
    progress = [facts.progress.by_group_rank.get((group_of[r], r)) for r in ranks.tolist()]
    names = dict(zip(column.tolist(), calls.op[rows].tolist(), strict=True))
    return _Window(
        ranks=ranks,
        group=np.array([group_of[r] for r in ranks.tolist()], dtype=np.int64),
        seqs=seqs,
        created=created,
        completed=completed,
        newest=np.array([p.enqueued if p is not None else 1 << 60 for p in progress], dtype=np.int64),
        ops=tuple(op_type(case.vocabulary.ops[names[c]]) if c in names else "" for c in range(len(seqs))),
    )


def _sisters(groups: Sequence[Group], group: int) -> list[int]:
    """The group and its sisters: groups of the same description and size issue the same calls under the same numbers."""
    own = groups[group]
    if own.desc in ("", "undefined"):
        return [group]
    return [g.index for g in groups if g.desc == own.desc and len(g.members) == len(own.members)]


def _corrections(facts: Facts, window: _Window) -> Floats:
    """Milliseconds by which each rank's clock is ahead of common completions; one value for all ranks of a host."""
    ahead = np.full(len(window.ranks), np.nan)
    for group in np.unique(window.group).tolist():
        members = np.flatnonzero(window.group == group)
        done = window.completed[members]
        both = done[:, np.isfinite(done).sum(axis=0) >= 2]
        if both.shape[1]:
            apart = both - np.nanmedian(both, axis=0)
            enough = np.isfinite(apart).sum(axis=1) >= 3  # the completions that a correction needs
            ahead[members[enough]] = np.nanmedian(apart[enough], axis=1)
    hosts: dict[str, list[int]] = {}
    for at, rank in enumerate(window.ranks.tolist()):
        hosts.setdefault(facts.case.rank_host.get(rank, f"={rank}"), []).append(at)
    out = np.zeros(len(window.ranks))
    for places in hosts.values():
        values = ahead[places][np.isfinite(ahead[places])]
        if len(values) and abs(np.median(values)) >= CLOCK_NOISE:
            out[places] = np.median(values)
    return out


def _lateness(window: _Window, created: Floats) -> Floats:
    """Milliseconds behind the first rank of its own group, :data:`NEVER` or :data:`UNKNOWN`."""
    late = np.full(created.shape, UNKNOWN)
    for group in np.unique(window.group).tolist():
        members = np.flatnonzero(window.group == group)
        part = created[members]
        some = np.isfinite(part).any(axis=0)
        first = np.full(part.shape[1], np.nan)
        first[some] = np.nanmin(part[:, some], axis=0)
        behind = part - first
        late[members] = np.where(np.isfinite(behind), np.maximum(behind, 0.0), UNKNOWN)
        beyond: npt.NDArray[np.bool_] = np.greater(window.seqs[None, :], window.newest[members][:, None]) & some
        absent: npt.NDArray[np.bool_] = ~np.isfinite(part) & beyond
        late[members] = np.where(absent, NEVER, late[members])
    return late


def _report(
    facts: Facts, findings: tuple[Finding, ...], group: Group, window: _Window, late: Floats, shift: Floats
) -> Lateness:
    shown = _ranks_shown(findings, window, late)
    last = _times_last(window, late)
    place = {rank: at for at, rank in enumerate(window.ranks.tolist())}
    before = [
        next((s.seconds * 1e3 for s in facts.case.skews if r in s.ranks and not s.of_lines), 0.0)
        for r in window.ranks.tolist()
    ]
    corrected = float(np.max(np.abs(shift + np.array(before)))) if len(shift) else 0.0
    if corrected:
        why = "clocks of different hosts aligned on calls that completed together"
    elif np.isfinite(window.completed).any():
        why = "clocks agree on calls that completed together, no correction was needed"
    else:
        why = "clocks as recorded: no completion was recorded that would align them"
    return Lateness(
        group=group.label,
        seqs=tuple(window.seqs.tolist()),
        ops=window.ops,
        rows=tuple(
            RankLateness(rank, tuple(round(v, 1) for v in late[place[rank]].tolist()), int(last[place[rank]]))
            for rank in shown
        ),
        ranks=Ranks(window.ranks.tolist()),
        levels=bytes(level(v) for v in late.ravel().tolist()),
        correction_ms=round(corrected, 1),
        corrected=why,
    )


def _times_last(window: _Window, late: Floats) -> npt.NDArray[np.int64]:
    """Counts the calls in which each rank was measurably the last of its group, or never came."""
    out = np.zeros(len(window.ranks), dtype=np.int64)
    for group in np.unique(window.group).tolist():
        members = np.flatnonzero(window.group == group)
        value: Floats = np.where(late[members] == NEVER, np.inf, late[members])
        worst: Floats = value.max(axis=0)
        latest: npt.NDArray[np.bool_] = np.equal(value, worst)
        out[members] += (latest & (worst > 0) & (latest.sum(axis=0) == 1)).sum(axis=1)
    return out


def _ranks_shown(findings: tuple[Finding, ...], window: _Window, late: Floats) -> list[int]:
    """The ranks with a row: all of a small job. Else culprits, suspects, members of the stalled call and the latest ranks."""
    ranks: list[int] = window.ranks.tolist()
    if len(ranks) <= ROWS:
        return ranks
    blamed = Ranks(r for f in findings for r in (*f.ranks, *f.suspects)) & ranks
    mates = findings[0].members & ranks
    total = np.where(late > 0, late, 0.0).sum(axis=1)
    latest = [ranks[at] for at in np.argsort(-total, kind="stable").tolist() if total[at] > 0]
    order = dict.fromkeys([*list(blamed)[: ROWS // 2], *latest[: ROWS // 4], *mates])
    return sorted(list(order)[:ROWS])
