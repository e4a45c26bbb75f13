# The set-up of the next run, as proposed after the incident.
import datetime

import torch.distributed as dist


def setup_distributed(rank, world_size):
    dist.init_process_group(
        backend="nccl", init_method="env://", world_size=world_size, rank=rank, timeout=datetime.timedelta(seconds=3600)
    )
