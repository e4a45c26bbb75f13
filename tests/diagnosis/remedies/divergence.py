"""Jobs whose ranks issue different calls: for each remedy one that it must come first in, and a near miss."""

from __future__ import annotations

from collections.abc import Callable

from builders.remedies.remedy_jobs import ALL, Job, RecordedRank, Team, site

STEP = {"frames": site("train_step")}


def _tapes(then: Callable[[int, RecordedRank], object], *teams: Team, before: int = 20, op: str = "all_reduce") -> Job:
    """Twenty equal calls, then what ``then`` says of each rank."""
    recorded_ranks = [RecordedRank(rank, *(teams or (ALL,))) for rank in range(8)]
    for recorded in recorded_ranks:
        recorded.calls(before, op, **STEP)
        then(recorded.rank, recorded)
    return Job(steps=0).recorded_ranks(*recorded_ranks)


def skips(op: str, function: str = "train_step", file: str = "/opt/train/train.py", culprit: int = 5) -> Job:
    """One rank leaves out a call that the others make, and goes on to the next."""

    def then(rank: int, recorded: RecordedRank) -> None:
        for step in range(8):
            recorded.call("reduce_scatter", n=4096, **STEP)
            if step < 7:
                recorded.call(op, n=512, frames=site(function, file, 55))
        if rank != culprit:
            recorded.call(op, n=512, done=False, frames=site(function, file, 55))
        else:
            recorded.call("reduce_scatter", n=4096, done=False, **STEP)

    return _tapes(then)


def other(mine: dict, theirs: dict, culprit: int = 5) -> Job:
    """One rank makes another call than its peers at the same place."""

    def then(rank: int, recorded: RecordedRank) -> None:
        call = dict(mine if rank == culprit else theirs)
        recorded.call(call.pop("op", "all_reduce"), done=False, **(STEP | call))

    return _tapes(then)


def partner(first: str, second: str, culprit: int = 5) -> Job:
    """Two groups of the same members, used in another order by one rank."""
    one, two = Team("1", first, tuple(range(8))), Team("2", second, tuple(range(8)))

    def then(rank: int, recorded: RecordedRank) -> None:
        order = (two, one) if rank == culprit else (one, two)
        for team in order:
            recorded.call(
                "all_reduce", team, done=False, n=64, frames=site(f"use_{team.desc}", line=70 + int(team.uid))
            )

    return _tapes(then, ALL, one, two)


def silent(
    function: str, file: str = "/opt/train/train.py", op: str = "all_reduce", culprit: int = 5, n: int = 512
) -> Job:
    """One rank makes no further call; the others wait in one made in ``function``."""

    def then(rank: int, recorded: RecordedRank) -> None:
        if rank != culprit:
            recorded.call(op, n=n, done=False, frames=site(function, file, 55))

    return _tapes(then)


