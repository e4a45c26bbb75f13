"""Call streams: what a rank issued, in its own order, and what would come next."""

from __future__ import annotations

from typing import Any

from builders.jobs.cases import WORLD, RecordedRank, Team, case

from nccldoctor.align.call_sequences import CallSequences, call_chain, call_site
from nccldoctor.align.progress.table import build_progress_table
from nccldoctor.model.operations import plain_op

TORCH = ("all_reduce", "/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py", 2800)
MINE = ("reduce_loss", "/opt/train/train.py", 31)
MAIN = ("<module>", "/opt/train/main.py", 9)
TP = Team("1", "tp", (0, 1))
TP2 = Team("2", "tp", (2, 3))


def at(*frames: tuple[str, str, int]) -> dict[str, Any]:
    return {"frames": [{"name": n, "filename": f, "line": line} for n, f, line in frames]}


def streams(*recorded_ranks: RecordedRank) -> CallSequences:
    found = case(*recorded_ranks)
    return CallSequences(found, build_progress_table(found))


# ---- call sites


def test_the_users_own_line_is_the_call_site() -> None:
    assert call_site([TORCH, MINE, MAIN]) == "reduce_loss (train.py:31)"
    assert call_site([TORCH]) == ""
    assert call_site([]) == ""


def test_two_callers_of_one_helper_are_told_apart() -> None:
    other = ("evaluate", "/opt/train/eval.py", 4)
    assert call_chain([TORCH, MINE, MAIN]) == (("/opt/train/train.py", 31), ("/opt/train/main.py", 9))
    assert call_chain([TORCH, MINE, MAIN]) != call_chain([TORCH, MINE, other])


# ---- labels


def test_same_call_same_label() -> None:
    found = streams(RecordedRank(0).call().call(n=16).call().call("broadcast"))
    a, b, c, d = found.labels.tolist()
    assert a == c
    assert len({a, b, d}) == 3


def test_call_sites_go_before_sizes() -> None:
    found = streams(
        RecordedRank(0).call(n=8, **at(TORCH, MINE)).call(n=16, **at(TORCH, MINE)).call(n=16, **at(TORCH, MAIN))
    )
    a, b, c = found.labels.tolist()
    assert a == b != c


def test_sister_groups_share_their_labels() -> None:
    found = streams(RecordedRank(0, WORLD, TP).call(team=TP).call(), RecordedRank(2, WORLD, TP2).call(team=TP2).call())
    a, world_a, b, world_b = found.labels.tolist()
    assert (a, world_a) == (b, world_b)
    assert a != world_a


def test_sizes_of_an_all_to_all_say_nothing() -> None:
    found = streams(RecordedRank(0).call("all_to_all", n=8).call("all_to_all", n=999))
    assert len(set(found.labels.tolist())) == 1


def test_kinds_forget_the_group() -> None:
    found = streams(RecordedRank(0, WORLD, TP).call(team=TP).call().call("broadcast"))
    a, b, c = found.kinds(0).tolist()
    assert a == b != c


# ---- rows


def test_rows_of_a_rank_in_its_order_without_members_of_batches() -> None:
    found = streams(RecordedRank(0).call().batch(("send", 1), ("recv", 1)).call(), RecordedRank(1).call())
    assert found.rows(0).tolist() == [0, 3, 4]
    assert found.rows(1).tolist() == [5]
    assert found.rows(2).tolist() == []


def test_positions() -> None:
    found = streams(RecordedRank(0).call().batch(("send", 1)).call(), RecordedRank(1).call())
    assert [found.position(0, row) for row in (0, 1, 2, 3, 4)] == [0, None, 1, 2, None]


# ---- what comes next

STEP = ("all_gather", "reduce_scatter", "all_reduce")


def steps(count: int, *rest: str) -> RecordedRank:
    recorded = RecordedRank(0)
    for op in STEP * count + rest:
        recorded.call(op)
    return recorded


def test_what_followed_before_is_expected_again() -> None:
    found = streams(steps(4, "all_gather"))
    row, times, others = found.expected_next(0, 13) or (-1, 0, 0)
    assert plain_op(found.case.vocabulary.ops[found.case.calls.op[row]]) == "reduce_scatter"
    assert (row, others) == (10, 0), "its newest occurrence, and nothing else ever followed"
    assert times >= 1


def test_the_longest_context_decides() -> None:
    # two all_reduce close a step: after the second comes all_gather, after the first another all_reduce
    recorded = RecordedRank(0)
    for _ in range(4):
        for op in ("all_gather", "all_reduce", "all_reduce"):
            recorded.call(op)
    recorded.call("all_gather").call("all_reduce")
    found = streams(recorded)
    row, _, others = found.expected_next(0, 14) or (-1, 0, 0)
    assert (plain_op(found.case.vocabulary.ops[found.case.calls.op[row]]), others) == ("all_reduce", 0)


def test_a_past_without_that_context_tells_nothing() -> None:
    found = streams(RecordedRank(0).call("all_gather").call("broadcast").call("all_reduce"))
    assert found.expected_next(0, 3) is None
    assert found.outcomes(0, 3) == {}
    assert found.expected_next(0, 0) is None
    assert found.expected_next(2, 0) is None, "a rank without calls"


def test_outcomes_are_all_that_ever_followed() -> None:
    # after (barrier, all_gather, reduce_scatter) came all_reduce twice and broadcast once
    recorded = RecordedRank(0)
    for last, between in (("all_reduce", "scatter"), ("broadcast", "reduce"), ("all_reduce", "gather")):
        recorded.call("barrier").call("all_gather").call("reduce_scatter").call(last).call(between)
    recorded.call("all_to_all").call("barrier").call("all_gather").call("reduce_scatter")
    found = streams(recorded)
    rows, ops = found.rows(0), found.case.calls.op
    names = {plain_op(found.case.vocabulary.ops[ops[rows[at]]]): at for at in found.outcomes(0, 19).values()}
    assert names == {"all_reduce": 13, "broadcast": 8}
    row, times, others = found.expected_next(0, 19) or (-1, 0, 0)
    assert (row, times, others) == (13, 2, 1)


def test_only_the_past_before_the_position_counts() -> None:
    found = streams(steps(5))
    assert found.expected_next(0, 4) is None, "the first step alone repeats nothing"
    row, _, _ = found.expected_next(0, 9) or (-1, 0, 0)
    assert row == 6
