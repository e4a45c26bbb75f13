"""Two stacks as rows of text, innermost call first."""

from __future__ import annotations

from dataclasses import dataclass

from nccldoctor.pictures import StackSide, TwoStacks
from nccldoctor.ranks import Ranks
from nccldoctor.reports.visible import line


@dataclass(frozen=True, slots=True)
class FrameRow:
    """One frame: its function, its place, whether it is the user's own, whether the stacks part here."""

    function: str
    place: str
    own: bool
    parts: bool


@dataclass(frozen=True, slots=True)
class Side:
    """One stack with its heading."""

    title: str
    what: str
    rows: tuple[FrameRow, ...]
    cut: int


def sides(stacks: TwoStacks | None, culprits: Ranks) -> tuple[Side, ...]:
    """None, one or two stacks."""
    if stacks is None:
        return ()
    name = "Where rank {} is" if stacks.culprit.rank in culprits else "Where suspect rank {} is"
    out = [_side(stacks.culprit, name)]
    if stacks.peer is not None:
        out.append(_side(stacks.peer, "Where its peer rank {} is"))
    return tuple(out)


def _side(side: StackSide, title: str) -> Side:
    rows = tuple(FrameRow(line(f.function, 120), _place(f.file, f.line), f.own, f.parts) for f in side.frames)
    return Side(title.format(side.rank), line(f"{side.what}, {side.where}", 240), rows, side.cut)


def _place(file: str, number: int | None) -> str:
    """The last three parts of a path tell enough to find the file."""
    parts = file.replace("\\", "/").split("/")
    short = "/".join(parts[-3:]) if len(parts) > 3 else file
    return line(f"{short}:{number}" if number is not None else short, 160)
