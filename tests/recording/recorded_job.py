"""A small training job with nested process groups, one fault, and a recorder that is dumped when it stalls.

``record_samples.py`` starts it under torchrun: eight processes on gloo, no GPU. Tensor parallel pairs (0,1) (2,3) …,
pipeline pairs (r, r+4), data parallel pairs (0,2) (1,3) (4,6) (5,7). What is recorded is what torch itself writes;
nothing here knows how it will be analysed.
"""

from __future__ import annotations

import argparse
import faulthandler
import logging
import os
import signal
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

STEPS = 6
FAULT_STEP = 4
TIMEOUT = timedelta(seconds=16)
SILENCE = 5.0  # seconds without a finished call before the job dumps what it knows; a busy machine may pause for two
FAULTS = ("healthy", "stuck-loader", "stuck-forward", "killed", "raised", "size", "skipped")

log = logging.getLogger("train")


class Job:
    """One rank: its groups, the calls it makes, and the watch that dumps its recorder when it stands still."""

    def __init__(self, fault: str, at: int, out: Path) -> None:
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.fault = fault if self.rank == at else ""
        self.out = out
        self.beat = time.monotonic()
        self.written = False
        half = self.world // 2
        self.tp = self._mine([[r, r + 1] for r in range(0, self.world, 2)], "TENSOR_MODEL_PARALLEL_GROUP")
        self.pp = self._mine([[r, r + half] for r in range(half)], "PIPELINE_MODEL_PARALLEL_GROUP")
        dp = [[s, s + 2] for base in (0, half) for s in range(base, base + half) if s % 4 < 2]
        self.dp = self._mine(dp, "DATA_PARALLEL_GROUP")
        self.peer = (self.rank + half) % self.world
        self.first_stage = self.rank < half

    def _mine(self, ranks: list[list[int]], desc: str) -> dist.ProcessGroup:
        made = [dist.new_group(r, timeout=TIMEOUT, group_desc=desc) for r in ranks]
        return next(group for group, r in zip(made, ranks, strict=True) if self.rank in r)

    def tensor_parallel_all_reduce(self, numel: int = 64) -> None:
        dist.all_reduce(torch.ones(numel), group=self.tp)
        self.beat = time.monotonic()

    def gradient_all_reduce(self, numel: int) -> None:
        dist.all_reduce(torch.ones(numel), group=self.dp)
        self.beat = time.monotonic()

    def loss_all_reduce(self, numel: int = 1) -> float:
        loss = torch.ones(numel)
        dist.all_reduce(loss)
        self.beat = time.monotonic()
        return loss[0].item()

    def send_to_stage(self, numel: int = 128) -> None:
        dist.send(torch.ones(numel), self.peer, group=self.pp)
        self.beat = time.monotonic()

    def recv_from_stage(self, numel: int = 128) -> None:
        dist.recv(torch.empty(numel), self.peer, group=self.pp)
        self.beat = time.monotonic()

    def dump(self, why: str) -> None:
        """Write this rank's recorder and stacks once."""
        if self.written:
            return
        self.written = True
        trace = torch._C._distributed_c10d._dump_fr_trace()
        (self.out / f"fr_trace_{self.rank}").write_bytes(trace)
        with (self.out / f"stacks_{self.rank}.txt").open("w") as file:
            faulthandler.dump_traceback(file, all_threads=True)
        log.info("flight recorder dump written (%s, %d bytes)", why, len(trace))

    def watch(self) -> None:
        while True:
            time.sleep(0.2)
            if time.monotonic() - self.beat > SILENCE:
                self.dump("no progress")


def load_batch(job: Job, step: int) -> None:
    if step != FAULT_STEP:
        return
    shard = Path(f"shard_{step:05d}.idx")
    if job.fault == "raised":
        shard.open().close()
    if job.fault == "stuck-loader":
        wait_for_shard(shard)


def wait_for_shard(shard: Path) -> None:
    while not shard.exists():
        time.sleep(0.1)


def forward(job: Job, step: int) -> None:
    if not job.first_stage:
        job.recv_from_stage()
    if step == FAULT_STEP and job.fault == "stuck-forward":
        refresh_expert_table(threading.Lock())
    job.tensor_parallel_all_reduce()
    if job.first_stage:
        job.send_to_stage()


def refresh_expert_table(lock: threading.Lock) -> None:
    lock.acquire()
    lock.acquire()


def backward(job: Job, step: int) -> None:
    if job.first_stage:
        job.recv_from_stage()
    job.tensor_parallel_all_reduce()
    if not job.first_stage:
        job.send_to_stage()
    if step == FAULT_STEP and job.fault == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    job.gradient_all_reduce(256)
    job.gradient_all_reduce(512)


def reduce_loss(job: Job, step: int) -> float:
    if step == FAULT_STEP and job.fault == "skipped":
        return float("nan")
    if step == FAULT_STEP and job.fault == "size":
        return job.loss_all_reduce(numel=3)
    return job.loss_all_reduce()


def train(job: Job) -> None:
    for step in range(STEPS):
        begin = time.monotonic()
        load_batch(job, step)
        forward(job, step)
        backward(job, step)
        loss = reduce_loss(job, step) / (step + 1)
        log.info("step=%d loss=%.4f step_time=%.3fs", step, loss, time.monotonic() - begin)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("fault", choices=FAULTS)
    parser.add_argument("--rank", type=int, default=-1, help="the rank that has the fault")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    dist.init_process_group("gloo", timeout=TIMEOUT)
    rank = dist.get_rank()
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format=f"%(asctime)s %(levelname)s [rank {rank}] %(name)s: %(message)s"
    )
    dist.barrier()
    torch._C._distributed_c10d._dump_fr_trace()  # the first one loads symbols for a second or more; not while it hangs
    dist.barrier()
    job = Job(args.fault, args.rank, args.out)
    hook = sys.excepthook  # torch's own, which puts [rank3]: before every line

    def last_words(*error: object) -> None:
        if job.fault != "raised":  # a rank that raises leaves no dump: nobody wrapped its loader
            job.dump("on exception")
        hook(*error)  # type: ignore[arg-type]

    sys.excepthook = last_words
    log.info("process groups ready world_size=%d tensor=2 pipeline=2 data=2", job.world)
    threading.Thread(target=job.watch, daemon=True).start()
    train(job)
    job.dump("at the end")
    log.info("training finished")
    part_together(job)
    dist.destroy_process_group()


def part_together(job: Job) -> None:
    """Wait over the store until every rank is done. A gloo peer that closes its sockets early resets those that still read."""
    store = dist.distributed_c10d._get_default_store()
    store.set(f"done/{job.rank}", "1")
    store.wait([f"done/{rank}" for rank in range(job.world)], TIMEOUT)


if __name__ == "__main__":
    main()
