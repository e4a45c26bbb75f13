"""Measures what ``nccldoctor collect`` does to the job that it looks at (needs torch).

    python benchmarks/collect_impact.py [--rounds 30] [--window 2] [--realtime]

Four ranks on gloo make steps of fixed work and of 10 ms of sleep, in which a GPU would work. A round is a window of steps, a gap, and
another window. Rounds come in pairs: in one gap the job is collected from, in the other nothing happens for as long; which comes first
changes from pair to pair. Printed are the rate of steps and the processor time of a step behind the gap as a multiple of those before
it, and the longest step in the gap, each with the middle half of the rounds: those without a collection show what the machine does by
itself. Target: the rate stays within 2 %. On a machine that other work keeps busy ``--realtime`` puts the ranks before it (as root).
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from nccldoctor.collect.gather import gather_bundle
from nccldoctor.collect.node_options import NodeOptions
from nccldoctor.collect.on_node.stack_tools import PYTHON_TOOLS
from nccldoctor.collect.reach.this_machine import ThisMachine

RANKS = 4
TARGET = 0.02
RESAMPLED = 10_000
"""Draws of rounds from which the interval of a median follows."""

TRAIN = """
import os, struct, sys, time, torch, torch.distributed as dist
rank = int(os.environ["RANK"])
torch.set_num_threads(1)
def train_step(weights):
    weights = weights @ weights / 256
    time.sleep(0.01)
    dist.all_reduce(weights[:16].clone())
