"""The faults that a rehearsal can have, and what a diagnosis of each must find."""

from __future__ import annotations

from msgspec import Struct

WORLD = 4
"""Ranks of a rehearsal: two tensor parallel pairs."""


class Fault(Struct, frozen=True):
    """One fault: its name, a sentence about it, its rank, and the classes that name it rightly.

    ``rank`` is None where nothing is wrong. ``steps`` is how many a job makes before a fault shows that does not stop it; 0 for others.
    """

    name: str
    about: str
    rank: int | None
    classes: tuple[str, ...]
    steps: int = 0


_ABSENT = ("not-arrived",)
_MISMATCH = ("missed-call", "extra-call", "op-mismatch")

FAULTS = (
    Fault("late-loader", "Rank 2 waits for a shard of its data that never comes", 2, _ABSENT),
    Fault("fifo", "Rank 1 opens a named pipe that no program writes to", 1, _ABSENT),
    Fault("deadlock", "Two threads of rank 3 wait for each other's lock", 3, _ABSENT),
    Fault("held-lock", "A regular expression of rank 2 holds the interpreter lock and never ends", 2, _ABSENT),
    Fault("checkpoint", "Rank 0 writes a checkpoint that takes forever", 0, ("not-arrived", "straggler")),
    Fault("stopped", "Rank 3 is stopped by SIGSTOP", 3, ("frozen",)),
    Fault("killed", "Rank 1 is killed by SIGKILL", 1, ("died",)),
    Fault("exception", "Rank 2 raises an exception in its data loader", 2, ("raised",)),
    Fault("skipped-call", "Rank 1 skips the all-reduce of its loss, which is not a number", 1, _MISMATCH),
    Fault("missed-barrier", "Rank 3 does not call the barrier after the evaluation", 3, _MISMATCH),
    Fault("uneven-batches", "Rank 2 has fewer batches than its peers and ends its epoch early", 2, _MISMATCH),
    Fault("wrong-call", "Rank 3 calls broadcast where its peers call all-reduce", 3, ("op-mismatch",)),
    Fault("wrong-shape", "Rank 1 reduces a tensor of another size", 1, ("size-mismatch",)),
    Fault("wrong-dtype", "Rank 2 reduces float64 where its peers reduce float32", 2, ("dtype-mismatch",)),
    Fault("group-order", "Rank 1 calls two groups in the opposite order of its peers", 1, ("order-inversion",)),
    Fault("never-starts", "Rank 3 is never started", 3, ("init",)),
    Fault("straggler", "Rank 2 is slow in every step, but never stops", 2, ("straggler",), steps=8),
    Fault("healthy", "Nothing is wrong, and the job ends", None, ("none",)),
    Fault("training", "Nothing is wrong, and the job trains while it is looked at", None, ("none",), steps=8),
)
"""All of them. The last two are jobs without a fault."""


def fault_named(name: str) -> Fault | None:
    """The fault of that name, None where there is none."""
    return next((fault for fault in FAULTS if fault.name == name), None)
