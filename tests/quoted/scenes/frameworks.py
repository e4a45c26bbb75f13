"""What Horovod, JAX, HCCL and tools beside a job say of its ranks."""

from __future__ import annotations

from random import Random

from quoted.jobs import Quoted, scene

STALL = (
    "[1,0]<stderr>:WARNING: One or more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks and are "
    "waiting for remainder of ranks for more than 60 seconds.\n[1,0]<stderr>:Stalled ops:\n"
)
NOTIFY = (
    "[rank{rank}]: EI0002: [PID: 70{own}] 2026-01-19-04:21:56.220.861 The wait execution of the Notify register times out. Reason: "
    "The Notify register has not received the Notify record from remote rank: [{peer}]. base information: [streamID:[42], "
    "taskID[9], tag[AllReduce_group_name_3RingAllReduce]]. group information: [group:[group_name_3], rankSize[4], rankId[{own}]]\n"
)
SLOW = (
    "[rank0]: 2026-03-02 10:03:00,000 WARNING STRAGGLER DETECTION WARNING: Some GPUs have worse relative performance. "
    "Affected ranks: {{StragglerId(rank={rank}, node='n{node}')}}\n"
)


def steps(world: int, last: int) -> str:
    return "".join(f"[1,{rank}]<stdout>:step {step} loss 1.25\n" for step in range(1, last) for rank in range(world))


@scene(
    "signs/framework_reports.find_branches: reports.branches-apart",
    "doubts.only-this-report",
)
def ready_for_two_tensors(rng: Random) -> Quoted:
    """Horovod: one rank submitted a different tensor from the others."""
    world = rng.choice([4, 6, 8])
    odd = rng.randrange(world)
    rest = [rank for rank in range(world) if rank != odd]
    rng.shuffle(rest)
    listed = f"loss_{rng.randrange(9)} [ready ranks: {odd}], conv_{rng.randrange(9)} [ready ranks: {', '.join(map(str, rest))}]"
    return Quoted(
        "op-mismatch", (odd,), {"job.log": steps(world, rng.randrange(3, 6)) + STALL + f"[1,0]<stderr>:{listed}\n"}
    )


@scene("doubts.no-majority-reports")
def ready_in_halves(rng: Random) -> Quoted:
    """Horovod: one half waits in one tensor, the other in another; nobody can say which half is wrong."""
    half = rng.choice([2, 3, 4])
    low, high = (", ".join(map(str, range(at, at + half))) for at in (0, half))
    listed = f"[1,0]<stderr>:loss [ready ranks: {high}], conv [ready ranks: {low}]\n"
    return Quoted("op-mismatch", (), {"job.log": steps(2 * half, 4) + STALL + listed})


@scene("rules/absent/not_arrived._end_of_peers: key", "doubts.group-numbers")
def chain_of_notify(rng: Random) -> Quoted:
    """HCCL: each rank of a group waits for the next one, and the last of the chain complains of nobody."""
    first = rng.choice([0, 4, 8])
    waits = [(0, 3), (3, 2), (2, 1)]
    lines = [NOTIFY.format(rank=first + own, own=own, peer=peer) for own, peer in waits]
    rng.shuffle(lines)
    return Quoted("not-arrived", (first + 1,), {"job.log": "".join(lines)})


@scene(
    "rules/absent/not_arrived._named_by_framework: misses",
    "doubts.lists-some",
)
def jax_barrier(rng: Random) -> Quoted:
    """JAX: some tasks of a barrier timed out by name, and more are missing than are listed."""
    size = rng.choice([6, 8])
    absent = tuple(sorted(rng.sample(range(size - 1), 2)))
    names = "".join(f"/job:jax_worker/replica:0/task:{task}\n" for task in absent)
    text = (
        "jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Id: saved.0. This usually happens because.\n"
        f"# of tasks that reached the barrier: {size - 3}/{size}.\nThe first task at the barrier: "
        f"/job:jax_worker/replica:0/task:{size - 1}. Some timed out task names:\n{names}\nRPC: /tensorflow.CoordinationService/Barrier\n"
    )
    return Quoted("not-arrived", absent, {"job.log": text})


@scene("doubts.lists-arrived")
def ready_and_a_gap(rng: Random) -> Quoted:
    """Horovod lists who is ready; the gaps below the highest rank did not come."""
    highest = rng.choice([5, 7])
    gap = rng.randrange(1, highest)
    came = ", ".join(str(rank) for rank in range(highest + 1) if rank != gap)
    return Quoted("not-arrived", (gap,), {"job.log": f"{STALL}[1,0]<stderr>:grads_1 [ready ranks: {came}]\n"})


@scene("rules/slow/reported_slow.judge: slow.reported-slower", "doubts.one-tool")
def tool_finds_a_slow_rank(rng: Random) -> Quoted:
    """NVRx compares the kernels of all ranks."""
    world = rng.choice([4, 8])
    rank = rng.randrange(1, world)
    lines = "".join(
        f"[rank{r}]: 2026-03-02 10:0{m}:00,000 INFO step={m * 10} loss=2.31\n" for m in (1, 2) for r in range(world)
    )
    return Quoted("straggler", (rank,), {"train.log": lines + SLOW.format(rank=rank, node=rank // 4)})


@scene("doubts.mpi-peer")
def mpi_error(rng: Random) -> Quoted:
    """Open MPI: an error of the library ends one rank, and may tell of its peer."""
    rank = rng.randrange(1, 4)
    text = (
        f"[node{rank}:{rng.randrange(2000, 9000)}] *** An error occurred in MPI_Allreduce\n"
        f"[node{rank}:4711] *** reported by process [3411148801,{rank}]\n"
        f"[node{rank}:4711] *** on communicator MPI_COMM_WORLD\n[node{rank}:4711] *** MPI_ERR_TRUNCATE: message truncated\n"
        f"[node{rank}:4711] *** MPI_ERRORS_ARE_FATAL (processes in this communicator will now abort,\n"
        f"[node{rank}:4711] ***    and potentially your MPI job)\n"
    )
    return Quoted("raised", (rank,), {"job.log": text})


@scene("doubts.no-world-size")
def ready_in_an_excerpt(rng: Random) -> Quoted:
    """The same list in an excerpt without the world size: higher ranks may be missing from both lists."""
    most = rng.choice([3, 5])
    listed = f"loss [ready ranks: {most}], conv [ready ranks: {', '.join(map(str, range(most)))}]"
    return Quoted("op-mismatch", (most,), {"job.log": f"{STALL}[1,0]<stderr>:{listed}\n"})
