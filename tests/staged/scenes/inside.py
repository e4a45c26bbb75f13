"""Scenes in which everybody has entered the call: no reason, a link, a device, a stream that stands."""

from __future__ import annotations

from staged.play import Scene
from staged.scenes.stage import Stage, scene


def _bar(stage: Stage, cls: str, culprits: tuple[int, ...], role: str = "") -> Scene:
    rank = culprits[0] if culprits else stage.someone()
    place = stage.place(rank, role)
    group = stage.group(rank, place)
    return Scene(cls, culprits, group=group, barred={(group.uid, stage.at, place)})


@scene()
def nobody_knows_why(stage: Stage) -> Scene:
    return _bar(stage, "unfinished", ())


@scene(
    hosts=[2, 3, 4],
    nccl_info=True,
    shape=["ddp", "fsdp"],
    sources=["all", "logs", "logs+dumps"],
    layout=["per_rank", "tagged", "merged"],
)
def port_error(stage: Stage) -> Scene:
    """The adapter of one host loses its link; the transport of a rank there says so."""
    rank = stage.someone()
    out = _bar(stage, "network", (rank,))
    out.named_by = "log"
    device = rank % stage.plan.per_host
    out.said.append(
        (
            0.4,
            rank,
            _warn(stage, rank, f"NET/IB : mlx5_{device}:1 async fatal event: port error", "transport/net_ib.cc:142"),
        )
    )
    out.kernel.append(
        (0.1, stage.plan.host(rank), f"mlx5_core 0000:{stage.plan.bus(rank) - 2:02x}:00.0 ib{device}: Link down")
    )
    return out


@scene(hosts=[2, 3, 4], nccl_info=True, sources=["all"], layout=["per_rank", "tagged", "merged", "per_host"])
def fallen_off_the_bus(stage: Stage) -> Scene:
    """The kernel names a device by its bus alone; NCCL's lines say whose it is. Its process stands in the driver."""
    rank = stage.someone()
    out = stage.leave(Scene("hardware", (rank,), named_by="kernel", frozen={rank}), rank, "driver")
    bus = f"PCI:0000:{stage.plan.bus(rank):02x}:00"
    out.kernel.append(
        (
            0.0,
            stage.plan.host(rank),
            f"NVRM: Xid ({bus}): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
        )
    )
    return out


@scene(sources=["all", "logs", "logs+dumps"])
def memory_error_of_a_device(stage: Stage) -> Scene:
    from staged.scenes.absent import traceback

    rank = stage.someone()
    out = stage.leave(Scene("hardware", (rank,), named_by="log"), rank, "gone")
    out.dead[rank] = (2.0, 1, "itself")
    kind = "torch.AcceleratorError" if stage.plan.number >= (2, 8) else "RuntimeError"
    out.said.append((0.6, rank, traceback(stage, rank, kind, "CUDA error: uncorrectable ECC error encountered")))
    return out


@scene(
    release=["2.4", "2.5", "2.6", "2.7", "2.8", "2.9"], sources=["all", "dumps", "logs+dumps"], shape=["ddp", "fsdp"]
)
def device_stands(stage: Stage) -> Scene:
    """The stream of one device stops; its host goes on issuing calls, its peers complete one call more."""
    rank = stage.someone()
    place = stage.rng.randrange(0, max(1, len(stage.programs[rank][stage.at]) - 1))
    out = Scene("device-stalled", (rank,), group=stage.group(rank, place))
    out.stuck = {(rank, stage.at, place)}
    return out


def _warn(stage: Stage, rank: int, text: str, place: str) -> str:
    """A warning of NCCL, after the empty line that it prints first."""
    plan = stage.plan
    device = rank % plan.per_host
    return f"\n{plan.host(rank)}:{plan.pid(rank)}:{plan.pid(rank) + 40} [{device}] {place} NCCL WARN {text}"
