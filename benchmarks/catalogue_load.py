"""Measures the cost of the remedies: the full catalogue minus an empty one, in fresh processes.

    python benchmarks/catalogue_load.py [--repeat 9]

Each process imports the reader, reads every file, checks those that are not known to be right and prints its own time;
medians, taken in turns.
Target: 150 ms on two cores.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile

TARGET_S = 0.150
READ = """
import sys, time
from pathlib import Path
import numpy, nccldoctor.pipeline, nccldoctor.prescribe.prescribe
begin = time.perf_counter()
from nccldoctor.prescribe.catalogue import load
if sys.argv[1] != "full":
    load.BUILT_IN = Path(sys.argv[1])
held = load.load_catalogue()
print(time.perf_counter() - begin, len(held.entries))
"""


def once(folder: str) -> tuple[float, int]:
    """Seconds of one process, and the remedies it read."""
    done = subprocess.run([sys.executable, "-c", READ, folder], capture_output=True, text=True, check=True)
    seconds, remedies = done.stdout.split()
    return float(seconds), int(remedies)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=9)
    repeat = parser.parse_args().repeat
    with tempfile.TemporaryDirectory() as empty:
        once("full")
        runs = [(once("full"), once(empty)) for _ in range(repeat)]
    full = statistics.median(seconds for (seconds, _), _ in runs)
    none = statistics.median(seconds for _, (seconds, _) in runs)
    print(f"{runs[0][0][1]} remedies: {full * 1000:.0f} ms, without any: {none * 1000:.0f} ms")
    verdict = "met" if full - none <= TARGET_S else "MISSED"
    print(f"difference {(full - none) * 1000:.0f} ms, target {TARGET_S * 1000:.0f} ms: {verdict}")


if __name__ == "__main__":
    main()
