"""Draws a job from a seed: ranks, hosts, groups, the calls of a step, the release, and the habits of its script."""

from __future__ import annotations

import random
from dataclasses import dataclass

RELEASES = ("2.1", "2.2", "2.3", "2.4", "2.5", "2.6", "2.7", "2.8", "2.9")
SOURCES = ("all", "all", "logs", "dumps", "logs+dumps", "logs+stacks")
DTYPES = ("Float", "BFloat16", "Half")


@dataclass(frozen=True)
class Group:
    """A process group; ``pg_id`` is its place among the groups of each of its members."""

    uid: str
    role: str
    members: tuple[int, ...]
    desc: str
    pg_id: int
    timeout: int


@dataclass(frozen=True)
class Call:
    """One call as the program issues it. ``peer`` is the other end of a send or receive (a global rank)."""

    group: Group
    op: str
    n_in: int
    n_out: int
    dtype: str
    site: tuple[str, int]
    peer: int | None = None


Program = list[list[Call]]
"""The calls of one rank, step by step."""


@dataclass
class Plan:
    """What is fixed before anything goes wrong."""

    rng: random.Random
    seed: int
    release: str
    world: int
    per_host: int
    hosts: list[str]
    shape: str
    groups: list[Group]
    first_step: int
    steps: int
    step_time: float
    start: float
    launcher: str
    layout: str
    sources: str
    dumps_on: bool
    stacks_in_dumps: bool
    timing: bool
    dump_json: bool
    script: str
    nccl_info: bool
    mean: bool

    @property
    def number(self) -> tuple[int, int]:
        """The release as two numbers."""
        major, minor = self.release.split(".")
        return int(major), int(minor)

    def host(self, rank: int) -> str:
        """The host a rank runs on."""
        return self.hosts[rank // self.per_host]

    def pid(self, rank: int) -> int:
        """The process of a rank; no two hosts share a numbering."""
        return 2100 + 7 * self.seed % 900 + 1000 * (rank // self.per_host) + 3 * (rank % self.per_host)

    def bus(self, rank: int) -> int:
        """The bus number of the rank's device on its host."""
        return (0x1A, 0x3B, 0x4C, 0x5D, 0x9A, 0xAB, 0xBA, 0xDB)[rank % self.per_host]

    def group_of(self, role: str, rank: int) -> Group:
        """The rank's group of that role."""
        return next(g for g in self.groups if g.role == role and rank in g.members)


def _groups(shape: str, world: int, width: int, world_limit: int, rng: random.Random) -> list[Group]:
    hashed = rng.random() < 0.3
    named = rng.random() < 0.5
    limit = rng.choice([world_limit, world_limit, 600_000])
    rows: list[tuple[str, tuple[int, ...]]] = [("world", tuple(range(world)))]
    inner = {"tp_dp": "tp", "pp_dp": "pp"}.get(shape)
    if inner == "tp":
        rows += [("tp", tuple(range(i, i + width))) for i in range(0, world, width)]
        rows += [("dp", tuple(range(i, world, width))) for i in range(width)]
    elif inner == "pp":
        stride = world // width
        rows += [("pp", tuple(range(i, world, stride))) for i in range(stride)]
        rows += [("dp", tuple(range(i, i + stride))) for i in range(0, world, stride)]
    out, seen = [], dict.fromkeys(range(world), 0)
    for number, (role, members) in enumerate(rows):
        uid = f"{rng.getrandbits(64):016x}" if hashed and number else str(number)
        desc = "default_pg" if not number else f"mesh_{role}" if named else "undefined"
        out.append(Group(uid, role, members, desc, seen[members[0]], limit if number else world_limit))
        for member in members:
            seen[member] += 1
    return out


def draw(seed: int, name: str, needs: dict[str, object]) -> Plan:
    """The plan of a seed; ``needs`` of the scene come before chance."""
    rng = random.Random(f"{name} {seed}")

    def pick(key: str, choices: list[object]) -> object:
        wanted = needs.get(key, choices)
        return rng.choice(wanted) if isinstance(wanted, list) else wanted

    shape = str(pick("shape", ["ddp", "ddp", "fsdp", "tp_dp", "pp_dp"]))
    per_host = int(str(pick("per_host", [2, 4, 4, 8])))
    count = int(str(pick("hosts", [1, 2, 2, 3, 4, 8])))
    count = max(count, 2 if per_host < 4 and shape != "ddp" else 1)
    world = per_host * count
    width = 2 if world < 16 else rng.choice([2, 4])
    if world % width:
        width = 2
    stem = rng.choice(["node", "gpu-", "dgx", "worker-", "ip-10-0-3-"])
    first = rng.randrange(1, 40)
    limit = rng.choice([120_000, 300_000, 600_000, 600_000, 1_800_000])
    old = rng.random() < 0.75
    launcher = str(pick("launcher", ["torchrun", "torchrun", "srun", "none"]))
    release, sources = str(pick("release", list(RELEASES))), str(pick("sources", list(SOURCES)))
    recorded = sources in ("dumps", "dumps+stacks")
    if recorded and release == "2.1":
        release = "2.2"  # there is no recorder before
    layouts: list[object] = ["per_rank", "per_rank", "per_host", "merged", "tagged"]
    return Plan(
        rng=rng,
        seed=seed,
        release=release,
        world=world,
        per_host=per_host,
        hosts=[f"{stem}{first + i:02d}" for i in range(count)],
        shape=shape,
        groups=_groups(shape, world, width, limit, rng),
        first_step=rng.randrange(40, 30_000) if old else 1,
        steps=rng.randrange(3, 7),
        step_time=rng.choice([0.4, 0.9, 1.7, 4.0]),
        start=1_756_000_000 + rng.randrange(0, 9_000_000),
        launcher=launcher,
        layout=str(pick("layout", layouts)),
        sources=sources,
        dumps_on=rng.random() < 0.85 or recorded,
        stacks_in_dumps=rng.random() < 0.8,
        timing=rng.random() < 0.3,
        dump_json=rng.random() < 0.15,
        script=rng.choice(["plain", "logger", "json", "bar", "table"]),
        nccl_info=bool(pick("nccl_info", [False, True])),
        mean=bool(pick("mean", [True, True, False])),
    )


def healthy(plan: Plan) -> list[Program]:
    """What every rank would do if nothing went wrong; all ranks of a group issue its calls in one order."""
    rng, dtype = plan.rng, plan.rng.choice(DTYPES)
    buckets = [rng.randrange(2_000, 9_000_000) for _ in range(rng.randrange(2, 5))]
    return [[_step(plan, rank, buckets, dtype) for _ in range(plan.steps)] for rank in range(plan.world)]


def _step(plan: Plan, rank: int, buckets: list[int], dtype: str) -> list[Call]:
    world = plan.groups[0]
    size = len(world.members)
    out: list[Call] = []
    if plan.shape == "ddp":
        out += [Call(world, "all_reduce", n, n, dtype, ("reduce_gradients", 140 + i)) for i, n in enumerate(buckets)]
    elif plan.shape == "fsdp":
        out += [Call(world, "all_gather_into_tensor", n, n * size, dtype, ("unshard", 88)) for n in buckets]
        out += [Call(world, "reduce_scatter_tensor", n * size, n, dtype, ("reshard", 97)) for n in buckets[::-1]]
    elif plan.shape == "tp_dp":
        inner, outer = plan.group_of("tp", rank), plan.group_of("dp", rank)
        out += [Call(inner, "all_reduce", n, n, dtype, ("row_parallel", 51)) for n in buckets]
        out += [Call(outer, "all_reduce", n, n, "Float", ("sync_shards", 203)) for n in buckets[:2]]
    else:
        inner, outer = plan.group_of("pp", rank), plan.group_of("dp", rank)
        at = inner.members.index(rank)
        n = buckets[0]
        if at:
            out.append(Call(inner, "recv", n, n, dtype, ("receive_activations", 77), inner.members[at - 1]))
        if at + 1 < len(inner.members):
            out.append(Call(inner, "send", n, n, dtype, ("send_activations", 83), inner.members[at + 1]))
        out += [Call(outer, "all_reduce", n, n, "Float", ("sync_shards", 203)) for n in buckets[1:]]
    if plan.mean:
        out.append(Call(world, "all_reduce", 1, 1, "Float", ("mean_loss", 231)))
    return out
