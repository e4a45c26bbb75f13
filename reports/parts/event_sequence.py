"""The story of an incident as rows of text, earliest first."""

from __future__ import annotations

from dataclasses import dataclass

from nccldoctor.model import Diagnosis, StoryEvent, StoryRole
from nccldoctor.model.figures import StackSide, TwoStacks
from nccldoctor.model.ranks import Ranks
from nccldoctor.reports.parts import wording
from nccldoctor.reports.parts.sanitize import line


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


ROWS = 24
"""The page shows so many; the JSON has all."""

WORDS = {
    StoryRole.INITIATING: "began it",
    StoryRole.CASCADE: "followed",
    StoryRole.TEAR_DOWN: "tear-down",
    StoryRole.UNRELATED: "not related",
}
"""What a reader sees for each role."""

CAUSE = "first cause"


@dataclass(frozen=True, slots=True)
class Row:
    """One event: when, who, what it says, what it is in the story, where it stands."""

    time: str
    who: str
    says: str
    role: str
    cause: bool
    place: str


def rows(diagnosis: Diagnosis, most: int = ROWS) -> tuple[tuple[Row, ...], int]:
    """The rows in order, and how many are left out; the first cause and what began it stay."""
    story = diagnosis.story
    kept = sorted(range(len(story)), key=lambda n: (not story[n].cause, _RANKING[story[n].role], n))[:most]
    return tuple(_row(story[n]) for n in sorted(kept)), len(story) - len(kept)


_RANKING = {role: n for n, role in enumerate(WORDS)}


def _row(event: StoryEvent) -> Row:
    return Row(
        time=wording.instant(event.time) if event.time is not None else "",
        who=_who(event),
        says=line(event.says, 160) + (f" ({event.count:,} times)" if event.count > 1 else ""),
        role=CAUSE if event.cause else WORDS[event.role],
        cause=event.cause,
        place=line(str(event.where), 160),
    )


def _who(event: StoryEvent) -> str:
    parts = [wording.ranks_phrase(event.ranks, 4)] if event.ranks else []
    parts += [line(event.host, 60)] if event.host else []
    return " on ".join(parts) or "the job"
