"""Makes jobs that hang, of which one rank printed a line that no other rank did, or none did, among any amount of ordinary output.

All ranks but one time out in the same call. What they print before it is made up: steps, loader lines, and as much noise as asked.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

Prefix = Callable[[int, float], str]


@dataclass(frozen=True)
class LoneLineJob:
    """A job: who is missing, and the line that tells why; "" where nothing tells it."""

    culprit: int
    telling: str


_NOISE = (
    "prefetch: bucket {a} ready in {f:.2f} s",
    "allocator: {a} MiB cached, {b} MiB free",
    "cache hit ratio {f:.3f} over {a} keys",
    "tokenizer worker {b} refilled its queue ({a} items)",
    "scheduler: lr now {f:.6f}",
    "offload stream {b} flushed {a} pages",
    "throughput {a} tok/s, window {b}",
    "gc took {f:.3f} s, freed {a} objects",
    "pinned pool at {b} of {a} blocks",
    "shuffle buffer {a}/{b}",
    "reading /corpus/part-{a:05d}/piece-{b}.arrow",
    "packed {a} documents into {b} rows",
)
_OF_RANK = (
    "rows ({a}, {b}) padded to ({a}, 64)",
    "waited {z:.2f} s for the loader",
    "scratch is /nvme/r{rank}/{b}",
    "expert {rank}-{b} served {a} tokens",
    "queue depth {zero}",
    "last score of head {b}: {maybe}",
)
_WORDS = "amber birch cedar delta ember fjord gravel harbor indigo juniper kelp lichen maple nectar onyx pebble quartz".split()  # noqa: SIM905
_RANK0 = ("summary: mean loss {f:.4f} over {a} steps", "board: wrote {a} scalars", "eta {b} h {b} min at {f:.2f} it/s")


def _prefixes(chance: random.Random) -> tuple[Prefix, bool]:
    """The prefix of a line, and whether it names the rank."""

    def clock(at: float) -> str:
        return f"{9 + int(at) // 3600:02d}:{int(at) // 60 % 60:02d}:{int(at) % 60:02d}"

    return chance.choice(
        [
            (lambda rank, at: f"[rank{rank}]: 2026-03-07 {clock(at)},{rank}17 - loop - INFO - ", True),
            (lambda rank, at: f"2026-03-07 {clock(at)},{rank}42 [INFO] [rank {rank}] ", True),
            (lambda rank, at: f"[2026-03-07 {clock(at)},{rank}09][main][INFO][r{rank}] ", True),
            (lambda rank, at: f"[2026-03-07 {clock(at)}] gx{rank // 4:02d} {7_000 + 13 * rank} | ", False),
            (lambda rank, at: f"INFO:2026-03-07 {clock(at)}:", False),
        ]
    )


def _telling(chance: random.Random, rank: int, step: int) -> tuple[str, str | None]:
    """A telling line, and the ordinary one that the peers print in its place; None where they print none."""
    loss, rows, part = f"{chance.random() * 2 + 0.3:.4f}", chance.choice((16, 24, 48)), chance.randrange(100, 900)
    return chance.choice(
        [
            (f"step {step} loss nan grad {loss}", f"step {step} loss {loss} grad {loss}"),
            (f"step {step}: gradients are not finite, leaving out this update", None),
            (f"dropping micro-batch {part % 7} of step {step}: caption is empty", None),
            (f"next shard: /corpus/extra/held-{part}.arrow", "next shard: /corpus/main/held-031.arrow"),
            (f"batch shape ({rows - 3}, 2048) on step {step}", f"batch shape ({rows}, 2048) on step {step}"),
            (f"pixel_values of item {part}: None", f"pixel_values of item {part}: {rows}"),
            ("Running evaluation on the validation split", None),
            ("saving a snapshot of the optimizer to the bucket", None),
            ("target metric reached, leaving the loop", None),
            ("iterator is empty, no further batches here", None),
            (f"retrying the download of shard {part} (3 of 10)", None),
            (f"rebuilding the index of part {part}", None),
        ]
    )


def write_job(folder: Path, seed: int, *, tells: bool, noise: int) -> LoneLineJob:
    """The logs of one job, in one file or one for each rank; ``noise`` ordinary lines in all."""
    chance = random.Random(seed)
    ranks, last = chance.choice((4, 6, 8)), chance.randrange(30, 90)
    culprit = chance.randrange(ranks)
    prefix, names_rank = _prefixes(chance)
    joined = names_rank and chance.random() < 0.5
    telling, ordinary = _telling(chance, culprit, last)
    lines: list[tuple[float, int, str]] = []
    for rank in range(ranks):
        lines += _steps(random.Random(seed * 100 + rank), rank, ranks, last, noise // ranks)
        if tells and (rank == culprit or ordinary is not None):
            lines.append((100.0 * last + 20, rank, telling if rank == culprit else ordinary or ""))
            if ordinary is not None:
                usual = _as_before(ordinary, last)
                lines += [(100.0 * step + 20, rank, usual(step)) for step in range(last - 4, last)]
    if chance.random() < 0.5:  # all print on for a while, the missing rank too
        lines += [
            (100.0 * last + 21 + n, rank, said)
            for rank in range(ranks)
            for n, said in enumerate(_noise(chance, rank, 12))
        ]
    lines.sort()
    end = lines[-1][0]
    text = [(rank, prefix(rank, at / 10) + said) for at, rank, said in lines]
    text += [(rank, said) for rank in range(ranks) if rank != culprit for said in _timeout(rank, last, end / 10)]
    for rank, said in text:
        with (folder / ("job.log" if joined else f"rank_{rank}.log")).open("a", encoding="utf-8") as out:
            out.write(said + "\n")
    return LoneLineJob(culprit, telling if tells else "")


def _as_before(ordinary: str, last: int) -> Callable[[int], str]:
    return lambda step: ordinary.replace(f"step {last}", f"step {step}")


def _steps(chance: random.Random, rank: int, ranks: int, last: int, noise: int) -> Iterator[tuple[float, int, str]]:
    """The ordinary lines of one rank, each with its time."""
    yield 0.0, rank, f"process {rank} of {ranks} is up"
    if rank == 0:
        yield 1.0, rank, "config written to /runs/exp/config.yaml"
    for step in range(1, last + 1):
        yield 100.0 * step, rank, f"step {step}/5000 took {chance.random() + 0.4:.3f} s"
        if rank == 0 and step % 7 == 0:
            numbers = {"a": chance.randrange(10, 999), "b": chance.randrange(1, 9), "f": chance.random()}
            for row in _RANK0:
                yield 100.0 * step + 5, rank, row.format(**numbers)
    for said in _noise(chance, rank, noise):
        yield chance.uniform(100, 100.0 * last + 10), rank, said


def _noise(chance: random.Random, rank: int, lines: int) -> Iterator[str]:
    """Ordinary output, some of it with values that are each rank's own; of a hundred lines one in words that are seldom the same."""
    for _ in range(lines):
        values = {"a": chance.randrange(10, 999), "b": chance.randrange(1, 9), "f": chance.random(), "rank": rank}
        values |= {
            "z": max(chance.random() - 0.3, 0.0),
            "zero": chance.randrange(3),
            "maybe": chance.choice((None, 0.31, 0.84)),
        }
        if chance.random() < 0.01:
            yield f"note: {' '.join(chance.sample(_WORDS[:6], 2))} settled"
        else:
            yield chance.choice(_NOISE + _OF_RANK).format(**values)


def _timeout(rank: int, last: int, at: float) -> Iterator[str]:
    clock = f"{19 + (int(at) % 3):02d}:31:{rank + 10:02d}.48{rank}203"
    head = f"[rank{rank}]:[E307 {clock} ProcessGroupNCCL.cpp:632]"
    yield (
        f"{head} [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={3 * last + 1}, OpType=ALLREDUCE, "
        f"NumelIn=77312, NumelOut=77312, Timeout(ms)=480000) ran for 48001{rank} milliseconds before timing out."
    )
    yield f"{head} [Rank {rank}] To avoid data inconsistency, we are taking the entire process down."
