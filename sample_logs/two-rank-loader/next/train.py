# The settings of the next run, as proposed after the incident.
import datetime
import os

import torch
import torch.distributed as dist

nccl_timeout_minutes = int(os.environ.get("NCCL_TIMEOUT_MINUTES", "30"))
os.environ.setdefault("NCCL_ASYNC_ERROR_HANDLING", "1")
os.environ.setdefault("NCCL_BLOCKING_WAIT", "1")
torch.distributed.distributed_c10d._DEFAULT_PG_TIMEOUT = datetime.timedelta(minutes=nccl_timeout_minutes)


def init_processes(rank, size):
    timeout = datetime.timedelta(minutes=nccl_timeout_minutes)
    dist.init_process_group(backend="nccl", init_method="env://", rank=rank, world_size=size, timeout=timeout)
