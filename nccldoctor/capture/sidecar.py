"""A small process beside each rank says what the rank cannot: it is stopped, it died, C++ code aborted it.

``python -I -S sidecar.py CONFIG`` with a JSON object; it imports the standard library alone. It prints its pid, and is nobody's child then.
The rank touches the folder ``scratch`` each time that its watcher runs, and removes it when it ends by itself: no file number of the job
is held for that. The sidecar ends with the rank, whatever the rank dies of.
"""

from __future__ import annotations

import json
import math
import os
import re
import select
import signal
import sys
import time
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path

SILENT_S = 3.0
"""Seconds without a touch after which the rank counts as unable to speak; its watcher runs far more often."""

POLL_S = 1.0
"""Seconds between two looks at the rank itself, where the kernel does not tell that it ended."""

LOOK = re.compile(r"\d{8}T\d{6}Z")

WELL = "exiting normally"
"""The last line of a rank whose script ran to the end."""

ABORTED = b"terminate called "
"""How the C++ runtime begins its last words; the text of the exception follows in the next line, behind ``what():``."""

MOST_WORDS, LONGEST = 1 << 16, 2000
"""Bytes at the end of stderr in which last words are sought, and characters of a line that are kept."""


class Sidecar:
    """One watched rank: ``pid``, its ``label`` in lines, and the paths that the rank was given."""

    def __init__(self, config: dict[str, object]) -> None:
        self.pid = int(str(config["pid"]))
        self.began = config["began"]
        self.label = str(config["label"])
        self.stem = str(config["stem"])
        self.command = str(config["command"])
        self.log, self.state, self.late = (Path(str(config[key])) for key in ("log", "state", "late"))
        self.looks = Path(str(config["looks"]))
        self.scratch = Path(str(config["scratch"]))
        self.stderr = StderrFile.opened(self.pid)
        self.seen = set(looks_in(self.looks))
        self.spoke, self.touched, self.has_left = time.monotonic(), 0, False
        self.wrote = ""

    def watch(self, listing_s: float) -> None:
        """Look after the rank until it ends; the shared folder is read once in ``listing_s`` seconds."""
        poll_s, listed = min(listing_s, POLL_S), -math.inf
        end = _end_of(self.pid)
        while stat_fields(self.pid)[19:20] == self.began:  # another process may have its number later
            if select.select([] if end is None else [end], [], [], poll_s)[0] or exit_status(self.pid) is not None:
                break
            self.hear()
            if time.monotonic() - listed >= listing_s:
                listed = time.monotonic()
                with suppress(OSError):  # a full disk or a folder that went away is not the rank's trouble
                    self.take_part()
        self.say_how_it_ended()

    def hear(self) -> None:
        """Note that the rank's watcher runs, or that the rank is on its way out."""
        before, self.has_left = self.touched, True
        with suppress(OSError):
            self.touched, self.has_left = self.scratch.stat().st_mtime_ns, False
        if self.touched != before:
            self.spoke = time.monotonic()

    def take_part(self) -> None:
        """Write the state of the process for each look, and stacks where the rank cannot."""
        is_silent = time.monotonic() - self.spoke > SILENT_S
        letter, waits_in = process_state(self.pid)
        fresh = set(looks_in(self.looks)) - self.seen
        is_stopped = letter in ("T", "t")
        has_changed = is_stopped != (self.wrote in ("T", "t"))
        is_alive = letter not in ("Z", "X", "?")
        if is_alive and (fresh or (has_changed and (is_silent or not is_stopped))):
            self.write_state(letter, waits_in)
        self.seen |= fresh
        if is_silent and self.seen and self.late.stat().st_size:
            newest = self.looks / max(self.seen) / f"{self.stem}.txt"
            if newest.parent.is_dir() and not newest.exists():
                newest.write_bytes(self.late.read_bytes())

    def write_state(self, letter: str, waits_in: str) -> None:
        """One row as ``ps`` prints it, and the kernel's stack where this user may read it."""
        rows = ["    PID STAT WCHAN COMMAND", f"{self.pid:>7} {letter} {waits_in or '-'} {self.command}"]
        with suppress(OSError):
            rows += ["", "kernel stack", Path(f"/proc/{self.pid}/stack").read_text()]
        self.state.write_text("\n".join(rows) + "\n")
        self.wrote = letter

    def say_how_it_ended(self) -> None:
        """The last line of the log of a rank, which cannot know how it ends."""
        status = exit_status(self.pid)
        self.hear()
        if self.has_left and status is None:
            return
        now = datetime.now(timezone.utc).isoformat(timespec="milliseconds")  # noqa: UP017  # any Python 3 may run this file
        with suppress(OSError), self.log.open("a", errors="backslashreplace") as file:
            if self.stderr is not None and status is not None and os.WTERMSIG(status) == signal.SIGABRT:
                front = self.label.replace(" ", "")  # as torch begins the lines of a rank: [rank3]:
                file.writelines(f"{front}: {line}\n" for line in self.stderr.last_words())
            told = f"ERROR {self.label} process {self.pid} {ending(status)}, seen by nccldoctor.capture"
            file.write(f"{now} {f'INFO {self.label} {WELL}' if self.has_left and status == 0 else told}\n")


