"""Builds the healthy program of every rank for a training step; faults edit it afterwards."""

from __future__ import annotations

import random
from dataclasses import dataclass

from simulator.program import Busy, Call, Compute, Group, Instruction, Issue, Job, Join, Program, Say, Sync

STEP_SECONDS = 0.9


@dataclass(frozen=True, slots=True)
class Model:
    """Sizes that all ranks agree on: gradient buckets, sharded units, activations."""

    buckets: tuple[int, ...]
    units: tuple[int, ...]
    hidden: tuple[int, int, int]
    layers: int
    tokens: int


def make_model(rng: random.Random, job: Job) -> Model:
    """Draw the sizes; bucket sizes differ from each other nearly always, layers of one kind do not."""
    return Model(
        tuple(rng.randrange(4_000, 40_000) * 128 for _ in range(rng.choice([3, 4, 5]))),
        tuple(rng.randrange(500, 4_000) * 32 * job.knobs.world for _ in range(rng.choice([3, 4]))),
        (rng.choice([512, 1024, 2048]), 1, rng.choice([1024, 2048, 4096])),
        2,
        rng.choice([1024, 2048]),
    )


def calls_like(group: Group, op: str, count: int, dtype: str, site: str) -> Call:
    """A call on a flat tensor; for gathers and scatters ``count`` is the part of one rank."""
    whole = (count * len(group.members),)
    part = (count,)
    shapes = {"all_gather_base": (part, whole), "reduce_scatter_base": (whole, part)}
    shape_in, shape_out = shapes.get(op, (part, part))
    return Call(group, op, shape_in, shape_out, dtype, site)


def _tail(job: Job, rank: int, step: int, *, norm: bool) -> list[Instruction]:
    """The end of a step: gradient norm, loss average, what the trainer prints, now and then a checkpoint."""
    knobs, world = job.knobs, job.groups[0]
    out: list[Instruction] = []
    if norm:
        out.append(Issue(calls_like(world, "all_reduce", 1, "Float", "clip_grads")))
    out.append(Issue(calls_like(world, "all_reduce", 1 if norm else 2, "Float", "average_loss")))
    if step % knobs.sync_every == 0:
        out.append(Sync())
    out.append(Say(step))
    if step % knobs.ckpt_every == 0:
        out.extend(checkpoint(job, rank))
    return out


def checkpoint(job: Job, rank: int, seconds: float = 6.0) -> list[Instruction]:
    """Rank 0 writes, the others wait for it at a barrier."""
    out: list[Instruction] = [Sync("save_checkpoint")]
    if rank == 0:
        out.append(Busy(seconds, "save"))
    out.append(Issue(calls_like(job.groups[0], "barrier", 1, "Float", "checkpoint_barrier")))
    out.append(Sync("checkpoint_barrier"))
    return out


def _ddp(job: Job, rank: int, model: Model) -> list[Instruction]:
    out: list[Instruction] = [Compute(STEP_SECONDS * 0.4)]
    for count in model.buckets:
        out.append(Compute(STEP_SECONDS * 0.5 / len(model.buckets)))
        out.append(Issue(calls_like(job.groups[0], "all_reduce", count, "Float", "ddp_bucket"), "later"))
    out.append(Join())
    return out


