"""The yardstick of the benchmarks: the processor time of a Python that imports numpy and ends.

Seconds differ by a factor of three between machines, between builds of Python, and between a busy and an idle machine. A multiple of this
differs far less.
"""

from __future__ import annotations

import os
import subprocess
import sys

REPEAT = 5


def numpy_seconds() -> float:
    """The least processor seconds, user and system, of several runs of ``python -c "import numpy"``."""
    return min(_once() for _ in range(REPEAT))


def _once() -> float:
    before = os.times()
    subprocess.run([sys.executable, "-c", "import numpy"], check=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system
