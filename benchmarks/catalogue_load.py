"""Measures the cost of the remedies: the full catalogue minus one of a single remedy, in fresh processes.

    python benchmarks/catalogue_load.py [--repeat 9]

Each process imports the reader, reads every file, checks those that are not known to be right and prints its own time;
medians, taken in turns.
Target: 150 ms on two cores.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

FIRST = min(Path(__file__).parents[1].glob("nccldoctor/prescribe/catalogue/*/*.toml"))
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
    with tempfile.TemporaryDirectory() as folder:
        topic = Path(folder, FIRST.parent.name)
        topic.mkdir()
        shutil.copy(FIRST, topic)
        once("full")
        runs = [(once("full"), once(folder)) for _ in range(repeat)]
    full = statistics.median(seconds for (seconds, _), _ in runs)
    one = statistics.median(seconds for _, (seconds, _) in runs)
    print(f"{runs[0][0][1]} remedies: {full * 1000:.0f} ms, one: {one * 1000:.0f} ms")
    verdict = "met" if full - one <= TARGET_S else "MISSED"
    print(f"difference {(full - one) * 1000:.0f} ms, target {TARGET_S * 1000:.0f} ms: {verdict}")


if __name__ == "__main__":
    main()
