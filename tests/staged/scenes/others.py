"""Scenes without a call at fault: jobs that never began, that are well, that are looked at while they run or hang."""

from __future__ import annotations

from staged.play import Scene
from staged.scenes.absent import BUSY
from staged.scenes.stage import Stage, scene

NO_ID = (
    "is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store by key '0', but "
    "store->get('0') got error: wait timeout after 600000ms, keys: /default_pg/0//cuda//0. This may indicate a possible "
    "application crash on rank 0 or a network set up issue."
)
"""What the ranks say that wait for the id of the first communicator."""


@scene(
    sources="logs", layout=["per_rank", "tagged"], launcher=["torchrun", "srun"], release=["2.2", "2.4", "2.7", "2.9"]
)
def one_client_missing(stage: Stage) -> Scene:
    """All ranks but one have joined the store; the count and the ranks that were heard leave one open."""
    rank = stage.rng.randrange(1, stage.plan.world)
    out = Scene("init", (rank,), ending="crash", stalled=False, named_by="log")
    n = stage.plan.world
    out.said.append(
        (
            0.0,
            0,
            f"torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. {n - 1}/{n} clients joined.",
        )
    )
    return _never_began(stage, out, {rank})


@scene(sources="logs", layout=["per_rank", "tagged"], launcher=["torchrun", "srun"], release=["2.4", "2.7", "2.9"])
def communicator_never_up(stage: Stage) -> Scene:
    """Rank 0 does not come to the first call: the others wait for the id that it makes."""
    out = Scene("init", (0,), ending="crash", stalled=False, named_by="log")
    for rank in range(1, stage.plan.world):
        out.said.append(
            (
                0.2 + rank / 100,
                rank,
                f"torch.distributed.DistBackendError: [{rank}] {NO_ID}",
            )
        )
    return _never_began(stage, out, {0})


@scene(sources="logs", layout=["per_rank", "tagged"], launcher=["torchrun", "srun"], hosts=[2, 3])
def host_unreachable(stage: Stage) -> Scene:
    """The ranks of one host cannot reach the master; no other rank gets further."""
    host = stage.rng.choice(stage.plan.hosts[1:])
    far = [r for r in range(stage.plan.world) if stage.plan.host(r) == host]
    out = Scene("init", tuple(far), ending="crash", stalled=False, told=(False, True))
    for rank in far:
        out.said.append(
            (
                0.1,
                rank,
                f"torch.distributed.DistNetworkError: The client socket has timed out after 600000ms while trying to connect "
                f"to ({stage.plan.hosts[0]}, 29500).",
            )
        )
    return _never_began(stage, out, set())


def _never_began(stage: Stage, out: Scene, silent: set[int]) -> Scene:
    for rank in range(stage.plan.world):
        stage.programs[rank] = []
        if rank not in silent:
            out.dead[rank] = (1.0 + rank / 50, 1, "itself")
            out.said.append(
                (-600.0 - rank / 10, rank, f"starting, rank {rank} of {stage.plan.world} on {stage.plan.host(rank)}")
            )
    return out


@scene()
def finished(stage: Stage) -> Scene:
    return Scene("none", ending="finished", stalled=False)


@scene(sources=["all", "logs", "logs+dumps"])
def finished_with_noise(stage: Stage) -> Scene:
    """Warnings that look bad and mean nothing."""
    out, rng = Scene("none", ending="finished", stalled=False), stage.rng
    lines = [
        "UserWarning: grad and param do not obey the gradient layout contract. This is not an error, but may impair performance.",
        "Gradient overflow. Skipping step, loss scaler reducing loss scale to 32768",
        "retrying shard 17 after ConnectionResetError (attempt 1 of 5)",
        "DeprecationWarning: the timeout argument is ignored",
    ]
    for text in rng.sample(lines, 2):
        out.said.append((-rng.uniform(1, 20), stage.someone(), text))
    return out


@scene(release=["2.6", "2.7", "2.8", "2.9"], sources=["logs+dumps", "all"], layout=["per_rank", "tagged"])
def running(stage: Stage) -> Scene:
    """Dumps were asked for while the job ran; its log goes on after them."""
    return Scene("none", ending="live", stalled=False, notes={"asked": "dumps"})


@scene(sources="stacks", layout="per_rank")
def live_one_outside(stage: Stage) -> Scene:
    """Two looks at a job that stands: stacks and no log."""
    rank = stage.someone()
    return stage.leave(Scene("not-arrived", (rank,), ("frozen",), ending="live"), rank, stage.rng.choice(BUSY))


@scene(sources="logs+stacks", layout=["per_rank", "tagged"])
def live_with_quiet_logs(stage: Stage) -> Scene:
    """Two looks at a job that stands; its logs simply end."""
    rank = stage.someone()
    return stage.leave(Scene("not-arrived", (rank,), ("frozen",), ending="live"), rank, stage.rng.choice(BUSY))


@scene(sources="stacks", layout="per_rank", shape=["ddp", "fsdp"])
def live_all_inside(stage: Stage) -> Scene:
    """Everybody stands in the same call, twice."""
    place = stage.place(0)
    group = stage.group(0, place)
    out = Scene("unfinished", (), ("undetermined", "network", "device-stalled"), ending="live", group=group)
    out.barred = {(group.uid, stage.at, place)}
    out.told = (True, False)
    return out


@scene(sources="logs+stacks", layout=["per_rank", "tagged"])
def live_and_well(stage: Stage) -> Scene:
    """Two looks at a job that runs: its log goes on after both."""
    return Scene("none", ending="live", stalled=False, notes={"asked": "stacks"})


@scene(sources="notes")
def sources_alone(stage: Stage) -> Scene:
    """No output at all: a script, an alert rule and a note that quotes an old failure."""
    return Scene("undetermined", ending="finished", stalled=False, told=(True, False), notes={"alone": "1"})
