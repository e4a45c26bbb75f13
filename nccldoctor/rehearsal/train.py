"""Trains a small network on gloo: ``train.py FAULT RANK`` gives that rank that fault in step 5.

It stands alone, as a script of a user does, and needs torch.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

STEPS, FAULT_STEP = 12, 5
LONG = 1000
"""Steps of a job, and of one that is looked at while it trains."""

PAUSE_S = 0.15
"""Seconds that a step takes at least."""

LATE_S = 1.5
"""Seconds that a straggler loses in each step."""

TIMEOUT = timedelta(minutes=5)
_PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """Have the kernel end this process with the one that started it."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == 1:
        sys.exit("the parent is gone")


end_with_parent()

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402


class Trainer:
    """One rank: its groups, its network, and its fault (empty on all ranks but one)."""

    def __init__(self, fault: str, steps: int) -> None:
        self.fault, self.steps = fault, steps
        self.rank = dist.get_rank()
        pairs = [dist.new_group([first, first + 1], timeout=TIMEOUT, group_desc="TENSOR_PARALLEL") for first in (0, 2)]
        self.pair = pairs[self.rank // 2]
        self.experts = dist.new_group(timeout=TIMEOUT, group_desc="EXPERTS")
        self.model = torch.nn.Linear(16, 16)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)

    def has_fault(self, fault: str, step: int) -> bool:
        """True where this rank has that fault in this step."""
        return self.fault == fault and step == FAULT_STEP

    def load_batch(self, step: int) -> torch.Tensor:
        """The next batch: from disk, as far as the faults are concerned."""
        if self.has_fault("late-loader", step):
            wait_for_shard(Path(f"shard_{step:05d}.idx"))
        if self.has_fault("fifo", step):
            read_control(Path("control.fifo"))
        if self.has_fault("exception", step):
            Path(f"shard_{step:05d}.idx").open().close()
        return torch.randn(8, 16)

    def forward(self, batch: torch.Tensor, step: int) -> torch.Tensor:
        """The loss of a batch; activations are reduced over the tensor parallel pair."""
        if self.has_fault("stopped", step):
            os.kill(os.getpid(), signal.SIGSTOP)
        if self.has_fault("killed", step):
            os.kill(os.getpid(), signal.SIGKILL)
        if self.has_fault("held-lock", step):
            match_tokens("a" * 64 + "!")
        if self.has_fault("deadlock", step):
            refresh_cache()
        out: torch.Tensor = self.model(batch)
        dist.all_reduce(out.detach().clone(), group=self.pair)
        return out.square().mean()

    def reduce_gradients(self, step: int) -> None:
        """Average gradients over all ranks."""
        if self.fault == "straggler":
            log_histograms()
        for parameter in self.model.parameters():
            gradient = parameter.grad
            assert gradient is not None
            if self.has_fault("wrong-shape", step):
                gradient = gradient.flatten()[:3].clone()
            if self.has_fault("wrong-dtype", step):
                gradient = gradient.double()
            if self.has_fault("wrong-call", step):
                dist.broadcast(gradient, src=self.rank)
            else:
                dist.all_reduce(gradient)

    def balance_experts(self, step: int) -> None:
        """Count tokens over all ranks in the group of experts, and over the world."""
        counts = torch.ones(4)
        groups = [self.experts, None]
        for group in reversed(groups) if self.has_fault("group-order", step) else groups:
            dist.all_reduce(counts, group=group)

    def reduce_loss(self, loss: torch.Tensor, step: int) -> None:
        """Average the loss for the log."""
        if self.has_fault("skipped-call", step):
            return
        dist.all_reduce(loss.detach().clone().reshape(1))

    def train_step(self, step: int) -> None:
        """One step."""
        self.optimizer.zero_grad()
        loss = self.forward(self.load_batch(step), step)
        torch.autograd.backward(loss)
        self.reduce_gradients(step)
        self.optimizer.step()
        self.balance_experts(step)
        self.reduce_loss(loss, step)
        time.sleep(PAUSE_S)

    def evaluate(self, step: int) -> None:
        """Evaluate, and meet at a barrier."""
        if not self.has_fault("missed-barrier", step):
            dist.barrier()

    def save_checkpoint(self, step: int) -> None:
        """Rank 0 writes; the others go on."""
        if self.has_fault("checkpoint", step):
            write_shards(Path("checkpoint"))

    def train_epoch(self) -> None:
        """All steps; one rank may have fewer."""
        for step in range(1, self.steps + 1):
            if self.has_fault("uneven-batches", step):
                break
            self.train_step(step)
            self.evaluate(step)
            self.save_checkpoint(step)
        dist.barrier()


def wait_for_shard(shard: Path) -> None:
    """Poll for a file that another program should write."""
    while not shard.exists():
        time.sleep(0.1)


def read_control(pipe: Path) -> str:
    """Read a named pipe, which blocks until somebody opens its other end."""
    os.mkfifo(pipe)
    return pipe.read_text()


def log_histograms() -> None:
    """Stand in for statistics that one rank writes to a slow disk."""
    time.sleep(LATE_S)


def match_tokens(text: str) -> None:
    """A pattern that takes exponential time."""
    re.fullmatch(r"(a+)+b", text)


def refresh_cache() -> None:
    """Take two locks in the opposite order of a thread that holds the second one."""
    cache, index, is_held = threading.Lock(), threading.Lock(), threading.Event()

    def rebuild_index() -> None:
        with index:
            is_held.set()
            cache.acquire()

    with cache:
        threading.Thread(target=rebuild_index, name="index", daemon=True).start()
        is_held.wait()
        index.acquire()


def write_shards(folder: Path) -> None:
    """Write a file again and again, as a disk does that is far too slow."""
    folder.mkdir(exist_ok=True)
    while True:
        (folder / "shard.bin").write_bytes(bytes(1024))
        time.sleep(0.2)


def main(fault: str, rank: int) -> None:
    """Train, and leave the groups."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=TIMEOUT)
    trainer = Trainer(fault if dist.get_rank() == rank else "", LONG if fault == "training" else STEPS)
    trainer.train_epoch()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
