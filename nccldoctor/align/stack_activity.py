"""Says in plain words what a thread was doing, from the frames of its stack.

Innermost frames that mean nothing alone (locks, polls, wrappers) are passed over. The first meaningful frame decides whether the
thread waits for a peer. Otherwise any frame may name the activity, the innermost first: ``write`` means little, the
``save_checkpoint`` that calls it means much. ``stack_activity.toml`` lists the frames and their meaning.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from nccldoctor.patterns import lazy

_LONGEST = 600

_INSTALLED = lazy(
    r"site-packages|dist-packages|(?:^|/)lib/python\d|^<"
    r"|^(?:torch|tqdm|numpy|transformers|accelerate|deepspeed|lightning|pytorch_lightning|datasets|wandb)/"
    r"|^(?:threading|queue|selectors|socket|ssl|subprocess|contextlib|functools|runpy|pdb|bdb|cmd)\.py$"
    r"|^(?:multiprocessing|concurrent|importlib|asyncio|http|urllib|json|logging)/"
)
"""Installed packages, and modules of Python's library, which py-spy shortens to their bare name."""


@dataclass(frozen=True, slots=True)
class _Row:
    """A kind of frame; ``{}`` in ``words`` stands for the function, and ``kind`` says what a wait is for."""

    words: str
    kind: str
    function: re.Pattern[str]
    file: re.Pattern[str]


@cache
def _rows(table: str) -> tuple[_Row, ...]:
    """The rows of ``waiting``, ``busy`` or ``neutral``; read on the first stack only, since most inputs hold none."""
    import tomllib

    text = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    rows = tomllib.loads(text)[table]
    return tuple(
        _Row(row["words"], row.get("kind", ""), _any_of(row["functions"]), _any_of(row.get("files", "")))
        for row in rows
    )


def _any_of(patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns.split()))


def split_frame(frame: str) -> tuple[str, str]:
    """Function without its class, and file without its line, of ``Condition.wait (/usr/lib/threading.py:331)``."""
    name, bracket, where = frame[:_LONGEST].rpartition(" (")
    if not bracket:
        return frame[:_LONGEST].strip(), ""
    where = where.rstrip(")")
    file, colon, line = where.rpartition(":")
    short = name if not name.startswith("<") and set("@:(") & set(name) else name.rpartition(".")[2]
    return short.strip(), (file if colon and line.isdigit() else where).replace("\\", "/")


def _match(table: str, function: str, file: str) -> _Row | None:
    return next((row for row in _rows(table) if row.function.fullmatch(function) and row.file.search(file)), None)


def _meaningful(frames: Iterable[str]) -> Iterator[tuple[str, str]]:
    for frame in frames:
        function, file = split_frame(frame)
        waits = _match("waiting", function, file)  # torch's own wait and __enter__ look neutral elsewhere
        if waits or _match("neutral", function, file) is None:
            yield function, file


def _wait(frames: Sequence[str]) -> tuple[_Row, str] | None:
    """The row and the function of the first meaningful frame, if that frame waits."""
    for function, file in _meaningful(frames):
        row = _match("waiting", function, file)
        return (row, function) if row else None
    return None


def is_waiting(frames: Sequence[str]) -> bool:
    """True when the first meaningful frame is a collective, a store operation or a synchronisation with the GPU.

    ``frames`` are innermost first, each ``function (file:line)``. False says only that no such frame was seen: without
    native frames, ``tensor.item()`` looks like the line of user code that calls it.
    """
    return _wait(frames) is not None


def wait_of(frames: Sequence[str]) -> tuple[str, str] | None:
    """The kind of wait and its function, where the thread waits: ``("call", "all_reduce")``, ``("set-up", "new_group")``.

    The kinds are those of ``stack_activity.toml``.
    """
    wait = _wait(frames)
    return (wait[0].kind, wait[1]) if wait else None


def first_meaningful(frames: Sequence[str]) -> tuple[str, str]:
    """Function and file of the innermost frame that means something alone; empty where there is none."""
    return next(_meaningful(frames), ("", ""))


def activity_of(frames: Sequence[str]) -> str | None:
    """What the thread does, as the rest of a sentence about its rank: ``waits for the data loader``.

    None where no frame is known.
    """
    wait = _wait(frames)
    if wait:
        return wait[0].words.format(wait[1])
    for function, file in _meaningful(frames):
        row = _match("busy", function, file)
        if row:
            return row.words.format(function)
    return None


def user_frame(frames: Sequence[str]) -> str | None:
    """The innermost frame of code that is neither Python's own nor an installed package's; None where there is none."""
    return next(user_frames(frames), None)


def user_frames(frames: Sequence[str]) -> Iterator[str]:
    """All such frames, the innermost first."""
    for frame in frames:
        function, file = split_frame(frame)
        if file.endswith(".py") and not _INSTALLED.search(file) and _match("neutral", function, file) is None:
            yield frame
