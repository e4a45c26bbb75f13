"""Reads the inputs on the workers of a cluster of dask or Ray. Each worker writes parts, which are put together here.

A worker opens the files itself, on the shared file system or through fsspec. What it cannot open, and what does not travel (standard
input, members of archives), is read here.
"""

from __future__ import annotations

import io
import logging
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from nccldoctor.discover.discover import Discovered, Input, NamedFile
from nccldoctor.discover.paths import file_opener
from nccldoctor.model import Source, SourceKind
from nccldoctor.model.errors import InputError
from nccldoctor.parts.opened import part_in_memory
from nccldoctor.parts.write import SLICE_FILES, Progress, in_slices, write_part

PATIENCE = 20
"""Seconds in which the scheduler must answer."""

SHARES_EACH = 2
"""Shares for each worker, at least: the slowest of them holds the others up for half of its work."""

LARGEST_TICKET = 64 << 10
"""Bytes of what a worker needs to open a file; standard input would come whole."""

_LOG = logging.getLogger("nccldoctor")

Run = Callable[[Sequence[bytes], int], Iterator[tuple[int, bytes | BaseException]]]
"""Gives the part of each share, by its number, as workers finish them; the error of a worker stands for its part."""


def read_on_cluster(given: Discovered, address: str, on_progress: Progress | None = None) -> Discovered:
    """The inputs, with a part in place of those that the workers at ``address`` have read.

    It is ``tcp://host:8786`` of dask, ``ray://host:10001`` of Ray, or ``ray`` for the cluster that this machine belongs to. Raises
    :class:`InputError` where the package is not installed or nothing answers.
    """
    here, parts, done = list(given.inputs), list(given.parts), 0
    texts = sum(one.source.kind is not SourceKind.RECORDER for one in here)
    tickets = [one for one in map(_ticket, here) if one is not None]
    with (_ray if address.partition("://")[0] == "ray" else _dask)(address) as (workers, run):
        most = max(1, min(SLICE_FILES, -(-len(tickets) // (SHARES_EACH * workers))))
        shares = list(in_slices(tickets, lambda ticket: ticket.source.size, most))
        for number, answer in run([pickle.dumps(share) for share in shares], texts):
            share = shares[number]
            if isinstance(answer, bytes):
                own = {ticket.source.id for ticket in share}
                here = [one for one in here if one.source.id not in own]
                parts.append(part_in_memory(f"share {share[0].source.id}", answer))
            else:
                _LOG.warning("a worker failed, its %d files are read here: %s", len(share), type(answer).__name__)
            done += len(share)
            if on_progress is not None:
                on_progress(done, len(tickets))
    return replace(given, inputs=tuple(here), parts=tuple(parts))


@contextmanager
def _dask(address: str) -> Iterator[tuple[int, Run]]:
    """The number of workers of a dask cluster, and what runs shares on them."""
    try:
        from distributed import Client, as_completed
    except ImportError:
        raise InputError("--scheduler needs dask", hint="pip install 'nccldoctor[dask]'") from None
    try:
        client = Client(address, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InputError(f"no dask scheduler at {address}: {error}"[:200], "write tcp://host:8786") from None

    def run(tickets: Sequence[bytes], texts: int) -> Iterator[tuple[int, bytes | BaseException]]:
        futures = {client.submit(_part_of_share, packed, texts, pure=False): n for n, packed in enumerate(tickets)}
        for future in as_completed(list(futures), loop=client.loop):
            yield futures[future], future.exception() or future.result()
            future.release()

    with client:
        yield max(1, len(client.scheduler_info(n_workers=-1)["workers"])), run


@contextmanager
def _ray(address: str) -> Iterator[tuple[int, Run]]:
    """The number of cores of a Ray cluster, and what runs shares on them. A connection that is there is used and kept."""
    try:
        import ray
    except ImportError:
        raise InputError("--scheduler ray needs Ray", hint="pip install 'nccldoctor[ray]'") from None
    is_ours = not ray.is_initialized()
    try:
        if is_ours:
            ray.init(address if "://" in address else "auto", log_to_driver=False, logging_level="ERROR")
    except (OSError, RuntimeError, ValueError) as error:
        raise InputError(f"no Ray cluster at {address}: {error}"[:200], "write ray://host:10001, or ray") from None
    cores = max(1, int(ray.cluster_resources().get("CPU", 1)))
    # a share asks for no core: a job that hangs on the cluster may hold them all
    task = ray.remote(num_cpus=0, max_retries=0, scheduling_strategy="SPREAD")(_part_of_share)

    def run(tickets: Sequence[bytes], texts: int) -> Iterator[tuple[int, bytes | BaseException]]:
        waiting, running = enumerate(tickets), dict[object, int]()
        while running := running | {task.remote(own, texts): n for n, own in islice(waiting, cores - len(running))}:
            (done, *_), _ = ray.wait(list(running))
            number = running.pop(done)
            try:
                yield number, ray.get(done)
            except ray.exceptions.RayError as error:
                yield number, error

    try:
        yield cores, run
    finally:
        if is_ours:
            ray.shutdown()


class _Ticket(Struct, frozen=True):
    """What a worker needs to read an input: its path, or a packed way to open it."""

    source: Source
    named: NamedFile
    file: Path | None
    opener: bytes

    def input(self) -> Input:
        """The input on the worker. Raises :class:`FileNotFoundError` where this host does not have the file."""
        if self.file is None:
            return Input(self.source, pickle.loads(self.opener), self.named)
        if not self.file.is_file() or self.file.stat().st_size < self.source.size:
            raise FileNotFoundError(self.source.path)
        return Input(self.source, file_opener(self.file), self.named, self.file)


def _ticket(one: Input) -> _Ticket | None:
    """The ticket of an input; None where it cannot be opened elsewhere."""
    if one.file is not None:
        return _Ticket(one.source, one.named, one.file.absolute(), b"")
    if one.lane:
        return None  # a member of an archive, which is read from front to back
    import cloudpickle

    try:
        opener: bytes = cloudpickle.dumps(one.open)
    except Exception:  # whatever an opener holds, it does not travel
        return None
    return _Ticket(one.source, one.named, None, opener) if len(opener) <= LARGEST_TICKET else None


def _part_of_share(tickets: bytes, texts: int) -> bytes:
    """Runs on a worker: the part of a share. Raises :class:`FileNotFoundError` where this host does not have the files."""
    share: list[Input] = [ticket.input() for ticket in pickle.loads(tickets)]
    out = io.BytesIO()
    write_part(Discovered(tuple(share), ()), out, f"share{share[0].source.id}", workers=1, texts_in_all=texts)
    return out.getvalue()