def train(folder):
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=int(os.environ["WORLD_SIZE"]))
    log = os.open(f"{folder}/steps-{rank}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    while True:
        train_step(torch.ones(256, 256))
        os.write(log, struct.pack("<dd", time.monotonic(), time.process_time()))
train(sys.argv[1])
"""
"""A rank that writes after each step what the clock shows, and how much processor time it has used so far."""


@dataclass(frozen=True, slots=True)
class Round:
    """What one round shows: rate and processor time of a step behind the gap by those before, and the longest step in the gap."""

    rate: float
    processor: float
    longest_ms: float


@contextmanager
def running_job(folder: Path, first: Sequence[str]) -> Iterator[list[subprocess.Popen[bytes]]]:
    """The ranks of a job that writes to ``folder``; ``first`` stands before the command of each. They are ended with the block."""
    script = folder / "train.py"
    script.write_text(TRAIN)
    numbers = [{"RANK": str(r), "LOCAL_RANK": str(r), "WORLD_SIZE": str(RANKS)} for r in range(RANKS)]
    words = [*first, sys.executable, str(script), str(folder)]
    with (folder / "errors").open("wb") as errors:
        ranks = [
            subprocess.Popen(words, env=os.environ | own | {"OMP_NUM_THREADS": "1"}, stderr=errors) for own in numbers
        ]
    try:
        yield ranks
    finally:
        for rank in ranks:
            rank.send_signal(signal.SIGKILL)
            rank.wait()


def steps_of(folder: Path, rank: int) -> list[tuple[float, float]]:
    """Times of the ends of all steps, and the processor time until then, in seconds."""
    path = folder / f"steps-{rank}"
    data = path.read_bytes() if path.exists() else b""
    return list(struct.iter_unpack("<dd", data[: len(data) // 16 * 16]))


def measured(folder: Path, window: float, gap: Callable[[], None]) -> Round:
    """One round with what happens in its gap."""
    marks = [time.monotonic()]
    for spend in (partial(time.sleep, window), gap, partial(time.sleep, window)):
        spend()
        marks.append(time.monotonic())
    begin, left, back, end = marks
    steps = [steps_of(folder, rank) for rank in range(RANKS)]
    before, after = ([_between(own, *span) for own in steps] for span in ((begin, left), (back, end)))
    ends = [at for at, _ in steps[0] if begin <= at <= end]
    pauses = [late - early for early, late in itertools.pairwise(ends) if late >= left and early <= back]
    return Round(
        rate=_step_seconds(before[0]) / _step_seconds(after[0]),
        processor=sum(map(_processor_seconds, after)) / sum(map(_processor_seconds, before)),
        longest_ms=1e3 * max(pauses),
    )


def _between(steps: Sequence[tuple[float, float]], begin: float, end: float) -> list[tuple[float, float]]:
    return [step for step in steps if begin <= step[0] <= end]


def _step_seconds(steps: Sequence[tuple[float, float]]) -> float:
    """The median time of a step."""
    return statistics.median(late - early for (early, _), (late, _) in itertools.pairwise(steps))


def _processor_seconds(steps: Sequence[tuple[float, float]]) -> float:
    """The mean processor time of a step of one rank."""
    return (steps[-1][1] - steps[0][1]) / (len(steps) - 1)


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Where the median of such rounds lies in 95 of 100 cases, by drawing rounds again and again."""
    draw = random.Random(1)
    medians = sorted(statistics.median(draw.choices(values, k=len(values))) for _ in range(RESAMPLED))
    return medians[RESAMPLED // 40], medians[-RESAMPLED // 40]


def shown(values: Sequence[float], form: str) -> str:
    """Median, and the middle half of the rounds."""
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:{form}} ({low:{form}} to {high:{form}})"


def main() -> None:
    """Run the rounds and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30, help="rounds of either kind")
    parser.add_argument("--window", type=float, default=2.0, help="seconds of a window")
    parser.add_argument("--realtime", action="store_true", help="run the ranks before all other work")
    args = parser.parse_args()
    first = ["chrt", "--rr", "1"] if args.realtime else []
    with tempfile.TemporaryDirectory() as scratch, running_job(folder := Path(scratch), first) as ranks:
        while not all(len(steps_of(folder, rank)) > 50 for rank in range(RANKS)):
            time.sleep(0.1)
            check_alive(ranks, folder)
        options = NodeOptions(pid=",".join(str(rank.pid) for rank in ranks))

        def collect() -> None:
            gather_bundle(ThisMachine(), options, folder / "bundle.tar.zst", python=sys.executable)

        looked, left_alone, lasted = rounds_of(folder, args.rounds, args.window, collect)
        check_alive(ranks, folder)
        step = statistics.median(_step_seconds(steps_of(folder, rank)) for rank in range(RANKS))
    tool = next((name for name in PYTHON_TOOLS if _has(name)), "no stack tool")
    print(
        f"{RANKS} ranks, steps of {step * 1e3:.1f} ms, {tool}; a collection takes {lasted:.1f} s; {args.rounds} pairs of rounds"
    )
    print(f"{'':<30}{'with a collection':<30}without")
    for name, value, form in FIGURES:
        columns = [shown([value(one) for one in rounds], form) for rounds in (looked, left_alone)]
        print(f"{name:<30}{columns[0]:<30}{columns[1]}")
    for name, value, _ in FIGURES[:2]:
        print(f"{name}, with / without: {compared([*map(value, looked)], [*map(value, left_alone)])}")


def rounds_of(
    folder: Path, pairs: int, window: float, collect: Callable[[], None]
) -> tuple[list[Round], list[Round], float]:
    """Rounds with a collection, rounds without one, and the median seconds of a collection."""
    looked: list[Round] = []
    left_alone: list[Round] = []
    lasted = [1.0]

    def timed() -> None:
        begin = time.monotonic()
        collect()
        lasted.append(time.monotonic() - begin)

    def nothing() -> None:
        time.sleep(statistics.median(lasted))

    timed()
    del lasted[0]
    for number in range(pairs):
        order = [(looked, timed), (left_alone, nothing)]
        for rounds, gap in order if number % 2 else reversed(order):
            rounds.append(measured(folder, window, gap))
    return looked, left_alone, statistics.median(lasted)


def check_alive(ranks: Sequence[subprocess.Popen[bytes]], folder: Path) -> None:
    """End with what the ranks said, where one of them has ended."""
    if any(rank.poll() is not None for rank in ranks):
        sys.exit(f"a rank ended:\n{(folder / 'errors').read_text()}")


def compared(looked: Sequence[float], left_alone: Sequence[float]) -> str:
    """The median of the pairs with its interval, and whether it meets the target."""
    pairs = [one / other for one, other in zip(looked, left_alone, strict=True)]
    (low, high), middle = interval(pairs), statistics.median(pairs)
    verdict = "met" if abs(middle - 1) <= TARGET else "MISSED"
    sure = "" if low >= 1 - TARGET and high <= 1 + TARGET else ", but the machine is too busy to be sure"
    return f"{middle:.4f}, 95 % interval {low:.4f} to {high:.4f}, target 1 ± {TARGET}: {verdict}{sure}"


FIGURES: tuple[tuple[str, Callable[[Round], float], str], ...] = (
    ("step rate behind / before", lambda one: one.rate, ".4f"),
    ("CPU of a step behind / before", lambda one: one.processor, ".4f"),
    ("longest step in the gap, ms", lambda one: one.longest_ms, ".0f"),
)


def _has(name: str) -> bool:
    beside = str(Path(sys.executable).parent)
    return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), beside])) is not None


if __name__ == "__main__":
    main()
