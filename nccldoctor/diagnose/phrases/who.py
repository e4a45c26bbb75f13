"""Who a sentence is about, and what they were doing: ``rank 1 (node0)``, ``in load_batch (data.py:34)``."""

from __future__ import annotations

from nccldoctor.identify.case import Case
from nccldoctor.model.ranks import Ranks
from nccldoctor.words.names import ranks_phrase, verb
from nccldoctor.words.sanitize import line


def who(case: Case, ranks: Ranks) -> str:
    """The ranks, with the host that runs them all where it is known."""
    hosts = {case.rank_host.get(rank) for rank in ranks}
    host = hosts.pop() if len(hosts) == 1 else None
    return ranks_phrase(ranks) + (f" ({line(host, 60)})" if host else "")


def rank_or_process(rank: int | None) -> str:
    """``rank 3``; ``a process`` where its rank is unknown."""
    return f"rank {rank}" if rank is not None else "a process"


def ongoing(words: str) -> str:
    """``waiting for the data loader`` of ``waits for the data loader``; ``shutting down`` of ``is shutting down``."""
    first, _, rest = words.partition(" ")
    stem = first.removesuffix("s")
    if first == "is" or stem == first or not stem.isalpha():
        return rest if first == "is" else words
    stem = {"run": "runn", "spin": "spinn"}.get(stem, stem if stem.endswith("ee") else stem.removesuffix("e"))
    return " ".join(filter(None, (f"{stem}ing", rest)))


def doing(words: str, place: str, around: str = "") -> str:
    """The rest of a sentence after *was*, of an activity and a place, either of which may be empty."""
    at = f"{place}{around}"
    if not words or not place:
        return ongoing(words) or (f"in {at}" if place else "")
    does = ongoing(words)
    joint = ", called in" if "for a peer" in words else ", in" if does.startswith("in ") else " in"
    return f"{does}{joint} {at}"


def was(ranks: Ranks, doing: str) -> str:
    """``it was in load_batch (data.py:34)``, ``they were …``; "" where that is unknown."""
    return f"{verb(ranks, 'it was', 'they were')} {doing}" if doing else ""


PROMPT = "waiting at a prompt for an answer"
BLOCKED = "blocked in the kernel, in uninterruptible sleep"
NO_PYTHON_FRAME = "in code without Python frames"
