"""Compares what training scripts count in their own lines, and measures the pace of a running job by it.

Two ranks are compared only where they print lines of one wording at one cadence. Example: rank 0 shows a bar at step 17, all
others print every 10th step and stand at 10: nobody is ahead.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from msgspec import Struct

from nccldoctor.align.liveness import RankActivity
from nccldoctor.events import Event, Heartbeat, Phase, Progress
from nccldoctor.parsers.event_details import wording_of

REGULAR = 0.75
"""Share of differences between successive counters that are equal where a rank counts at a cadence."""

ENDS = ("epoch-end", "finished")
"""Phases that say that a loop is over."""


class StepCount(Struct, frozen=True):
    """What one rank counts in lines of one wording. ``cadence`` is how far two usually differ (0: one line), ``newest`` the last."""

    newest: Heartbeat | Progress
    cadence: int

    @property
    def value(self) -> tuple[int, int]:
        """Epoch and step."""
        return self.newest.epoch or 0, self.newest.step or 0


def comparable_counts(by_rank: Mapping[int, RankActivity]) -> list[dict[int, StepCount]]:
    """For each wording, the ranks that print it at the cadence of most of them."""
    by_wording: dict[str, dict[int, StepCount]] = defaultdict(dict)
    for rank, activity in sorted(by_rank.items()):
        of_wording: dict[str, list[Heartbeat | Progress]] = defaultdict(list)
        for line in activity.steps:
            of_wording[wording_of(line)].append(line)
        for wording, lines in of_wording.items():
            cadence = _cadence([line.step or 0 for line in lines])
            if cadence is not None:
                by_wording[wording][rank] = StepCount(lines[-1], cadence)
    return [_of_one_cadence(counts) for _, counts in sorted(by_wording.items())]


def _cadence(counts: Sequence[int]) -> int | None:
    """The usual difference between counters; 0 where there is none yet, None where they differ. A new epoch's start counts as none."""
    differences = Counter(b - a for a, b in itertools.pairwise(counts) if b > a)
    if not differences:
        return 0
    (usual, times), *_ = differences.most_common(1)
    return usual if times >= REGULAR * differences.total() else None


def _of_one_cadence(counts: Mapping[int, StepCount]) -> dict[int, StepCount]:
    known = Counter(count.cadence for count in counts.values() if count.cadence)
    usual = known.most_common(1)[0][0] if known else 0
    return {rank: count for rank, count in counts.items() if count.cadence in (0, usual)}


def only_rank_ahead(counts: Mapping[int, StepCount]) -> int | None:
    """The rank whose counter is beyond that of all others, which stand at one number; None without such a rank."""
    if len(counts) < 3:
        return None
    ahead = max(counts, key=lambda rank: counts[rank].value)
    others = {count.value for rank, count in counts.items() if rank != ahead}
    return ahead if len(others) == 1 and counts[ahead].value > max(others) else None


def ranks_past_loop(by_rank: Mapping[int, RankActivity]) -> dict[int, Phase]:
    """Ranks whose last phase is the end of a loop that the others have not reported, with that line.

    Who alone prints the end of each epoch shows nothing by one more such line. Example: rank 3 printed *epoch 2 finished* and all
    others only *epoch 1 finished*: rank 3 is past its loop.
    """
    last = {r: a.phases[-1] for r, a in by_rank.items() if a.phases and a.phases[-1].what in ENDS}
    past: dict[int, Phase] = {}
    for rank, phase in last.items():
        times = {r: sum(wording_of(p) == wording_of(phase) for p in a.phases) for r, a in by_rank.items() if a.logged}
        most = max(times.values(), default=0)
        behind = [count for count in times.values() if count < most]
        if behind and times.get(rank) == most and (most == 1 or min(behind) > 0):
            past[rank] = phase
    return past


Moment = Callable[[Event], float]
"""When a line was written, in seconds on one clock; NaN where that is unknown."""

_Count = tuple[int, int]
"""Epoch and step."""


