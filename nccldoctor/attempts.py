"""Tries one part of the analysis: a part that fails costs itself, and the report names it."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

_LOG = logging.getLogger("nccldoctor")

_T = TypeVar("_T")
_Other = TypeVar("_Other")


class Broken(Struct, frozen=True):
    """A part that failed: ``what`` it is (``the rule died``), and ``why`` (``KeyError in groups.py:206``)."""

    what: str
    why: str

    def __str__(self) -> str:
        return f"{self.what} failed: {self.why}"


def attempt(what: str, work: Callable[[], _T]) -> _T | Broken:
    """The result of ``work``, or what broke. A person's Ctrl-C passes through.

    The words of an error may come from a stranger's file: its type and its place in our code are all that is told. The whole
    traceback goes to the logger ``nccldoctor`` as a warning.
    """
    try:
        return work()
    except Exception as error:
        _LOG.warning("%s failed", what, exc_info=True)
        return Broken(what, reason(error))


class Attempts:
    """Tries several parts, and keeps those that broke, each once."""

    def __init__(self) -> None:
        self._broken: dict[Broken, None] = {}

    @property
    def broken(self) -> tuple[Broken, ...]:
        """What broke, in order."""
        return tuple(self._broken)

    def include(self, broken: Iterable[Broken]) -> None:
        """Note what broke elsewhere."""
        self._broken |= dict.fromkeys(broken)

    def get(self, what: str, work: Callable[[], _T], otherwise: _Other) -> _T | _Other:
        """The result of ``work``, or ``otherwise`` where it breaks."""
        answer = attempt(what, work)
        if isinstance(answer, Broken):
            self._broken[answer] = None
            return otherwise
        return answer


def reason(error: Exception) -> str:
    """``KeyError in groups.py:206``: the type of an error and where in our code it was raised."""
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if "nccldoctor" in Path(frame.filename).parts
    ]
    where = f" in {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{where}"
