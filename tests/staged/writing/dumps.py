"""The flight recorder's dump of a rank, in the container of each release."""

from __future__ import annotations

import json
import pickle
from typing import Any

from staged.plan import Group, Plan
from staged.play import Played, Work
from staged.writing.c10d import counters

VERSIONS = {"2.3": "1.5", "2.4": "2.1", "2.5": "2.3", "2.6": "2.4", "2.7": "2.5", "2.8": "2.9", "2.9": "2.10"}
NAMES = {
    "all_reduce": "all_reduce",
    "broadcast": "broadcast",
    "all_gather_into_tensor": "_all_gather_base",
    "reduce_scatter_tensor": "_reduce_scatter_base",
}


def dump(plan: Plan, played: Played, rank: int, at: float) -> bytes:
    """The bytes of the file that a rank writes at that time."""
    works = [w for w in played.works[rank] if w.created <= at]
    entries = [_entry(plan, w, at) for w in works]
    if plan.number < (2, 3):
        return pickle.dumps(entries, protocol=2)
    groups = list(dict.fromkeys(w.call.group for w in works))
    content: dict[str, Any] = {"version": VERSIONS[plan.release], "entries": entries}
    content["pg_config"] = {g.uid: {"name": g.uid, "desc": g.desc, "ranks": str(list(g.members))} for g in groups}
    if plan.number >= (2, 5):
        content["pg_status"] = {str(g.pg_id): _status(plan, works, g, at) for g in groups}
    if plan.number >= (2, 9):
        content["comm_lib_version"] = "2.27.5"
    elif plan.number >= (2, 8):
        content["nccl_version"] = "2.27.3"
    if plan.dump_json and plan.number >= (2, 6):
        return json.dumps(_as_json(content), sort_keys=True).encode()
    return pickle.dumps(content, protocol=2)


def _status(plan: Plan, works: list[Work], group: Group, at: float) -> dict[str, int]:
    put, done = counters(plan, works, group, at)
    started = -1
    if plan.timing:
        started = done + 1 if put > done else done
    return {"last_enqueued_collective": put, "last_started_collective": started, "last_completed_collective": done}


def _entry(plan: Plan, work: Work, at: float) -> dict[str, Any]:
    call, done = work.call, work.end is not None and work.end <= at
    entry: dict[str, Any] = {
        "pg_id": call.group.pg_id,
        "profiling_name": f"nccl:{_name(work)}",
        "input_sizes": [[call.n_in]] if call.n_in > 1 else [[]],
        "output_sizes": [[call.n_out]] if call.n_out > 1 else [[]],
        "state": "completed" if done else "scheduled",
        "retired": done,
    }
    if plan.stacks_in_dumps:
        entry["frames"] = frames(call.op, call.site)
    if plan.number < (2, 3):
        return {
            **entry,
            "seq_id": work.seq,
            "time_created_us": int(work.created * 1e6),
            "frames": entry.get("frames", []),
        }
    ns = int(work.created * 1e9)
    end = int(work.end * 1e9) if done and work.end is not None else None
    entry |= {
        "record_id": work.record,
        "process_group": (call.group.uid, call.group.desc),
        "collective_seq_id": work.seq,
        "p2p_seq_id": work.p2p_seq,
        "op_id": work.op_id,
        "is_p2p": call.peer is not None,
        "input_dtypes": [call.dtype],
        "output_dtypes": [call.dtype],
        "time_created_ns": ns,
        "time_discovered_started_ns": ns + 400_000 if plan.timing and done else None,
        "time_discovered_completed_ns": end,
        "timeout_ms": call.group.timeout,
    }
    if plan.timing and end is not None:
        entry["duration_ms"] = round((end - ns) / 1e6, 3)
    if plan.number >= (2, 8):
        entry |= {"thread_id": "140231995123520", "thread_name": "pt_main_thread"}
    return entry


def _name(work: Work) -> str:
    call = work.call
    if call.peer is None:
        return NAMES[call.op]
    mine, other = call.group.members.index(work.rank), call.group.members.index(call.peer)
    return f"send {mine}->{other}" if call.op == "send" else f"recv {mine}<-{other}"


def frames(op: str, site: tuple[str, int]) -> list[dict[str, Any]]:
    """The Python stack of a call, innermost first."""
    lib = "/opt/conda/lib/python3.11/site-packages/torch/distributed"
    rows = [
        (op, f"{lib}/distributed_c10d.py", 2810),
        ("wrapper", f"{lib}/c10d_logger.py", 81),
        (site[0], "/srv/job/main.py", site[1]),
        ("fit", "/srv/job/main.py", 274),
        ("<module>", "/srv/job/main.py", 310),
    ]
    return [{"name": name, "filename": file, "line": line} for name, file, line in rows]


def _as_json(content: dict[str, Any]) -> dict[str, Any]:
    """The JSON form: no frames, 0 for None, counters as strings."""
    entries = []
    for entry in content["entries"]:
        row = {k: v for k, v in entry.items() if k != "frames"}
        for key in ("time_discovered_started_ns", "time_discovered_completed_ns"):
            row[key] = row[key] or 0
        entries.append(row)
    status = {k: {n: str(v) for n, v in row.items()} for k, row in content.get("pg_status", {}).items()}
    return {**content, "entries": entries, "pg_status": status, "nccl_comm_state": None}
