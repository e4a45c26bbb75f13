"""Simulates incidents for ``sample_logs/``: ``python tests/recording/simulate_samples.py [NAME…]``.

For classes that cannot be recorded on processors alone. Each is a job of ``jobs.py`` by class and seed; ``expected.toml`` holds what the
simulator knows to be true, never what the analysis said.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the folder tests/, also when run as a script

from simulator import jobs

from nccldoctor.model.ranks import Ranks

SAMPLES = Path(__file__).resolve().parents[2] / "sample_logs"


@dataclass(frozen=True, slots=True)
class Case:
    """One simulated job: its seed, a sentence about it, and the confidence its evidence is worth."""

    seed: int
    about: str
    at_least: str = "high"


CASES = {
    "extra-call": Case(2, "One of four ranks reduces a metric that nobody else reduces; its calls are one ahead of the others'"),
    "order-inversion": Case(4, "Ranks of tensor- and data-parallel groups issue two calls in opposite order and wait for each other"),
    "unmatched-p2p": Case(64, "A pipeline stage waits for a send that the stage before it never issued"),
    "network": Case(12, "A network adapter's port goes down in the middle of a gather; sixteen ranks stop"),
    "hardware": Case(0, "A GPU falls off the bus; its rank stops without a word and seven others wait"),
    "init": Case(5, "One rank does not come to the start of a communicator, and nobody else can start", "medium"),
    "straggler": Case(16, "Rank 0 writes a checkpoint for longer than the others' limit, and finishes it after they gave up"),
    "op-mismatch": Case(19, "One rank broadcasts where the other three exchange tokens between experts"),
    "dtype-mismatch": Case(2, "One rank reduces its gradients in another dtype than the others"),
    "frozen": Case(7, "One process is stopped by a signal: it neither ends nor answers"),
    "device-stalled": Case(23, "The host of one rank went on issuing calls, and its GPU stopped executing them"),
}  # fmt: skip


def expectation(name: str, case: Case, truth: dict[str, Any], release: str) -> str:
    """``expected.toml`` from what the simulator knows."""
    stalled = truth["stalled"] or {}
    innocent = Ranks(range(truth["world_size"])) - Ranks(truth["culprit_ranks"])
    lines = [
        f"about = {json.dumps(case.about)}",
        "",
        "[origin]",
        'kind = "simulated"',
        f'how = "tests/recording/simulate_samples.py {name} (scenario {truth["scenario"]}, seed {case.seed})"',
        f'versions = "wording and dump format of PyTorch {release}"',
        'notes = "No process ran: a simulator plays the program on every rank and writes what PyTorch and NCCL would have left."',
        "",
        "[verdict]",
        f'class = ["{truth["class"]}"]',
        f'ranks = "{Ranks(truth["culprit_ranks"])}"',
        f'confidence_at_least = "{case.at_least}"',
    ]
    if stalled.get("seen") and truth["class"] not in ("init",):
        lines += [f"op = {json.dumps(stalled['op'])}", f"seq = {stalled['seq']}"]
    lines += ["", "[must_not_find]", "classes = []", f'blamed = "{innocent}"', ""]
    return "\n".join(lines)


def write(name: str) -> None:
    """Write one sample, replacing what was there."""
    case = CASES[name]
    job = jobs.make(case.seed, cls=name)
    folder = SAMPLES / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    job.write(folder)
    release = job.knobs.release.name
    (folder / "expected.toml").write_text(expectation(name, case, job.truth, release), encoding="utf-8")


def main() -> None:
    """Write all, or those that are named."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="of: " + ", ".join(CASES))
    for name in parser.parse_args().names or CASES:
        write(name)


if __name__ == "__main__":
    main()
