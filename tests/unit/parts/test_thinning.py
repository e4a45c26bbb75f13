"""What is loaded of too many calls: at most what fits, of each dump the newest, and first what is wanted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nccldoctor.parts.thinning import LEAST, rows_to_load

DUMPS = st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 5000)), max_size=20)


@given(DUMPS, st.integers(0, 60_000))
def test_what_is_wanted_comes_first_and_no_more_is_loaded_than_fits(dumps: list[tuple[int, int]], most: int) -> None:
    rows = dict(enumerate(size for size, _ in dumps))
    wanted = dict(enumerate(wish for _, wish in dumps))
    chosen = rows_to_load(rows, wanted, most)
    least = sum(min(LEAST, size) for size in rows.values())
    needs = {dump: min(rows[dump], max(wanted[dump], LEAST)) for dump in rows}

    assert all(min(LEAST, rows[dump]) <= chosen[dump] <= rows[dump] for dump in rows)
    assert sum(chosen.values()) <= max(most, least)
    if sum(needs.values()) <= most:
        assert all(chosen[dump] >= needs[dump] for dump in rows)
    else:
        cap = max(chosen.values())
        assert all(chosen[dump] in (cap, needs[dump]) for dump in rows)


def test_room_that_is_left_is_shared_evenly() -> None:
    assert rows_to_load({"a": 2000, "b": 2000, "c": 100}, {"a": 900, "b": 0, "c": 0}, 1700) == {
        "a": 900,
        "b": 700,
        "c": 100,
    }
