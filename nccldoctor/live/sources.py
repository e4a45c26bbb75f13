"""What can be watched: a folder whose files grow, and NCCL's RAS service, which is asked again and again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from nccldoctor.collect.on_node.network import ask_ras
from nccldoctor.discover.streams import MOST_FILES
from nccldoctor.live.clock import Clock
from nccldoctor.model.errors import InputError

RAS_PORT = 28028
"""Where NCCL's RAS listens for clients unless ``NCCL_RAS_ADDR`` says otherwise."""

KEPT = 6
"""Answers of RAS that are analysed together: counts that stay from one to the next are a stall."""

MOST_ANSWER = 256 << 20
"""Bytes of one answer: 4,096 ranks of 100 communicators each are about 60 MB of text."""


class WatchedFolder:
    """The files below a folder, or one file."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            raise InputError(
                f"{path}: no such file or folder", "give the folder with the job's logs, or ras://host:28028"
            )
        self._path = path
        self._seen: dict[str, tuple[int, int]] | None = None

    def has_grown(self) -> bool:
        """True when a file is new, has another size, or was written again."""
        now = dict(_files_below(self._path))
        before, self._seen = self._seen, now
        return now != before

    def inputs(self) -> tuple[Path, ...]:
        """The folder itself."""
        return (self._path,)

    def last_written(self) -> float:
        """The newest time of a file."""
        return max((when for _, when in (self._seen or {}).values()), default=0) / 1e9

    @property
    def has_ended(self) -> bool:
        """False: files say nothing of that."""
        return False


def _files_below(path: Path) -> Iterator[tuple[str, tuple[int, int]]]:
    """Each file with its size and the time it was written; hidden ones are not read."""
    if path.is_file():
        yield _state_of(path)
        return
    count = 0
    for folder, below, names in os.walk(path):
        below[:] = [name for name in below if not name.startswith(".")]
        for name in names:
            if not name.startswith(".") and (count := count + 1) <= MOST_FILES:
                yield _state_of(Path(folder, name))


def _state_of(path: Path) -> tuple[str, tuple[int, int]]:
    try:
        found = path.stat()
    except OSError:
        return str(path), (-1, 0)
    return str(path), (found.st_size, found.st_mtime_ns)


class WatchedRas:
    """NCCL's RAS at ``host:port``; the newest answers are files in ``folder``."""

    def __init__(self, host: str, port: int, folder: Path, clock: Clock) -> None:
        self._address = host, port
        self._folder = folder
        self._clock = clock
        self._last = 0.0
        self._refused = 0

    def has_grown(self) -> bool:
        """Ask for a report. Raises :class:`InputError` where nothing answers at the first time."""
        try:
            report = _report_of(*self._address)
        except OSError as error:
            if not self._last:
                host, port = self._address
                why = error.strerror or str(error)
                raise InputError(
                    f"no RAS at {host}:{port}: {why}",
                    "NCCL 2.24 and newer have it, on each node; NCCL_RAS_ADDR moves it",
                ) from error
            self._refused += 1
            return False
        self._refused, self._last = 0, self._clock.now()
        name = datetime.fromtimestamp(self._last, UTC).strftime("ras-%Y%m%dT%H%M%S.%f.txt")
        (self._folder / name).write_bytes(report)
        for old in sorted(self._folder.iterdir())[:-KEPT]:
            old.unlink()
        return True

    def inputs(self) -> tuple[Path, ...]:
        """The folder with the newest answers."""
        return (self._folder,)

    def last_written(self) -> float:
        """The time of the newest answer."""
        return self._last

    @property
    def has_ended(self) -> bool:
        """True when three questions in a row were not answered."""
        return self._refused >= 3


Watched = WatchedFolder | WatchedRas
"""Something that tells more and more of a job."""


def _report_of(host: str, port: int) -> bytes:
    """One verbose report. Raises OSError where RAS does not answer, or with something else."""
    blocks: list[bytes] = []
    size = 0

    def keep(block: bytes) -> None:
        nonlocal size
        size += len(block)
        if size > MOST_ANSWER:
            raise OSError("its answer is larger than 256 MB")
        blocks.append(block)

    ask_ras(host, port, keep)
    if not blocks:
        raise OSError("what answers there isn't NCCL's RAS")
    return b"".join(blocks)


def ras_address(url: str) -> tuple[str, int]:
    """Host and port of ``ras://host:28028``. Raises :class:`InputError` for any other text."""
    hint = "write ras://host:28028"
    try:
        parts = urlsplit(url)
        port = parts.port or RAS_PORT
    except ValueError as error:
        raise InputError(f"{url}: {error}", hint) from None
    if parts.scheme != "ras" or not parts.hostname or parts.path.strip("/"):
        raise InputError(f"{url} names no RAS service", hint)
    return parts.hostname, port
