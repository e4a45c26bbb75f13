"""Names the variables by which ranks are known, and those that may leave the node."""

from __future__ import annotations

import re
from collections.abc import Iterable

RANK_VARIABLES: tuple[tuple[str, ...], ...] = (
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMIX_RANK", "PMIX_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_ID"),
    ("LOCAL_RANK", "WORLD_SIZE", "NODE_RANK"),
)
"""Variables in which launchers give a process its rank and the number of ranks, the surest first.

Slurm's count in a step alone: whatever a batch script starts beside ``srun`` has those of task 0 too (22.05).
Lightning's launcher sets the last: on the first node both numbers of a rank are one.
"""

JOB_VARIABLES = ("SLURM_JOB_ID", "TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE")
"""Variables that all ranks of a job share, on all nodes, and that tell it from another job."""

LOCAL_RANKS = (
    "LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "MPI_LOCALRANKID",
    "MV2_COMM_WORLD_LOCAL_RANK",
    "SLURM_LOCALID",
)
"""Variables that number the ranks of a node, the surest first."""

NODE_RANKS = ("GROUP_RANK", "NODE_RANK", "SLURM_NODEID")
"""Variables that number the nodes of a job, the surest first."""

ALLOWED = re.compile(
    r"(?:NCCL|TORCH|TORCHELASTIC|GLOO|UCX|FI|NCCLDOCTOR)_\w+|SLURM_JOB\w*|SLURM_(?:PROCID|NTASKS|LOCALID|NODEID|NNODES|STEP_ID)"
    r"|CUDA_(?:VISIBLE_DEVICES|DEVICE_ORDER|LAUNCH_BLOCKING|DEVICE_MAX_CONNECTIONS)|(?:NVIDIA|HIP|ROCR)_VISIBLE_DEVICES|OMP_NUM_THREADS"
    r"|(?:(?:LOCAL|GROUP|NODE|ROLE)_)?RANK|(?:(?:LOCAL|GROUP|ROLE)_)?WORLD_SIZE|MASTER_(?:ADDR|PORT)"
    r"|(?:OMPI|MV2)_COMM_WORLD_\w*(?:RANK|SIZE)|PMIX?_(?:RANK|SIZE)|MPI_LOCALRANKID|RAY_JOB_ID|JOB_COMPLETION_INDEX|TZ"
)
"""Variables that are copied; no other one is."""

USED = ("HOME", "XDG_CACHE_HOME", "PATH", "VIRTUAL_ENV")
"""Variables that tell where to look; they are not copied."""


def number_in(text: str) -> int | None:
    """The number that a variable holds; None for any other text, since a stranger's process may hold anything."""
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else None


def first_number(env: dict[str, str], names: Iterable[str]) -> int | None:
    """The number in the first of some variables that holds one."""
    numbers = (number_in(env.get(name, "")) for name in names)
    return next((number for number in numbers if number is not None), None)
