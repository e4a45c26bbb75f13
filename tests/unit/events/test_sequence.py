"""Events in input order, found by kind."""

from __future__ import annotations

from nccldoctor.events import CallTimeout, CollectiveTimeout, Events, Heartbeat, Phase, ProcessExit
from nccldoctor.model import Place


def place(line: int) -> Place:
    return Place(0, "a.log", line)


STEP, LATER = (Heartbeat(place=place(n), text="step", step=n) for n in (1, 4))
TIMEOUT = CollectiveTimeout(place=place(2), text="timeout", seq=9)
PHASE = Phase(place=place(3), text="saving", what="checkpoint")
FOUND = Events([STEP, TIMEOUT, PHASE, LATER])


def test_events_of_a_kind_keep_their_order() -> None:
    assert FOUND.of_kind(Heartbeat) == (STEP, LATER)
    assert list(FOUND.places_of(Heartbeat)) == [0, 3]
    assert FOUND.of_kind(ProcessExit) == ()


def test_events_of_several_kinds_stand_in_input_order_whatever_the_order_of_the_kinds() -> None:
    assert FOUND.of_kind(Phase, Heartbeat) == FOUND.of_kind(Heartbeat, Phase) == (STEP, PHASE, LATER)
    assert list(FOUND.places_of(Phase, Heartbeat)) == [0, 2, 3]


def test_a_base_class_stands_for_all_its_kinds() -> None:
    assert FOUND.of_kind(CallTimeout) == (TIMEOUT,)


def test_many_events_are_found_as_few_are() -> None:
    times = 50
    many = Events(tuple(FOUND) * times)
    for kinds in ((Heartbeat,), (Phase, Heartbeat), (CallTimeout,), (ProcessExit,)):
        assert many.of_kind(*kinds) == FOUND.of_kind(*kinds) * times
        assert [many[place] for place in many.places_of(*kinds)] == list(many.of_kind(*kinds))
