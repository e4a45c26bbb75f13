"""Jobs whose cause is the network: for each remedy one that it must come first in, and a near miss."""

from __future__ import annotations

from builders.remedies.remedy_jobs import Job

TAIL = "opcode 0, len 0, vendor err 129 (Send) localGid fe80::1 remoteGidsfe80::2 hca mlx5_1"


def completion(status: int, *more: str) -> Job:
    return Job().nccl(
        1,
        f"transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer 10.0.1.5<33812> with error {status}, {TAIL}",
        *more,
    )


def store(text: str, rank: int = 5) -> Job:
    return Job(steps=0).raw(f"node1/rank_{rank}.log", text)


def refused(how: str) -> Job:
    return Job(steps=0).nccl(
        5, f"misc/socket.cc:477 NCCL WARN socketStartConnect: Connect to 10.0.0.4<4401> failed : {how}"
    )


def waits_for_id(rank: int) -> str:
    return (
        f"torch.distributed.DistBackendError: [{rank}] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store "
        "by key '0', but store->get('0') got error: wait timeout after 600000ms, keys: /default_pg/0//cuda//0"
    )


def begun(late: int, minutes: int) -> Job:
    """A start at which one rank prints its first line that much later than the others, of which one gives up."""
    job = Job(steps=0).raw("node0/rank_1.log", waits_for_id(1))
    lines = job.lines[job.log(late)]
    lines[:] = [line.replace("09:00:", f"09:{minutes:02d}:") for line in lines]
    return job


def agent_gave_up(asked: str) -> Job:
    """An agent that could not reach the store, while it watched its workers or before it had any."""
    lines = [
        "Traceback (most recent call last):",
        f'  File "/opt/venv/lib/python3.12/site-packages/torch/distributed/elastic/rendezvous/dynamic_rendezvous.py", line 1255, in {asked}',
        "    self._state_holder.sync()",
        '  File "/opt/venv/lib/python3.12/site-packages/torch/distributed/elastic/rendezvous/c10d_rendezvous_backend.py", line 119, in _call_store',
        "    raise RendezvousConnectionError(",
        "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d store has failed. See inner exception for details.",
    ]
    return Job(steps=0 if asked == "next_rendezvous" else 500).raw("agent-node1.log", *lines)


def algorithm(other: str) -> Job:
    """Rank 5 is told to use ``other``, the rest a tree."""
    job = Job(steps=0)
    for rank in range(8):
        job.nccl(rank, f"NCCL INFO NCCL_ALGO set by environment to {other if rank == 5 else 'Tree'}")
    return job.stuck(seq=7)


def unresolved(then: str) -> Job:
    """All ranks fail to look up the master's IPv6 address, and write one more line."""
    job = Job(steps=0)
    for rank in range(8):
        lookup = "[c10d] The IPv6 network addresses of (login1, 29500) cannot be retrieved (gai error: -2 - Name or service not known)."
        job.raw(job.log(rank), f"[W1120 09:00:05.100000000 socket.cpp:764] {lookup}", then.format(rank))
    return job


