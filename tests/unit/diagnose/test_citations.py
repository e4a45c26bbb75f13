"""Tests of the sentences beside quoted lines."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nccldoctor.diagnose.citations import quote
from nccldoctor.events import CollectiveTimeout, GroupRef
from nccldoctor.model import Place

LINE = CollectiveTimeout(
    place=Place(0, "rank2.log", line=1), text="[Rank 0] Watchdog caught collective timeout", rank=2
)


@pytest.mark.parametrize(
    ("rank", "inside", "group", "note"),
    [
        (2, 0, GroupRef(pg_id=2, uid="3", desc="tp"), " (rank 0 of group tp = global rank 2)"),
        (2, 0, None, " (rank 0 of its group = global rank 2)"),
        (None, 0, GroupRef(uid="3", desc="tp"), " (rank 0 of group tp: no global rank)"),
        (2, 2, GroupRef(pg_id=0, uid="0", desc="default_pg"), ""),
        (None, 0, None, ""),
        (2, None, None, ""),
    ],
)
def test_a_rank_number_inside_a_group_is_said_to_be_that(
    rank: int | None, inside: int | None, group: GroupRef | None, note: str
) -> None:
    """The log of rank 2 prints ``[Rank 0]``, its number in group tp; a number that is the global rank needs no word."""
    event = replace(LINE, rank=rank, group_rank=inside, group=group)
    assert quote(event, "gave up").says == f"gave up{note}"
