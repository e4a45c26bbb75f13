"""How processes end: numbers and words of signals, as launchers, shells and schedulers write them."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from nccldoctor.patterns import lazy

_SIGNALS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))["signals"]
_NAMES: dict[int, str] = {row["number"]: row["name"] for row in _SIGNALS}
_NUMBERS = {name: number for number, name in _NAMES.items()}
_WORDS: dict[str, int] = {row["words"]: row["number"] for row in _SIGNALS}

WORDS = "|".join(sorted(_WORDS, key=len, reverse=True))
"""The words of ``strsignal`` as alternatives of a pattern."""


def signal_of(exitcode: int) -> str | None:
    """The signal that an exit code stands for: ``-9`` as Python says it, ``137`` as shells and containers do."""
    number = -exitcode if exitcode < 0 else exitcode - 128
    return _NAMES.get(number) if number > 0 else None


def signal_named(text: str) -> str | None:
    """The signal in ``SIGKILL``, ``Signals.SIGTERM``, ``9``, ``Killed`` or ``Aborted (core dumped)``."""
    if match := _NAME.search(text):
        return match[0]
    text = text.strip().partition(" (")[0]
    if text.isdecimal() and len(text) < 4:
        return _NAMES.get(int(text))
    return _NAMES.get(_WORDS.get(text, 0))


def number_of(signal: str) -> int | None:
    """The number of a signal's name."""
    return _NUMBERS.get(signal)


def exit_and_signal(code: int | None, signal: str | None = None) -> dict[str, Any]:
    """The fields ``exitcode`` and ``signal`` of a :class:`ProcessExit`; one that is None follows from the other.

    ``-15`` gives SIGTERM, and SIGTERM gives ``-15``, as Python counts.
    """
    if signal is None and code is not None:
        signal = signal_of(code)
    elif code is None and signal is not None and (number := number_of(signal)):
        code = -number
    return {"exitcode": code, "signal": signal}


_NAME = lazy(r"\bSIG[A-Z]{2,6}[12]?\b")
