"""Compares what training scripts count in their own lines: steps, bars, ends of epochs.

Two ranks are compared only where they print lines of one wording at one cadence. Example: rank 0 shows a bar at step 17, all
others print every 10th step and stand at 10: nobody is ahead.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from msgspec import Struct

from nccldoctor.align.liveness import RankActivity
from nccldoctor.events import Heartbeat, Phase, Progress
from nccldoctor.parsers.event_details import wording_of

REGULAR = 0.75
"""Share of differences between successive counters that are equal where a rank counts at a cadence."""

ENDS = ("epoch-end", "finished")
"""Phases that say that a loop is over."""


class StepCount(Struct, frozen=True):
    """What one rank counts in lines of one wording.

    ``newest`` is its last line and ``cadence`` the usual difference between two (0: one line only).
    """

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
    """The usual difference between successive counters; 0 where there is none yet, None where they differ.

    A counter that starts anew with an epoch counts as no difference.
    """
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
