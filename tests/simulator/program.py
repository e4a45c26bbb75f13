"""The nouns of a simulated job: process groups, calls, and what a host thread does one after another."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import NamedTuple

from simulator.knobs import Knobs

# how a call is named by the watchdog and by the recorder (enum and names of ProcessGroupNCCL, 2.2 to 2.13)
OPS = {
    "all_reduce": ("ALLREDUCE", "all_reduce"),
    "barrier": ("ALLREDUCE", "all_reduce_barrier"),
    "broadcast": ("BROADCAST", "broadcast"),
    "reduce": ("REDUCE", "reduce"),
    "all_gather": ("ALLGATHER", "all_gather"),
    "all_gather_base": ("_ALLGATHER_BASE", "_all_gather_base"),
    "reduce_scatter_base": ("_REDUCE_SCATTER_BASE", "_reduce_scatter_base"),
    "all_to_all": ("ALLTOALL_BASE", "all_to_all"),
    "send": ("SEND", "send"),
    "recv": ("RECV", "recv"),
    "coalesced": ("COALESCED", "coalesced"),
}


class Group(NamedTuple):
    """A process group as its members know it. ``role`` is ours: world, tp, dp, pp, ep, edp."""

    uid: str
    desc: str
    members: tuple[int, ...]
    timeout_ms: int
    role: str


class Call(NamedTuple):
    """One call as one rank issues it. ``pieces`` are the sends and receives of a batch: (direction, peer)."""

    group: Group
    op: str
    shape_in: tuple[int, ...]
    shape_out: tuple[int, ...]
    dtype: str
    site: str
    pieces: tuple[tuple[str, int], ...] = ()
    broken: bool = False  # the kernel never ends on anybody

    @property
    def signature(self) -> tuple[str, int, int, str]:
        """The part of a call that must be equal on all members."""
        return self.op, size(self.shape_in), size(self.shape_out), self.dtype


def size(shape: tuple[int, ...]) -> int:
    """Number of elements."""
    count = 1
    for extent in shape:
        count *= extent
    return count


# What a host thread does. ``Issue`` with wait "stream" makes later compute wait for the call, "later" until a Join.
class Issue(NamedTuple):
    call: Call
    wait: str = "stream"


class Compute(NamedTuple):
    seconds: float


class Join(NamedTuple):
    """Compute that follows waits for everything issued before."""


class Sync(NamedTuple):
    """The host waits for the device, as ``loss.item()`` does."""

    doing: str = "log_step"


class Busy(NamedTuple):
    """The host works for a while; the device has nothing new to do."""

    seconds: float
    doing: str


class Stuck(NamedTuple):
    """The host thread never goes on. ``how``: blocked, gil, stopped."""

    doing: str
    how: str = "blocked"


class End(NamedTuple):
    """The process ends: a signal (negative) or an exit code, with the text of an exception if any."""

    code: int
    why: str = ""


class DeviceStop(NamedTuple):
    """The device runs nothing that is issued from here on, and its last ``unseen`` completions are never noticed."""

    unseen: int


class Say(NamedTuple):
    """A line of the program's own; ``text`` empty means the trainer's progress line of ``step``."""

    step: int
    text: str = ""


Instruction = Issue | Compute | Join | Sync | Busy | Stuck | End | DeviceStop | Say
Program = list[list[Instruction]]  # one list per step


_DESC = {
    "megatron": {
        "tp": "TENSOR_MODEL_PARALLEL_GROUP",
        "dp": "DATA_PARALLEL_GROUP",
        "pp": "PIPELINE_MODEL_PARALLEL_GROUP",
        "ep": "EXPERT_MODEL_PARALLEL_GROUP",
        "edp": "EXPERT_DATA_PARALLEL_GROUP",
    },
    "mesh": {role: f"mesh_{role}" for role in ("tp", "dp", "pp", "ep", "edp")},
}


def _partitions(knobs: Knobs) -> list[tuple[str, list[tuple[int, ...]]]]:
    """The sub-groups of a layout, in the order in which every process creates them."""
    world, ranks = knobs.world, range(knobs.world)
    if knobs.layout in ("ddp", "fsdp"):
        return []
    if knobs.layout == "ep":
        width = min(knobs.gpus, 8)
        return [
            ("ep", [tuple(range(base, base + width)) for base in range(0, world, width)]),
            ("edp", [tuple(r for r in ranks if r % width == k) for k in range(width)] if world > width else []),
        ]
    tp, pp = 2, 2 if knobs.layout == "3d" else 1
    stage = world // pp
    parts = [
        ("tp", [tuple(range(base, base + tp)) for base in range(0, world, tp)]),
        (
            "dp",
            [tuple(r for r in range(s * stage, (s + 1) * stage) if r % tp == k) for s in range(pp) for k in range(tp)],
        ),
    ]
    if pp > 1:
        parts.append(("pp", [tuple(r for r in ranks if r % stage == k) for k in range(stage)]))
    return parts


def make_groups(knobs: Knobs) -> list[Group]:
    """All process groups of the job, the world first; numbers count on over groups that a rank is not in."""
    groups = [Group("0", "default_pg", tuple(range(knobs.world)), knobs.timeout_ms, "world")]
    for role, parts in _partitions(knobs):
        for members in parts:
            uid = str(len(groups))
            if knobs.hashed:
                uid = hashlib.sha1(f"{role}{members}".encode()).hexdigest()
            desc = _DESC.get(knobs.names, {}).get(role, "undefined")
            groups.append(Group(uid, desc, members, knobs.sub_timeout_ms, role))
    return groups


@dataclass(frozen=True, slots=True)
class Job:
    """A job before anything happens: knobs, groups, and who runs where."""

    knobs: Knobs
    groups: tuple[Group, ...]
    hosts: tuple[str, ...]

    def of(self, rank: int, role: str) -> Group:
        """The group of that role which the rank is in."""
        return next(g for g in self.groups if g.role == role and rank in g.members)

    def mine(self, rank: int) -> list[Group]:
        """The groups of a rank; the position is its local number (PG ID)."""
        return [g for g in self.groups if rank in g.members]

    def host(self, rank: int) -> str:
        return self.hosts[rank // self.knobs.gpus]

    def local(self, rank: int) -> int:
        return rank % self.knobs.gpus


def make_job(knobs: Knobs) -> Job:
    """Place the ranks on hosts and make the groups."""
    stem, base, width = knobs.host_stem, knobs.host_base, knobs.host_width
    hosts = tuple(f"{stem}{base + k:0{width}d}" for k in range(knobs.nodes))
    return Job(knobs, tuple(make_groups(knobs)), hosts)


def altered(call: Call, **change: object) -> Call:
    """The same call, issued differently."""
    return call._replace(**change)  # type: ignore[arg-type]