class Delay(Struct, frozen=True):
    """A rank that has not reported a step which more than half of its peers reported ``seconds`` ago.

    ``step`` is the newest that it reported, ``peers_step`` that of most peers.
    """

    rank: int
    seconds: float
    step: int
    peers_step: int


class Pace(Struct, frozen=True):
    """How a job moves, in seconds: ``quiet`` since the newest step of any rank, ``usual`` and ``longest`` between two steps.

    They are NaN where fewer steps have a time. ``behind`` has the ranks that lag, the farthest first.
    ``of`` names what is counted.
    """

    quiet: float = math.nan
    usual: float = math.nan
    longest: float = math.nan
    behind: tuple[Delay, ...] = ()
    of: str = "step"


def measure_pace(by_rank: Mapping[int, RankActivity], moment: Moment, now: float) -> Pace:
    """The pace at the time ``now``, on the clock of ``moment``. Ranks that finished are behind nobody, and keep nobody waiting.

    A rank that reports every tenth step is behind its peers once it is silent for longer than it ever was between two of its own lines.
    Example: ranks 0-4, 6 and 7 reported step 121 at 12:00:05, rank 5 last reported step 120. At 12:00:45 rank 5 is 40 s behind.
    """
    working = {rank: own for rank, own in by_rank.items() if not (own.has_finished or own.exits)}
    behind: dict[int, Delay] = {}
    for reached in _by_wording(working, moment).values():
        for delay in _delays(reached, now):
            if delay.rank not in behind or behind[delay.rank].seconds < delay.seconds:
                behind[delay.rank] = delay
    times = _step_times(by_rank, moment)
    pauses = [later - earlier for earlier, later in itertools.pairwise(times)]
    return Pace(
        quiet=now - times[-1] if times and working else math.nan,
        usual=float(np.median(pauses)) if pauses else math.nan,
        longest=max(pauses, default=math.nan),
        behind=tuple(sorted(behind.values(), key=lambda delay: (-delay.seconds, delay.rank))),
    )


def _by_wording(by_rank: Mapping[int, RankActivity], moment: Moment) -> dict[str, dict[int, dict[_Count, float]]]:
    """When each rank first reported each count, in lines of each wording."""
    first: dict[str, dict[int, dict[_Count, float]]] = defaultdict(lambda: defaultdict(dict))
    for rank, own in by_rank.items():
        for line in own.steps:
            first[_line_label(line)][rank].setdefault((line.epoch or 0, line.step or 0), moment(line))
    return first


def _line_label(line: Heartbeat | Progress) -> str:
    """The wording of a line without the phase that heartbeats of capture end with."""
    return wording_of(line).partition(" phase=")[0]


def _delays(reached: Mapping[int, Mapping[_Count, float]], now: float) -> list[Delay]:
    """The ranks that more than half of their peers have passed, and when that half was full."""
    newest = {rank: max(counts) for rank, counts in reached.items()}
    found = []
    for rank, own in newest.items():
        peers = [other for other in newest if other != rank]
        passed = sorted(
            min(when for count, when in reached[peer].items() if count > own) for peer in peers if newest[peer] > own
        )
        if 2 * len(passed) <= len(peers) or any(map(math.isnan, (*passed, *reached[rank].values()))):
            continue
        own_times = sorted(reached[rank].values())
        if now - own_times[-1] <= max((b - a for a, b in itertools.pairwise(own_times)), default=0.0):
            continue
        seconds = now - passed[len(peers) // 2]
        most = sorted(newest[peer] for peer in peers)[len(peers) // 2]
        found.append(Delay(rank, max(0.0, seconds), own[1], most[1]))
    return found


def _step_times(by_rank: Mapping[int, RankActivity], moment: Moment) -> list[float]:
    """When each count was first reported by any rank, in order."""
    first: dict[tuple[str, _Count], float] = {}
    for own in by_rank.values():
        for line in own.steps:
            if not math.isnan(when := moment(line)):
                key = (_line_label(line), (line.epoch or 0, line.step or 0))
                first[key] = min(when, first.get(key, math.inf))
    return sorted(first.values())
