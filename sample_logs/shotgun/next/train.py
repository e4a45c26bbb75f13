# The model set-up of the next run, as proposed after the incident.
from torch.nn.parallel import DistributedDataParallel


def wrap(model, gpu):
    return DistributedDataParallel(
        model,
        device_ids=[gpu],
        find_unused_parameters=True,
        broadcast_buffers=True,
        bucket_cap_mb=25,
        gradient_as_bucket_view=True,
    )