class StderrFile:
    """The file that a rank writes its errors to, from where it stood when the sidecar began."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("rb")  # it outlives the descriptor of the rank
        self.begin = os.fstat(self.file.fileno()).st_size

    @classmethod
    def opened(cls, pid: int) -> StderrFile | None:
        """The file; None where stderr is a pipe or a terminal, which a second reader would rob."""
        path = Path(f"/proc/{pid}/fd/2")
        with suppress(OSError):
            if path.is_file():
                return cls(path)
        return None

    def last_words(self) -> list[str]:
        """What the C++ runtime said as it aborted the rank.

        Nothing where it spoke twice: other ranks share the file then, and nobody knows whose words are whose.
        """
        size = os.fstat(self.file.fileno()).st_size
        self.file.seek(max(self.begin, size - MOST_WORDS))
        _, found, words = self.file.read(MOST_WORDS).partition(ABORTED)
        if not found or ABORTED in words:
            return []
        said, *below = (found + words).decode("utf-8", "backslashreplace").splitlines()
        return [line[:LONGEST] for line in (said, *below[:1]) if line is said or "what():" in line]


def looks_in(folder: Path) -> list[str]:
    """The names of all looks, the oldest first."""
    with suppress(OSError):
        return sorted(path.name for path in folder.iterdir() if LOOK.fullmatch(path.name))
    return []


def ending(status: int | None) -> str:
    """Words for a wait status; None where nobody could read it."""
    if status is None:
        return "ended without a last word"
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    if number:
        name = next((known.name for known in signal.Signals if known == number), "SIGRT")
        return f"was killed by signal {number} ({name})"
    return f"ended with exit code {os.WEXITSTATUS(status)}"


def process_state(pid: int) -> tuple[str, str]:
    """The letter of a process's state and the kernel function that it waits in.

    A question mark stands for a process that is gone.
    """
    letter = (stat_fields(pid) or ["?"])[0]
    waits_in = ""
    with suppress(OSError):
        waits_in = Path(f"/proc/{pid}/wchan").read_text().strip("0")
    return letter, waits_in


def stat_fields(pid: int) -> list[str]:
    """The fields of ``/proc/PID/stat`` behind the name, from the state on; empty where the process is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return []


def exit_status(pid: int) -> int | None:
    """The wait status of a zombie; None once its parent has taken it (field 52, ``man 5 proc``)."""
    fields = stat_fields(pid)
    return int(fields[49]) if len(fields) > 49 and fields[0] == "Z" else None


def _end_of(pid: int) -> int | None:
    """A descriptor that is ready once the process has ended; None where the kernel has none (before Linux 5.3)."""
    with suppress(AttributeError, OSError):
        return os.pidfd_open(pid)
    return None


def main() -> None:
    """Watch the process of the configuration, and clear up after it."""
    config = json.loads(sys.argv[1])
    if pid := os.fork():
        print(pid)
        return
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    sidecar = Sidecar(config)
    try:
        sidecar.watch(float(config["listing_s"]))
    finally:
        with suppress(OSError):
            for left in sidecar.scratch.iterdir():
                left.unlink()
            sidecar.scratch.rmdir()


if __name__ == "__main__":
    main()
