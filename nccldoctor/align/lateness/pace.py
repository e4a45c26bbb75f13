"""Measures the pace of a running job by the steps that its ranks report, and who is behind.

Ranks are compared only where they print lines of one wording. One that reports every tenth step is behind its peers once it is silent
for longer than it ever was between two of its own lines.

Example: ranks 0-4, 6 and 7 reported step 121 at 12:00:05, rank 5 last reported step 120. At 12:00:45 rank 5 is 40 s behind.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Mapping

import numpy as np
from msgspec import Struct

from nccldoctor.align.liveness import RankActivity
from nccldoctor.events import Event, Heartbeat, Progress
from nccldoctor.parsers.event_details import wording_of

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
    """The pace at the time ``now``, on the clock of ``moment``. Ranks that finished are behind nobody, and keep nobody waiting."""
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
