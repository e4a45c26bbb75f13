"""Says in plain words what a thread was doing, from the frames of its stack.

Innermost frames that mean nothing alone (locks, polls, wrappers) are passed over. The first meaningful frame decides whether the
thread waits for a peer. Otherwise any frame may name the activity, the innermost first: ``write`` means little, the
``save_checkpoint`` that calls it means much. The name of a user's own function is a guess, unless code of a library that does such work
stands inside it. ``stack_activity.toml`` lists the frames and their meaning.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from pathlib import Path

from msgspec import Struct

from nccldoctor.model.stack_frames import is_user_code

_LONGEST = 600


class _Row(Struct, frozen=True):
    """A kind of frame; ``{}`` in ``words`` stands for the function, and ``kind`` says what a wait is for."""

    words: str
    kind: str
    function: re.Pattern[str]
    file: re.Pattern[str]


@cache
def _rows(table: str) -> tuple[_Row, ...]:
    """The rows of a table; read on the first stack only, since most inputs hold none."""
    rows = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))[table]
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
    if "::" in name:  # without arguments and template parameters: c10d::Work::wait
        short = name.partition("(")[0].partition("<")[0] or name
    return short.strip(), (file if colon and line.isdigit() else where).replace("\\", "/")


def as_any_tool_prints(frame: str) -> str:
    """A frame as every tool would print it: ``step (train.py:40)``, without the class and the folders that some print."""
    function, file = split_frame(frame)
    line = frame.rstrip(")").rpartition(":")[2]
    return f"{function} ({file.rpartition('/')[2]}:{line})"


@lru_cache(maxsize=1 << 14)
def _match(table: str, function: str, file: str) -> _Row | None:
    return next((row for row in _rows(table) if row.function.fullmatch(function) and row.file.search(file)), None)


def _meaningful(frames: Iterable[str]) -> Iterator[tuple[str, str]]:
    for frame in frames:
        function, file = split_frame(frame)
        waits = _match("waiting", function, file)  # torch's own wait and __enter__ look neutral elsewhere
        if waits or _match("neutral", function, file) is None:
            yield function, file


def is_neutral(frame: str) -> bool:
    """True of a lock, a poll or a wrapper, which means nothing alone."""
    return _match("neutral", *split_frame(frame)) is not None


def _wait(frames: Sequence[str]) -> tuple[_Row, str] | None:
    """Row and function of the first meaningful frame, if it waits; of its caller where it is native."""
    named = _meaningful(frames)
    for function, file in named:
        row = _match("waiting", function, file)
        if row is None:
            return None
        return (row, function) if file.endswith(".py") else _made_by(row, function, named)
    return None


def _made_by(row: _Row, function: str, callers: Iterator[tuple[str, str]]) -> tuple[_Row, str]:
    """The call by which a program made a native wait: ``all_reduce`` for ``c10d::Work::wait``, ``MPI_Bcast`` for ``MPIC_Wait``."""
    for outer, file in callers:
        made_by = _match("waiting", outer, file)
        if made_by is not None and (file.endswith(".py") or made_by.kind == row.kind):
            row, function = made_by, outer
        if file.endswith(".py"):
            break
    return row, function


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


class Activity(Struct, frozen=True):
    """What a thread does, and the ``function`` whose frame shows it.

    ``words`` are the rest of a sentence about its rank, ``is_guess`` where the name of a function of the user's own is all that shows it.
    """

    words: str
    function: str
    is_guess: bool = False


def find_activity(frames: Sequence[str]) -> Activity | None:
    """What the thread does: ``waits for the data loader``; None where no frame is known."""
    if wait := _wait(frames):
        return Activity(wait[0].words.format(wait[1]), wait[1])
    is_in_own = False
    for function, file in _meaningful(frames):
        row = _match("busy", function, file)
        if row and not (row.kind == "leaf" and is_in_own):
            return Activity(row.words.format(function), function, _is_guess(row, function, file, frames))
        is_in_own = is_in_own or is_user_code(file)
    return None


def _is_guess(row: _Row, function: str, file: str, frames: Sequence[str]) -> bool:
    """True where a row matched the name of a user's function alone. No library inside or around it does such work."""
    if row.file.pattern or not _is_own(function, file):
        return False
    split = [split_frame(frame) for frame in frames]
    at = split.index((function, file))
    inside = [frame for frame in split[:at] if not is_user_code(frame[1])]
    others = [frame for frame in (*split[:at], *split[at + 1 :]) if not _is_own(*frame)]
    does_it = any(_is_of(row.words, "library", *frame) for frame in inside)
    return not (does_it or any(_is_of(row.words, "busy", *frame) for frame in others))


