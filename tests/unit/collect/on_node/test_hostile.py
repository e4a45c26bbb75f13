"""Processes of strangers: what they hold costs nobody but themselves."""

from __future__ import annotations

import pytest
from builders.fake_ranks import Ranks


@pytest.mark.parametrize("text", ["²", "9" * 5000, "-1", "1 "])
def test_a_rank_that_is_no_number_is_no_rank(ranks: Ranks, text: str) -> None:
    ranks.start(None, RANK=text, WORLD_SIZE="2", LOCAL_WORLD_SIZE=text, NCCL_RAS_ADDR=f"localhost:{text}")
    ranks.start(1)
    stream = ranks.collect()
    assert [process["rank"] for process in stream.told()["processes"]] == [1]
    assert stream.why("the rest of this node") == ""
