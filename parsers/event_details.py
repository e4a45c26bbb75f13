"""What the text of an event says beyond the fields of its kind, for the few rules that ask.

Every pattern on the text of a log stands in this package: where a release words a line anew, nothing else changes.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from nccldoctor.events import Event, ExceptionRaised, Progress
from nccldoctor.model.ranks import Ranks
from nccldoctor.parsers.rows import for_rows
from nccldoctor.patterns import lazy


def _sign_of(pattern: str) -> Callable[[str], bool]:
    """A function that is true of a text with such a part."""
    found = lazy(pattern)
    return lambda text: found.search(text) is not None


def number_in(pattern: str) -> Callable[[str], int | None]:
    """A function that gives the number in the first group of the pattern, None for a text without it."""
    found = lazy(pattern)
    return lambda text: int(match[1]) if (match := found.search(text)) else None


BARRIER_COUNTS = lazy(r"world_size=(?P<all>\d{1,9}), (?:worker_count|num_workers_joined)=(?P<here>\d{1,9})")
_CALL = lazy(r"\bOpType=(\w{1,40}), NumelIn=(\d{1,18}), NumelOut=(\d{1,18})\b")
_REQUESTED = lazy(r"[Tt]ried to allocate (\d[\d.]{0,12} [KMGT]?i?B|\d{1,20} bytes)")
_ELAPSED = lazy(r"\[(?:(?P<h>\d{1,3}):)?(?P<m>\d{1,2}):(?P<s>\d\d)<")
_ON_ONE_GPU = lazy(r"\brank (\d{1,7}) and rank (\d{1,7}) both on (?:CUDA|HIP) device")
_NODE = lazy(r"(?:(?<!low) on (?:failed )?(?:node )?|\b(?:failed|failure of) node )([\w.-]{1,64})")

_NUMBER = lazy(r"[-+]?(?:\d[\d.,:]*(?:e[-+]?\d+)?|\b(?:nan|inf)\b)", re.IGNORECASE)
_BAR = lazy(r"%\||\[\d{1,3}:\d\d")


_GLOO_LIMIT = lazy(r"Timed out waiting (\d{1,12})\s?ms")
_GLOO_TIMEOUT = lazy("Timed out waiting|Application timeout caused pair closure")
_GLOO_PEER_ENDED = lazy("Connection closed by peer|Connection reset by peer")


def is_gloo_timeout(event: Event) -> bool:
    """True when a rank says that it waited for a peer until the limit (gloo transport/tcp/unbound_buffer.cc).

    The wait whose limit is over closes the connections of its own process: its other waits fail by *pair closure*.
    """
    return isinstance(event, ExceptionRaised) and _GLOO_TIMEOUT.search(event.message) is not None


def gloo_limit_ms(event: Event) -> int | None:
    """The limit that such a rank names, in milliseconds; None where it names none."""
    named = _GLOO_LIMIT.search(event.message) if isinstance(event, ExceptionRaised) else None
    return int(named[1]) if named is not None else None


def is_lost_connection(event: Event) -> bool:
    """True when a rank says that its peer ended (gloo transport/tcp/pair.cc)."""
    return isinstance(event, ExceptionRaised) and _GLOO_PEER_ENDED.search(event.message) is not None


is_raised_by_gloo = _sign_of("gloo/transport/")
"""True of an exception that gloo's transport raised: it names its source file."""

is_vain_wait_at_store = _sign_of("wait timeout after")
"""True of the exception of a rank whose key nobody set in time (torch ``TCPStore.cpp``)."""

is_unhandled_cuda_error = _sign_of("unhandled cuda error")
"""True of NCCL's complaint that a CUDA call failed; the error itself follows as its last error."""

is_slurm_out_of_memory = _sign_of("Out Of Memory")
"""True of the end of a task that Slurm killed for its memory (slurmd prints ``Out Of Memory``)."""

is_loader_worker_error = _sign_of("DataLoader worker")
"""True of the exception of a rank whose data-loader worker ended."""

is_unresponsive_peer = _sign_of("nresponsive")
"""True of a libfabric error that only says that the other end does not answer."""

local_rank = number_in(r"local_rank=(\d{1,5})(?!\d)")
"""The local rank that a line of a starting rank prints."""


_OWN_HOST = lazy(
    r"(?<![\w.])(?:(?:host|hostname|node|node_?name)[=:] ?|(?:starting|running) on (?:node |host ))(?P<host>[A-Za-z](?:[\w-]|\.\w){0,200})"
)


def own_host(text: str) -> str | None:
    """The host that a process prints of itself: gpu-a07 in ``rank=2 pid=32715 host=gpu-a07``."""
    match = _OWN_HOST.search(text)
    return match["host"] if match and match["host"] != "localhost" else None


def barrier_counts(text: str) -> tuple[int, int] | None:
    """Members of the group at the store's barrier, and how many of them were there."""
    match = BARRIER_COUNTS.search(text)
    return (int(match["all"]), int(match["here"])) if match else None


