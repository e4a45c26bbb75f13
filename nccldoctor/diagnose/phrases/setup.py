"""What errors say of communicators, stores and rendezvous that never finished their init."""

from __future__ import annotations

from nccldoctor.diagnose.phrases.say import say
from nccldoctor.events import CudaError, Event, NcclError, SocketError, StoreError
from nccldoctor.model.ranks import Ranks
from nccldoctor.words.names import ranks_phrase

_TOPICS = {
    "multicast": "NVLink multicast",
    "peer-access": "peer access between GPUs",
    "shared-memory": "shared memory",
    "fabric": "the multi-node NVLink fabric",
    "fabric-manager": "NVLink (its fabric manager isn't running)",
}


_OTHER_LIBRARIES = {"leftover": "HCCL", "nvshmem": "NVSHMEM", "oneccl": "Intel oneCCL"}
"""Libraries of collectives other than NCCL, by the topic of their errors."""


def library_of(event: Event) -> str:
    """The library that could not create a communicator, as far as an error tells; else NCCL."""
    is_gloo = isinstance(event, SocketError) and event.message.startswith(("Gloo ", "connect ["))
    return "Gloo" if is_gloo else _OTHER_LIBRARIES.get(getattr(event, "topic", ""), "NCCL")


def writers(first: Event, ranks: Ranks) -> str:
    """The ranks that wrote such a line, else the rank or the process that wrote the first."""
    if len(ranks) > 1 or first.rank is not None:
        return ranks_phrase(ranks) if len(ranks) > 1 else f"rank {first.rank}"
    who = first.host or "a process"
    return f"{who}, pid {first.pid}" if first.pid is not None else who


def error_words(event: Event) -> str:
    """What a line says, and what it was about."""
    if isinstance(event, CudaError):
        return say("setup.cuda-error", topic=_TOPICS.get(event.topic), message=event.message)
    if isinstance(event, NcclError) and event.last_error:
        return event.last_error
    text = getattr(event, "message", "") or getattr(event, "detail", "") or event.text
    return str(text) + event.group_rank_note


def store_gave_out(event: StoreError) -> str:
    """What an error of the store shows."""
    if event.operation == "unique-id":
        return say("setup.waits-for-id", rank=event.rank, peer=event.peer if event.peer is not None else 0)
    return say("setup.store-failed", rank=event.rank, failure=event.failure)
