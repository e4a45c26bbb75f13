"""Puts into sentences what changes while a job is watched; each thing is told once, and again when it doubled."""

from __future__ import annotations

import math
from collections.abc import Iterator

from msgspec import Struct

from nccldoctor.live.fronts import Movement
from nccldoctor.live.watch import COLLECTIVE, GROWTH, Observation, State, Wishes
from nccldoctor.model import CauseClass
from nccldoctor.model.ranks import Ranks
from nccldoctor.words.names import ranks_phrase, verb
from nccldoctor.words.times import duration

MOST_BEHIND = 4
"""Ranks that are named one by one; of more, the number is told."""


class Remarks(Struct):
    """What was said so far."""

    wishes: Wishes
    _behind: dict[int, float] = {}
    _quiet: float = 0.0
    _headline: str = ""

    def about(self, seen: Observation) -> list[str]:
        """The sentences that are new at this look."""
        return [*self._about_ranks(seen), *self._about_pause(seen), *self._about_verdict(seen)]

    def _about_ranks(self, seen: Observation) -> Iterator[str]:
        late = {delay.rank: delay for delay in seen.pace.behind if delay.seconds >= self.wishes.behind}
        caught_up = Ranks(rank for rank in self._behind if rank not in late)
        if caught_up:
            yield f"{ranks_phrase(caught_up).capitalize()} caught up."
        told = [delay for delay in late.values() if delay.seconds >= 2 * self._behind.get(delay.rank, 0.0)]
        for delay in told[:MOST_BEHIND]:
            yield (
                f"Rank {delay.rank} is {duration(1000 * delay.seconds)} behind its peers: its last step is {delay.step}, "
                f"most ranks are at {delay.peers_step}."
            )
        if len(told) > MOST_BEHIND:
            more = Ranks(delay.rank for delay in told[MOST_BEHIND:])
            yield f"{ranks_phrase(more).capitalize()} {verb(more, 'is', 'are')} behind too."
        kept = {rank: self._behind[rank] for rank in late if rank in self._behind}
        self._behind = kept | {delay.rank: delay.seconds for delay in told}

    def _about_pause(self, seen: Observation) -> Iterator[str]:
        quiet, longest = seen.pace.quiet, seen.pace.longest
        if math.isnan(quiet) or quiet < self.wishes.behind or quiet <= (0.0 if math.isnan(longest) else longest):
            self._quiet = 0.0
        elif quiet >= 2 * self._quiet:
            self._quiet = quiet
            usual = "" if math.isnan(longest) else f" The longest pause before that was {duration(1000 * longest)}."
            yield f"{_pause_sentence(seen)}{usual}"

    def _about_verdict(self, seen: Observation) -> Iterator[str]:
        verdict = seen.incident.verdict
        headline = f"{verdict.headline} [{verdict.cause}, confidence {verdict.confidence}]"
        if verdict.cause in (CauseClass.NONE, CauseClass.UNDETERMINED):
            headline = f"Watching {ranks_phrase(seen.incident.case.world)}."
        if headline != self._headline:
            self._headline = headline
            yield headline


def stuck_sentence(seen: Observation) -> str:
    """Why a job counts as stuck where the analysis names no cause."""
    return f"The job counts as stuck. {_pause_sentence(seen)}"


def _pause_sentence(seen: Observation) -> str:
    what = _PAUSES.get(seen.pace.of, "No rank has reported a step")
    return f"{what} for {duration(1000 * seen.pace.quiet)}."


_PAUSES = {COLLECTIVE: "No rank has launched a collective", GROWTH: "No file has grown"}
"""What stands still, by what a pace counts."""


RELIEF = {State.RUNNING: "The job moves again.", State.ENDED: "The job ended well after all."}
"""How an alarm ends, by the state of the job then."""


class MovementRemarks(Struct):
    """What was said of movement so far: since when the same ranks move, and when that was told."""

    _last: Movement | None = None
    _since: float = 0.0
    _told: float = 0.0

    def about(self, movement: Movement, before: float, now: float) -> list[str]:
        """The sentences for what moved between two rounds; where nothing changed, only when the time doubled."""
        if movement != self._last:
            self._last, self._since, self._told = movement, before, before
        elif now - self._since < 2 * (self._told - self._since):
            return []
        self._told = now
        after = duration(1000 * (now - self._since))
        rows = (
            (movement.onward, f"moved on within {after}"),
            (movement.stirred, "did no step, but {} stack changed"),
            (movement.still, f"didn't move for {after}"),
            (movement.gone, "didn't answer this time"),
        )
        return [
            f"{ranks_phrase(ranks).capitalize()} {text.format(verb(ranks, 'its', 'their'))}."
            for ranks, text in rows
            if ranks
        ]
