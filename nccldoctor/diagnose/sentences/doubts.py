"""Doubts: why we aren't surer. Each is a full sentence."""

from __future__ import annotations

from collections.abc import Sequence

from nccldoctor.model.ranks import Ranks
from nccldoctor.words.lists import and_list
from nccldoctor.words.names import ranks_phrase
from nccldoctor.words.sentences import capitalized

# of any class

ONE_KIND_OF_SOURCE = "Only one kind of source shows this, and no other confirms it."
GROUPS_UNNAMED = "Ranks wait in several groups, and the log lines don't name them."
JOB_MAY_RUN = "No log reports an error, so the job may have continued after the dumps were written."

LATE_AS_EVER = "It came late to earlier calls too, and one look can't show that it won't come."
WORLDS_MIXED = (
    "Several process worlds share rank numbers in these logs, so ranks of different worlds may be taken for one."
)
OTHER_WORLDS = "The job has other process worlds with the same rank numbers, and one of them may hold the cause."
NAMELESS_ERROR = "An exception in the logs names no rank, and it could be the error of this one."


def not_checked(parts: Sequence[str]) -> str:
    """``The rule died failed on this input, so what it looks for isn't ruled out.``"""
    looked = "they look" if len(parts) > 1 else "it looks"
    return f"{capitalized(and_list(parts))} failed on this input, so what {looked} for isn't ruled out."


def contradicted(claim: str) -> str:
    """One source says otherwise."""
    return f"One source contradicts this. {claim}"


def unplaced(group_rank: int, ranks: Ranks) -> str:
    """A line names a rank of a group only."""
    return f"Rank {group_rank} of an unnamed group timed out, and that could be {ranks_phrase(ranks)}."


def waits_for_strangers(ranks: Ranks) -> str:
    """A stall of which the other end is not known."""
    return f"No file says whom {ranks_phrase(ranks)} {'waits' if len(ranks) == 1 else 'wait'} for."


def others_may_be_at_fault(ranks: Ranks) -> str:
    """Another stall of the job is not explained."""
    return f"Another stall is open: {ranks_phrase(ranks)} may be at fault too."


def lost(what: str) -> str:
    """A part of the input is missing."""
    return f"The missing part of {what} could contradict this."


def answer_without(names: str) -> str:
    """The verdict rests on damaged files."""
    return f"Without {names}, which is damaged or odd, the verdict would be different."


# of absence

ORDER_OF_STEPS = "Only the order of earlier steps suggests that the other missing ranks wait for this one."
UNRECORDED_TRANSFERS = "This backend's flight recorder logs no sends or receives, so the rank may be waiting in one."
NO_ACTIVITY = "No stack or log line shows what it did instead."
CUT_TRACEBACK = "A traceback of it lost its end, so we don't know what it raised."
ONLY_SILENCE = "Only its silence points to it: every other rank reported an error."
ONLY_PYTORCH_REPORT = "Only PyTorch's own report names it, and the rank left no file."
MOST_OUTSIDE = "Most ranks are outside the call, so the few inside may have made one call too many."
GROUP_NUMBERS = "Its peers are numbered inside their group, not in the whole job."
MAY_BE_OTHER_GROUP = "Its last call may belong to a group that no line names."
NO_PROOF_OF_WAIT = "No dump or stack shows that its peers wait."


def many_outside(count: int) -> str:
    """Many ranks at once are not shown to be in the call."""
    return f"{count} ranks at once have no record of the call, and some of them may only be waiting elsewhere."


def no_record_of(ranks: Ranks) -> str:
    """Members that may be in the call or not."""
    return f"No record shows whether {ranks_phrase(ranks)} entered the call."


def only_framework(by: str) -> str:
    """Only one framework names the ranks."""
    return f"Only {by} names it: no other file or line confirms it."


def lists_some(by: str) -> str:
    """A report is not complete."""
    return f"{by} lists only some of the missing ranks."


def lists_arrived(by: str) -> str:
    """A report lists those that arrived, of an unknown number."""
    return f"{by} lists the ranks that arrived, but the world size is unknown."


def framework_without_stack(by: str) -> str:
    """A report names the ranks that also left a log."""
    return f"{by} names it, but no stack shows what it did instead."


# of silence

