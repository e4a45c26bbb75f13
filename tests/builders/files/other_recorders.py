"""Files of calls as TorchComms' ClogHook and NCCL's example profiler write them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable

OPS = ("AllReduce", "AllGather", "ReduceScatter")


def clog(
    rank: int,
    world: int = 8,
    calls: int = 9,
    *,
    hangs: bool = True,
    misses: bool = False,
    states: bool = True,
    more: str = "",
) -> str:
    """``calls`` calls in turn of two kinds. The newest one ``hangs``, or this rank ``misses`` it."""
    lines = [
        f"V|1|base_timestamp=1788000000.{rank:03d}",
        f"new_comm|comm=world|rank={rank}|world_size={world}",
        "C1|sig|all_reduce|in_count=4096|out_count=4096|dtype=bf16|red_op=sum|async_op=f|comm=world",
        f"C2|sig|all_gather_single|in_count=512|out_count={512 * world}|dtype=bf16|async_op=t|comm=world",
    ]
    for number in range(1, calls + 1 - misses):
        what, at = f"C{2 - number % 2}", number * 0.5
        lines.append(f"{what}|Q|work_id={number}|+{at:.3f}")
        if states:
            lines.append(f"{what}|S|+{at + 0.01:.3f}")
        if states and not (hangs and number == calls):
            lines.append(f"{what}|E|+{at + 0.05:.3f}")
    return "\n".join(lines) + f"\n{more}"


def profile(
    rank: int,
    calls: int = 6,
    *,
    hangs: bool = True,
    misses: bool = False,
    comm: int = 12715772615376301750,
    first: int = 1,
    lost: Callable[[int], bool] = lambda number: False,
) -> str:
    """The trace of a communicator; an end that the profiler had not seen is printed with what stood there."""
    seen: Counter[str] = Counter()
    rows = []
    for number in range(calls - misses):
        op, at, own = OPS[number % 3], 1000.0 * number, {"id": number, "pid": 4000 + rank, "tid": 1}
        args = {"SeqNum": first + seen[op], "CommHash": comm, "Rank": rank, "Count": 64, "Datatype": "ncclBfloat16"}
        seen[op] += 1
        if lost(number):
            continue
        end = 0.0 if hangs and number == calls - 1 else at + 500
        rows += [
            {"name": "Group API", "cat": "GROUP_API", "ph": "b", **own, "ts": at, "args": {"groupDepth": 1}},
            {"name": op, "cat": "COLL", "ph": "b", **own, "ts": at + 1, "args": args},
            {"name": "ScheduleSend", "cat": "PROXY", "ph": "b", **own, "ts": at + 2, "args": {"Channel": 0, "Peer": 1}},
            {"name": op, "cat": "COLL", "ph": "e", **own, "ts": end},
        ]
    return "[\n" + "".join(f"{json.dumps(row)},\n" for row in rows) + "{}]\n"
