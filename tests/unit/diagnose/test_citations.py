"""Tests of the sentences beside quoted lines."""

from __future__ import annotations

import pytest
from builders.jobs.cases import RecordedRank, Team, facts, world
from msgspec.structs import replace

from nccldoctor.diagnose.diagnose import diagnose
from nccldoctor.diagnose.hypothesis import quote
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


def test_the_last_call_of_a_rank_in_a_group_is_quoted_and_not_a_newer_one_of_another_group() -> None:
    team = Team("1", "dp", (2, 3))
    ranks = [RecordedRank(r, world(4), *([team] if r > 1 else [])).calls(6) for r in range(4)]
    for peer in ranks[:3]:
        peer.call(done=False)
    ranks[3].calls(4, team=team)
    found = facts(*ranks)
    absent = diagnose(found).findings[0]
    named = next(item for item in absent.evidence if "its last call in that group is #6" in item.says)

    assert absent.ranks == {3}
    assert named.where is not None and named.where.entry == 5
    assert "all_reduce #6 in default_pg (0)" in named.quote
