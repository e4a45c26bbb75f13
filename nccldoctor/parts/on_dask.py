"""Reads the inputs on the workers of a dask cluster. Each worker writes parts, which are put together here.

A worker opens the files itself, on the shared file system or through fsspec. What it cannot open, and what does not travel (standard
input, members of archives), is read here.
"""

from __future__ import annotations

import io
import logging
import pickle
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from nccldoctor.discover.discover import Discovered, Input, NamedFile
from nccldoctor.discover.paths import file_opener
from nccldoctor.model import Source, SourceKind
from nccldoctor.model.errors import InputError
from nccldoctor.parts.opened import part_in_memory
from nccldoctor.parts.write import SLICE_BYTES, SLICE_FILES, write_part

if TYPE_CHECKING:
    from distributed import Client

PATIENCE = 20
"""Seconds in which the scheduler must answer."""

SHARES_EACH = 2
"""Shares for each worker, at least: the slowest of them holds the others up for half of its work."""

LARGEST_TICKET = 64 << 10
"""Bytes of what a worker needs to open a file; standard input would come whole."""

_LOG = logging.getLogger("nccldoctor")

Progress = Callable[[int, int], None]


def read_on_dask(given: Discovered, address: str, on_progress: Progress | None = None) -> Discovered:
    """The inputs, with a part in place of those that the workers at ``address`` (``tcp://host:8786``) have read.

    Raises :class:`InputError` where ``distributed`` is not installed or the scheduler does not answer.
    """
    client = _client(address)
    try:
        here = list(given.inputs)
        parts = list(given.parts)
        shares = list(_shares([one for one in map(_ticket, here) if one is not None], _worker_count(client)))
        texts = sum(one.source.kind is not SourceKind.RECORDER for one in here)
        for share, data in _answers(client, shares, texts, on_progress):
            own = {ticket.source.id for ticket in share}
            here = [one for one in here if one.source.id not in own]
            parts.append(part_in_memory(f"share {share[0].source.id}", data))
        return replace(given, inputs=tuple(here), parts=tuple(parts))
    finally:
        client.close()


def _client(address: str) -> Client:
    try:
        from distributed import Client
    except ImportError:
        raise InputError("--scheduler needs dask", hint="pip install 'nccldoctor[dask]'") from None
    try:
        return Client(address, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InputError(f"no dask scheduler at {address}: {error}"[:200], "write tcp://host:8786") from None


def _worker_count(client: Client) -> int:
    return max(1, len(client.scheduler_info(n_workers=-1)["workers"]))


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


def _shares(inputs: Sequence[_Ticket], workers: int) -> Iterator[list[_Ticket]]:
    """Neighbours, at most so many and so large as are read together, and enough shares for all workers."""
    most = max(1, min(SLICE_FILES, -(-len(inputs) // (SHARES_EACH * workers))))
    share: list[_Ticket] = []
    size = 0
    for one in inputs:
        if share and (len(share) == most or size + one.source.size > SLICE_BYTES):
            yield share
            share, size = [], 0
        share.append(one)
        size += one.source.size
    if share:
        yield share


def _answers(
    client: Client, shares: Sequence[list[_Ticket]], texts: int, on_progress: Progress | None
) -> Iterator[tuple[list[_Ticket], bytes]]:
    """The part of each share, as workers finish them; a share whose worker fails is left out."""
    from distributed import as_completed

    tickets = [pickle.dumps(share) for share in shares]
    futures = {client.submit(_part_of_share, packed, texts, pure=False): n for n, packed in enumerate(tickets)}
    done, total = 0, sum(map(len, shares))
    for future in as_completed(list(futures), loop=client.loop):
        share = shares[futures[future]]
        error = future.exception()
        if error is None:
            yield share, future.result()
        else:
            _LOG.warning("a dask worker failed, its %d files are read here: %s", len(share), type(error).__name__)
        future.release()
        done += len(share)
        if on_progress is not None:
            on_progress(done, total)


def _part_of_share(tickets: bytes, texts: int) -> bytes:
    """Runs on a worker: the part of a share. Raises :class:`FileNotFoundError` where this host does not have the files."""
    share: list[Input] = [ticket.input() for ticket in pickle.loads(tickets)]
    out = io.BytesIO()
    write_part(Discovered(tuple(share), ()), out, f"share{share[0].source.id}", workers=1, texts_in_all=texts)
    return out.getvalue()
