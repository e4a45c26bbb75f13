"""Runs the whole command over healthy dumps of more and more ranks, and prints how its cost grows.

    python benchmarks/rank_growth.py [--ranks 64 256 1024 4096 16384] [--entries 20]

Each dump lists the members of all groups of its rank, as PyTorch writes them, so that at 16,384 ranks they make nine tenths of it.
``x numpy`` is the processor time as a multiple of a Python that only imports numpy. Targets for 16,384 ranks: 8 CPU-s
where numpy's import takes 0.1, and 600 MB.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

from recorder_load import dump_of, measure
from yardstick import numpy_seconds

RANKS = (64, 256, 1024, 4096, 16_384)


def main() -> None:
    """Write the dumps of one size of job after the other, analyse them, print a row for each."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--ranks", type=int, nargs="*", default=RANKS)
    options.add_argument("--entries", type=int, default=20)
    asked = options.parse_args()
    print(" ranks    CPU-s  x numpy    wall      MB  ms/rank  x last")
    last, numpy = 0.0, numpy_seconds()
    with tempfile.TemporaryDirectory() as scratch:
        for ranks in asked.ranks:
            folder = Path(scratch, "dumps")
            folder.mkdir()
            for rank in range(ranks):
                (folder / f"nccl_trace_rank_{rank}").write_bytes(dump_of(rank, ranks, asked.entries))
            report = Path(scratch, f"report-{ranks}.html")
            before = os.times()
            wall, peak = measure([sys.executable, "-m", "nccldoctor", "analyze", str(folder), "-o", str(report)])
            after = os.times()
            cpu = after.children_user + after.children_system - before.children_user - before.children_system
            times = f"{cpu / last:7.1f}" if last else " " * 7
            cost = f"{cpu:8.2f} {cpu / numpy:8.1f} {wall:7.2f} {peak / 1e6:7.0f} {cpu / ranks * 1e3:8.2f}"
            print(f"{ranks:6d} {cost} {times}", flush=True)
            last = cpu
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