CASES = {
    "env-mismatch": (
        lambda: algorithm("Ring"),
        lambda: algorithm("Tree"),
    ),
    "fabric-plugin-error": (
        lambda: Job().nccl(1, "get_req_from_imm_data:1411 NCCL WARN NET/OFI Unexpected status (0) for message 58").stuck(),
        lambda: Job().nccl(1, "NCCL INFO NET/OFI Selected provider is efa, fabric is efa-direct (found 4 nics)").stuck(),
    ),
    "firewall-ports": (
        lambda: refused("Connection refused"),
        lambda: Job(steps=0).nccl(5, "NCCL INFO Bootstrap : Using eth0:10.0.0.4<0>").say(5, "starting on node1"),
    ),
    "ib-link-flap": (
        lambda: Job().nccl(5, "transport/net_ib.cc:95 NCCL WARN NET/IB : mlx5_1:1 Got async event : port error(10)").kernel(1, "mlx5_core 0000:4b:00.0 ib1: Link down").stuck(),
        lambda: Job().nccl(5, "transport/net_ib.cc:95 NCCL WARN NET/IB : Got async event : GID table changed").kernel(1, "mlx5_core 0000:4b:00.0 ib1: Link up").stuck(),
    ),
    "ib-retry-exceeded": (
        lambda: completion(12).stuck(),
        lambda: completion(5).stuck(),
    ),
    "memlock-limit": (
        lambda: Job(steps=0).nccl(5, "misc/ibvwrap.cc:252 NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory").raises(
            5, "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2355, unhandled system error, NCCL version 2.21.5").ends({5: 1}, 1),
        lambda: Job(steps=0).raises(5, "RuntimeError: DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes.").ends({5: 1}, 1),
    ),
    "mixed-architecture": (
        lambda: Job(steps=0).versions(nccl="2.21.5").nccl(0, "init.cc:900 NCCL WARN Mismatched architecture of rank 0 (x86_64) and rank 5 (aarch64)").stuck(seq=3),
        lambda: Job(steps=0).versions(nccl="2.26.2").nccl(0, "init.cc:900 NCCL WARN Mismatched architecture of rank 0 (x86_64) and rank 5 (aarch64)").stuck(seq=3),
    ),
    "nccl-version-mismatch": (
        lambda: Job(steps=0).nccl(3, "bootstrap.cc:120 NCCL WARN Mismatched NCCL version detected : rank 5 version 22005 rank 0 version 22105").raises(
            3, "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:77, invalid usage (run with NCCL_DEBUG=WARN for details), NCCL version 2.21.5").ends({3: 1}),
        lambda: Job(steps=0).versions(nccl="2.21.5").raises(3, "ImportError: mismatched versions of flash_attn and torch").ends({3: 1}),
    ),
    "plugin-mismatch": (
        lambda: Job(steps=0).nccl(5, "plugin/net.cc:210 NCCL WARN NET/Plugin: Failed to load libnccl-net.so: undefined symbol ncclNetPlugin_v6").stuck(seq=3),
        lambda: Job(steps=0).nccl(5, "NCCL INFO NET/Plugin: No plugin found (libnccl-net.so), using internal implementation").stuck(seq=3),
    ),
    "rail-not-connected": (
        lambda: Job(steps=0).nccl(
            5, "misc/ibvwrap.cc:350 NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_2:1, curr state INIT, next state RTR, "
            "local GID index 0, local GID fe80::1, remote GID fe80::2").stuck(seq=2),
        lambda: Job(steps=0).nccl(5, "NCCL INFO NET/IB : Using [0]mlx5_2:1/IB [RO]; OOB eth0:10.0.0.4<0>").stuck(seq=2),
    ),
    "rdma-setup-failed": (
        lambda: Job(steps=0).nccl(5, "misc/ibvwrap.cc:118 NCCL WARN Call to ibv_create_cq failed", "NCCL INFO transport/net_ib.cc:543 -> 2"),
        lambda: Job(steps=0).nccl(5, "NCCL INFO NET/IB : Using [0]mlx5_2:1/IB [RO]; OOB eth0:10.0.0.4<0>", "NCCL INFO Using network IB"),
    ),
    "roce-gid": (
        lambda: Job(steps=0).nccl(
            5, "misc/ibvwrap.cc:350 NCCL WARN Call to ibv_modify_qp failed with 22 Invalid argument, on dev mlx5_2:1, curr state INIT, next state RTR, "
            "local GID index 3, local GID ::ffff:10.0.0.1, remote GID ::ffff:10.0.0.2").stuck(seq=2),
        lambda: Job(steps=0).nccl(5, "NCCL INFO NET/IB : Using [0]mlx5_2:1/RoCE [RO]; OOB eth0:10.0.0.4<0>").stuck(seq=2),
    ),
    "roce-pfc-ecn": (
        lambda: completion(13).stuck(),
        lambda: completion(4).stuck(),
    ),
    "tcpstore-rank0-load": (
        lambda: Job().ends({0: -9}).raw(
            "node1/rank_5.log", "[W1120 10:00:25.336386705 TCPStore.cpp:138] [c10d] recvValue failed on SocketImpl(fd=3, addr=[node1]:33, remote=[node0]:29500): "
            "Failed to recv, got 0 bytes. Connection was likely closed."),
        lambda: Job().ends({1: -9}).raw("node1/rank_5.log", "2026-11-20 10:00:26,000 INFO still training"),
    ),
    "unresolved-name": (
        lambda: unresolved("[rank{}]: torch.distributed.DistNetworkError: The client socket has timed out after 300000ms while trying to connect to (login1, 29500)."),
        lambda: unresolved("[W1120 09:00:09.100000000 socket.cpp:774] [c10d] The client socket has failed to connect to [login1]:29500 (errno: 111 - Connection refused)."),
    ),
    "wrong-interface": (
        lambda: Job(steps=0).launch("export NCCL_SOCKET_IFNAME=docker0", "srun python train.py").nccl(
            5, "misc/socket.cc:477 NCCL WARN socketStartConnect: Connect to 172.17.0.1<4401> failed : No route to host"),
        lambda: Job(steps=0).launch("export NCCL_SOCKET_IFNAME=eth0").late(5, seq=40),
    ),
    "timeout-too-short-init": (
        lambda: begun(5, minutes=9),
        lambda: begun(5, minutes=0),
    ),
    "gpudirect-rdma": (
        lambda: completion(4).stuck(seq=4400),
        lambda: completion(10).stuck(),
    ),
    "store-lost": (
        lambda: agent_gave_up("num_nodes_waiting"),
        lambda: agent_gave_up("next_rendezvous"),
    ),
}  # fmt: skip