CUT_SHORT = "The logs end before every rank had time to report an error."
NO_LOGS = "There are no logs, so the rank may have been writing all along."
NAMELESS_END = "A process failed that no line ties to a rank, and that could be this one."
SEVERAL_SILENT = "Several ranks are silent, and any of them may only be waiting."
SIGTERM_ONLY = (
    "The launcher sent SIGTERM and no line says it needed SIGKILL, so the process may have been busy, not frozen."
)
STATE_UNKNOWN = "No exit code, stack or dump shows whether its process was busy, frozen or gone."
NO_EXIT_RECORD = "No launcher record shows whether its process exited."
UNCOLLECTED = "Its dump and its log are missing from the input, perhaps because they weren't collected."


def may_wait_for(ranks: Ranks) -> str:
    """Another rank's failure is on record."""
    return f"It may only be waiting for {ranks_phrase(ranks)}, which failed."


# of ends

NO_RECORD_OF_HOST = "No scheduler or kernel line records that the host went down."
HOST_UNCOLLECTED = "The files of that host may simply not have been collected."
HEARTBEATS_ONLY = "Only its heartbeats stopped, which a frozen process or a broken link would show too."
UNREAD_ABORT = "A process that aborts says why on stderr, and we have no stderr of it."
UNSAID_END = "No line says how it exited, so the exit may have followed the stall."
MAY_HAVE_FOLLOWED = "The process may have been killed because another one failed first."
RANK_UNKNOWN = "No line says which rank the process was."
INFERRED_FROM_TABLE = "We infer its exit from a launcher table that leaves it out."
NO_LINES_OF_RANK = "There are no log lines from the rank itself."


def peer_in_group(peers: Ranks) -> str:
    """HCCL names a rank of a group, and no line names its global rank."""
    return f"HCCL waited for rank {peers} of a group, and no line gives that rank's number in the job."


# of exceptions

EXCEPTION_WITHOUT_RANK = "No line ties the exception to a rank."
MPI_PEER = "An MPI call can fail on one rank because of a peer or the network."
EXCEPTION_LINE = "There is only the line of an exception without its traceback, and the program may have caught it."
MEMORY_LINE = "A line about full memory does not by itself mean that a process ended."
ONLY_ONE_LEFT = "The exception names no rank: this is the only rank left that can have raised it."
CAUGHT = "The code caught and logged the exception, so the rank may have continued."
CAUGHT_UNMISSED = "The exception was caught, and no record shows a rank waiting for this one."

# of stacks

NO_CALL_NUMBERS = "Stacks don't show call numbers."
NO_WAIT_FRAME = "No frame shows a wait: most ranks are idle at one line."
CTRL_C_ONLY = "Only the Ctrl-C tracebacks show where the ranks were."
PROCESS_RANK_UNKNOWN = "No file says which rank the process is."


def may_all_wait_for(silent: Ranks) -> str:
    """Two calls in two groups can both wait for a rank that nobody looked at."""
    return f"There is no stack of {ranks_phrase(silent)}, and both calls may wait for it."


def may_wait_itself(ranks: Ranks) -> str:
    """A native wait for a peer, as in ``work.wait()``, leaves no Python frame of its own."""
    return f"No frame shows what {ranks_phrase(ranks)} called there, and it may be a wait for a peer."


FIRST_END_UNKNOWN = "Which process ended first is unknown, and each end breaks the calls of its peers."
MOVED = "It moved between the snapshots, and no log shows that steps have stopped."
ONE_SNAPSHOT = "There is only one snapshot, and a running job can look the same."
STEPS_UNDATED = "The logs don't show whether steps stopped before the snapshots."
STEPS_MAY_BE_LONG = "No log grew between the snapshots, but a step may take longer."
RARE_BY_NAME = "Only the name of a function says that this work is not done in every step."
STEPS_MAY_CONTINUE = "No log shows that steps have stopped."
WAIT_MAY_END = "One snapshot doesn't show that the wait lasts."
WAITS_MOVED = "Waiting ranks moved between the snapshots."
LOOKS_INCOMPARABLE = "All snapshots show a wait, but their frames differ in kind, so it may be another call each time."
DEBUG_SERVER_LINK = "The network may have kept the debug server from reaching it."


def no_stack_of(ranks: Ranks) -> str:
    """The doubt about ranks that nothing shows at any place."""
    return f"No stack shows where {ranks_phrase(ranks)} stood."


STACK_UNCOLLECTED = "Its stack may simply not have been collected."
NOT_ALL_LOG = "Not every rank logged a later step."
MAY_HAVE_STOPPED = "The job may have stopped since."
