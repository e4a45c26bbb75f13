"""Sentences about calls that all members entered and that did not finish: a GPU, a link, or NCCL itself."""

from __future__ import annotations

from nccldoctor.diagnose.sentences.headline import Headline, whole
from nccldoctor.model.ranks import Ranks
from nccldoctor.words.names import ranks_phrase, verb
from nccldoctor.words.sentences import capitalized

# --- a GPU that stopped ------------------------------------------------------------------------------------------------


def gpu_stopped(who: str, ranks: Ranks, call: str) -> Headline:
    """``The GPU of rank 3 (node1) stopped in ALLREDUCE #7 while its process kept queuing work.``"""
    gpus, processes = verb(ranks, "the GPU", "the GPUs"), verb(ranks, "its process", "their processes")
    return Headline(f"{gpus} of {who}", f"stopped in {call} while {processes} kept queuing work")


def queued_but_unfinished(rank: int, queued: int, number: int) -> str:
    """A claim: ``Rank 2 queued calls up to #27 but never finished #6.``"""
    return f"Rank {rank} queued calls up to #{queued} but never finished #{number}."


def finished_on_peer(rank: int, number: int) -> str:
    """A claim: ``Rank 0 finished #6 of the same group.``"""
    return f"Rank {rank} finished #{number} of the same group."


def no_peer_waits(ranks: Ranks) -> str:
    """A doubt about a stopped GPU."""
    return f"No peer is waiting for {ranks_phrase(ranks)}."


MAY_BE_OUT_OF_STEP = "We only compared counters, so the ranks may be out of step instead."
COUNTED_BY_LINES = "Only log lines count these calls: no dump shows its entries."


def completions_moved(ranks: Ranks) -> str:
    """What would refute a stopped GPU."""
    return f"a later dump of {ranks_phrase(ranks)} had shown more finished calls"


# --- a GPU that failed -------------------------------------------------------------------------------------------------


def board_failed(board: str, error: str) -> Headline:
    """``The GPU of rank 4 (dgx-a2) failed: Xid 79, GPU has fallen off the bus.``"""
    return Headline(board, "failed", error)


def board_error(board: str, error: str) -> str:
    """A claim: ``GPU 0000:3a:00 of rank 2 reported Xid 48, double-bit ECC error.``"""
    return f"{capitalized(board)} reported {error.rstrip('.')}."


def own_cuda_error(rank: int | None) -> str:
    """A claim about the process on a failed GPU."""
    return f"Rank {rank} itself reported a CUDA error." if rank is not None else "A process reported a CUDA error."


def no_rank_on(host: str) -> str:
    """A doubt about a kernel log of a host without ranks."""
    return f"No log shows a rank running on {host}."


def owner_by_slot(board: str) -> str:
    """A doubt about a GPU whose rank follows from the slots of other hosts."""
    return f"We matched the {board} to its rank by the PCI slots of other hosts."


def owner_by_elimination(board: str, ranks: Ranks) -> str:
    """A doubt about the only rank left on a host."""
    return f"No log says that the {board} belongs to {ranks_phrase(ranks)}."


def owner_unknown(board: str) -> str:
    """A doubt about a GPU without a rank."""
    return f"No log says which rank uses the {board}."


SEVERAL_BOARDS = "The GPUs of several ranks failed."


def same_error_elsewhere(board: str) -> str:
    """What would refute a failed board."""
    return f"other {board}s had shown the same error, or it had come after the first timeout"


# --- a link ------------------------------------------------------------------------------------------------------------


def link_failed(hosts: tuple[str, str], call: str, error: str) -> Headline:
    """``The link between dgx-a1 and dgx-a3 failed in ALLREDUCE #7: transport retry counter exceeded.``"""
    return Headline(f"the link between {hosts[0]} and {hosts[1]}", f"failed{_in(call)}", error)


def own_end_failed(part: str, who: str, call: str, error: str) -> Headline:
    """``The network port of rank 10 (dgx-a3) failed in ALLGATHER #18: port error on mlx5_2.``"""
    return Headline(f"{part} of {who}", f"failed{_in(call)}", error)


def connection_failed(who: str, ranks: Ranks, call: str, error: str) -> Headline:
    """``Rank 2 (dgx-a1) lost a network connection in ALLGATHER #18: …``"""
    lost = "a network connection" if len(ranks) < 2 else "network connections"
    return Headline(who, f"lost {lost}{_in(call)}", error)


def way_to_peer_lost(who: str, end: str, call: str, error: str) -> Headline:
    """``Ranks 0-3 (dgx-a1) all lost their connections to 10.0.3.13 in ALLREDUCE #7: …``"""
    return Headline(who, f"all lost their connections to {end}{_in(call)}", error, hedge="")


def _in(call: str) -> str:
    return f" in {call}" if call else ""


def network_error(who: str, error: str) -> str:
    """A claim: ``Network error on rank 10: port error on mlx5_2.``"""
    return f"Network error on {who}: {error.rstrip('.')}."


def nccl_error(rank: int | None, code: str | None) -> str:
    """A claim: ``NCCL failed on rank 2 with ncclRemoteError.``"""
    where = f" on rank {rank}" if rank is not None else ""
    return f"NCCL failed{where}{f' with {code}' if code else ''}."


NO_PORT_ERROR = "No port reports an error, so either end or the path between them could be at fault."
NOT_ONE_END = "The errors don't single out one end."
ADAPTER_PATH_OR_HOST = "The adapter, the path or the whole host could be at fault."
PEER_ENDED_FIRST = "the peer's process had exited before the first network error"
PEER_ENDED_OR_OTHER_HOSTS = f"{PEER_ENDED_FIRST}, or other hosts had lost their connections too"


# --- nothing more is known ---------------------------------------------------------------------------------------------


def none_finished(ranks: Ranks, world: Ranks, call: str) -> Headline:
    """``All 8 ranks entered ALLREDUCE #7 and none finished; the rank at fault is unknown.``"""
    who = f"all {len(world)} ranks" if ranks == world else ranks_phrase(ranks)
    return whole(f"{who} entered {call} and none finished; the rank at fault is unknown")


def stuck_without_absentee(inside: Ranks, call: str, passed: Ranks = Ranks()) -> Headline:
    """``Ranks 0, 3 are stuck in ALLREDUCE #12 of group 1; no log or dump shows a missing rank.``"""
    are = verb(inside, "is", "are")
    past = f", which {ranks_phrase(passed)} already passed" if passed else ""
    return whole(f"{ranks_phrase(inside)} {are} stuck in {call}{past}; no log or dump shows a missing rank")


NOT_ALL_INSIDE = "Not every member of the group is on record in this call."
MAY_BE_TWO_OF_MANY = "The log may show two ranks of many."
MAY_END = "No log reports a problem, so the call may still finish."
ORDER_OF_TIMEOUTS = "Ranks timed out in other calls too, and the logs don't show which came first."
ONLY_LINES = "Log lines show neither the data types nor the order of calls in other groups."
NOT_COMPARABLE = "We can't compare every member's record of the call."
NO_TIMEOUT = "No rank timed out in the call."
MAY_QUEUE_BEHIND = "Some ranks left no logs or dumps, so the call may be queued behind one that waits for them."


def member_elsewhere(call: str) -> str:
    """What would refute that all members are in one call."""
    return f"a member had never called {call} or had called something different, or a link or GPU had failed"
