"""Jobs whose cause is a GPU, a node or a process: for each remedy one that it must come first in, and a near miss."""

from __future__ import annotations

from builders.jobs.cases import RecordedRank, world
from builders.remedies.remedy_jobs import Job

ERROR = "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2355, unhandled cuda error, NCCL version 2.21.5"


def xid(number: int, text: str, node: int = 1) -> Job:
    return Job().kernel(node, f"NVRM: Xid (PCI:0000:3a:00): {number}, pid=4005, name=python, {text}").stuck()


def crash(error: str, rank: int = 5) -> Job:
    return Job().raises(rank, error, "train_step").ends({rank: 1}, rank // 4)


def stopped(rank: int, logged: str = "") -> Job:
    """Dumps of a job in which one GPU finished nothing more, while its host went on."""
    recorded_ranks = [
        RecordedRank(r, world(8)).calls(60).calls(1, done=r != rank).calls(20, done=False) for r in range(8)
    ]
    job = Job().recorded_ranks(*recorded_ranks)
    return job.kernel(rank // 4, logged) if logged else job


def looked_at() -> Job:
    """Stacks of all ranks but rank 5, whose process is known, while seven stand in one call."""
    job = Job(steps=0).raw("pids.log", "started rank 5 as pid 4005")
    for rank in range(8):
        if rank == 5:
            job.stack(rank, "read_shard (shards.py:40)")
        else:
            job.stack(rank, "all_reduce (torch/distributed/distributed_c10d.py:2501)", "step (train.py:70)")
    return job


def started(*ranks: int, done: bool = False) -> Job:
    """NCCL's lines of a communicator that these ranks began to set up."""
    job = Job(steps=0)
    for rank in ranks:
        init = f"ncclCommInitRank comm 0x5{rank} rank {rank} nranks 8 cudaDev {rank % 4} nvmlDev {rank % 4} busId {rank % 4 + 1}a000 commId 0x61b1 - Init"
        job.nccl(rank, f"NCCL INFO {init} START", *([f"NCCL INFO {init} COMPLETE"] if done else []))
    return job


def joined(here: int, key: str) -> Job:
    told = f"store based barrier on rank: 5, for key: {key} (world_size=8, worker_count={here}, timeout=0:30:00)"
    return Job(steps=0).raises(5, f"RuntimeError: Timed out initializing process group in {told}").ends({5: 1}, 1)


ALL_BUT_5 = [rank for rank in range(8) if rank != 5]

CASES = {
    "fabric-manager-down": (
        lambda: Job(steps=0).nccl(5, "init.cc:9 NCCL WARN Cuda failure 802 'system not yet initialized'").raises(5, "RuntimeError: CUDA error: system not yet initialized").ends({5: 1}, 1),
        lambda: Job(steps=0).raises(5, "RuntimeError: tokenizer not yet initialized").ends({5: 1}, 1),
    ),
    "gpu-ecc": (
        lambda: xid(48, "DBE (double bit error)"),
        lambda: xid(13, "Graphics Exception: ESR 0x505224=0x0"),
    ),
    "gpu-stopped-unexplained": (
        lambda: stopped(5),
        lambda: stopped(5, "NVRM: Xid (PCI:0000:3a:00): 79, pid=4005, name=python, GPU has fallen off the bus."),
    ),
    "nvshmem-init": (
        lambda: Job(steps=0).raw("node1/rank_5.log", "/opt/nvshmem/src/host/init/init.cu:1007: non-zero status: 7 nvshmem setup connections failed"),
        lambda: Job(steps=0).raw("node1/rank_5.log", "/opt/nvshmem/src/host/transport/transport.cpp:nvshmemi_transport_init:275: init failed for transport: IBGDA"),
    ),
    "oneccl-init": (
        lambda: Job(steps=0).raw("node1/rank_5.log", "2026:01:23-00:02:21:(122510) |CCL_ERROR| atl_mpi_comm.cpp:94 init_transport: comm_create error"),
        lambda: Job(steps=0).raw("node1/rank_5.log", "2026:01:23-00:02:21:(122510) |CCL_WARN| value of CCL_ATL_TRANSPORT changed to be ofi (default:mpi)"),
    ),
    "absent-at-start": (
        lambda: started(0, 1, 2, 3, 4, 6, 7),
        lambda: started(*range(8), done=True).stuck(seq=3000),
    ),
    "gpu-fell-off-bus": (
        lambda: xid(79, "GPU has fallen off the bus."),
        lambda: xid(45, "Ch 00000010"),
    ),
    "gsp-timeout": (
        lambda: xid(119, "Timeout waiting for RPC from GSP0! Expected function 76 (GSP_RM_CONTROL)"),
        lambda: xid(43, "Ch 00000010"),
    ),
    "illegal-access": (
        lambda: crash("RuntimeError: CUDA error: an illegal memory access was encountered"),
        lambda: crash("RuntimeError: CUDA error: invalid configuration argument"),
    ),
    "nvlink-error": (
        lambda: xid(74, "NVLink: fatal error detected on link 6(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)"),
        lambda: xid(31, "Ch 00000001, MMU Fault"),
    ),
    "silent-wrong-gpu": (
        lambda: Job().say(5, "loss is nan, checking the weights").late(5),
        lambda: Job().say(0, "loss is nan, checking the weights").late(5),
    ),
    "all-in-unexplained": (
        lambda: Job().stuck(seq=3000),
        lambda: Job().late(5, seq=3000),
    ),
    "container-topology": (
        lambda: Job(steps=0).nccl(5, "transport/p2p.cc:275 NCCL WARN failed to open CUDA IPC handle : 201 invalid device context").stuck(seq=1),
        lambda: Job().nccl(5, "transport/p2p.cc:275 NCCL WARN failed to open CUDA handle : 201 invalid device context").stuck(seq=5001),
    ),
    "duplicate-gpu": (
        lambda: Job(steps=0).nccl(1, "init.cc:290 NCCL WARN Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1a000").raises(1, ERROR.replace("unhandled cuda error", "invalid usage")).ends({1: 1}),
        lambda: Job(steps=0).nccl(1, "NCCL INFO comm 0x51 rank 1 nranks 8 cudaDev 1 nvmlDev 1 busId 1a000 commId 0x61b1 - Init START").stuck(seq=2),
    ),
    "nvls-trouble": (
        lambda: Job(steps=0).nccl(5, "transport/nvls.cc:120 NCCL WARN Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 : CUDA error 2 'out of memory'").stuck(seq=2),
        lambda: Job(steps=0).nccl(5, "NCCL INFO NVLS multicast support is available on dev 1 (NVLS_NCHANNELS 16)").stuck(seq=2),
    ),
    "p2p-acs-iommu": (
        lambda: Job(steps=0).kernel(1, "AMD-Vi: Event logged [IO_PAGE_FAULT device=41:00.0 domain=0x0041 address=0x20000000 flags=0x0020]").stuck(seq=1),
        lambda: Job().kernel(1, "usb 1-1: new high-speed USB device number 2 using xhci_hcd").stuck(seq=4000),
    ),
    "cuda-graph-deadlock": (
        lambda: Job().stack(5, "cudaGraphLaunch (libcudart.so.12)", "replay (torch/cuda/graphs.py:88)").stuck(),
        lambda: Job().stack(5, "launch_plan (graph_planner.py:88)").late(5),
    ),
    "cuda-oom-one-rank": (
        lambda: crash("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 79.15 GiB"),
        lambda: crash("MemoryError: cannot build the index"),
    ),
    "library-complaint": (
        lambda: Job().nccl(5, "proxy.cc:298 NCCL WARN List loop at element 12-13").gives_up(ALL_BUT_5),
        lambda: Job().nccl(5, "graph/topo.cc:1757 NCCL WARN NCCL_NET_MERGE_POLICY: unknown value 'x', defaulting to ALL").gives_up(ALL_BUT_5),
    ),
    "ended-on-other-failure": (
        lambda: Job().raises(5, "RuntimeError: Socket Timeout", "sync_loss").gives_up(ALL_BUT_5),
        lambda: Job().raises(5, "RuntimeError: the loss has no gradient", "sync_loss").gives_up(ALL_BUT_5),
    ),
    "host-oom-kill": (
        lambda: Job().ends({5: -9}, 1).kernel(1, "Out of memory: Killed process 4005 (python) total-vm:91kB, anon-rss:90kB, file-rss:0kB, shmem-rss:0kB"),
        lambda: Job().ends({5: -9}, 1).kernel(1, "audit: type=1400 audit(1.2:3): apparmor=STATUS"),
    ),
    "memory-exhausted-host": (
        lambda: Job().raw("driver.log", "(raylet, ip=10.1.4.9) ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory."),
        lambda: Job().ends({5: -9}, 1).kernel(1, "Memory cgroup out of memory: Killed process 4005 (python) total-vm:93kB, anon-rss:90kB, file-rss:0kB, shmem-rss:0kB"),
    ),
    "requeued": (
        lambda: Job().raw("slurm-4479.out", "slurmstepd: error: *** JOB 4479 ON node0 CANCELLED AT 2026-11-20T10:00:15 DUE TO JOB REQUEUE ***").ends({5: -15}, 1),
        lambda: Job().raw("slurm-4479.out", "slurmstepd: error: *** JOB 4479 ON node0 CANCELLED AT 2026-11-20T10:00:15 DUE TO PREEMPTION ***").ends({5: -15}, 1),
    ),
    "amd-gpu-hang": (
        lambda: Job().say(5, "HW Exception by GPU node-4 (Agent handle: 0x1ebc04e0) reason :GPU Hang").ends({5: -6}, 1),
        lambda: xid(62, "Internal micro-controller halt"),
    ),
    "libcuda-missing": (
        lambda: Job(steps=0).nccl(5, "misc/cudawrap.cc:179 NCCL WARN Failed to find CUDA library libcuda.so (NCCL_CUDA_PATH='') : libcuda.so: cannot open shared object file: No such file or directory").raises(5, ERROR).ends({5: 1}, 1),
        lambda: Job(steps=0).nccl(5, "NCCL INFO Failed to open libibverbs.so[.1]").raises(5, ERROR).ends({5: 1}, 1),
    ),
    "hccl-timeout": (
        lambda: crash("RuntimeError: NPU function error: AclrtSynchronizeDeviceWithTimeout, error code is 507048"),
        lambda: crash("RuntimeError: NPU function error: aclnnMatmul, error code is 561002"),
    ),
    "device-wait-timeout": (
        lambda: crash("RuntimeError: DeepEP error: CPU recv timeout"),
        lambda: crash("RuntimeError: DeepEP error: invalid number of tokens"),
    ),
    "vllm-worker-stall": (
        lambda: Job().late(5).raw("engine.log", "(EngineCore_DP0 pid=61) ERROR 11-20 10:20:48 [core.py:845] TimeoutError: RPC call to execute_model timed out."),
        lambda: Job().late(5).raw("engine.log", "(EngineCore_DP0 pid=61) ERROR 11-20 10:20:48 [core.py:845] ValueError: unknown model"),
    ),
    "engine-step-stall": (
        lambda: Job(steps=0).raw("engine.log", "[2026-11-20 09:36:13 TP1] Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)"),
        lambda: Job(steps=0).raw("engine.log", "[2026-11-20 09:36:13 TP1] Scheduler hit an exception: no memory left"),
    ),
    "torchft-quorum": (
        lambda: Job(steps=0).raw("lighthouse.log", "Quorum status: New quorum not ready, only have 1 participants, need min_replicas 2 [1/1 participants healthy]"),
        lambda: Job(steps=0).raw("lighthouse.log", "Quorum status: Fast quorum found! [2/2 participants healthy][2 heartbeating]"),
    ),
    "jax-barrier": (
        lambda: crash("jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Barrier_id: saved. Timed out task names: /job:w/task:4"),
        lambda: crash("jaxlib.xla_extension.XlaRuntimeError: INVALID_ARGUMENT: shapes do not match"),
    ),
    "driver-hang": (
        lambda: Job().late(5).kernel(1, "INFO: task python:4005 blocked for more than 245 seconds.", "task:python          state:D stack:    0 pid: 4005 ppid:  4001", " uvm_ioctl+0x13e0/0x16f0 [nvidia_uvm]"),
        lambda: Job().late(5).kernel(1, "INFO: task python:4005 blocked for more than 245 seconds.", "task:python          state:D stack:    0 pid: 4005 ppid:  4001", " nfs_file_fsync+0x9c/0x150 [nfs]"),
    ),
    "killed-without-record": (
        lambda: Job().ends({5: -9}, 1),
        lambda: Job().ends({5: -9}, 1).kernel(1, "Out of memory: Killed process 4005 (python) total-vm:92kB, anon-rss:90kB, file-rss:0kB, shmem-rss:0kB"),
    ),
    "process-stopped": (
        lambda: looked_at().raw("ps.txt", "  PID STAT WCHAN          COMMAND", " 4005 T    do_signal_stop python train.py"),
        lambda: looked_at().raw("ps.txt", "  PID STAT WCHAN          COMMAND", " 4005 S    pipe_read      python train.py"),
    ),
    "launch-blocking": (
        lambda: Job(steps=0).versions(nccl="2.14.3").launch("export CUDA_LAUNCH_BLOCKING=1").stuck(seq=5),
        lambda: Job(steps=0).versions(nccl="2.18.3").launch("export CUDA_LAUNCH_BLOCKING=1").stuck(seq=5),
    ),
    "lazy-module-loading": (
        lambda: Job().stack(5, "cuLibraryLoadData (libcuda.so.1)", "fused_adam (ops.py:8)").late(5),
        lambda: Job().stack(5, "load_library (ops.py:8)").late(5),
    ),
    "mpi-cuda-aware": (
        lambda: Job().stack(5, "opal_progress (libopen-pal.so.40)", "MPI_Recv (libmpi.so.40)", "exchange (halo.py:3)").late(5),
        lambda: Job().stack(5, "exchange (halo.py:3)").late(5),
    ),
    "preemption-node-failure": (
        lambda: Job().raw("slurm-4477.out", "slurmstepd: error: *** JOB 4477 ON node0 CANCELLED AT 2026-11-20T10:00:15 DUE TO PREEMPTION ***").ends({5: -9}, 1),
        lambda: Job().raw("slurm-4477.out", "srun: job 4477 has been allocated resources").ends({5: -9}, 1),
    ),
    "pod-evicted": (
        lambda: Job().raw("events.txt", "2m11s Warning Evicted pod/w-2 The node was low on resource: ephemeral-storage. Container pytorch was using 212Gi, request is 0, has larger consumption of ephemeral-storage.").ends({5: -9}, 1),
        lambda: Job().raw("events.txt", "2m11s Warning TaintManagerEviction pod/w-2 Marking for deletion Pod ml/w-2").ends({5: -9}, 1),
    ),
    "stack-limit-unlimited": (
        lambda: Job(steps=0).versions(nccl="2.20.5").launch("export NCCL_SET_CPU_STACK_SIZE=0").ends({5: -11}, 1),
        lambda: Job(steps=0).versions(nccl="2.28.3").launch("export NCCL_SET_CPU_STACK_SIZE=0").ends({5: -11}, 1),
    ),
    "teardown-hang": (
        lambda: Job().say(5, "Training finished").late(5, numel=1).stack(5, "_shutdown (torch/distributed/distributed_c10d.py:2100)", "destroy_process_group (torch/distributed/distributed_c10d.py:2109)"),
        lambda: Job().say(5, "training continues").late(5, numel=2),
    ),
    "task-not-launched": (
        lambda: Job(steps=0).raw("slurm-4481.out", "srun: error: Task launch for StepId=4481.0 failed on node node1: Job credential expired", "srun: error: Application launch failed: Job credential expired"),
        lambda: Job(steps=0).raw("slurm-4481.out", "srun: error: Unable to create step for job 4481: More processors requested than permitted"),
    ),
    "pod-not-started": (
        lambda: joined(7, "store_based_barrier_key:1").raw("events.txt", "  Warning  FailedScheduling  3m  default-scheduler  0/8 nodes are available: 8 Insufficient nvidia.com/gpu."),
        lambda: joined(7, "store_based_barrier_key:1").raw("events.txt", "  Normal  Started  3m  kubelet  Started container pytorch"),
    ),
    "training-monitor-stall": (
        lambda: Job().raw("monitor.log", "[2026-11-20 10:20:00,123] [WARNING] [RankMonitorServer77@node0:2] [Cycle 0] Did not get subsequent heartbeat. Waited 900.00 seconds."),
        lambda: Job().raw("monitor.log", "[2026-11-20 10:20:00,123] [INFO] [RankMonitorServer77@node0:2] Updated num_warmup_iterations to 5 from client"),
    ),
    "stopped-from-outside": (
        lambda: Job().raw("slurm-4480.out", "slurmstepd: error: *** STEP 4480.0 ON node0 CANCELLED AT 2026-11-20T10:00:15 ***", "srun: Force Terminated StepId=4480.0"),
        lambda: Job().raw("slurm-4480.out", "srun: error: node0: task 1: Segmentation fault", "slurmstepd: error: *** STEP 4480.0 ON node0 CANCELLED AT 2026-11-20T10:00:15 DUE TO TASK FAILURE ***"),
    ),
    "time-limit": (
        lambda: Job().raw("slurm-4478.out", "slurmstepd: error: *** JOB 4478 ON node0 CANCELLED AT 2026-11-20T10:00:15 DUE TO TIME LIMIT ***").ends({5: -9}, 1),
        lambda: Job().raw("slurm-4478.out", "sbatch: time limit is 48:00:00").ends({5: -9}, 1),
    ),
    "watchdog-stuck-gil": (
        lambda: Job().native(5, "[PG ID 0 PG GUID 0(default_pg) Rank 5] ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in monitoring enqueued collectives. "
            "This typically indicates a NCCL/CUDA API (e.g., CudaEventDestroy) hang blocking the watchdog, and could be triggered by another thread holding the GIL inside a CUDA api "
            "(for example, CudaEventDestroy), or other deadlock-prone behaviors.").stack(5, "cudaFree (libcudart.so.12)", "empty_cache (torch/cuda/memory.py:170)"),
        lambda: Job().stack(5, "cudaFree (libcudart.so.12)", "empty_cache (torch/cuda/memory.py:171)").late(5),
    ),
    "rank-never-joined": (
        lambda: joined(6, "store_based_barrier_key:1"),
        lambda: joined(6, "store_based_barrier_key:7"),
    ),
}  # fmt: skip
