"""Measures wait-for graph and verdict of a large job, from calls in memory to the whole answer.

    python benchmarks/wait_graph.py [--ranks 16384] [--steps 4] [--lines] [--profile]

The job (``large_job.py``) has tensor, pipeline, data and expert parallel groups; one rank never issues a
tensor-parallel call, and all others wait for it, directly or through the other groups. The verdict is checked.
``identify`` finds ranks and groups, ``align`` builds the graph, ``diagnose`` reaches the verdict; ``analyze`` is all of
it once more from what was read on, with runs and attempts kept apart, remedies and tables.
Target: 10 s for the first three together, 16,384 ranks, two cores.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import resource
import sys
import time
from collections.abc import Callable
from typing import TypeVar
from unittest.mock import patch

from large_job import job

from nccldoctor.align.facts import align
from nccldoctor.diagnose.diagnose import diagnose
from nccldoctor.identify.identify import identify
from nccldoctor.model import CauseClass
from nccldoctor.pipeline import analyze

LIMIT_S = 10.0

T = TypeVar("T")


class Clock:
    """Runs steps, prints and keeps what each took, in seconds."""

    def __init__(self) -> None:
        self.took: dict[str, float] = {}

    def time(self, name: str, step: Callable[[], T]) -> T:
        """Run one step."""
        start = time.perf_counter()
        answer = step()
        self.took[name] = time.perf_counter() - start
        print(f"{name:10s} {self.took[name]:7.2f} s")
        return answer


def memory() -> str:
    """The most memory this process has had so far."""
    return f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:.0f} MB"


def main() -> None:
    """Make the job, run every stage, print what each took, fail where the verdict is wrong or late."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--ranks", type=int, default=16_384)
    options.add_argument("--steps", type=int, default=4, help="steps in each ring, of about 38 calls")
    options.add_argument("--lines", action="store_true", help="watchdog lines of every rank beside the dumps")
    options.add_argument("--no-dumps", action="store_true", help="the lines alone; what they tell is not checked")
    options.add_argument("--profile", action="store_true")
    asked = options.parse_args()
    read, culprit, seq = job(asked.ranks, asked.steps, asked.lines or asked.no_dumps, not asked.no_dumps)
    lines = sum(len(one.events) for one in read.parsed)
    print(f"{asked.ranks} ranks, {len(read.batch.calls)} calls, {lines} lines, {memory()} before")

    clock, profile = Clock(), cProfile.Profile()
    if asked.profile:
        profile.enable()
    case = clock.time("identify", lambda: identify(read))
    facts = clock.time("align", lambda: align(case))
    findings = clock.time("diagnose", lambda: diagnose(facts).findings)
    spent = sum(clock.took.values())
    with patch("nccldoctor.pipeline.discover"), patch("nccldoctor.pipeline.ingest", lambda *_, **__: read):
        incident = clock.time("analyze", lambda: analyze("job"))
    clock.time("reports", lambda: (incident.to_json(), incident.to_html()))
    profile.disable()
    if asked.profile:
        pstats.Stats(profile).sort_stats("cumulative").print_stats(50)

    verdict = findings[0]
    print(f"verdict after {spent:.2f} s, {memory()} at most: {verdict.cause} {verdict.ranks} ({verdict.confidence})")
    print(verdict.headline)
    found = verdict.stalled.seq if verdict.stalled is not None else None
    right = verdict.cause is CauseClass.NOT_ARRIVED and set(verdict.ranks) == {culprit} and found == seq
    if not right and not asked.no_dumps:
        sys.exit(f"wrong: rank {culprit} did not issue #{seq} of its tensor group")
    if spent > LIMIT_S and asked.ranks <= 16_384:
        sys.exit(f"late: {spent:.1f} s, not {LIMIT_S} s")


if __name__ == "__main__":
    main()
