"""``nccl_comm_state`` of a recorder dump: what ``ncclCommDump`` says of each communicator of a process.

Only NCCLX and RCCL have that call; stock builds leave it empty. Each communicator is a mapping of texts, most of them
JSON: ``commHash``, ``rank``, ``nRanks``, and with collective tracing on ``CT_pastColls``, ``CT_pendingColls`` and
``CT_currentColl`` (newer: ``CT_currentColls``), whose records carry ``collId`` (also as ``opCount``), ``opName``,
``count`` and ``dataType``. Sources: meta-pytorch/torchcomms ``comms/ncclx/meta/commDump.cc`` and
``comms/utils/colltrace/CollRecord.cc``; ROCm/rccl ``src/misc/commDump.cc``; pytorch ``ProcessGroupNCCL.cpp``
(``getNCCLCommDumpMap``). Runs in the sandboxed child.
"""

from __future__ import annotations

import json
from typing import Any

from nccldoctor.parsers.flight_recorder.values import clean, integer

State = tuple[str, int, int, int, int, str, int, str, bool]
"""Name of the communicator, rank in it and size, number of its newest call and of its first unfinished one (-1: none), operation, elements
and dtype of the latter (of the newest where all finished), and whether some of its calls are not issued by all members.
"""

MOST = 1024
"""Communicators read of one dump."""

LARGEST = 4 << 20
"""Characters of one text that are decoded."""

_OPEN = ("CT_pendingColls", "CT_currentColls", "CT_currentColl")
_EVEN = ("AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce", "Barrier")


def read_states(value: Any) -> list[State]:
    """One for each communicator that traced its calls."""
    out = []
    for key, item in list(value.items())[:MOST] if type(value) is dict else ():
        if type(item) is dict and type(key) is str:
            found = _comm_state(key, item)
            if found is not None:
                out.append(found)
    return out


def _comm_state(key: str, item: dict[Any, Any]) -> State | None:
    rank, size = integer(_decoded(item.get("rank"))), integer(_decoded(item.get("nRanks")))
    unfinished = [c for name in _OPEN for c in _calls(item.get(name))]
    calls = [*_calls(item.get("CT_pastColls")), *unfinished]
    if rank is None or size is None or not calls or not 0 <= rank < size:
        return None
    name = _decoded(item.get("commHash"))
    newest = max(number for number, *_ in calls)
    first = min(unfinished, default=None)
    newest_open = first if first is not None else max(calls)
    uneven = any(op and not op.startswith(_EVEN) for _, op, _, _ in calls)
    return (
        clean(str(name)) if type(name) in (str, int) else clean(key),
        rank,
        size,
        newest,
        first[0] if first else -1,
        *newest_open[1:],
        uneven,
    )


def _calls(text: Any) -> list[tuple[int, str, int, str]]:
    found = _decoded(text)
    items = found if type(found) is list else [found]
    out = []
    for item in items:
        if type(item) is not dict:
            continue
        number = integer(item.get("collId")) if "collId" in item else integer(item.get("opCount"))
        op, dtype, count = item.get("opName"), item.get("dataType", item.get("datatype")), integer(item.get("count"))
        if number is not None and number >= 0:
            dtype = clean(dtype) if type(dtype) is str else ""
            out.append((number, clean(op) if type(op) is str else "", -1 if count is None else count, dtype))
    return out


def _decoded(text: Any) -> Any:
    """The value of a JSON text; any other text unchanged, and None for one that is too large."""
    if type(text) is not str:
        return text if type(text) is int else None
    if len(text) > LARGEST:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