def crash(error: str, rank: int = 5) -> Job:
    return Job().raises(rank, error, "train_step").ends({rank: 1}, rank // 4)


def subset(warned: bool) -> Job:
    def then(rank: int, recorded: RecordedRank) -> None:
        if rank < 6:
            recorded.call("all_gather", n=16, done=False, frames=site("gather_part"))

    job = _tapes(then)
    text = (
        "UserWarning: Running all_gather on global rank 6 which does not belong to the given group."
        if warned
        else "UserWarning: slow"
    )
    return job.raw(
        "node1/rank_6.log", f"/opt/venv/lib/python3.12/site-packages/torch/distributed/distributed_c10d.py:2400: {text}"
    )


def transfer(received: bool) -> Job:
    def then(rank: int, recorded: RecordedRank) -> None:
        if rank == 2:
            recorded.send(3, done=received, **STEP)
        if rank == 3 and received:
            recorded.recv(2, **STEP)
        recorded.call("all_reduce", done=False, n=4, **STEP)

    return _tapes(then)


def stuck_in(
    function: str,
    op: str = "all_gather",
    group: str = "default_pg",
    before: int = 20,
    file: str = "/opt/train/train.py",
) -> Job:
    team = Team("3", group, tuple(range(8)))

    def then(rank: int, recorded: RecordedRank) -> None:
        recorded.calls(before, "all_reduce", team, **STEP).call(
            op, team, done=False, n=16, frames=site(function, file, 55)
        )

    return _tapes(then, ALL, team, before=0)


CASES = {
    "collective-by-subset": (lambda: subset(True), lambda: subset(False)),
    "control-flow-divergence": (
        lambda: skips("all_gather", "log_if_best"),
        lambda: silent("log_if_best"),
    ),
    "cuda-device-max-connections": (
        lambda: partner("tp", "tp_overlap").launch("export CUDA_DEVICE_MAX_CONNECTIONS=8"),
        lambda: partner("dp_a", "dp_b").launch("export CUDA_DEVICE_MAX_CONNECTIONS=8"),
    ),
    "ddp-checkpoint-reentrant": (
        lambda: crash("RuntimeError: Expected to mark a variable ready only once. This error is caused by one of the following reasons: 1) Use of a module parameter outside"),
        lambda: crash("RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"),
    ),
    "dtype-mismatch": (
        lambda: other({"input_dtypes": ["BFloat16"], "output_dtypes": ["BFloat16"]}, {}),
        lambda: other({"op": "broadcast"}, {}),
    ),
    "exception-swallowed": (
        lambda: Job().say(5, "step failed, batch skipped").logs_error(5, "ValueError: negative box width in sample 8812").say(5, "step 502 loss 2.02").late(5),
        lambda: Job().say(5, "warning: negative box width in sample 8812").late(5),
    ),
    "find-unused-needed": (
        lambda: crash("RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one. This error indicates that your module has parameters that were not used"),
        lambda: crash("RuntimeError: one of the variables needed for gradient computation has been modified by an inplace operation"),
    ),
    "models-differ": (
        lambda: crash("RuntimeError: [5]: params[0] in this process with sizes [16, 4] appears not to match sizes of the same param in process 0."),
        lambda: crash("RuntimeError: The size of tensor a (16) must match the size of tensor b (4) at non-singleton dimension 0"),
    ),
    "fsdp-local-early-return": (
        lambda: skips("all_reduce", "clip", "/opt/train/optim/optimizer.py"),
        lambda: skips("all_reduce", "clip", "/opt/train/losses.py"),
    ),
    "fsdp-rank0-state-dict": (
        lambda: silent("full_state_dict", "/opt/train/save.py", "_all_gather_base", culprit=5),
        lambda: silent("build_table", "/opt/train/save.py", "reduce_scatter", culprit=5),
    ),
    "forward-order-changed": (
        lambda: Job().late(5, seq=10).raw("node1/rank_5.log", "UserWarning: Forward order differs from that of the first iteration on rank 5. Collectives are unchecked and may give incorrect results or hang."),
        lambda: Job().late(5, seq=10).raw("node1/rank_4.log", "UserWarning: Forward order differs from that of the first iteration on rank 4. Collectives are unchecked and may give incorrect results or hang."),
    ),
    "gan-or-multi-ddp-order": (
        lambda: other({"frames": site("backward_D")}, {"op": "broadcast", "frames": site("backward_G")}),
        lambda: other({"frames": site("backward_x")}, {"op": "broadcast", "frames": site("backward_y")}),
    ),
    "new-group-not-by-all": (
        lambda: Job(steps=0).late(5, seq=3).stack(0, "_store_based_barrier (torch/distributed/distributed_c10d.py:1000)", "new_group (torch/distributed/distributed_c10d.py:5000)"),
        lambda: Job(steps=0).late(5, seq=3).stack(0, "all_reduce (torch/distributed/distributed_c10d.py:2800)"),
    ),
    "no-sync-mismatch": (
        lambda: skips("all_reduce", "accumulate"),
        lambda: skips("all_reduce", "evaluate_loss"),
    ),
    "object-collective-device": (
        lambda: stuck_in("all_gather_object", before=1).raw(
            "node0/rank_1.log", "[rank1]:[W1120 09:35:10.336386705 ProcessGroupNCCL.cpp:4571] [PG ID 0 PG GUID 0 Rank 1]  using GPU 1 as device used by this process is currently "
            "unknown. This can potentially cause a hang if this rank to GPU mapping is incorrect."),
        lambda: stuck_in("gather_features", before=400).raw("node0/rank_1.log", "2026-11-20 09:00:00,000 INFO using GPU 1"),
    ),
    "pg-interleave-deadlock": (
        lambda: partner("replicas", "shards"),
        lambda: stuck_in("train_step", "all_reduce"),
    ),
    "rank-crash-first": (
        lambda: crash("KeyError: 'labels'"),
        lambda: Job().late(5).raises(1, "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2355, remote process exited, NCCL version 2.21.5"),
    ),
    "rank-exited-early": (
        lambda: Job().late(5).ends({5: 0}, 1).raw("node1/rank_5.log", "2026-11-20 10:00:30,000 INFO Exiting normally"),
        lambda: Job().late(5).ends({5: 3}, 1),
    ),
    "reduce-op-or-root-mismatch": (
        lambda: stuck_in("sync_weights", "broadcast", "pipeline_parallel"),
        lambda: stuck_in("sync_weights", "all_reduce", "pipeline_parallel"),
    ),
    "send-without-receive": (lambda: transfer(False), lambda: transfer(True)),
    "shape-mismatch": (lambda: other({"n": 24}, {"n": 16}), lambda: other({"n": 16}, {"n": 16})),
    "stale-store-elastic": (
        lambda: Job(steps=0).raises(5, "torch.distributed.DistNetworkError: worker 5 has already checked in for rank 5 under this key").ends({5: 1}, 1),
        lambda: Job(steps=0).raises(5, "PermissionError: worker 5 may not write here").ends({5: 1}, 1),
    ),
    "stray-old-process": (
        lambda: Job(steps=0).raises(0, "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use").ends({0: 1}),
        lambda: Job(steps=0).raises(0, "FileExistsError: run folder already in use").ends({0: 1}),
    ),
    "syncbn-divergence": (
        lambda: silent("forward", "/opt/venv/lib/python3.12/site-packages/torch/nn/modules/_functions.py"),
        lambda: silent("forward", "/opt/train/blocks.py"),
    ),
    "missing-modality": (
        lambda: silent("get_image_features", "/opt/venv/lib/python3.12/site-packages/transformers/models/llava/modeling_llava.py", "_all_gather_base", n=72),
        lambda: silent("embed_tokens", "/opt/venv/lib/python3.12/site-packages/transformers/models/llava/modeling_llava.py", "_all_gather_base", n=72),
    ),
    "wrong-process-group": (
        lambda: misdirected("dp_group", "tp_group"),
        lambda: misdirected("dp_group", "tp_group", n=96),
    ),
    "zero3-generate": (
        lambda: silent("generate", "/opt/venv/lib/python3.12/site-packages/transformers/generation/utils.py", "_all_gather_base"),
        lambda: silent("generate_report", "/opt/train/report.py", "_all_gather_base", n=64),
    ),
    "zero3-moe-unused-experts": (
        lambda: silent("fetch_sub_module", "/opt/venv/lib/python3.12/site-packages/deepspeed/runtime/zero/partitioned_param_coordinator.py", "_all_gather_base"),
        lambda: silent("fetch_rows", "/opt/train/table.py", "_all_gather_base", n=65),
    ),
}  # fmt: skip


def misdirected(right: str, wrong: str, n: int = 64) -> Job:
    """One rank makes the call of the others (or one of ``n`` elements) in another group of the same members, and theirs no more."""
    one, two = Team("1", right, tuple(range(4))), Team("2", wrong, tuple(range(4)))

    def then(rank: int, recorded: RecordedRank) -> None:
        if rank < 4:
            recorded.calls(6, "all_reduce", one, n=64, **STEP)
            recorded.calls(6, "all_gather", two, n=32, **STEP)
            recorded.call("all_reduce", two if rank == 2 else one, n=n if rank == 2 else 64, done=False, **STEP)

    return _tapes(then, ALL, one, two)
