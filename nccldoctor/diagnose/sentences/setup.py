"""Sentences about communicators, stores and rendezvous that never finished their init."""

from __future__ import annotations

from nccldoctor.diagnose.sentences.headline import Headline
from nccldoctor.events import CudaError, Event, NcclError, SocketError, StoreError
from nccldoctor.model.ranks import Ranks
from nccldoctor.words.names import op_name, ranks_phrase, verb
from nccldoctor.words.numbers import plural
from nccldoctor.words.sentences import capitalized

_TOPICS = {
    "multicast": "NVLink multicast",
    "peer-access": "peer access between GPUs",
    "shared-memory": "shared memory",
    "fabric": "the multi-node NVLink fabric",
    "fabric-manager": "NVLink (its fabric manager isn't running)",
}


def never_joined(who: str, size: int, begun: int) -> Headline:
    """Rank 2 never joined the 8-rank communicator; the other 7 are stuck in init."""
    others = f"the other {begun}" if begun > 1 else "the other"
    return Headline(
        who, f"never joined the {size}-rank communicator; {others} {'are' if begun > 1 else 'is'} stuck in init"
    )


def never_completed(size: int, begun: int, without_start: Ranks) -> Headline:
    """The 8-rank communicator never finished init: 3 ranks started it and none completed."""
    missing = f", and {ranks_phrase(without_start)} left no record of a start" if without_start else ""
    return Headline(
        f"the {size}-rank communicator",
        "never finished init",
        f"{plural(begun, 'rank')} started it and none completed{missing}",
        hedge="",
    )


def job_never_started(why: str) -> Headline:
    """The job never got through init: rank 3 did not join."""
    return Headline("", "the job never got through init", why, hedge="")


def not_joined(who: str) -> str:
    """``rank 3 did not join``."""
    return f"{who} never joined"


def missing_joiners(missing: int) -> str:
    """``2 ranks never joined``."""
    return f"{plural(missing, 'rank')} never joined"


def never_made_first_call(who: str) -> str:
    """Who another rank waits for to make a communicator."""
    return f"{who} never reached its first call"


def crowded(here: int, size: int) -> str:
    """More processes joined a store than belong to the group."""
    return f"{here:,} processes checked in at a store for {size:,}, so another job or an earlier attempt uses the same store"


def launch_failed(node: str, why: str) -> str:
    """The scheduler could not start a task."""
    return f"Slurm could not start the tasks{f' on {node}' if node else ''} ({why})"


def port_taken(address: str | None, host: str | None) -> str:
    """Another process listens where the store should."""
    return f"{address or 'the port of the store'} is already in use{f' on {host}' if host else ''}"


def store_unreachable(address: str | None, why: str) -> str:
    """The store could not be reached."""
    if address is None:
        return "a connection was lost, refused or timed out"
    return f"the store at {address} was unreachable" + (f" ({why})" if why else "")


def name_unresolved(who: str, address: str | None) -> str:
    """``ranks 4-7 could not resolve the name n1``."""
    name = (address or "").rpartition(":")[0]
    return f"{who or 'a process'} could not resolve {f'the name {name}' if name else 'the host name of the store'}"


def peer_unreachable(event: StoreError) -> str:
    """``rank 1 of its group could not reach rank 0 of that group (10.0.3.2)``."""
    who = f"rank {event.group_rank} of its group" if event.group_rank is not None else "a rank"
    if event.peer is None:
        return f"{who} could not reach a peer at {event.address}"
    return f"{who} could not reach rank {event.peer} of that group" + (f" ({event.address})" if event.address else "")


MISSING_RANK_UNKNOWN = "at least one rank never joined, and no log names it"


def framework_waits(who: str, by: str, *, began_late: bool, many: bool) -> str:
    """JAX or HCCL waited in vain for processes."""
    joined = "the communicator" if by == "HCCL" else by
    late = f" and {'they' if many else 'it'} started to connect after others had timed out" if began_late else ""
    return f"{who} did not join {joined} in time{',' + late if late else ''}"


_OTHER_LIBRARIES = {"leftover": "HCCL", "nvshmem": "NVSHMEM", "oneccl": "Intel oneCCL"}
"""Libraries of collectives other than NCCL, by the topic of their errors."""


def communicator_failed(error_of: Event, who: str, error: str, why: str) -> Headline:
    """NCCL could not create a communicator on rank 0: connect to 169.254.3.77 was refused."""
    is_gloo = isinstance(error_of, SocketError) and error_of.message.startswith("Gloo ")
    library = "Gloo" if is_gloo else _OTHER_LIBRARIES.get(getattr(error_of, "topic", ""), "NCCL")
    return Headline(library, f"could not create a communicator ({who})", error + (f" ({why})" if why else ""), hedge="")


def share_a_gpu(ranks: Ranks) -> str:
    """Two processes use one GPU."""
    return f"{ranks_phrase(ranks)} share a GPU with another process"


def came_twice(ranks: Ranks) -> str:
    """Two processes have one rank."""
    return f"two processes checked in as {ranks_phrase(ranks)}"


