"""Writes recorder dumps: the fields of each release, from what the ring of a rank holds."""

from __future__ import annotations

import json
import pickle
from typing import Any

from simulator.discrete_events import Sim
from simulator.program import OPS, Group
from simulator.sequence_numbers import Counters, Record, kept
from simulator.stacks import frames_of
from simulator.state import Host
from simulator.watchdogs import Story

_SEEN = 0.1  # a completion is noticed that much later


class Dumps:
    """The dumps of one job, as bytes."""

    def __init__(self, story: Story, counters: Counters, first: int) -> None:
        self.story = story
        self.sim: Sim = story.sim
        self.knobs = story.job.knobs
        self.counters = counters
        self.first = first
        self.version = self.knobs.release.recorder
        self.number = tuple(int(p) for p in self.version.split(".")) if self.version != "list" else (0, 0)

    def dump(self, rank: int, at: float, frames: bool) -> bytes:
        """The file a rank writes at a moment of the simulation."""
        host = self.sim.hosts[rank]
        held = kept(self.sim, host, self.counters, self.first, at) if self.knobs.recorder_on else []
        with_frames = frames and self.knobs.frames and not self.knobs.dump_json
        entries = [entry for record in held for entry in self._entries(host, record, at, with_frames)]
        if self.knobs.only_active:
            entries = [e for e in entries if e["state"] != "completed"]
        if self.version == "list":
            return pickle.dumps(entries, 2)
        top = self._top(host, held, entries, at)
        if self.knobs.dump_json and self.number >= (2, 4):
            return self._as_json(top)
        return pickle.dumps(top, 2)

    def recorded(self, rank: int, at: float) -> set[tuple[int, int]]:
        """Rank and place in its own stream of the calls that its ring still holds at a moment."""
        held = kept(self.sim, self.sim.hosts[rank], self.counters, self.first, at)
        return {(rank, r.work.index) for r in held if r.work is not None}

    def _top(self, host: Host, held: list[Record], entries: list[dict[str, Any]], at: float) -> dict[str, Any]:
        mine = self.story.job.mine(host.rank)
        used = {w.call.group.uid for w in host.works if w.issued <= at} | {r.call.group.uid for r in held}
        top: dict[str, Any] = {"version": self.version}
        top["pg_config"] = {
            g.uid: {"name": g.uid, "desc": g.desc, "ranks": "[" + ", ".join(map(str, g.members)) + "]"}
            for g in mine
            if g.uid in used
        }
        if self.number >= (2, 10):
            top["comm_lib_version"] = self.knobs.release.nccl
        elif self.number >= (2, 5):
            top["nccl_version"] = self.knobs.release.nccl
        if self.number >= (2, 3):
            top["pg_status"] = {str(k): self.status(host, g, at) for k, g in enumerate(mine) if g.uid in used}
        top["entries"] = entries
        return top

    def status(self, host: Host, group: Group, at: float) -> dict[str, int]:
        """The three numbers of a group as its watchdog last saw them; they mix both counters since 2.6."""
        base = self.counters.base[host.rank, group]
        pending = base.coll or base.p2p or -1
        out = {"last_enqueued_collective": pending, "last_started_collective": -1, "last_completed_collective": pending}
        if self.knobs.timing:
            out["last_started_collective"] = pending
        for work in host.works:
            if work.call.group is not group or work.issued > at:
                continue
            shown = self.shown_seq(work.call.pieces, work.call.op, work.coll_seq, work.p2p_seq)
            out["last_enqueued_collective"] = shown
            if self.knobs.timing and work.start <= at - _SEEN:
                out["last_started_collective"] = shown
            if work.end <= at - _SEEN:
                out["last_completed_collective"] = shown
        return out

    def shown_seq(self, pieces: object, op: str, coll: int, p2p: int) -> int:
        """The number a watchdog prints: for sends and receives that changed with 2.5 (batches) and 2.6."""
        if not pieces:
            return coll
        return p2p if self.knobs.release.number >= ((2, 5) if op == "coalesced" else (2, 6)) else coll

    def _entries(self, host: Host, record: Record, at: float, frames: bool) -> list[dict[str, Any]]:
        if record.call.op != "coalesced":
            return [self._entry(host, record, at, frames, record.call.op, record.call.pieces, 0)]
        members = [
            self._entry(host, record, at, frames, way, ((way, peer),), k)
            for k, (way, peer) in enumerate(record.call.pieces)
        ]
        return [*members, self._entry(host, record, at, frames, "coalesced", (), len(members))]

    def _name(self, record: Record, rank: int, op: str, pieces: tuple[tuple[str, int], ...]) -> str:
        name = OPS[op][1]
        if op == "barrier" and self.knobs.release.number < (2, 5):
            name = "all_reduce"
        if pieces:
            members = record.call.group.members
            name += f" {members.index(rank)}{'->' if op == 'send' else '<-'}{members.index(pieces[0][1])}"
        return "nccl:" + name

    def _entry(
        self,
        host: Host,
        record: Record,
        at: float,
        frames: bool,
        op: str,
        pieces: tuple[tuple[str, int], ...],
        place: int,
    ) -> dict[str, Any]:
        call, rank = record.call, host.rank
        member = call.op == "coalesced" and op != "coalesced"
        done = record.ended <= at and not member
        begun = self.knobs.timing and record.begun <= at and not member
        state = "completed" if done else "started" if begun else "scheduled"
        retired = record.ended <= at - _SEEN and not member
        closing = op == "coalesced"
        shape_in = [] if closing else [list(call.shape_in)]
        shape_out = [] if closing else [list(call.shape_out)]
        stack = frames_of(call.site, op, self.knobs.release.number) if frames else None
        created = self._ns(record.issued, rank) + place * 8_000
        if self.version == "list":
            out: dict[str, Any] = {
                "pg_id": record.group_id,
                "seq_id": record.coll,
                "profiling_name": self._name(record, rank, op, pieces),
                "time_created_us": created // 1000,
                "input_sizes": shape_in,
                "output_sizes": shape_out,
                "state": state,
                "retired": retired,
            }
            return {**out, "frames": stack} if stack is not None else out
        dtypes = [] if closing else [call.dtype if self.knobs.release.number >= (2, 5) or op != "barrier" else "Byte"]
        out = {"frames": stack} if stack is not None else {}
        out |= {"record_id": record.record + place, "pg_id": record.group_id}
        if self.number < (2, 0):
            out |= {"process_group": call.group.uid, "seq_id": record.coll}
        else:
            out |= {"process_group": (call.group.uid, call.group.desc)}
            if self.number >= (2, 9):
                background = call.site in ("ddp_bucket", "tp_backward", "expert_bucket", "fsdp_reduce", "fsdp_prefetch")
                out |= {"thread_name": "pt_autograd_0" if background else "pt_main_thread"}
                out |= {"thread_id": str(139_700_000_000_000 + rank * 8_392_704 + background * 1024)}
            out |= {"collective_seq_id": record.coll, "p2p_seq_id": record.p2p}
        ops_after = len(call.pieces) - 1 - place if member else 0
        out |= {
            "op_id": record.op - ops_after,
            "profiling_name": self._name(record, rank, op, pieces),
            "time_created_ns": created,
        }
        if self.knobs.timing and done:
            out["duration_ms"] = round((record.ended - record.begun) * 1000, 6)
        noticed_start = self._ns(record.begun + 0.05, rank) if begun else None
        noticed_end = self._ns(record.ended + 0.06, rank) if done else None
        out |= {"input_sizes": shape_in, "input_dtypes": dtypes, "output_sizes": shape_out, "output_dtypes": dtypes}
        out |= {
            "state": state,
            "time_discovered_started_ns": noticed_start,
            "time_discovered_completed_ns": noticed_end,
        }
        out["retired"] = retired
        if self.number >= (2, 3):
            out["timeout_ms"] = call.group.timeout_ms
        if self.number >= (2, 1):
            out["is_p2p"] = bool(pieces)
        return out

    def _ns(self, seconds: float, rank: int) -> int:
        epoch = self.knobs.epoch + skew_of(self.knobs.skew, rank // self.knobs.gpus)
        return int((epoch + seconds) * 1_000_000) * 1000 + 137 * (rank + 1)

    def _as_json(self, top: dict[str, Any]) -> bytes:
        for entry in top["entries"]:
            for key in ("time_discovered_started_ns", "time_discovered_completed_ns"):
                entry[key] = entry[key] or 0
        if "pg_status" in top:
            top["pg_status"] = {k: {a: str(b) for a, b in v.items()} for k, v in top["pg_status"].items()}
        if not top["entries"]:
            del top["entries"]
        return json.dumps(top | {"nccl_comm_state": None}, sort_keys=True, indent=1).encode()


def skew_of(largest: float, host: int) -> float:
    """The clock error of a host, in seconds: fixed by its number, within ``largest``."""
    return largest * ((host * 5 + 3) % 7 - 3) / 3
