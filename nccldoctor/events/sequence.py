"""Holds events in input order, and finds those of a kind without a look at the others."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from itertools import chain
from typing import TypeVar, overload

from nccldoctor.events.base import Event

_FEW = 64
"""Events that are looked at one by one in less time than an index of them takes."""

_A = TypeVar("_A", bound=Event)
_B = TypeVar("_B", bound=Event)
_C = TypeVar("_C", bound=Event)


class Events(tuple[Event, ...]):
    """Events in input order. Dozens of questions concern one kind of them, and there may be millions: they are indexed once."""

    @overload
    def of_kind(self, kind: type[_A], /) -> tuple[_A, ...]: ...
    @overload
    def of_kind(self, first: type[_A], second: type[_B], /) -> tuple[_A | _B, ...]: ...
    @overload
    def of_kind(self, first: type[_A], second: type[_B], third: type[_C], /) -> tuple[_A | _B | _C, ...]: ...
    @overload
    def of_kind(self, *kinds: type[Event]) -> tuple[Event, ...]: ...
    def of_kind(self, *kinds: type[Event]) -> tuple[Event, ...]:
        """All events of these kinds, in input order."""
        if len(self) < _FEW:
            return tuple([event for event in self if isinstance(event, kinds)])
        found = self._asked.get(kinds)
        if found is None:
            found = self._asked[kinds] = tuple(map(self.__getitem__, self.places_of(*kinds)))
        return found

    def places_of(self, *kinds: type[Event]) -> Iterable[int]:
        """The indices of all events of these kinds, in ascending order."""
        if len(self) < _FEW:
            return [place for place, event in enumerate(self) if isinstance(event, kinds)]
        places = [places for kind, places in self._index.items() if issubclass(kind, kinds)]
        return places[0] if len(places) == 1 else sorted(chain.from_iterable(places))

    @cached_property
    def _index(self) -> dict[type[Event], list[int]]:
        places: dict[type[Event], list[int]] = {}
        for place, event in enumerate(self):
            places.setdefault(type(event), []).append(place)
        return places

    @cached_property
    def _asked(self) -> dict[tuple[type[Event], ...], tuple[Event, ...]]:
        return {}
