"""Jobs that never began, as the store, gloo, NCCL and name look-ups tell it."""

from __future__ import annotations

from random import Random

from builders.logs.lines import old_watchdog, watchdog
from quoted.jobs import Quoted, scene

BARRIER = (
    "INFO:torch.distributed.distributed_c10d:Waiting in store based barrier to initialize process group for rank: {r}, "
    "key: store_based_barrier_key:1 (world_size={world}, worker_count={here}, timeout=0:30:00)\n"
)
LOOKUP = (
    "[W1128 12:58:{second:02d}.727172990 socket.cpp:764] [c10d] The IPv{version} network addresses of ({host}, 29500) cannot be "
    "retrieved (gai error: -2 - Name or service not known).\n"
)
PEER_ACCESS = "Cuda failure 217 'peer access is not supported between these two devices'"
TORCH = '"/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line {line}, in {function}'


@scene(
    "rules/setup/init._waits_at_store: setup.job-never-started",
    "doubts.log-ends",
)
def waits_at_store(rng: Random) -> Quoted:
    """All but one rank wait at the store's barrier when the text ends."""
    world = rng.choice([4, 6, 8])
    late = rng.randrange(1, world)
    came = [rank for rank in range(world) if rank != late]
    return Quoted("init", (late,), {"log.txt": "".join(BARRIER.format(r=r, world=world, here=world - 1) for r in came)})


@scene("doubts.log-ends")
def counts_at_store(rng: Random) -> Quoted:
    """The store counts several as missing, and some that came are not heard."""
    world = rng.choice([8, 16])
    return Quoted("init", (), {"log.txt": "".join(BARRIER.format(r=r, world=world, here=world - 3) for r in (0, 3))})


@scene(
    "rules/setup/init._communicator_failed: setup.communicator-failed",
    "doubts.cause-of-failure",
)
def no_peer_access(rng: Random) -> Quoted:
    """NCCL: two GPUs of a host cannot reach each other."""
    rank = rng.randrange(8)
    text = (
        f"node7:17:952 [{rank}] transport/p2p.cc:272 NCCL WARN {PEER_ACCESS}\n[rank{rank}]: torch.distributed.DistBackendError: NCCL "
        "error in: /pytorch/c10d/NCCLUtils.cpp:94, unhandled cuda error (run with NCCL_DEBUG=INFO for details), NCCL version 2.27.3\n"
        f"[rank{rank}]: ncclUnhandledCudaError: Call to CUDA function failed.\n[rank{rank}]: Last error:\n[rank{rank}]: {PEER_ACCESS}\n"
    )
    return Quoted("init", (), {"train.log": text})


@scene("doubts.cause-of-failure")
def closed_in_start(rng: Random) -> Quoted:
    """NCCL gives up on a start whose connection a peer closed: why, nobody says."""
    host, pid = f"w{rng.randrange(9)}", rng.randrange(50, 90)
    text = (
        f"{host}:{pid}:{pid} [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer {host}<41>\n"
        f"{host}:{pid}:{pid} [0] NCCL INFO init.cc:1358 -> 3\n"
    )
    return Quoted("init", (), {"log.txt": text})


@scene("rules/setup/init._first_call: setup.first-collective", "doubts.late-first-call")
def first_call(rng: Random) -> Quoted:
    """All heard ranks time out in the first call of the job."""
    seen = sorted(rng.sample(range(8), rng.choice([2, 3])))
    lines = (watchdog(r, 1, at=f"E1104 05:06:07.{r}00000000", numel=16) for r in seen)
    return Quoted("init", (), {"log.txt": "".join(lines)})


@scene(
    "rules/setup/init._later_group: setup.waits-for-group",
    "doubts.not-in-group-yet",
)
def new_group_in_halves(rng: Random) -> Quoted:
    """gloo: one half waits for a new group that the other half has left."""
    half, line = rng.choice([2, 3]), rng.randrange(20, 90)
    call, limit = rng.choice(["barrier", "all_reduce"]), rng.choice([18, 30, 60])
    files: dict[str, str | bytes] = {}
    for rank in range(2 * half):
        makes = rank < half
        function, error = (
            (
                "new_group",
                f"torch.distributed.DistStoreError: wait timeout after {limit}000ms, keys: /default_pg/0//1//cpu//0/2",
            )
            if makes
            else (
                call,
                f"RuntimeError: [/pytorch/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting {limit}000ms for recv operation",
            )
        )
        places = (f'"/job/train.py", line {line + makes}, in <module>', TORCH.format(line=5356, function=function))
        rows = ("Traceback (most recent call last):", *(f"  File {place}" for place in places), error)
        files[f"rank_{rank}.log"] = "".join(f"[rank{rank}]: {row}\n" for row in rows)
    return Quoted("init", (), files)


