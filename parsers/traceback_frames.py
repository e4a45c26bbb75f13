"""The frames of a Python traceback, and which of them is the user's own code."""

from __future__ import annotations

import re
from functools import cache

from nccldoctor.columns import Frame


@cache
def _frame_patterns() -> tuple[re.Pattern[str], ...]:
    return (
        re.compile(r'File "(?P<file>[^"]{1,1000})", line (?P<line>\d{1,9})(?:, in (?P<function>\S[^\n]{0,200}))?'),
        re.compile(r"^[│\s]{0,40}(?P<file>\S{1,1000}\.py):(?P<line>\d{1,9}) in (?P<function>\S{1,200})"),
    )


def frame(text: str) -> Frame | None:
    """The frame that a line of a traceback names: (function, file, line)."""
    for pattern in _frame_patterns():
        if match := pattern.search(text):
            return ((match["function"] or "<unknown>").strip(), match["file"], int(match["line"]))
    return None


_TORCH = (
    r"(?:^|/)torch/(?:nn|distributed|utils|autograd|_\w{1,40}|optim|cuda|multiprocessing|serialization|storage|functional|fx"
    r"|amp|ao|jit|profiler|futures|__init__)\b"
)
_PYTHON = r"/lib(?:64)?/python[\d.]{1,8}/(?!site-packages|dist-packages)|^<frozen |^<string>$|/bin/[\w.-]{1,60}$"


@cache
def _not_the_users() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """What to pass over when looking for the user's code: every package, then torch and Python alone."""
    return re.compile(rf"(?:site|dist)-packages/|/lib(?:64)?/python\d|/Lib/|{_TORCH}|{_PYTHON}"), re.compile(
        f"{_TORCH}|{_PYTHON}"
    )


def user_frame(frames: tuple[Frame, ...]) -> Frame | None:
    """The innermost frame of the user's own code; else of a framework's; None where all is torch's or Python's."""
    for pattern in _not_the_users():
        for part in frames:
            if not pattern.search(part[1].replace("\\", "/")):
                return part
    return None


def show(part: Frame) -> str:
    """A frame as events carry it: ``function (file:line)``."""
    function, file, number = part
    return f"{function} ({file}:{number})"