def _fsdp(job: Job, rank: int, model: Model) -> list[Instruction]:
    world = job.groups[0]
    part = [count // job.knobs.world for count in model.units]
    out: list[Instruction] = []
    for count in part:
        out.append(Issue(calls_like(world, "all_gather_base", count, "BFloat16", "fsdp_unshard")))
        out.append(Compute(STEP_SECONDS * 0.3 / len(part)))
    for count in reversed(part):
        out.append(Issue(calls_like(world, "all_gather_base", count, "BFloat16", "fsdp_prefetch")))
        out.append(Compute(STEP_SECONDS * 0.5 / len(part)))
        out.append(Issue(calls_like(world, "reduce_scatter_base", count, "Float", "fsdp_reduce"), "later"))
    out.append(Join())
    return out


def _tensor(job: Job, rank: int, model: Model, site: str, seconds: float) -> list[Instruction]:
    """The tensor-parallel calls of one forward or backward of all layers."""
    group = job.of(rank, "tp")
    call = Call(group, "all_reduce", model.hidden, model.hidden, "BFloat16", site)
    out: list[Instruction] = []
    for _ in range(model.layers * 2):
        out += [Compute(seconds / (model.layers * 2)), Issue(call)]
    return out


def _sharded_optimizer(job: Job, rank: int, model: Model) -> list[Instruction]:
    group = job.of(rank, "dp")
    part = [max(count // len(group.members) // 8, 16) for count in model.units]
    reduce = [Issue(calls_like(group, "reduce_scatter_base", n, "Float", "reduce_grads"), "later") for n in part]
    gather = [Issue(calls_like(group, "all_gather_base", n, "BFloat16", "gather_params")) for n in part]
    clip = Issue(calls_like(job.groups[0], "all_reduce", 1, "Float", "clip_grads"))
    return [*reduce, Join(), clip, Compute(STEP_SECONDS * 0.05), *gather]


def _tpdp(job: Job, rank: int, model: Model) -> list[Instruction]:
    return [
        *_tensor(job, rank, model, "tp_forward", STEP_SECONDS * 0.4),
        *_tensor(job, rank, model, "tp_backward", STEP_SECONDS * 0.5),
        *_sharded_optimizer(job, rank, model),
    ]


def _batch(job: Job, rank: int, model: Model, site: str, *pieces: tuple[str, int]) -> list[Instruction]:
    """Sends and receives with neighbouring stages, as one batch or one by one."""
    group, hidden = job.of(rank, "pp"), model.hidden
    if job.knobs.p2p_batched:
        return [Issue(Call(group, "coalesced", hidden, hidden, "BFloat16", site, pieces))]
    return [Issue(Call(group, way, hidden, hidden, "BFloat16", site, ((way, peer),))) for way, peer in pieces]


def _3d(job: Job, rank: int, model: Model) -> list[Instruction]:
    """Two stages, one forward one backward: the first stage is one micro-batch ahead."""
    group, micro = job.of(rank, "pp"), job.knobs.micro
    seconds = STEP_SECONDS / micro
    forward = lambda: _tensor(job, rank, model, "tp_forward", seconds * 0.4)  # noqa: E731
    backward = lambda: _tensor(job, rank, model, "tp_backward", seconds * 0.5)  # noqa: E731
    peer = group.members[1] if rank == group.members[0] else group.members[0]
    out: list[Instruction] = []
    if rank == group.members[0]:
        out += [*forward(), *_batch(job, rank, model, "send_forward", ("send", peer))]
        for _ in range(micro - 1):
            out += forward()
            out += _batch(job, rank, model, "send_forward_recv_backward", ("send", peer), ("recv", peer))
            out += backward()
        out += [*_batch(job, rank, model, "recv_backward", ("recv", peer)), *backward()]
    else:
        out += _batch(job, rank, model, "recv_forward", ("recv", peer))
        for k in range(micro):
            out += [*forward(), *backward()]
            if k < micro - 1:
                pieces = (("recv", peer), ("send", peer))
                out += _batch(job, rank, model, "send_backward_recv_forward", *pieces)
            else:
                out += _batch(job, rank, model, "send_backward", ("send", peer))
    return [*out, *_sharded_optimizer(job, rank, model)]


def _ep(job: Job, rank: int, model: Model) -> list[Instruction]:
    group = job.of(rank, "ep")
    shape = (model.tokens, model.hidden[2])
    out: list[Instruction] = []
    for site in ("dispatch", "combine", "combine_backward", "dispatch_backward"):
        for _ in range(2):
            out += [Compute(STEP_SECONDS * 0.1), Issue(Call(group, "all_to_all", shape, shape, "BFloat16", site))]
    for count in model.buckets[:2]:
        out.append(Issue(calls_like(job.groups[0], "all_reduce", count, "Float", "ddp_bucket"), "later"))
    if any(g.role == "edp" for g in job.groups):
        out.append(
            Issue(calls_like(job.of(rank, "edp"), "all_reduce", model.buckets[2], "Float", "expert_bucket"), "later")
        )
    return [*out, Join()]


_LAYOUTS = {"ddp": _ddp, "fsdp": _fsdp, "tpdp": _tpdp, "3d": _3d, "ep": _ep}


def one_step(job: Job, rank: int, model: Model, step: int) -> list[Instruction]:
    """All that the host thread of a rank does in one step."""
    layout = job.knobs.layout
    data: list[Instruction] = [Busy(0.004, "next_batch")]
    return [*data, *_LAYOUTS[layout](job, rank, model), *_tail(job, rank, step, norm=layout in ("fsdp", "ep"))]


def opening(job: Job, rank: int, model: Model) -> list[Instruction]:
    """Before the first step: parameters are broadcast, then everybody meets."""
    world = job.groups[0]
    sent = [Issue(calls_like(world, "broadcast", count, "Float", "sync_params")) for count in model.buckets[:2]]
    return [*sent, Issue(calls_like(world, "barrier", 1, "Float", "start_barrier")), Sync("start_barrier")]


def programs(job: Job, model: Model, steps: range) -> list[Program]:
    """The healthy program of every rank: opening if the job starts here, then the steps."""
    out: list[Program] = []
    for rank in range(job.knobs.world):
        first = [opening(job, rank, model)] if steps.start == 1 else []
        out.append(first + [one_step(job, rank, model, step) for step in steps])
    return out
