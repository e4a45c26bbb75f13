"""The grid behind the bare numbers of PyTorch 2.2: who shares a group where no dump says so."""

from __future__ import annotations

import pickle
from typing import Any

from builders.jobs.cases import case, read_dump

from nccldoctor.identify.group_members import infer_groups
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.recorded_calls import merge

WORLD = Ranks(range(8))


def row(pg_id: int, seq: int, op: str, n_in: int = 8, n_out: int | None = None, *, done: bool = True) -> dict[str, Any]:
    return {
        "pg_id": pg_id,
        "seq_id": seq,
        "profiling_name": f"nccl:{op}",
        "time_created_us": seq,
        "input_sizes": [[n_in]],
        "output_sizes": [[n_in if n_out is None else n_out]],
        "state": "completed" if done else "scheduled",
        "retired": done,
        "frames": [],
    }


def lists(*dumps: list[dict[str, Any]]) -> Any:
    return merge([read_dump(pickle.dumps(d, protocol=2), i, f"nccl_trace_rank_{i}") for i, d in enumerate(dumps)])


def grid(*dumps: list[dict[str, Any]], world: Ranks = WORLD) -> dict[tuple[int, int], str]:
    found = infer_groups(lists(*dumps), range(len(dumps)), range(len(dumps)), world)
    return {key: str(members) for key, members in found.items()}


def gathers(pg_id: int, size: int, count: int, *, done: bool = True) -> list[dict[str, Any]]:
    """Calls of a group whose size their outputs tell."""
    return [row(pg_id, n, "_all_gather_base", 8, 8 * size, done=done or n < count) for n in range(1, count + 1)]


def test_neighbours_or_strides_by_who_recorded_the_same() -> None:
    # number 1 has two members, number 2 has four. Pairs are (0,4) (1,5) …: partners have the same number of calls
    dumps = [gathers(1, 2, 3 + rank % 4) + gathers(2, 4, 2 + rank // 4) for rank in range(8)]
    found = grid(*dumps)
    assert found[(1, 1)] == "1,5"
    assert found[(6, 2)] == "4-7"


def test_the_other_layout_of_the_same_sizes() -> None:
    dumps = [gathers(1, 2, 3 + rank // 2) + gathers(2, 4, 2 + rank % 2) for rank in range(8)]
    found = grid(*dumps)
    assert found[(1, 1)] == "0-1"
    assert found[(6, 2)] == "0,2,4,6"


def test_ties_go_to_the_order_of_creation() -> None:
    found = grid(*[gathers(1, 2, 3) + gathers(2, 2, 3)] * 4, world=Ranks(range(4)))
    assert (found[(0, 1)], found[(0, 2)]) == ("0-1", "0,2")


def test_the_last_size_follows_from_the_others() -> None:
    # number 2 only reduces: its size is what remains of eight
    dumps = [gathers(1, 2, 3) + [row(2, 1 + n, "all_reduce") for n in range(1 + rank % 2)] for rank in range(8)]
    assert grid(*dumps)[(3, 2)] == "1,3,5,7"


def test_stages_by_the_ends_of_their_sends() -> None:
    # a pipeline of two stages over pairs: the first four ranks send as 0, the others receive as 1
    def dump(rank: int) -> list[dict[str, Any]]:
        name = "send 0->1" if rank < 4 else "recv 1<-0"
        return [*gathers(1, 4, 3), row(2, 1, name)]

    found = grid(*[dump(r) for r in range(8)])
    assert found[(2, 2)] == "2,6"
    assert found[(2, 1)] == "0-3"


def test_where_no_grid_fits_everybody_is_alone() -> None:
    assert grid(*[gathers(1, 3, 2)] * 8) == {(r, 1): str(r) for r in range(8)}, "three does not divide eight"
    two_open = [row(1, 1, "all_reduce"), row(2, 1, "all_reduce")]
    assert grid(*[two_open] * 8) == {(r, n): str(r) for r in range(8) for n in (1, 2)}


def test_a_world_with_holes_is_no_grid() -> None:
    holes = Ranks([0, 1, 2, 3, 4, 5, 6, 9])
    assert set(grid(*[gathers(1, 2, 2) + gathers(2, 4, 2)] * 8, world=holes).values()) == {str(r) for r in holes} | {
        "7"
    }


def test_groups_of_a_case_carry_the_grid() -> None:
    dumps = [gathers(1, 2, 3 + rank // 2) + gathers(2, 2, 2 + rank % 2) for rank in range(4)]
    found = case(*[(rank, pickle.dumps(d, protocol=2)) for rank, d in enumerate(dumps)])
    by_name = sorted((g.uid, str(g.members), g.learned) for g in found.groups if g.uid != "0")
    assert by_name == [
        ("#1", "0-1", "assumed"),
        ("#1", "2-3", "assumed"),
        ("#2", "0,2", "assumed"),
        ("#2", "1,3", "assumed"),
    ]
