"""Sentences about ranks that arrive late."""

from __future__ import annotations

from nccldoctor.diagnose.sentences.headline import Headline
from nccldoctor.model.ranks import Ranks
from nccldoctor.words.names import ranks_phrase, verb
from nccldoctor.words.times import duration


def reached_late(who: str, call: str, late: float, limit: float) -> Headline:
    """Rank 0 (node0) reached ALLREDUCE #1551 639 s late; the timeout is 600 s."""
    return Headline(
        who, f"reached {call} {duration(late * 1000)} after its peers; the timeout is {duration(limit * 1000)}"
    )


def still_working(who: str, ranks: Ranks, call: str, doing: str) -> Headline:
    """Rank 0 (node0) was late to ALLREDUCE #17084, not stuck: it was still writing a checkpoint."""
    peers = verb(ranks, "its", "their")
    it = verb(ranks, "it was", "they were")
    return Headline(
        who,
        f"late to {call}, not stuck",
        f"{it} still {doing or 'working'} when {peers} peers timed out",
        be=verb(ranks, "was", "were"),
    )


def bar_moved(waiting: Ranks, call: str | None) -> Headline:
    """Rank 0 was late to BROADCAST, not stuck: it was still working when ranks 1-3 timed out."""
    return Headline(
        "rank 0", f"late to {call}, not stuck", f"it was still working when {ranks_phrase(waiting)} timed out", be="was"
    )


def still_preparing(label: str | None, minutes: int) -> Headline:
    """One process was still preparing data after 30 minutes, a default timeout, when another raised an error."""
    return Headline(
        "one process",
        f"still preparing data ({label}) after {minutes} minutes, a default timeout, when another process raised an error that is cut off",
        be="was",
    )


def late_in_every_call(
    who: str, ranks: Ranks, seconds: float, late: int, compared: int, group: str, share: float
) -> Headline:
    """Rank 2 is a straggler: it is late by 800 ms in 10 of 40 calls."""
    late_by = f"{verb(ranks, 'it is', 'they are')} late by {duration(seconds * 1000)}"
    return Headline(
        who,
        verb(ranks, "a straggler", "stragglers"),
        f"{late_by} in {late} of {compared} calls of {group}, and peers spend {share:.0%} of the time waiting",
        be=verb(ranks, "is", "are"),
    )


def reported_slower(who: str, slow: Ranks, by: str) -> Headline:
    """Rank 5 is slower than its peers, according to NVRx."""
    return Headline(
        who, f"slower than {verb(slow, 'its', 'their')} peers, according to {by}", be=verb(slow, "is", "are")
    )


def node_name(nodes: Ranks) -> str:
    """``Node 3``, where the ranks on it are unknown."""
    return f"node{'s' if len(nodes) > 1 else ''} {nodes}, with unknown ranks,"


# claims


def came_late(rank: int, late: float) -> str:
    """What the entry of a late rank shows."""
    return f"Rank {rank} entered the call {duration(late * 1000)} after its peers."


def had_been_waiting(rank: int) -> str:
    """What the entry of a peer shows."""
    return f"Rank {rank} was already waiting in the call."


def late_in(rank: int, how: str, seconds: float) -> str:
    """What one of many late calls shows; ``how`` is *arrived*, *started the call on its GPU* or *issued the call*."""
    return f"Rank {rank} {how} late, and its peers waited {duration(seconds * 1000)}."


def was_there(rank: int) -> str:
    """What the same call of a peer shows."""
    return f"Rank {rank} was there before."


def work_finished(rank: int) -> str:
    """What a line about the end of a rank's work shows."""
    return f"Rank {rank} finished its work after its peers timed out."


def work_took(rank: int, took: float, limit: float) -> str:
    """What such a line shows that says how long the work took."""
    return f"Rank {rank}'s work took {took:.0f} s, and the timeout is {limit:.0f} s."


def made_progress(rank: int) -> str:
    """What a step or a bar after the first timeout shows."""
    return f"Rank {rank} made progress after its peers timed out."


def compared_all(by: str) -> str:
    """What the report of a tool shows."""
    return f"{by} compared all of them."


BAR_AFTER = "A progress bar advances after its peers timed out."
DATA_UNFINISHED = "The data isn't ready yet."
CUT_ERROR = "This error is cut off."


def timed_out_before(rank: int | None) -> str:
    """What the timeout of a peer shows."""
    return f"Rank {rank} had timed out."


# doubts

NO_STEP_AFTER = "No line shows that the job continued after its newest call."
MAY_BE_CLOCK = "Its host is unknown, and a clock that runs ahead would look the same."
FEW_CALLS = "There are too few recorded calls to call it a pattern."
HOST_TIMES = "Only the hosts' times are on record, and hosts run ahead of their GPUs."
LINE_WITHOUT_RANK = "The line about its work names no rank, but all other ranks were waiting."
LINE_WITHOUT_TIME = "The line about its work has no time, only its place in the file."
NO_CALL_NUMBERS_IN_LINES = "The timeout lines have no call numbers, so they may be about different calls."
ONE_WAITS = "Only one waiting rank was found."
GUESSED_WAIT = "The error is cut off, so we're guessing that it was a timeout."
FREED_BY_TIMEOUT = (
    "It entered just after its peers had timed out, so their end may have freed it, for example of a lock."
)
AS_MANY_EARLY = "As many ranks were early as late, so the early ones may have skipped work."
ONE_TOOL = "Only one tool says so."

# what would prove a verdict wrong

NEVER_ARRIVED = "the rank never reached the call after all"
STILL_OPEN = "the same call was still open at a later look at the job"
DRIFTING_CLOCKS = "the clocks drift, or these ranks do extra work by design"
NOT_REPORTED_AGAIN = "a later report of that tool left out the rank"
END_OF_ERROR = "the end of that error said something else"
