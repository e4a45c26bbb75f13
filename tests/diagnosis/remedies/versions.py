"""Jobs that meet a known defect of a release: for each remedy one that it must come first in, and a near miss."""

from __future__ import annotations

from builders.remedies.remedy_jobs import Job

ABORT = ("ncclCommAbort (libnccl.so.2)", "abort (libtorch_cuda.so)")
UNCAPTURED = ("ncclLaunchKernelBefore_NoUncapturedCuda (libnccl.so.2)", "ncclAllReduce (libnccl.so.2)")
SEVERAL = 512


def nccl(version: str, **job: int) -> Job:
    return Job(**job).versions(nccl=version)


CASES = {
    "nccl-2-17-alltoallv": (
        lambda: nccl("2.17.1").stuck(op="ALLTOALL"),
        lambda: nccl("2.27.5").stuck(op="ALLTOALL"),
    ),
    "nccl-2-18-1-collnet-bf16": (
        lambda: nccl("2.18.1").launch("export NCCL_COLLNET_ENABLE=1").stuck(),
        lambda: nccl("2.18.3").launch("export NCCL_COLLNET_ENABLE=1").stuck(),
    ),
    "nccl-2-19-alltoall-connect": (
        lambda: nccl("2.19.3", steps=0).stuck(op="ALLTOALL_BASE", seq=4),
        lambda: nccl("2.27.6", steps=0).stuck(op="ALLTOALL_BASE", seq=4),
    ),
    "nccl-2-20-crossnic": (
        lambda: nccl("2.20.5", steps=0).stuck(seq=6),
        lambda: nccl("2.23.4", steps=0).stuck(seq=6),
    ),
    "nccl-2-20-graph-launch": (
        lambda: nccl("2.20.3").stack(5, *UNCAPTURED).late(5),
        lambda: nccl("2.23.4").stack(5, *UNCAPTURED).late(5),
    ),
    "nccl-2-25-abort": (
        lambda: nccl("2.25.1").stack(5, *ABORT).late(5),
        lambda: nccl("2.26.5").stack(5, *ABORT).late(5),
    ),
    "nccl-2-26-mnnvl-alltoall": (
        lambda: nccl("2.26.2", size=96, per_host=8, steps=1).stuck(op="ALLTOALL", seq=900),
        lambda: nccl("2.26.2", size=16, per_host=8, steps=1).stuck(op="ALLTOALL", seq=900),
    ),
    "nccl-2-28-proxy-order": (
        lambda: nccl("2.28.3", size=SEVERAL, per_host=8, steps=1).stuck(seq=901),
        lambda: nccl("2.28.9", size=SEVERAL, per_host=8, steps=1).stuck(seq=901),
    ),
    "nccl-2-29-2-arm-gcc": (
        lambda: nccl("2.29.2").raw("node0/rank_0.log", "Python platform: Linux-6.8.0-1019-nvidia-aarch64-with-glibc2.39").stuck(seq=5000),
        lambda: nccl("2.29.3").raw("node0/rank_0.log", "Python platform: Linux-6.8.0-1019-nvidia-aarch64-with-glibc2.39").stuck(seq=5000),
    ),
    "nccl-2-30-gin-completion": (
        lambda: nccl("2.30.4").launch("export NCCL_GIN_ENABLE=1").stuck(),
        lambda: nccl("2.31.2").launch("export NCCL_GIN_ENABLE=1").stuck(),
    ),
    "nccl-2-8-3-alltoall": (
        lambda: nccl("2.8.3").stuck(op="ALLTOALL_BASE"),
        lambda: nccl("2.8.4").stuck(op="ALLREDUCE", seq=77),
    ),
    "torch-2-7-0-device-id": (
        lambda: Job(steps=0).versions(torch="2.7.0+cu126", nccl="2.26.2").raw("train.py", 'dist.init_process_group("nccl", device_id=torch.device(local))').stuck(seq=1),
        lambda: Job(steps=0).versions(torch="2.7.1+cu126", nccl="2.26.2").raw("train.py", 'dist.init_process_group("nccl", device_id=torch.device(local))').stuck(seq=1),
    ),
    "torch-event-destroy-gil": (
        lambda: Job().versions(torch="2.1.2").stack(5, "cudaEventDestroy (libcudart.so.12)", "collect (cache.py:4)").late(5),
        lambda: Job().versions(torch="2.4.0").stack(5, "cudaEventDestroy (libcudart.so.12)", "collect (cache.py:4)").late(5),
    ),
}  # fmt: skip
