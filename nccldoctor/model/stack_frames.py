"""Frames of printed Python stacks, each ``function (file:line)``, and which of them are the user's own code."""

from __future__ import annotations

LIBRARY = ("/torch/", "site-packages/", "dist-packages/", "lib/python3")
"""Parts of the paths of installed code."""


def is_library(file: str) -> bool:
    """True where the path is that of an installed package or of Python's own library."""
    return any(part in file for part in LIBRARY)


def innermost(frames: tuple[str, ...]) -> str:
    """The innermost frame of the user's own code, else the innermost one, with the file's name alone.

    ``frames`` are innermost first. Of ``poll (torch/x.py:3)``, ``step (/job/train.py:40)`` it is ``step (train.py:40)``.
    """
    own = next((f for f in frames if ".py:" in f and not is_library(f) and "/threading.py" not in f), None)
    frame = own if own is not None else (frames[0] if frames else "")
    name, opening, place = frame.partition(" (")
    return f"{name} ({place.rpartition('/')[2]}" if opening else name


def parse_frame(text: str) -> tuple[str, str, int | None] | None:
    """Function, file and line of ``function (file:line)``; None where the text has another form."""
    name, opening, place = text[:2000].partition(" (")
    if not name or not opening or not place.endswith(")") or len(place) < 2:
        return None
    file, colon, line = place[:-1].rpartition(":")
    if file and colon and line.isdecimal() and len(line) < 10:
        return name[:400], file[:1000], int(line)
    return name[:400], place[:-1][:1000], None
