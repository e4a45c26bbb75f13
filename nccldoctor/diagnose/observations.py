"""What is observed about one stall: each value is computed once, when the first rule asks for it, and shared by all rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TypeVar

from nccldoctor.align.descriptions import describe, describe_missing
from nccldoctor.align.facts import Facts
from nccldoctor.align.mismatches import Mismatch
from nccldoctor.align.stalls import Stall
from nccldoctor.diagnose.citations import Citation
from nccldoctor.diagnose.signs import absence, call_order, recorded_diffs, silence, still_running
from nccldoctor.model.ranks import Ranks

_T = TypeVar("_T")


class ByRank(dict[int, _T]):
    """One observation of every rank, made when a rank is first looked up."""

    def __init__(self, observe: Callable[[int], _T]) -> None:
        super().__init__()
        self._observe = observe

    def __missing__(self, rank: int) -> _T:
        """Make the observation."""
        return self.setdefault(rank, self._observe(rank))


@dataclass(frozen=True)
class ObservedStall(Stall):
    """A stall with what the signs say about it.

    Example: ranks 0-6 wait in ALLREDUCE #18, rank 7 last enqueued #17 and was sent a SIGTERM. Then ``named`` is rank 7, ``what`` is
    *ALLREDUCE #18*, ``outside[7]`` cites its dump, ``alive[7]`` the exit by the closing signal and ``busy[7]`` says what it did.
    """

    facts: Facts = field(kw_only=True, repr=False, compare=False)

    @classmethod
    def of(cls, facts: Facts, stall: Stall) -> ObservedStall:
        """The same stall, open to observation."""
        return cls(**{f.name: getattr(stall, f.name) for f in fields(Stall)}, facts=facts)

    @cached_property
    def what(self) -> str:
        """The stalled call in words: ``ALLREDUCE #18 of dp``."""
        return describe(self.facts, self.call)

    @cached_property
    def owed(self) -> str:
        """What the absent ranks did not issue, in words: the call, or the other end of a transfer."""
        return describe_missing(self.facts, self.call)

    @cached_property
    def named(self) -> Ranks:
        """The ranks that may be named as absent: proven, or the only ones that are left."""
        return absence.nameable(self.facts, self)

    @cached_property
    def is_accounted(self) -> bool:
        """True when every member of the call is known to be inside or outside."""
        return absence.accounted(self.facts, self)

    @cached_property
    def outside(self) -> ByRank[list[Citation]]:
        """What shows each rank outside the call."""
        return ByRank(lambda rank: absence.shown_outside(self.facts, self.call, rank))

    @cached_property
    def alive(self) -> ByRank[list[Citation]]:
        """What shows each rank alive after the stall began; empty where nothing does."""
        return ByRank(lambda rank: absence.lives(self.facts, rank))

    @cached_property
    def busy(self) -> ByRank[tuple[str, list[Citation]]]:
        """What each rank does instead, in words, and what shows it; "" where nothing does."""
        return ByRank(lambda rank: absence.busy_with(self.facts, rank))

    @cached_property
    def holdouts(self) -> silence.Unheard | None:
        """The few ranks that did not give up where all others did."""
        return silence.unheard(self.facts, self)

    @cached_property
    def broke_first(self) -> bool:
        """True when a connection broke before anybody had waited until the limit."""
        return silence.broke_first(self.facts)

    @cached_property
    def is_scattered(self) -> bool:
        """True when waiting ends in several unrelated places and nobody complains, as in a running job."""
        return still_running.scattered(self.facts)

    @cached_property
    def mismatch(self) -> Mismatch | None:
        """The first sequence number up to the stalled one under which recorded calls differ."""
        return recorded_diffs.disagreement(self.facts, self)

    @cached_property
    def order_breaks(self) -> list[call_order.OrderBreak]:
        """Where ranks of a circle left the order of calls."""
        return call_order.blamed(self.facts, self.calls)
