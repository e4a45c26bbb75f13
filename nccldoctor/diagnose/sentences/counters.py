"""Sentences about what NCCL's own observers count: RAS, COLL lines, communicator dumps, proxy dumps and the Inspector."""

from __future__ import annotations

from collections.abc import Mapping

from nccldoctor.diagnose.sentences.headline import Headline, whole
from nccldoctor.model.ranks import Ranks
from nccldoctor.words.lists import and_list
from nccldoctor.words.names import ranks_phrase, verb

# --- headlines ---------------------------------------------------------------------------------------------------------


def skipped_and_moved_on(who: str, call: str, comm: str) -> Headline:
    """``Rank 7 skipped ALLREDUCE #18 and continued in communicator 0x5b.``"""
    return Headline(who, f"skipped {call} and continued in communicator {comm}")


def shifted(who: str, ranks: Ranks, call: str, shift: int) -> Headline:
    """``Rank 5 skipped ALLREDUCE #14 of communicator 0x78, so its later calls are off by one.``"""
    its = verb(ranks, "its", "their")
    did = f"skipped {call}" if shift > 0 else f"made one call too many at {call}"
    return Headline(who, f"{did}, so {its} later calls are off by one")


def some_ahead(ahead: Ranks, size: int, call: str) -> Headline:
    """Ranks that are ahead of as many or more: a call too many, one that was skipped, or lagging peers."""
    behind = size - len(ahead)
    return whole(
        f"{len(ahead)} of {size} ranks ({ahead}) launched {call} and {behind} didn't; we don't know which side is out of step"
    )


# --- claims ------------------------------------------------------------------------------------------------------------


def last_call_was(rank: int, number: int, instead_of: str) -> str:
    """``Rank 7 made #17 as its last call, not ALLREDUCE #18.``"""
    return f"Rank {rank} made #{number} as its last call, not {instead_of}."


def last_call_in(rank: int, number: int, comm: str) -> str:
    """``Rank 7 had made #4 of communicator 0x5b.``"""
    return f"Rank {rank} had made #{number} of communicator {comm}."


def launched(rank: int, call: str, number: int) -> str:
    """``Rank 3 launched AllReduce of 1,024 float32 as #18.``"""
    return f"Rank {rank} launched {call} as #{number}."


def launched_kinds(ranks: Ranks, counts: Mapping[str, int]) -> str:
    """``Ranks 0-2 launched 14 AllReduce and 1 Broadcast.``"""
    return f"{ranks_phrase(ranks).capitalize()} launched {and_list([f'{n:,} {op}' for op, n in sorted(counts.items()) if n])}."


def had_launched(rank: int, count: int, op: str, most: int) -> str:
    """``Rank 7 had launched 17 AllReduce, and other ranks 18.``"""
    return f"Rank {rank} had launched {count:,} {op}, and other ranks {most:,}."


def ras_error(rank: int, error: str) -> str:
    """``Rank 7 reported to RAS: asynchronous error.``"""
    return f"Rank {rank} reported to RAS: {error.rstrip('.')}."


def transfers_wait_for_gpu(rank: int) -> str:
    """``The transfers of rank 3 wait for its own GPU.``"""
    return f"The transfers of rank {rank} wait for its own GPU."


def transfers_wait_for(rank: int, peers: Ranks) -> str:
    """``The transfers of rank 3 wait for rank 5.``"""
    return f"The transfers of rank {rank} wait for {ranks_phrase(peers)}."


def last_record(ranks: Ranks, number: int | None, most: int) -> str:
    """``Rank 7 has no record after #17; its peers finished #18.``"""
    its = verb(ranks, "its", "their")
    return f"{ranks_phrase(ranks).capitalize()} {verb(ranks, 'has', 'have')} no record after #{number}; {its} peers finished #{most}."


def counts_unchanged(apart: str) -> str:
    """``No count changed in the 60 s between the first query and this one.``"""
    return f"No count changed in the {apart} between the first query and this one."


# --- doubts ------------------------------------------------------------------------------------------------------------

COUNTS_ALONE = "We only have NCCL's counts of calls, which name no line of code."
MAY_DIFFER_BRIEFLY = "No rank reports a problem, so the counts may differ only for a moment."
MAY_FIT_OTHERS = "The counts may differ only for a moment, or fit other ranks as well."
ONE_QUERY = "Only one query counted the calls, so the job may still be moving."
MAY_WAIT_ELSEWHERE = "These ranks may be waiting in a call of another communicator."
AS_MANY_AHEAD = "As many ranks are ahead as behind."
LINES_STOP_ANYWAY = "These call logs end the same way in a hung job as in a running one."


def behind_of(behind: int, size: int) -> str:
    """``5 of 8 ranks are behind, so those may be the normal ones.``"""
    return f"{behind} of {size} ranks are behind, which is too many to blame."


# --- refuted by --------------------------------------------------------------------------------------------------------

SAME_LINES = "every member had logged the same call under that number"
CAUGHT_UP = "a later query or log line had shown the rank catching up"


def caught_up_after(moment: str) -> str:
    """The same where several queries gave equal counts."""
    return f"a query after {moment}, or a log line, had shown the rank catching up"


EQUAL_COUNTS = "a second query had shown equal counts"
