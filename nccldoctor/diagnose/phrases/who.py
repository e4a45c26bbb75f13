"""Ranks with their host and process: ``rank 1 (node0, pid 17081)``, ``ranks 8-15 (node1)``."""

from __future__ import annotations

from nccldoctor.identify.case import Case
from nccldoctor.model.ranks import Ranks
from nccldoctor.words.names import ranks_phrase
from nccldoctor.words.sanitize import line


def who(case: Case, ranks: Ranks) -> str:
    """The ranks, with the host that runs them all and the process of a single one, where these are known."""
    hosts = {case.rank_host.get(rank) for rank in ranks}
    host = hosts.pop() if len(hosts) == 1 else None
    pid = case.rank_pid.get(min(ranks)) if len(ranks) == 1 else None
    known = ", ".join(filter(None, (line(host, 60) if host else "", f"pid {pid}" if pid is not None else "")))
    return ranks_phrase(ranks) + (f" ({known})" if known else "")


def rank_or_process(rank: int | None) -> str:
    """``rank 3``; ``a process`` where its rank is unknown."""
    return f"rank {rank}" if rank is not None else "a process"
