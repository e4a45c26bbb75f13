"""One vocabulary for operations: the OpType names of the watchdog, for whatever a recorder or NCCL calls them.

Source: pytorch ``torch/csrc/distributed/c10d/Types.hpp`` (OpType) and the names given to the recorder in
``ProcessGroupNCCL.cpp``, 1.8 to 2.13.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

_RECORDED_NAMES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
OP_TYPES = {name: op for op, names in _RECORDED_NAMES.items() for name in names}
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


def is_known_op(name: str) -> bool:
    """True where a release of PyTorch names an operation so, or a backend names several that it joins."""
    return op_type(name) in _RECORDED_NAMES


def op_type(name: str) -> str:
    """The watchdog's name for a recorded operation; an unknown name in capitals."""
    word = name.rpartition(":")[2].split(" ", 1)[0]
    if word.lower() in OP_TYPES:
        return OP_TYPES[word.lower()]
    if word.lower().endswith("coalesced"):
        return "COALESCED"
    return word.upper()