def writer(event: Event) -> str:
    """The rank, or the process, that wrote a line."""
    if event.rank is not None:
        return f"rank {event.rank}"
    who = event.host or "a process"
    return f"{who}, pid {event.pid}" if event.pid is not None else who


def writers(first: Event, ranks: Ranks) -> str:
    """The ranks that wrote such a line, else the process that wrote the first."""
    return ranks_phrase(ranks) if len(ranks) > 1 else writer(first)


def error_words(event: Event) -> str:
    """What a line says, and what it was about."""
    if isinstance(event, CudaError):
        where = f" while setting up {_TOPICS[event.topic]}" if event.topic in _TOPICS else ""
        return f"CUDA error{where}, {event.message[:100]}"
    if isinstance(event, NcclError) and event.last_error:
        return event.last_error[:120]
    return (
        str(getattr(event, "message", "") or getattr(event, "detail", "") or event.text)[:120] + event.group_rank_note
    )


def first_collective(inside: Ranks) -> Headline:
    """The first collective of ranks 0-1 never completed, and no missing rank was found: init may have failed."""
    return Headline(
        f"the first collective of {ranks_phrase(inside)}",
        "never completed, and no missing rank was found",
        "init may have failed",
        hedge="",
    )


def waits_for_group(inside: Ranks, outside: Ranks) -> Headline:
    """Ranks 0-6 are creating a process group that rank 7 never joined."""
    return Headline(
        ranks_phrase(inside),
        f"waiting for a new process group that {ranks_phrase(outside)} did not call to create",
        be=verb(inside, "is", "are"),
    )


def store_and_call(waiting: Ranks, op: str | None) -> Headline:
    """A process could not reach the store before its timeout, so it may never have joined rank 3 in ALLREDUCE."""
    return Headline(
        "a process",
        f"could not reach the store, and {ranks_phrase(waiting)} timed out in {op_name(op)}",
        "it may never have joined",
        hedge="",
    )


# claims


def started_not_completed(rank: int, size: int) -> str:
    """What the init lines of one rank show."""
    return f"Rank {rank} started the {size}-rank communicator and did not complete it."


def start_contradicts(ranks: Ranks) -> str:
    """A doubt: lines of several writers may be mixed up."""
    return f"A line about the start of {ranks_phrase(ranks)} is torn, or its numbers contradict its peers."


def last_line_without_start(rank: int) -> str:
    """What the end of a log shows that has no start of the communicator."""
    return f"Rank {rank}'s log ends here, without starting the communicator."


def waits_at_store(rank: int | None) -> str:
    """What a line about the store's barrier shows."""
    return (
        f"Rank {rank} waits at the store for its peers."
        if rank is not None
        else "A rank waits at the store for its peers."
    )


def store_gave_out(event: StoreError) -> str:
    """What an error of the store shows."""
    who = f"rank {event.rank}" if event.rank is not None else "a rank"
    if event.operation == "unique-id":
        peer = event.peer if event.peer is not None else 0
        return f"{capitalized(who)} waits for rank {peer} of the group to set up the communicator."
    return f"The store failed for {who}{f': {event.failure}' if event.failure else ''}."


def connects_late(rank: int) -> str:
    """What a late start shows."""
    return f"Rank {rank} starts to connect only here."


def timed_out_in_call(rank: int | None) -> str:
    """What a timeout shows."""
    return f"Rank {rank} timed out in the call."


FIRST_ERROR = "NCCL reported this error first."
ANOTHER_ERROR = "This error appeared too."
STORE_TIMED_OUT = "The store timed out."
FAILED_HERE = "NCCL failed to create the communicator here."
RENDEZVOUS_FAILED = "The rendezvous failed."

# doubts

LOG_MAY_END_EARLY = "The log may end before the last ranks joined."
LOG_ENDS_UNNAMED = "No line names the missing ranks, and the log may end before they joined."
MAY_FOLLOW = "The first error may be the result of an earlier one that isn't in the logs."
NO_REASON = "No line says why the communicator failed."
LATE_FIRST_CALL = "Any member may just be late to its first call."
ON_THEIR_WAY = "The other ranks may still be on their way."
MAY_BE_NO_MEMBER = "Ranks that aren't in the new group don't wait for it, and may wait in a later call."
MOST_NOT_SHOWN = "For most ranks, no line shows them creating the group."
NO_LOG_OF_MISSING = "There are no log lines from the missing rank."
LOG_ENDS_IN_START = "The log may end in the middle of init."
NO_LINE_NAMES_MISSING = "No line names the rank that didn't start it."
NO_WHY = "No line says why."
LOOKUPS_GO_ON = "No line says that the ranks stopped trying, so a later lookup may have succeeded."
PROCESS_NOT_TIED = "No line ties that process to the call."


def framework_without_reason(by: str) -> str:
    """A framework names who is missing."""
    return f"{by} names the missing processes but not the reason."


def framework_names_none(by: str) -> str:
    """A framework names nobody."""
    return f"No line of {by} names the missing processes."


# what would prove a verdict wrong

COMPLETED_CALL = "a call of the same group had completed"
SAME_LINE = "the other ranks had called it too"
JOINED_LATER = "that process left a line from after it joined"
