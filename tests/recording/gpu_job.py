"""One rank of a small training job: ``gpu_job.py nccl`` on a GPU, ``gpu_job.py gloo`` on the CPU. ``JOB_FAULT`` names its fault.

``record_nccl_samples.py`` starts it. What is recorded is what torch, NCCL and capture write; nothing here knows how it will be analysed.
"""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import sys
from datetime import timedelta
from pathlib import Path
from threading import Event

ctypes.CDLL(None).prctl(
    1, signal.SIGKILL
)  # PR_SET_PDEATHSIG: the kernel ends this process with the one that started it

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

STEPS, FAULT_STEP = 8, 4
TIMEOUT = timedelta(seconds=45)
ENDLESS = 1 << 62
"""Clock cycles that a kernel spins: centuries."""

log = logging.getLogger("train")


class Job:
    """One rank: its model, its device, and its fault, empty on all ranks but one."""

    def __init__(self, fault: str, device: torch.device) -> None:
        self.fault, self.device = fault, device
        self.model = torch.nn.Linear(1024, 1024).to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)

    def load_batch(self, step: int) -> torch.Tensor:
        """The next batch."""
        if self.fault == "late-loader" and step == FAULT_STEP:
            wait_for_shard(Path(f"shard_{step:05d}.idx"))
        if self.fault == "killed" and step == FAULT_STEP:
            os.kill(os.getpid(), signal.SIGKILL)
        return torch.randn(64, 1024, device=self.device)

    def refresh_table(self, step: int) -> None:
        """A kernel of the user's own, which may never end, and the memory that it leaves."""
        if step != FAULT_STEP:
            return
        if self.fault in ("endless-kernel", "stuck-heartbeat"):
            launch_endless_kernel(self.device)
        if self.fault == "stuck-heartbeat":
            free_memory(self.device)

    def reduce_gradients(self, step: int) -> None:
        """Average gradients over all ranks."""
        for parameter in self.model.parameters():
            gradient = parameter.grad
            assert gradient is not None
            if self.fault == "wrong-shape" and step == FAULT_STEP:
                gradient = gradient.flatten()[:8].clone()
            dist.all_reduce(gradient)

    def train_step(self, step: int) -> float:
        """One step; the loss."""
        self.optimizer.zero_grad()
        loss = self.model(self.load_batch(step)).square().mean()
        torch.autograd.backward(loss)
        self.refresh_table(step)
        self.reduce_gradients(step)
        self.optimizer.step()
        total = loss.detach().clone().reshape(1)
        dist.all_reduce(total)
        return float(total.item())  # waits for the device


def wait_for_shard(shard: Path) -> None:
    """Poll for a file that another program should write."""
    while not shard.exists():
        Event().wait(0.1)


def launch_endless_kernel(device: torch.device) -> None:
    """A kernel that spins in the current stream; without a GPU the host waits in its place."""
    if device.type == "cuda":
        torch.cuda._sleep(ENDLESS)
    else:
        Event().wait()


def free_memory(device: torch.device) -> None:
    """Give memory back to the driver, which waits for the kernel and holds a lock that the watchdog's queries need."""
    if device.type == "cuda":
        torch.cuda.empty_cache()


def main(backend: str) -> None:
    """Train, and leave the group."""
    rank = int(os.environ["RANK"])
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format=f"%(asctime)s %(levelname)s [rank {rank}] %(name)s: %(message)s"
    )
    device = torch.device("cuda", 0) if backend == "nccl" else torch.device("cpu")
    torch.set_num_threads(1)
    dist.init_process_group(backend, timeout=TIMEOUT, device_id=device if backend == "nccl" else None)
    job = Job(os.environ["JOB_FAULT"], device)
    for step in range(1, STEPS + 1):
        log.info("step=%d loss=%.4f", step, job.train_step(step))
    dist.destroy_process_group()
    log.info("training finished")


if __name__ == "__main__":
    main(sys.argv[1])
