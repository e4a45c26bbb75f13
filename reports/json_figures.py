"""What the pictures are drawn from, as fields of the JSON: run-up, timeline, two stacks, call streams."""

from __future__ import annotations

from typing import Any

from nccldoctor.model import Diagnosis
from nccldoctor.model.figures import NEVER, UNKNOWN, RunUp, StackSide, StreamCall, Timeline
from nccldoctor.reports.parts.sanitize import text


def fields(diagnosis: Diagnosis) -> dict[str, Any]:
    """The four fields; null where the input holds nothing of it."""
    stacks, streams = diagnosis.stacks, diagnosis.streams
    return {
        "run_up": _run_up(diagnosis.run_up) if diagnosis.run_up else None,
        "timeline": _timeline(diagnosis.timeline) if diagnosis.timeline else None,
        "stacks": [_stack(side) for side in (stacks.culprit, stacks.peer) if side is not None] if stacks else [],
        "streams": {
            "left": streams.left,
            "right": streams.right,
            "left_out_before": streams.before,
            "left_out_after": streams.after,
            "rows": [{"kind": row.kind, "left": _call(row.left), "right": _call(row.right)} for row in streams.rows],
        }
        if streams
        else None,
    }


def _run_up(found: RunUp) -> dict[str, Any]:
    return {
        "group": text(found.group),
        "seqs": list(found.seqs),
        "ops": [text(op) for op in found.ops],
        "ranks": str(found.ranks),
        "clocks": text(found.corrected),
        "correction_ms": found.correction_ms,
        "rows": [
            {"rank": row.rank, "late_ms": [_late(v) for v in row.late_ms], "last": row.last} for row in found.rows
        ],
    }


def _late(value: float) -> float | str | None:
    """Milliseconds, ``never`` where the call was not issued, null where it is not recorded."""
    return "never" if value == NEVER else None if value == UNKNOWN else value


def _timeline(found: Timeline) -> dict[str, Any]:
    return {
        "start": round(found.start, 6),
        "end": round(found.end, 6),
        "zone": found.zone or None,
        "hidden": found.hidden,
        "rows": [
            {
                "ranks": str(row.ranks),
                "stretches": [
                    {"kind": s.kind, "start": round(s.start, 6), "end": round(s.end, 6)} for s in row.stretches
                ],
                "marks": [
                    {"kind": m.kind, "at": round(m.at, 6), "text": text(m.text), "where": text(m.where) or None}
                    for m in row.marks
                ],
            }
            for row in found.rows
        ],
    }


def _stack(side: StackSide) -> dict[str, Any]:
    return {
        "rank": side.rank,
        "what": text(side.what),
        "where": text(side.where),
        "left_out": side.cut,
        "frames": [
            {"function": text(f.function), "file": text(f.file), "line": f.line, "own": f.own, "parts": f.parts}
            for f in side.frames
        ],
    }


def _call(call: StreamCall | None) -> dict[str, Any] | None:
    if call is None:
        return None
    return {
        "op": text(call.op),
        "group": text(call.group),
        "seq": call.seq,
        "site": text(call.site),
        "sizes": text(call.sizes),
        "done": call.done,
    }
