"""Names as engineers say them."""

from __future__ import annotations

import pytest

from nccldoctor.model.ranks import Ranks
from nccldoctor.model.standings import Involvement, Standing, WaitedCall
from nccldoctor.reports.parts import standing_titles
from nccldoctor.words import names


@pytest.mark.parametrize(
    ("label", "shown"),
    [
        ("TENSOR_MODEL_PARALLEL_GROUP (1)", "TP 1"),
        ("DATA_PARALLEL_GROUP (10)", "DP 10"),
        ("default_pg (0)", "default group"),
        ("mesh_pp (12)", "mesh_pp 12"),
        ("mesh_tp (fa5836450376bf4bf59242bb012665dd3149decb)", "mesh_tp fa583645"),
        ("3", "group 3"),
        ("dp_1", "dp_1"),
    ],
)
def test_a_group_keeps_what_tells_it_apart(label: str, shown: str) -> None:
    assert names.group_title(label) == shown


@pytest.mark.parametrize(
    ("op", "seq", "shown"),
    [("_ALLGATHER_BASE", 128, "ALLGATHER #128"), ("ALLREDUCE", None, "ALLREDUCE"), (None, 9, "call #9")],
)
def test_a_call_goes_without_what_only_the_code_knows(op: str | None, seq: int | None, shown: str) -> None:
    assert names.call_title(op, seq) == shown


def test_few_ranks_are_named_and_many_are_counted() -> None:
    assert standing_titles.ranks_title(Ranks([3])) == "rank 3"
    assert standing_titles.ranks_title(Ranks([0, 1, 2, 7])) == "ranks 0-2, 7"
    assert standing_titles.ranks_title(Ranks(range(0, 100, 2))) == "50 ranks"


def test_where_ranks_stand() -> None:
    call = WaitedCall(
        "DATA_PARALLEL_GROUP", "_REDUCE_SCATTER_BASE", 5, ("DATA_PARALLEL_GROUP (1)", "DATA_PARALLEL_GROUP (2)")
    )
    assert (
        standing_titles.place_title(Standing(Ranks([1]), Involvement.WAITING, call=call))
        == "2 DP groups · REDUCE_SCATTER #5"
    )
    assert standing_titles.place_title(Standing(Ranks([1]), Involvement.CULPRIT, frame="load")) == "in load"
    standing = Standing(Ranks([1]), Involvement.CULPRIT, last="last call: #9, done")
    assert standing_titles.place_title(standing) == "last call: #9, done"
