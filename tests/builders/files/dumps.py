"""Small recorder dumps for tests: the forms that PyTorch writes, by hand."""

from __future__ import annotations

import pickle
from typing import Any

FRAME = {"name": "step", "filename": "/opt/train/train.py", "line": 31}


def entry(seq: int = 1, op: str = "nccl:all_reduce", **more: Any) -> dict[str, Any]:
    """One entry as PyTorch 2.9 records it."""
    out: dict[str, Any] = {
        "frames": [FRAME],
        "record_id": seq - 1,
        "pg_id": 0,
        "process_group": ("0", "default_pg"),
        "collective_seq_id": seq,
        "p2p_seq_id": 0,
        "op_id": seq,
        "profiling_name": op,
        "time_created_ns": 1_780_000_000_000_000_000 + seq,
        "input_sizes": [[4, 2]],
        "input_dtypes": ["Float"],
        "output_sizes": [[4, 2]],
        "output_dtypes": ["Float"],
        "state": "completed",
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": 1_780_000_000_500_000_000 + seq,
        "retired": True,
        "timeout_ms": 600_000,
        "is_p2p": False,
    }
    return out | more


def content(*entries: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A dump of these entries, by default two healthy ones."""
    out: dict[str, Any] = {
        "version": "2.10",
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 5]"}},
        "comm_lib_version": "2.27.5",
        "pg_status": {
            "0": {"last_enqueued_collective": 2, "last_started_collective": -1, "last_completed_collective": 2}
        },
        "entries": list(entries) or [entry(1), entry(2)],
    }
    return out | more


def dump(*entries: dict[str, Any], **more: Any) -> bytes:
    """The same as a file."""
    return pickle.dumps(content(*entries, **more), protocol=2)


def list_dump(count: int = 3) -> bytes:
    """The bare list of PyTorch 2.2, microseconds and all."""
    rows = [
        {
            "pg_id": 0,
            "seq_id": 40 + n,
            "profiling_name": "nccl:send 0->1",
            "time_created_us": 1_700_000_000_000_000 + n,
            "input_sizes": [[8]],
            "output_sizes": [[8]],
            "state": "scheduled",
            "retired": False,
            "frames": [FRAME],
        }
        for n in range(count)
    ]
    return pickle.dumps(rows, protocol=2)
