"""The folder that capture writes to: one log for each rank, dumps, and one folder of stacks for each look.

```text
/shared/run/attempt-0/rank_3.log                          heartbeats, groups, settings, versions, how the process ended
                      dumps/fr_trace_3                    the flight recorder, newest state
                      stacks/20261123T044454Z/rank_3.txt  all threads, at a look that every rank joins
                      processes/rank_3.txt                state and wait channel, by the sidecar
```

What an earlier run left is moved to ``.earlier/``, which keeps one run and is not analysed.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from nccldoctor.capture.identity import Identity

LOOK = re.compile(r"\d{8}T\d{6}Z")
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
        with suppress(OSError):
            return sorted(path.name for path in self.looks.iterdir() if LOOK.fullmatch(path.name))
        return []

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

    @classmethod
    def make(cls) -> Scratch:
        """A new folder that only this user can read."""
        return cls(Path(tempfile.mkdtemp(prefix="nccldoctor-")))

    @property
    def late(self) -> Path:
        """Where the timer writes if no thread of the rank gets the interpreter lock."""
        return self.top / "late.txt"

    @property
    def asked(self) -> Path:
        """Where SIGUSR1 writes before the rank takes a whole look."""
        return self.top / "asked.txt"

    @property
    def pipe_stem(self) -> Path:
        """How torch's pipe begins; a pipe on a network file system works on no other host either."""
        return self.top / "pipe_rank_"

    def remove(self) -> None:
        """Remove it with all that is in it."""
        shutil.rmtree(self.top, ignore_errors=True)


def prepare(folder: Path, identity: Identity) -> Evidence:
    """The places of a rank, made and empty. Raises OSError where the folder cannot be written."""
    top = folder if identity.attempt is None else folder / f"attempt-{identity.attempt}"
    evidence = Evidence(top, identity.stem)
    for place in (evidence.recorder, evidence.looks, evidence.state.parent):
        place.mkdir(parents=True, exist_ok=True)
    _put_aside(evidence, identity)
    return evidence


def _put_aside(evidence: Evidence, identity: Identity) -> None:
    aside = evidence.top / ".earlier"
    for old in aside.glob(f"stacks/*/{evidence.stem}.txt"):
        old.unlink()
    for path in _own_files(evidence, identity):
        if path.is_file():
            target = aside / path.relative_to(evidence.top)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(path, target)
            with suppress(OSError):
                path.parent.rmdir()
    for place in (evidence.recorder, evidence.looks, evidence.state.parent):
        place.mkdir(parents=True, exist_ok=True)


def _own_files(evidence: Evidence, identity: Identity) -> Iterator[Path]:
    yield evidence.log
    yield evidence.log.with_suffix(".1.log")
    yield evidence.state
    yield from (evidence.stack(look) for look in evidence.known_looks())
    if identity.rank is not None:
        yield from sorted(evidence.recorder.glob(f"*_{identity.rank}"))