def _is_of(words: str, table: str, function: str, file: str) -> bool:
    """True where a frame matches a row of these words."""
    rows = (row for row in _rows(table) if row.words == words)
    return any(row.function.fullmatch(function) and row.file.search(file) for row in rows)


def activity_of(frames: Sequence[str]) -> str | None:
    """What the thread does, as the rest of a sentence about its rank, guesses by names included. None where no frame is known."""
    found = find_activity(frames)
    return found.words if found is not None else None


def shown_activity_of(frames: Sequence[str]) -> str:
    """What the thread is shown to do; "" where that is a guess or unknown."""
    found = find_activity(frames)
    return found.words if found is not None and not found.is_guess else ""


def is_by_name(frame: str) -> bool:
    """True where a frame is of the user's own code: what its function is called may be anything."""
    return _is_own(*split_frame(frame))


def _is_own(function: str, file: str) -> bool:
    """True of a user's function, and not of a framework that stands in the user's checkout."""
    return is_user_code(file) and _match("framework", function, file) is None


class Hook(Struct, frozen=True):
    """A part of a framework on a stack: ``on_step_end`` of ``the Trainer``, in the frame of this index."""

    function: str
    owner: str
    index: int


def hooks_of(frames: Sequence[str]) -> list[Hook]:
    """The parts of frameworks that a thread is in, the innermost first; a name counts once in a row.

    A function of the user's own file is a hook where a file of the framework calls it: ``on_step_end`` alone says nothing.
    """
    split = [(index, *split_frame(frame)) for index, frame in enumerate(frames)]
    named = [frame for frame in split if _match("neutral", *frame[1:]) is None]
    hooks: list[Hook] = []
    for (index, function, file), (_, _, caller) in zip(named, [*named[1:], (0, "", "")], strict=False):
        fits = (row for row in _rows("framework") if row.function.fullmatch(function))
        places = ((row, (file, caller) if row.kind == "hook" else (file,)) for row in fits)
        row = next((row for row, files in places if any(map(row.file.search, files))), None)
        if row is not None and (not hooks or hooks[-1].function != function):
            hooks.append(Hook(function, row.words.removeprefix("{} of "), index))
    return hooks


def place_in_framework(frames: Sequence[str]) -> str:
    """Where the innermost own frame stands in a framework, as the end of a sentence that names that frame.

    ``, called by on_step_end of the Trainer``; `` of Lightning`` where the frame is such a hook itself; ``, inside evaluate of the
    Trainer`` where it called the framework. Empty where no frame is known.
    """
    hooks, own = hooks_of(frames), user_frame(frames)
    at = list(frames).index(own) if own is not None else -1
    around = [hook for hook in hooks if hook.index > at][-1:]
    itself = [hook for hook in hooks if hook.index == at]
    inside = [hook for hook in hooks if hook.index < at][-1:]
    told = [f" of {hook.owner}" for hook in itself]
    told += [f", inside {hook.function}" + ("" if itself else f" of {hook.owner}") for hook in inside]
    told += [f", called by {hook.function} of {hook.owner}" for hook in around if not itself]
    return "".join(told)


def user_frame(frames: Sequence[str]) -> str | None:
    """The innermost frame of code that is neither Python's own nor an installed package's; None where there is none."""
    return next(user_frames(frames), None)


def user_frames(frames: Sequence[str]) -> Iterator[str]:
    """All such frames, the innermost first."""
    for frame in frames:
        function, file = split_frame(frame)
        if is_user_code(file) and _match("neutral", function, file) is None:
            yield frame