has_tried_address = _sign_of(r"failed to connect to (?!any network address)\S")
"""True of a failed connection to an address, which the name of the store had resolved to."""


_CLIQUE = lazy(r"clique for rank (?P<place>\d{1,7}); clique=devices=\[(?P<devices>\d[\d,]{0,4000})\]")


def clique_devices(text: str) -> Ranks:
    """All devices that meet in a clique of XLA: 4-7 in ``acquire clique for rank 3; clique=devices=[4,5,6,7]``."""
    match = _CLIQUE.search(text)
    return Ranks(int(device) for device in match["devices"].split(",") if device) if match else Ranks()


@for_rows
def waiting_device(text: str) -> Ranks:
    """The device of a clique of XLA whose thread waits: 7 in ``acquire clique for rank 3; clique=devices=[4,5,6,7]``."""
    match = _CLIQUE.search(text)
    devices = [int(device) for device in match["devices"].split(",") if device] if match else []
    place = int(match["place"]) if match else 0
    return Ranks(devices[place : place + 1])


def barrier_key(detail: str) -> str:
    """The key of the store's barrier that a note is about."""
    return detail.rpartition("key ")[2]


expected_clients = number_in(r"\b\d{1,7}/(\d{1,7}) clients joined")
"""How many clients the store waited for: 8 in ``7/8 clients joined``."""


def call_sizes(text: str) -> tuple[str, int, int] | None:
    """Operation, input and output elements of the call that an error of the library is about."""
    match = _CALL.search(text)
    return (match[1], int(match[2]), int(match[3])) if match else None


group_size = number_in(r"\bsize=(\d{1,9})\b")
"""The number of members among the options of a new group: 8 in ``size=8 global_rank=3``."""

is_failed_set_up = _sign_of(
    r"Failed to execute operation (?:Connect|Setup|SharedInit|Init|Register)\b|\bncclCommInit\w{1,30}(?:\(.{0,300})? failed\b"
)
"""True of a warning or an error of NCCL in an operation that only the making of a communicator needs."""

is_gpu_full = _sign_of(r"(?:CUDA|HIP)(?: error:)? out of memory")
"""True where CUDA or HIP says that the memory of the GPU ran out."""

is_host_full = _sign_of(r"DefaultCPUAllocator: (?:can't|not enough)|Cannot allocate memory")
"""True where the memory of the host ran out."""


def requested_memory(message: str) -> str | None:
    """The size that could not be allocated, as printed: ``2.00 GiB``."""
    match = _REQUESTED.search(message)
    return match[1] if match else None


def elapsed_seconds(bar: str) -> int:
    """How long a progress bar has run: 3605 for ``[1:00:05<…``; 0 where it does not say."""
    match = _ELAPSED.search(bar)
    return int(match["h"] or 0) * 3600 + int(match["m"]) * 60 + int(match["s"]) if match else 0


def failed_node(detail: str) -> str | None:
    """The host in what a scheduler says of a failed or drained node."""
    match = _NODE.search(detail)
    return match[1] if match else None


was_evicted_for_node = _sign_of(r"TaintManager|EvictionByEvictionAPI")
"""True when a pod was evicted for the sake of its node.

The kubelet evicts every other one, for want of a resource.
"""

was_evicted_for_usage = _sign_of(r"was using|larger consumption|exceeds (?:its|the)\b")
"""True of an eviction of a pod that used more than it had asked for."""

is_call_of_all_ranks = _sign_of(
    r"\bdist(?:ributed)?\.(?:all_\w{1,30}|barrier|broadcast\w{0,20}|reduce_scatter\w{0,20})\((?!.{0,300}\bgroup\b).{0,300}\)"
)
"""True of a collective of ``torch.distributed`` whose call stands on one line and names no group."""

can_end_early = _sign_of(r"\bbroadcast")
"""True of a line with a broadcast: its root may go on before the others have received."""

has_group = _sign_of(r"\bgroup\b")
"""True of a line of code that names a group."""


def ranks_on_one_gpu(text: str) -> tuple[int, ...]:
    """The two ranks that NCCL found on one GPU; empty where the line names none.

    Example: 2 and 0 in ``Duplicate GPU detected : rank 2 and rank 0 both on CUDA device 1b000``.
    """
    match = _ON_ONE_GPU.search(text)
    return (int(match[1]), int(match[2])) if match else ()


rank_checked_in_twice = number_in(r"\brank (\d{1,7}) of \d{1,7} ranks has already checked in")
"""The rank under whose number two processes came to the root of a communicator, as that root prints it."""


def wording_of(event: Event) -> str:
    """The wording of a line that comes again and again: its text without numbers, and of a bar its label."""
    if isinstance(event, Progress) and _BAR.search(event.text):
        return f"bar {_NUMBER.sub('#', event.label or '')}"
    return " ".join(_NUMBER.sub("#", event.text).split())
