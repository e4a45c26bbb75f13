"""Log lines that many tests need, each as its writer prints it. What the lines mean is not known here."""

from __future__ import annotations


def caught(
    group_rank: int,
    seq: int | None,
    op: str = "ALLREDUCE",
    *,
    numel: int | None = 8,
    numel_out: int | None = None,
    limit_ms: int = 600_000,
    ran_ms: int = 600_001,
) -> str:
    """The message of a watchdog that gives up on a call. Before 2.3 it has no sizes, in the oldest releases no number."""
    number = "" if seq is None else f"SeqNum={seq}, "
    sizes = "" if numel is None else f"NumelIn={numel}, NumelOut={numel if numel_out is None else numel_out}, "
    return (
        f"[Rank {group_rank}] Watchdog caught collective operation timeout: WorkNCCL({number}OpType={op}, {sizes}"
        f"Timeout(ms)={limit_ms}) ran for {ran_ms} milliseconds before timing out."
    )


def watchdog(
    rank: int,
    seq: int = 9,
    op: str = "ALLREDUCE",
    *,
    at: str = "E202 03:20:00.050510987",
    group_rank: int | None = None,
    numel: int = 8,
    numel_out: int | None = None,
    ran_ms: int = 600_001,
) -> str:
    """The timeout line of a watchdog in PyTorch 2.3 to 2.13, with the global rank and a time."""
    inside = rank if group_rank is None else group_rank
    message = caught(inside, seq, op, numel=numel, numel_out=numel_out, ran_ms=ran_ms)
    return f"[rank{rank}]:[{at} ProcessGroupNCCL.cpp:632] {message}\n"


def old_watchdog(
    group_rank: int,
    seq: int | None,
    op: str = "ALLREDUCE",
    *,
    numel: int | None = None,
    limit_ms: int = 1_800_000,
    ran_ms: int = 1_800_011,
) -> str:
    """The same before PyTorch 2.3: only the rank inside a group that no line names, and no time."""
    message = caught(group_rank, seq, op, numel=numel, limit_ms=limit_ms, ran_ms=ran_ms)
    return f"[E ProcessGroupNCCL.cpp:475] {message}\n"
