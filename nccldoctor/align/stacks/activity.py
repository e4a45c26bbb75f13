"""What a stack says its thread was doing, in plain words.

The innermost frames that mean nothing by themselves (locks, polls, wrappers) are passed over; the first that means
something decides whether the thread waits for a peer. What else it does may be told by any frame, the innermost
first: a write to a file means little, ``save_checkpoint`` above it much. The frames and their meaning stand in
``frame_table.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

from nccldoctor.align.stacks.activity_table import BUSY, NEUTRAL, WAITING, Row

_LONGEST = 600


@cache
def _compiled(rows: tuple[Row, ...]) -> tuple[tuple[Row, re.Pattern[str], re.Pattern[str]], ...]:
    return tuple((row, _any_of(row.functions), _any_of(row.files)) for row in rows)


def _any_of(patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns.split()))


def split(frame: str) -> tuple[str, str]:
    """Function without its class, and file without its line, of ``Condition.wait (/usr/lib/threading.py:331)``."""
    name, found, where = frame[:_LONGEST].rpartition(" (")
    if not found:
        return frame[:_LONGEST].strip(), ""
    where = where.rstrip(")")
    file, colon, line = where.rpartition(":")
    short = name if not name.startswith("<") and set("@:(") & set(name) else name.rpartition(".")[2]
    return short.strip(), (file if colon and line.isdigit() else where).replace("\\", "/")


def _match(rows: tuple[Row, ...], function: str, file: str) -> Row | None:
    return next(
        (row for row, name, place in _compiled(rows) if name.fullmatch(function) and place.search(file)),
        None,
    )


def _meaningful(frames: Iterable[str]) -> Iterator[tuple[str, str]]:
    for frame in frames:
        function, file = split(frame)
        waits = _match(WAITING, function, file)  # torch's own wait and __enter__ look neutral elsewhere
        if waits or _match(NEUTRAL, function, file) is None:
            yield function, file


def _wait(frames: Sequence[str]) -> tuple[Row, str] | None:
    """The row and the function of the first meaningful frame, if it is one of waiting."""
    for function, file in _meaningful(frames):
        row = _match(WAITING, function, file)
        return (row, function) if row else None
    return None


def is_waiting(frames: Sequence[str]) -> bool:
    """Whether the thread waits for a peer, or for its GPU: its first meaningful frame is a collective, a store or a
    synchronisation.

    ``frames`` are innermost first, each ``function (file:line)``. False says only that no such frame was seen: without
    native frames, ``tensor.item()`` looks like the line of user code that calls it.
    """
    return _wait(frames) is not None


def waits_in(frames: Sequence[str]) -> str | None:
    """The function that the thread waits in (``all_reduce``, ``synchronize``); None where it does not wait."""
    found = _wait(frames)
    return found[1] if found else None


def doing(frames: Sequence[str]) -> str | None:
    """What the thread does, as the rest of a sentence about its rank: ``waits for the data loader``.

    None where the stack does not tell.
    """
    found = _wait(frames)
    if found:
        return found[0].words.format(found[1])
    for function, file in _meaningful(frames):
        row = _match(BUSY, function, file)
        if row:
            return row.words.format(function)
    return None


def user_frame(frames: Sequence[str]) -> str | None:
    """The innermost frame of code that is neither Python's own nor an installed package's; None where there is none."""
    for frame in frames:
        function, file = split(frame)
        if file.endswith(".py") and not _installed().search(file) and _match(NEUTRAL, function, file) is None:
            return frame
    return None


@cache
def _installed() -> re.Pattern[str]:
    """Installed packages, and modules of Python's library, which py-spy shortens to their bare name."""
    return re.compile(
        r"site-packages|dist-packages|(?:^|/)lib/python\d|^<"
        r"|^(?:torch|tqdm|numpy|transformers|accelerate|deepspeed|lightning|pytorch_lightning|datasets|wandb)/"
        r"|^(?:threading|queue|selectors|socket|ssl|subprocess|contextlib|functools|runpy|pdb|bdb|cmd)\.py$"
        r"|^(?:multiprocessing|concurrent|importlib|asyncio|http|urllib|json|logging)/"
    )
