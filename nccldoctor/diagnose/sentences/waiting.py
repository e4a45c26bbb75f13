"""Claims about ranks that wait in a call, and doubts that many rules share."""

from __future__ import annotations

from nccldoctor.model.ranks import Ranks
from nccldoctor.words.names import ranks_phrase

MEMBERS_ASSUMED = "No source lists the members of the group."


def entered(rank: int, call: str) -> str:
    """``Rank 0 entered ALLREDUCE #9 of TP 1 and never finished it.``"""
    return f"Rank {rank} entered {call} and never finished it."


def timed_out(rank: int | None, call: str) -> str:
    """``Rank 0 timed out in ALLREDUCE #9 of TP 1.``"""
    return f"{'Rank ' + str(rank) if rank is not None else 'A process'} timed out in {call}."


def waited(rank: int | None, call: str) -> str:
    """``Rank 0 waited in ALLREDUCE #9 of TP 1.``"""
    return f"{'Rank ' + str(rank) if rank is not None else 'A process'} waited in {call}."


def counted(rank: int, queued: int, finished: int) -> str:
    """``Rank 1 queued calls up to #17084 and finished #17083.``"""
    done = f"finished #{finished}" if finished > 0 else "finished none"
    return f"Rank {rank} queued calls up to #{queued} and {done}."


def issued(ranks: Ranks, call: str) -> str:
    """``Ranks 0-2 called ALLREDUCE #9.``"""
    return f"{ranks_phrase(ranks).capitalize()} called {call}."


def with_note(claim: str, note: str) -> str:
    """A claim with a note in brackets before its full stop."""
    return claim.removesuffix(".") + note + ("." if claim.endswith(".") else "")
