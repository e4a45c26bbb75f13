"""What a recorder calls an operation, and what the watchdog calls the same."""

from __future__ import annotations

import pytest

from nccldoctor.model.operations import op_type, plain_op


@pytest.mark.parametrize(
    ("recorded", "watched"),
    [
        ("nccl:all_reduce", "ALLREDUCE"),
        ("nccl:all_reduce_barrier", "ALLREDUCE"),  # NCCL has no barrier: one element is summed
        ("gloo:barrier", "BARRIER"),
        ("nccl:broadcast", "BROADCAST"),
        ("nccl:_broadcast_oop", "BROADCAST"),
        ("nccl:reduce", "REDUCE"),
        ("nccl:_reduce_oop", "REDUCE"),
        ("nccl:all_gather", "ALLGATHER"),
        ("nccl:_all_gather_base", "_ALLGATHER_BASE"),
        ("nccl:reduce_scatter", "REDUCE_SCATTER"),
        ("nccl:_reduce_scatter_base", "_REDUCE_SCATTER_BASE"),
        ("nccl:all_to_all", "ALLTOALL_BASE"),
        ("nccl:gather", "GATHER"),
        ("nccl:scatter", "SCATTER"),
        ("nccl:send", "SEND"),  # up to 2.0 without the ranks
        ("nccl:send 2->5", "SEND"),
        ("nccl:recv 5<-2", "RECV"),
        ("gloo:recvAnySource", "RECVANYSOURCE"),
        ("gloo:sparse_all_reduce", "_ALLREDUCE_SPARSE"),
        ("nccl:coalesced", "COALESCED"),
        ("nccl:ALLGATHER_coalesced", "COALESCED"),
        ("nccl:REDUCE_SCATTER_coalesced", "COALESCED"),
        ("nccl:allreduce_coalesced", "COALESCED"),
        ("nccl:all_gather_into_tensor_coalesced", "COALESCED"),
        ("nccl:reduce_scatter_tensor_coalesced", "COALESCED"),
        ("nccl2:all_reduce", "ALLREDUCE"),
        ("nccl:some_new_thing", "SOME_NEW_THING"),
    ],
)
def test_names_of_one_operation(recorded: str, watched: str) -> None:
    assert op_type(recorded) == watched


def test_names_without_ranks() -> None:
    assert [plain_op(n) for n in ("send 0->1", "recv 1<-0", "all_reduce")] == ["send", "recv", "all_reduce"]
