"""Writes the lines that ranks print about the cause itself, scenario by scenario."""

from __future__ import annotations

from simulator.faults.scenarios import Fault
from simulator.lines import chatter as chatter
from simulator.lines import errors as errors
from simulator.lines.book import Book
from simulator.lines.c10d import Watchdog
from simulator.recorder import Dumps
from simulator.watchdogs import Story


def tell(book: Book, story: Story, fault: Fault, dumps: Dumps, dog: Watchdog) -> None:
    """All lines about the cause, if there are any."""
    traits = fault.traits
    errors.exceptions(book, story, fault)
    if "peer" in traits:
        _network(book, story, fault, dumps, dog)
    if "echo" in traits:
        _echo(book, story, fault, dumps, dog)
    if "cuda" in traits:
        _cuda(book, story, fault, dog)
    if "missing" in traits:
        chatter.nccl_start(book, 2.0, dog.rng, traits["missing"])
    if "id_wait" in traits:
        _no_id(book, story)
    if "short" in traits:
        _too_few(book, story, traits["short"])


def _network(book: Book, story: Story, fault: Fault, dumps: Dumps, dog: Watchdog) -> None:
    """Both ends print an error completion and abort; the broken port tells of itself first."""
    job = book.job
    for rank, peer in fault.traits["peer"].items():
        end = story.fates[rank].gone_at
        device = job.local(rank)
        if fault.traits.get("port") == rank:
            at = "transport/net_ib.cc:95"
            port = f"NET/IB : mlx5_{device}:1 Got non-fatal async event: port error(10)"
            if tuple(map(int, job.knobs.release.nccl.split("."))) < (2, 23):
                port = "NET/IB : Got async event : port error"
            errors.nccl_warn(book, end - 9.0, rank, at, port)
        first = errors.ib_text(job, peer, 12, device)
        errors.nccl_warn(book, end - 0.05, rank, "transport/net_ib.cc:2098", first)
        errors.nccl_warn(book, end - 0.04, rank, "transport/net_ib.cc:2098", errors.ib_text(job, peer, 5, device))
        what = "remote process exited or there was a network error"
        errors.async_error(book, dumps, dog, story, rank, end - 0.02, what, first)


def _echo(book: Book, story: Story, fault: Fault, dumps: Dumps, dog: Watchdog) -> None:
    """A peer of a dead process notices the closed connection, and aborts."""
    rank, dead = fault.traits["echo"]
    end = story.fates[rank].gone_at
    if story.fates[rank].by != "fault":
        return
    if fault.traits.get("host"):
        last = errors.ib_text(book.job, dead, 12, book.job.local(rank))
        place = "transport/net_ib.cc:2098"
    else:
        host = book.job.host(dead)
        last = f"socketProgress: Connection closed by remote peer {host}.cluster.local<{38_000 + dead}>"
        place = "misc/socket.cc:49"
    errors.nccl_warn(book, end - 0.05, rank, place, last)
    what = "remote process exited or there was a network error"
    errors.async_error(book, dumps, dog, story, rank, end - 0.02, what, last)


def _cuda(book: Book, story: Story, fault: Fault, dog: Watchdog) -> None:
    rank = fault.culprits[0]
    work = errors.stuck_work(story, rank)
    if work is None:
        return
    text = (
        f"CUDA error: {fault.traits['cuda']}\nCUDA kernel errors might be asynchronously reported at some "
        "other API call, so the "
        "stacktrace below might be incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\nCompile with "
        "`TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
    )
    dog.ended(rank, story.fates[rank].gone_at - 0.02, work.call.group, text, "c10_cuda_check_implementation")


def _no_id(book: Book, story: Story) -> None:
    """Everybody but rank 0 gives up waiting for the id that rank 0 never put into the store."""
    release = book.job.knobs.release.number
    limit = book.job.knobs.timeout_ms
    why = "Socket Timeout" if release < (2, 5) else f"wait timeout after {limit}ms, keys: /default_pg/0//cuda//0"
    book.rank(3.0, 0, "preparing the data set on the main process", "out")
    for fate in story.fates:
        if fate.code != 1:
            continue
        text = (
            f"[{fate.rank}] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d "
            "key-value store by key '0', "
            f"but store->get('0') got error: {why}. This may indicate a possible application crash on rank 0 "
            "or a network set up issue."
        )
        error = ("torch.distributed.DistBackendError", text, "start_barrier")
        book.rank(fate.gone_at - 0.05, fate.rank, errors.traceback_text(book, fate.rank, error))


def _too_few(book: Book, story: Story, short: int) -> None:
    world = book.job.knobs.world
    text = f"Timed out after 901 seconds waiting for clients. {world - short}/{world} clients joined."
    error = ("torch.distributed.DistStoreError", text, "setup")
    plain = errors.traceback_text(book, None, error)
    book.rank(story.fates[0].gone_at - 0.05, 0, plain)