@scene("rules/setup/init._unresolved: setup.job-never-started", "doubts.lookups-go-on")
def name_unresolved(rng: Random) -> Quoted:
    """The ranks of one host cannot look up the name of the store's host."""
    half, version, host = rng.choice([2, 4]), rng.choice([4, 6]), rng.choice(["login1", "head-0", "gpu-a"])
    tries = "".join(LOOKUP.format(second=second, version=version, host=host) for second in (1, 3, 9, 20))
    files: dict[str, str | bytes] = {
        f"rank_{r}.log": f"rank={r} pid={4000 + r} host=vm{r // half} world_size={2 * half}\n" + tries * (r >= half)
        for r in range(2 * half)
    }
    return Quoted("init", tuple(range(half, 2 * half)), files)


@scene("rules/setup/init._unreachable: setup.store-and-call", "doubts.process-not-tied")
def store_and_call(rng: Random) -> Quoted:
    """One rank waits in a call, and a process without a rank never reached the store."""
    number, port = rng.randrange(100, 9000), rng.randrange(30_000, 60_000)
    unreached = f"[E socket.cpp:922] [c10d] The client socket has timed out after 1800s while trying to connect to (10.0.0.2, {port}).\n"
    return Quoted(
        "init", (), {"a.log": old_watchdog(rng.randrange(8), number, numel=1, ran_ms=1_800_254), "b.log": unreached}
    )


@scene("doubts.start-contradicts")
def torn_start(rng: Random) -> Quoted:
    """All but one rank start a communicator; the line of another one is torn."""
    late, torn = rng.sample(range(1, 8), 2)
    line = "{0}: n{1}:30{0}:40{0} [{2}] NCCL INFO ncclCommInitRank comm 0x5{0}c rank {0} nranks 8 cudaDev {2} commId 0x{3} - Init START\n"
    boot = "{0}: n{1}:30{0}:30{0} [{2}] NCCL INFO Bootstrap : Using ib0:10.0.3.1{0}<0>\n"
    lines = [boot.format(r, r // 4, r % 4) for r in range(8)]
    lines += [line.format(r, r // 4, r % 4, "610x1b1" if r == torn else "61b1") for r in range(8) if r != late]
    lines.append(
        "1: [rank1]: torch.distributed.DistStoreError: wait timeout after 600000ms, keys: /default_pg/0//cuda//2\n"
    )
    return Quoted("init", (late,), {"slurm-1.out": "".join(lines)})


@scene("doubts.start-unnamed")
def cut_in_start(rng: Random) -> Quoted:
    """The text ends while a communicator starts."""
    size, rank = rng.choice([8, 16, 32]), rng.randrange(8)
    who = f"rank {rank} nranks {size} cudaDev {rank} nvmlDev {rank}"
    start = f"n7:81:99 [{rank}] NCCL INFO comm 0x7f3aed3f8c00 {who} busId b9000 commId 0xb28c - Init START\n"
    return Quoted("init", (), {"log.txt": start})


@scene("rules/setup/init._half_completed: setup.half-completed", "doubts.start-unnamed")
def half_started(rng: Random) -> Quoted:
    """All ranks start a communicator, those of one parity complete it, and the text ends."""
    size, parity = rng.choice([4, 8, 16]), rng.randrange(2)
    line = "n{0}:8{1}:9{1} [{1}] NCCL INFO ncclCommInitRank comm 0x7f{1} rank {1} nranks {2} cudaDev {1} commId 0xb28c - Init {3}\n"
    lines = [line.format(r // 4, r, size, "START") for r in range(size)]
    lines += [line.format(r // 4, r, size, "COMPLETE") for r in range(parity, size, 2)]
    return Quoted("init", (), {"log.txt": "".join(lines)})
