"""One vocabulary for operations: the OpType names of the watchdog, for whatever a recorder or NCCL calls them.

Source: pytorch ``torch/csrc/distributed/c10d/Types.hpp`` (OpType) and the names given to the recorder in
``ProcessGroupNCCL.cpp``, 1.8 to 2.13.
"""

from __future__ import annotations

OP_TYPES = {
    "all_reduce": "ALLREDUCE",
    "all_reduce_barrier": "ALLREDUCE",
    "barrier": "BARRIER",
    "broadcast": "BROADCAST",
    "_broadcast_oop": "BROADCAST",
    "reduce": "REDUCE",
    "_reduce_oop": "REDUCE",
    "all_gather": "ALLGATHER",
    "_all_gather_base": "_ALLGATHER_BASE",
    "all_gather_into_tensor": "_ALLGATHER_BASE",
    "all_gather_single": "_ALLGATHER_BASE",
    "reduce_scatter": "REDUCE_SCATTER",
    "_reduce_scatter_base": "_REDUCE_SCATTER_BASE",
    "reduce_scatter_tensor": "_REDUCE_SCATTER_BASE",
    "reduce_scatter_single": "_REDUCE_SCATTER_BASE",
    "all_to_all": "ALLTOALL_BASE",
    "all_to_all_single": "ALLTOALL_BASE",
    "alltoall_base": "ALLTOALL_BASE",
    "gather": "GATHER",
    "scatter": "SCATTER",
    "send": "SEND",
    "recv": "RECV",
    "recvanysource": "RECVANYSOURCE",
    "recv_any_source": "RECVANYSOURCE",
    "coalesced": "COALESCED",
    "allreduce_coalesced": "COALESCED",
    "all_gather_into_tensor_coalesced": "COALESCED",
    "reduce_scatter_tensor_coalesced": "COALESCED",
    "sparse_all_reduce": "_ALLREDUCE_SPARSE",
    "_allreduce_sparse": "_ALLREDUCE_SPARSE",
}
"""Recorded name, without its backend and in lower case, to OpType."""

NEEDS_ALL = frozenset(
    {"ALLREDUCE", "BARRIER", "ALLGATHER", "_ALLGATHER_BASE", "REDUCE_SCATTER", "_REDUCE_SCATTER_BASE"}
)
"""Operations that nobody finishes before every member has entered them."""


def plain_op(name: str) -> str:
    """A recorded name without ranks: ``send`` for ``send 0->1``."""
    return name.split(" ", 1)[0]


def has_varying_sizes(name: str) -> bool:
    """True when the sizes of a recorded operation differ legally from call to call and from rank to rank."""
    return "all_to_all" in name or "alltoall" in name


def op_type(name: str) -> str:
    """The watchdog's name for a recorded operation; an unknown name in capitals."""
    word = name.rpartition(":")[2].split(" ", 1)[0]
    if word.lower() in OP_TYPES:
        return OP_TYPES[word.lower()]
    if word.lower().endswith("coalesced"):
        return "COALESCED"
    return word.upper()
