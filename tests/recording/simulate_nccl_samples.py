"""Simulates incidents that NCCL's own observers tell of: ``python tests/recording/simulate_nccl_samples.py [NAME…]``.

Each is a job of ``nccl_job.py``; ``expected.toml`` holds what that job knows of its own fault, never what the analysis said.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the folder tests/, also when run as a script

from builders.jobs.nccl_job import (
    Comm,
    Job,
    coll_logs,
    comm_dumps,
    in_pairs,
    late,
    pair_of,
    plain,
    ras_json,
    skips,
    world,
)

from nccldoctor.model.ranks import Ranks

SAMPLES = Path(__file__).resolve().parents[2] / "sample_logs"
SIZE, CULPRIT, STEP, STEPS = 8, 5, 4, 6


@dataclass(frozen=True, slots=True)
class Case:
    """One incident: its job, the files it leaves, where the fault is, and the confidence that its evidence is worth."""

    about: str
    job: Callable[[], Job]
    files: Callable[[Job], dict[str, str] | dict[str, bytes]]
    cause: str
    comm: Comm
    op: str
    number: Callable[[Job, Comm], int]
    confidence: str
    versions: str


def _counted(op: str) -> Callable[[Job, Comm], int]:
    """The number that RAS gives the first call of an operation that the culprit did not launch."""
    return lambda job, comm: 1 + sum(one.op == op for one in Job.on(job.ranks[CULPRIT], comm))


def _first_open(job: Job, comm: Comm) -> int:
    """The number of the first call that a peer launched and that cannot end."""
    peer = next(job.ranks[r] for r in comm.members if r != CULPRIT)
    number = job.first_open(peer, comm)
    assert number is not None
    return number


def _queries(job: Job) -> dict[str, str]:
    return {f"ras/query_{n}.json": ras_json(job, f"2026-01-11 10:0{4 + n}:00") for n in (1, 2)}


def _logs(job: Job) -> dict[str, str]:
    return {f"logs/{path}": text for path, text in coll_logs(job).items()}


CASES = {
    "ras-queries": Case(
        "Two queries of RAS a minute apart, and nothing else: one rank is behind in its pair, and the whole job behind it",
        lambda: Job(SIZE, in_pairs(SIZE), STEPS, late([CULPRIT], STEP)).run(),
        _queries, "not-arrived", pair_of(CULPRIT), "AllGather", _counted("AllGather"), "medium", "JSON of NCCL 2.28.9",
    ),
    "coll-lines": Case(
        "Logs with NCCL_DEBUG_SUBSYS=COLL and no watchdog: one rank left out a reduction, and its calls are one ahead",
        lambda: Job(SIZE, plain(SIZE), STEPS, skips(CULPRIT, STEP, 2)).run(),
        _logs, "missed-call", world(SIZE), "AllReduce", _first_open, "low", "COLL and INIT lines of NCCL 2.28",
    ),
    "comm-dumps": Case(
        "The flight recorder was off, and NCCLX dumped its communicators: one rank stopped before a gather",
        lambda: Job(SIZE, plain(SIZE), STEPS, late([CULPRIT], STEP)).run(),
        comm_dumps, "not-arrived", world(SIZE), "AllGather", _first_open, "medium", "nccl_comm_state as PyTorch 2.9 writes it with NCCLX",
    ),
}  # fmt: skip

TYPES = {"AllReduce": "ALLREDUCE", "AllGather": "ALLGATHER"}


def expectation(name: str, case: Case, job: Job) -> str:
    """``expected.toml`` from what the job knows."""
    innocent = Ranks(range(SIZE)) - Ranks([CULPRIT])
    return "\n".join(
        [
            f"about = {json.dumps(case.about)}",
            "",
            "[origin]",
            'kind = "simulated"',
            f'how = "tests/recording/simulate_nccl_samples.py {name}"',
            f'versions = "{case.versions}"',
            'notes = "No process ran: a small job is played on every rank, and what NCCL would have shown of it is written."',
            "",
            "[verdict]",
            f'class = ["{case.cause}"]',
            f'ranks = "{CULPRIT}"',
            f'op = "{TYPES[case.op]}"',
            f"seq = {case.number(job, case.comm)}",
            f'confidence_at_least = "{case.confidence}"',
            'confidence_at_most = "medium"',
            "",
            "[must_not_find]",
            "classes = []",
            f'blamed = "{innocent}"',
            "",
        ]
    )


def write(name: str) -> None:
    """Write one sample, replacing what was there."""
    case = CASES[name]
    job = case.job()
    folder = SAMPLES / name
    shutil.rmtree(folder, ignore_errors=True)
    for path, content in case.files(job).items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content if isinstance(content, bytes) else content.encode())
    (folder / "expected.toml").write_text(expectation(name, case, job), encoding="utf-8")


def main() -> None:
    """Write all, or those that are named."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="of: " + ", ".join(CASES))
    for name in parser.parse_args().names or CASES:
        write(name)


if __name__ == "__main__":
    main()
