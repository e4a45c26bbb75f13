"""The folder that capture writes to: a log for each rank, dumps, and a folder of stacks for each look.

What an earlier run left is moved to ``.earlier/``, which keeps one run and is not analysed.
"""

from __future__ import annotations

from _thread import allocate_lock
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from nccldoctor.capture.identity import Identity
from nccldoctor.capture.sidecar import looks_in

RECORDERS = ("nccl_trace_rank_", "fr_trace_")
"""How the dumps begin: that of NCCL's recorder, and that of the others."""

LOG_BYTES = 2 << 20
"""The size at which a log is put aside as ``rank_3.1.log``; the one before it is lost."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Where one rank writes. ``top`` is the folder of this attempt, on a disk that all ranks see."""

    top: Path
    stem: str

    @property
    def log(self) -> Path:
        """Heartbeats and what is said once."""
        return self.top / f"{self.stem}.log"

    @property
    def recorder(self) -> Path:
        """The folder of recorder dumps."""
        return self.top / "dumps"

    @property
    def stalled(self) -> Path:
        """The folder of the dumps of a stall, which those on the way out do not replace."""
        return self.recorder / "at-stall"

    @property
    def looks(self) -> Path:
        """The folder with one folder for each look."""
        return self.top / "stacks"

    @property
    def state(self) -> Path:
        """What the sidecar sees of the process."""
        return self.top / "processes" / f"{self.stem}.txt"

    def stack(self, look: str) -> Path:
        """The stacks of this rank in one look."""
        return self.looks / look / f"{self.stem}.txt"

    def known_looks(self) -> list[str]:
        """The names of all looks, the oldest first."""
        return looks_in(self.looks)

    def open_look(self, now: float) -> str:
        """Begin a look at ``now`` (seconds since the epoch); its name. Other ranks join when they see its folder."""
        look = look_name(now)
        (self.looks / look).mkdir(parents=True, exist_ok=True)
        return look

    def forget_looks(self, before: float, but: str) -> None:
        """Remove this rank's part of earlier looks, and folders that are empty then.

        ``before`` is in seconds since the epoch; ``but`` names a look that stays.
        """
        for name in self.known_looks():
            if name < look_name(before) and name != but:
                self.stack(name).unlink(missing_ok=True)
                with suppress(OSError):
                    (self.looks / name).rmdir()


def look_name(at: float) -> str:
    """The name of a look that begins ``at`` a time in seconds since the epoch."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y%m%dT%H%M%SZ")


@dataclass(frozen=True, slots=True)
class Scratch:
    """A folder on this host for torch's pipe, and for what C code writes in an emergency."""

    top: Path

    @property
    def late(self) -> Path:
        """Where C code writes stacks: on SIGUSR1, and if no thread of the rank gets the interpreter lock."""
        return self.top / "late.txt"

    @property
    def pipe_stem(self) -> Path:
        """How torch's pipe begins; a pipe on a network file system works on no other host either."""
        return self.top / "pipe_rank_"

    def remove(self) -> None:
        """Remove it with all that is in it."""
        with suppress(OSError):
            for left in self.top.iterdir():
                left.unlink()
            self.top.rmdir()


class RankLog:
    """Lines of one rank; writing them raises OSError where the disk is full or gone.

    The file is opened for each batch: the sidecar may write the last line, and a network file system may forget a handle.
    """

    def __init__(self, path: Path, label: str, most: int = LOG_BYTES) -> None:
        self._path, self._label, self._most = path, label, most
        self._lock = allocate_lock()

    def say(self, *lines: str) -> None:
        """Append lines with the time of now."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._append("".join(f"{now} INFO {self._label} {part}\n" for line in lines for part in line.splitlines()))

    def quote(self, front: str, text: str) -> None:
        """Append a text that another program would have printed, with ``front`` before each of its lines."""
        self._append("".join(f"{front}{line}\n" for line in text.splitlines()))

    def _append(self, text: str) -> None:
        with self._lock:
            if self._path.exists() and self._path.stat().st_size + len(text) > self._most:
                self._path.replace(self._path.with_suffix(".1.log"))
            with self._path.open("a", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)


def attempt_folder(folder: Path, identity: Identity) -> Path:
    """Where the ranks of this attempt write."""
    return folder if identity.attempt is None else folder / f"attempt-{identity.attempt}"


def prepare(folder: Path, identity: Identity) -> Evidence:
    """The places of a rank, made and empty.

    Raises OSError where the folder cannot be written, or has a log of this name that is not of a capture.
    """
    evidence = Evidence(attempt_folder(folder, identity), identity.stem)
    if not _is_of_capture(evidence.log, identity):
        raise FileExistsError(f"{evidence.log} is no log of a capture: give another folder")
    _put_aside(evidence, identity)
    for place in (evidence.stalled, evidence.looks, evidence.state.parent):
        place.mkdir(parents=True, exist_ok=True)
    return evidence


def _is_of_capture(log: Path, identity: Identity) -> bool:
    """True where a log is not there, or begins as those that capture writes."""
    with suppress(FileNotFoundError), log.open(encoding="utf-8", errors="replace") as file:
        time, _, rest = file.readline(1000).partition(" ")
        return not time or (
            time.endswith("+00:00") and rest.startswith((f"INFO {identity.label} ", f"ERROR {identity.label} "))
        )
    return True


def _put_aside(evidence: Evidence, identity: Identity) -> None:
    if not evidence.log.exists():
        return  # what else is there is of somebody else
    aside = evidence.top / ".earlier"
    for old in aside.glob(f"stacks/*/{evidence.stem}.txt"):
        old.unlink()
    for path in _own_files(evidence, identity):
        if path.is_file():
            target = aside / path.relative_to(evidence.top)
            target.parent.mkdir(parents=True, exist_ok=True)
            path.replace(target)
            with suppress(OSError):
                path.parent.rmdir()


def _own_files(evidence: Evidence, identity: Identity) -> Iterator[Path]:
    yield evidence.log
    yield evidence.log.with_suffix(".1.log")
    yield evidence.state
    yield from (evidence.stack(look) for look in evidence.known_looks())
    for folder in (evidence.stalled, evidence.recorder):
        yield from (folder / f"{stem}{identity.suffix}" for stem in RECORDERS)
