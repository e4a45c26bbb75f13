"""How processes end: numbers and words of signals, as launchers, shells and schedulers write them."""

from __future__ import annotations

from nccldoctor.patterns import lazy

_NAMES = {
    1: "SIGHUP",
    2: "SIGINT",
    3: "SIGQUIT",
    4: "SIGILL",
    5: "SIGTRAP",
    6: "SIGABRT",
    7: "SIGBUS",
    8: "SIGFPE",
    9: "SIGKILL",
    10: "SIGUSR1",
    11: "SIGSEGV",
    12: "SIGUSR2",
    13: "SIGPIPE",
    14: "SIGALRM",
    15: "SIGTERM",
    24: "SIGXCPU",
    25: "SIGXFSZ",
    31: "SIGSYS",
}  # the numbers of Linux on x86-64 and arm64, whatever machine reads the log

_WORDS = {
    "Hangup": 1,
    "Interrupt": 2,
    "Quit": 3,
    "Illegal instruction": 4,
    "Trace/breakpoint trap": 5,
    "Aborted": 6,
    "Bus error": 7,
    "Floating point exception": 8,
    "Killed": 9,
    "User defined signal 1": 10,
    "Segmentation fault": 11,
    "User defined signal 2": 12,
    "Broken pipe": 13,
    "Alarm clock": 14,
    "Terminated": 15,
    "CPU time limit exceeded": 24,
    "File size limit exceeded": 25,
    "Bad system call": 31,
}  # glibc, sysdeps: strsignal()

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
    return next((number for number, name in _NAMES.items() if name == signal), None)


_NAME = lazy(r"\bSIG[A-Z]{2,6}[12]?\b")
