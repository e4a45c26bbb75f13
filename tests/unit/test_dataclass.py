"""Our dataclasses behave like those of the standard library; only their declaration costs less."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from dataclasses import FrozenInstanceError, field, replace
from typing import Any

import pytest

from nccldoctor.dataclass import dataclass
from nccldoctor.dataclass import replace as copied


def declare(decorator: Any) -> tuple[type[Any], type[Any]]:
    """A class with fields of every sort, and one that inherits from it, made by ``decorator``."""

    @decorator(frozen=True, slots=True)
    class Call:
        seq: int
        op: str = "ALLREDUCE"
        ranks: list[int] = field(default_factory=list)
        note: str = field(default="", compare=False)
        hidden: int = field(default=7, repr=False)
        _cache: dict[str, int] = field(default_factory=dict, init=False, repr=False, compare=False)
        size: int = field(init=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "size", 2 * self.seq)

    @decorator(frozen=True, slots=True, kw_only=True)
    class Timed(Call):
        at: float
        zone: str = "UTC"

    return Call, Timed


OURS, THEIRS = declare(dataclass), declare(dataclasses.dataclass)


@dataclass(frozen=True, slots=True)
class Place:
    source: int
    line: int = 0


@dataclass(frozen=True, slots=True)
class Single:
    value: float


@dataclass(frozen=True, slots=True)
class Nothing:
    """Has no field."""


def test_signatures_name_the_same_fields() -> None:
    for ours, theirs in zip(OURS, THEIRS, strict=True):
        assert str(inspect.signature(ours)) == str(inspect.signature(theirs))


def test_instances_read_and_print_like_those_of_the_standard_library() -> None:
    for ours, theirs in zip(OURS, THEIRS, strict=True):
        times = {"at": 1.5} if "at" in ours.__slots__ else {}
        for values in ((1,), (2, "BARRIER"), (3, "GATHER", [1], "x", 8)):
            mine, other = ours(*values, **times), theirs(*values, **times)
            assert repr(mine) == repr(other)
            assert dataclasses.asdict(mine) == dataclasses.asdict(other)
            assert repr(replace(mine, op="SEND")) == repr(replace(other, op="SEND"))
        assert [(f.name, f.kw_only) for f in dataclasses.fields(ours)] == [
            (f.name, f.kw_only) for f in dataclasses.fields(theirs)
        ]
        assert ours.__slots__ == theirs.__slots__
        assert ours.__match_args__ == theirs.__match_args__


@pytest.mark.parametrize("arguments", [((), {}), ((1, 2, 3, 4, 5, 6), {}), ((1,), {"size": 2}), ((1,), {"seq": 1})])
def test_what_the_fields_do_not_allow_is_refused(arguments: tuple[Any, Any]) -> None:
    positional, named = arguments
    for call in (OURS[0], THEIRS[0]):
        with pytest.raises(TypeError, match="__init__"):
            call(*positional, **named)
    with pytest.raises(TypeError, match="at"):
        OURS[1](1)


def test_a_factory_is_called_for_each_instance() -> None:
    first, second = OURS[0](1), OURS[0](1)
    first.ranks.append(3)
    assert second.ranks == []
    assert first._cache is not second._cache


def test_equal_values_of_one_class_are_equal_and_hash_alike() -> None:
    assert Place(1, 2) == Place(1, 2)
    assert Place(1, 2) != Place(1, 3)
    assert len({Place(1, 2), Place(1, 2), Place(2, 1)}) == 2
    assert OURS[0](1, note="a") == OURS[0](1, note="b")
    assert OURS[0](1) != OURS[1](1, at=0.0)
    assert Nothing() == Nothing()
    assert hash(Nothing()) == hash(())
    nan = float("nan")
    assert Single(nan) == Single(nan)  # as in a tuple: the same object is equal to itself
    assert Place(1, 2).__eq__((1, 2)) is NotImplemented


def test_a_class_that_is_not_compared_keeps_its_identity() -> None:
    @dataclass(frozen=True, slots=True, eq=False)
    class Layout:
        name: str

    one = Layout("a")
    assert one != Layout("a")
    assert len({one, Layout("a")}) == 2


def test_instances_do_not_change() -> None:
    place = Place(1)
    with pytest.raises(FrozenInstanceError, match="line"):
        place.line = 2  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError, match="line"):
        del place.line
    assert place == Place(1)


def test_instances_are_copied_and_pickled() -> None:
    place = Place(3, 4)
    assert pickle.loads(pickle.dumps(place)) == place
    assert copy.deepcopy(place) == place


def test_own_methods_are_kept() -> None:
    @dataclass(frozen=True, slots=True)
    class Ranks:
        members: tuple[int, ...]

        def __repr__(self) -> str:
            return "ranks"

        def __hash__(self) -> int:
            return 5

    assert repr(Ranks((1,))) == "ranks"
    assert hash(Ranks((1,))) == 5
    assert Ranks((1,)) == Ranks((1,))


@pytest.mark.parametrize("before", [0, 7, 8, 20])
def test_the_first_instances_are_like_the_later_ones(before: int) -> None:
    (call, timed), (_, their_timed) = declare(dataclass), declare(dataclasses.dataclass)
    for _ in range(before):
        call(1), timed(1, at=2.0)
    assert repr(timed(3, "SEND", [1], at=0.5)) == repr(their_timed(3, "SEND", [1], at=0.5))
    for wrong in ({}, {"seq": 1, "size": 2}, {"seq": 1, "ops": "SEND"}):
        with pytest.raises(TypeError, match="__init__"):
            call(**wrong)
    with pytest.raises(TypeError, match="__init__"):
        call(1, "SEND", seq=1)


def test_init_is_compiled_for_a_class_of_many_instances() -> None:
    class_ = declare(dataclass)[0]
    for _ in range(8):
        class_(1)
        assert list(inspect.signature(class_.__init__).parameters) == ["self", "values", "named"]
    class_(1)
    assert list(inspect.signature(class_.__init__).parameters) == ["self", "seq", "op", "ranks", "note", "hidden"]


def test_a_class_with_an_order_is_ordered_by_its_fields() -> None:
    @dataclass(frozen=True, slots=True, order=True)
    class Line:
        number: int
        text: str = field(default="", compare=False)

    assert sorted([Line(2), Line(1)]) == [Line(1), Line(2)]
    assert Line(1, "b") <= Line(1, "a") < Line(2)
    assert Line(2) > Line(1) >= Line(1)
    with pytest.raises(TypeError, match="not supported"):
        assert Line(1) < Place(1)  # type: ignore[operator]


def test_a_class_that_is_not_frozen_changes_and_has_no_hash() -> None:
    @dataclass(slots=True)
    class Counter:
        seen: int = 0
        names: list[str] = field(default_factory=list)

    one = Counter()
    one.seen += 2
    assert one == Counter(2)
    assert repr(one).endswith("Counter(seen=2, names=[])")
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)
    assert copy.copy(one) == one
    with pytest.raises(AttributeError):
        one.other = 1  # type: ignore[attr-defined]


def test_a_copy_has_other_values_in_some_fields_and_leaves_its_original_alone() -> None:
    one = Place(1, 2)
    other = copied(one, line=3)
    assert (one, other) == (Place(1, 2), Place(1, 3))
    assert type(other) is Place
    assert copied(Nothing()) == Nothing()
    with pytest.raises(FrozenInstanceError):
        other.line = 4
    with pytest.raises(AttributeError):
        copied(one, column=3)


def test_a_copy_is_made_anew_where_a_class_computes_a_field() -> None:
    made = copied(OURS[0](1, ranks=[3]), seq=4)
    assert (made.size, made.ranks) == (8, [3])
    assert made._cache == {}


def test_a_copy_of_a_class_that_can_change_can_change() -> None:
    @dataclass(slots=True)
    class Count:
        seen: int = 0

    twice = copied(Count(1), seen=2)
    twice.seen += 1
    assert twice.seen == 3
