"""Says which hosts and devices are at fault more often than chance would have it.

The null hypothesis: in each incident the ranks at fault stand on hosts drawn from those of the job, each host alike. A host that took part
in ten incidents of 64 hosts with one at fault each is then expected at fault 10/64 times, and how often it is has a Poisson binomial
distribution. Its p-value is the chance of at least as many as were seen. All hosts that took part are tested, so each p-value
is multiplied by their number (Bonferroni, Holm's steps): the chance to accuse any innocent host is at most :data:`LEVEL`.

Devices are tested on their host: given that a host was at fault, each of its devices is as likely.
Lines of the program are counted, not tested: no report says how often a line ran without a fault.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

LEVEL = 0.05
"""The chance that anything innocent is named, over everything that is tested."""


class Trial(Struct, frozen=True):
    """One incident: the places at fault, among those that could have been."""

    at_fault: frozenset[str]
    took_part: frozenset[str]


class Recurrence(Struct, frozen=True):
    """How often a place was at fault, and how often chance would have it.

    It took part in ``took_part`` incidents. ``chance`` is the probability of so many or more among all places tested, at most 1.
    ``always`` names what was at fault every time and explains it as well: the rank, where the host always held the same one.
    """

    name: str
    at_fault: int
    took_part: int
    expected: float
    chance: float
    always: str = ""

    @property
    def is_beyond_chance(self) -> bool:
        """Whether it is named, at :data:`LEVEL`: where something else explains it as well, it is not."""
        return self.chance <= LEVEL and not self.always


def recurrences(trials: Iterable[Trial]) -> tuple[Recurrence, ...]:
    """All places that were at fault, the most unlikely first."""
    odds: dict[str, list[float]] = defaultdict(list)
    seen: Counter[str] = Counter()
    for trial in trials:
        places = trial.took_part | trial.at_fault
        for place in places:
            odds[place].append(len(trial.at_fault) / len(places))
        seen.update(trial.at_fault)
    raw = {place: at_least(seen[place], odds[place]) for place in seen}
    adjusted = _holm(raw, len(odds))
    return tuple(
        Recurrence(place, seen[place], len(odds[place]), sum(odds[place]), adjusted[place])
        for place in sorted(seen, key=lambda place: (adjusted[place], -seen[place], place))
    )


def at_least(count: int, odds: Sequence[float]) -> float:
    """The chance of at least ``count`` successes in independent trials with these odds."""
    if count == 0:
        return 1.0
    below = [1.0, *(0.0 for _ in range(count - 1))]
    for p in odds:
        for k in range(count - 1, 0, -1):
            below[k] = below[k] * (1 - p) + below[k - 1] * p
        below[0] *= 1 - p
    return max(0.0, 1.0 - math.fsum(below))


def _holm(raw: Mapping[str, float], tested: int) -> dict[str, float]:
    """P-values adjusted for so many tests; those not in ``raw`` are 1."""
    out, least = {}, 0.0
    for number, place in enumerate(sorted(raw, key=lambda place: (raw[place], place))):
        least = max(least, min(1.0, raw[place] * (tested - number)))
        out[place] = least
    return out
