"""Sentences about logs that end in trouble, and about input that holds nothing to judge."""

from __future__ import annotations

from collections.abc import Sequence

from nccldoctor.model.ranks import Ranks
from nccldoctor.words.lists import or_list
from nccldoctor.words.names import ranks_phrase
from nccldoctor.words.numbers import plural

ABORTED = "A process aborted"
RENDEZVOUS_CLOSED = "The workers failed, and the launcher could not restart them because their rendezvous was closed"
EXCEPTION_CUT = "A process raised an exception whose name is cut off"
AGENT_LOST = "The launcher lost the store of its rendezvous: the agent on the endpoint's host exited or is unreachable"
RENDEZVOUS_LOST = "The launcher lost its rendezvous and stopped its workers"
CANCELLED = "The scheduler canceled the job"
JOB_FAILED = "The scheduler records that the job failed"
RECORDED_BY_SCHEDULER = (CANCELLED, JOB_FAILED)
NCCL_FAILED = "An NCCL call failed"

_SENDERS = {"SIGHUP": "because its terminal or ssh session closed", "SIGINT": "from a person"}


def outside_signal(signal: str) -> str:
    """A signal that told the launcher to stop."""
    sender = _SENDERS.get(signal, "from a scheduler, another program or a person")
    return f"The launcher received {signal or 'a signal'} {sender}"


def closed_from(host: str) -> str:
    """A host that closed connections."""
    return f"A connection between processes broke: {host} closed it"


def connection_met(host: str | None, pid: int | None, message: str) -> str:
    """A connection that broke, with the line of one end."""
    said = f": {host} (pid {pid}) logged {message!r}" if host else ""
    return f"A connection between processes broke{said}"


def peer_lost(ranks: Ranks) -> str:
    """Ranks that NCCL ended because their peer was gone."""
    who = ranks_phrase(ranks).capitalize() if ranks else "A process"
    return f"{who} lost a peer: it exited, or the network failed"


def store_lost(ranks: Ranks, address: str | None) -> str:
    """Ranks that lost the store."""
    who = ranks_phrase(ranks).capitalize() if ranks else "Processes"
    at = f" at {address}" if address else ""
    return f"{who} lost the store{at}: the process that serves it exited or is unreachable"


# nothing readable


def nothing_readable(what: str, more: int) -> str:
    """Everything was damaged."""
    return f"Nothing was readable: {what}{f' (and {more} more)' if more else ''} is damaged, cut off or out of reach."


NO_FILES_FOUND = "No files found, so there is nothing to judge."


def all_empty(count: int) -> str:
    """Only empty files."""
    return "The one file given is empty." if count == 1 else f"All {count:,} files are empty."


def looks_foreign(count: int, names: Sequence[str]) -> str:
    """A file of another kind, without a sign of trouble."""
    which = "the file" if count == 1 else f"one of the {count:,} files"
    return f"Not enough data: {which} looks like {or_list(list(names)[:3])} and shows no known failure."


def unknown_format(count: int) -> str:
    """Nothing is a log or a dump."""
    return f"Unknown format: {plural(count, 'file')} checked, and none is a known log or dump."


def no_job(count: int) -> str:
    """Logs without a line of a distributed job."""
    return f"Not enough data: {plural(count, 'file')} checked, and no line looks like a distributed job."
