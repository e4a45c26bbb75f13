"""A set of global ranks that reads and prints as ``0-3,7``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from nccldoctor.model.errors import NccldoctorError

T = TypeVar("T")


class Ranks(frozenset[int]):
    """An immutable set of global ranks.

    ``str(Ranks([0, 1, 2, 7]))`` is ``"0-2,7"``; the empty set is ``""``. Iteration is in
    ascending order, so that nothing built from it depends on hash order.
    """

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Ranks:
        """Read ``"0-3,7"``. Raises :class:`NccldoctorError` where the text is no rank set."""
        out: list[int] = []
        try:
            for part in filter(None, (p.strip() for p in text.split(","))):
                low, dash, high = part.partition("-")
                out.extend(range(int(low), int(high if dash else low) + 1))
        except ValueError:
            raise NccldoctorError(f"not a rank set: {text!r}", hint="write ranks like 0-3,7") from None
        return cls(out)

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(frozenset.__iter__(self)))

    def __str__(self) -> str:
        return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in self.spans())

    def __repr__(self) -> str:
        return f"Ranks({str(self)!r})"

    def spans(self) -> list[tuple[int, int]]:
        """Runs of consecutive ranks as (first, last) pairs, ascending."""
        return spans_of(self)

    def __or__(self, other: Iterable[int]) -> Ranks:  # type: ignore[override]  # narrower on purpose
        return Ranks(frozenset(self).union(other))

    def __and__(self, other: Iterable[int]) -> Ranks:  # type: ignore[override]
        return Ranks(frozenset(self).intersection(other))

    def __sub__(self, other: Iterable[int]) -> Ranks:  # type: ignore[override]
        return Ranks(frozenset(self).difference(other))


def ranks_by(pairs: Iterable[tuple[T, int]]) -> dict[T, Ranks]:
    """The ranks that share each value, from pairs of value and rank."""
    found: dict[T, set[int]] = {}
    for value, rank in pairs:
        found.setdefault(value, set()).add(rank)
    return {value: Ranks(ranks) for value, ranks in found.items()}


def spans_of(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Runs of consecutive numbers as (first, last) pairs, in the order given."""
    out: list[tuple[int, int]] = []
    for number in numbers:
        if out and number == out[-1][1] + 1:
            out[-1] = (out[-1][0], number)
        else:
            out.append((number, number))
    return out
