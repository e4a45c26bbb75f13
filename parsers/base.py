"""The base classes of parsers and the shelves that they are put on.

A log format is rows of a table (``rows.py``), or a function that :func:`finds` its pattern or :func:`reads` a line. Beside it stands
``wordings/<family>/<module>.toml`` with texts of the format and their events. A test runs every text through all parsers: each must
give its events and no others.
"""

from __future__ import annotations

import functools
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, ClassVar, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from nccldoctor.events import Event
from nccldoctor.model import Gap, Place, Source, Unexplained
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.recorded_calls import Batch
from nccldoctor.patterns import lazy


class Mark(Struct, frozen=True):
    """The prefix of a line: its writer, as launchers, collectors and loggers name it.

    ``rank`` is a *global* rank (``[rank3]:``, an srun label on one task per rank, a Ray actor's rank);
    ``local_rank`` a launcher's local one (``[default3]:``); ``stream`` is the text that tells this writer from others in a merged
    file ("" where nothing does); ``file`` and ``line`` the C++ or Python source the logger names; ``severity`` one of FEWIV.
    ``time`` is the message's own time, ``collected`` the collector's. ``pod`` is the pod of Kubernetes, which is no machine; where only
    the pod is named, ``host`` repeats it. ``actor`` is how Ray names a process.
    """

    rank: int | None = None
    local_rank: int | None = None
    task: int | None = None
    host: str | None = None
    pod: str | None = None
    pid: int | None = None
    stream: str = ""
    severity: str | None = None
    file: str | None = None
    line: int | None = None
    time: datetime | None = None
    collected: datetime | None = None
    repeated: int = 1
    actor: str | None = None

    @property
    def is_native(self) -> bool:
        """True of a line whose logger names a source file that is not Python."""
        return self.file is not None and not self.file.endswith(".py")

    @property
    def is_logged(self) -> bool:
        """True of a line that a logger or a launcher wrote: no code, and no note of a person."""
        return self.file is not None or self.severity is not None or self.rank is not None or self.time is not None


class Line(Struct, frozen=True):
    """One candidate: a physical line, or the piece of one between two carriage returns.

    ``raw`` is decoded (utf-8, ``backslashreplace``) with ANSI codes removed; ``body`` is ``raw`` behind ``mark``. ``place`` has the
    1-based number of the physical line. ``window`` hands out the neighbours.
    """

    place: Place
    raw: str
    body: str
    mark: Mark
    window: Window

    def following(self, limit: int = 40) -> Iterator[Line]:
        """The next lines of the same writer (same ``mark.stream``), at most ``limit`` of them, within 64 kB."""
        return self.window.after(self, limit)

    def preceding(self, limit: int = 10) -> Iterator[Line]:
        """The lines of the same writer before this one, nearest first, within 64 kB."""
        return self.window.before(self, limit)


class Window(Protocol):
    """The neighbours of a line; the scanner's buffer implements it."""

    noted: dict[Hashable, Any]
    """What parsers found out about lines, for their work on the next ones; it is lost where the content moves."""

    def after(self, line: Line, limit: int) -> Iterator[Line]:
        """See :meth:`Line.following`."""

    def before(self, line: Line, limit: int) -> Iterator[Line]:
        """See :meth:`Line.preceding`."""

    def near(self, line: Line, limit: int) -> Iterator[Line]:
        """The next ``limit`` lines, whoever wrote them."""

    def near_of(self, stream: str, line: Line, limit: int) -> Iterator[Line]:
        """Those of the next ``limit`` lines that carry this ``mark.stream``: cheaper than to ask each of them."""

    def has_text(self, line: Line, text: str, within: int) -> bool:
        """True when ``text`` occurs in the next ``within`` bytes: cheaper than reading lines in vain."""


class Need(Struct, frozen=True):
    """What a line must hold: one of the literals, where there are any, and something that matches the pattern.

    ``is_unlogged``: nor may a logger or a launcher have marked it.
    """

    literals: tuple[str, ...]
    pattern: lazy[str]
    is_unlogged: bool = False


class LineParser(ABC):
    """Recognises events in single lines (with a look at their neighbours).

    ``literals``: a line is offered to this parser when it contains one of these; keep them rare in healthy logs.
    ``sampled``: true where the literals are common in healthy logs (progress): such parsers see only the head and the tail of a
    large file and the surroundings of what other parsers found; small files whole.
    ``needs``: patterns of which one has to match the line itself (``raw``, or a part of it such as ``body``), or :meth:`parse`
    gives nothing; None where that is not known. Lines that hold a literal and no such pattern then cost next to nothing.
    ``general``: true for a parser that reads any message of a library. On a line that a special parser reads too, its events come last.
    """

    literals: ClassVar[tuple[str, ...]]
    sampled: ClassVar[bool] = False
    general: ClassVar[bool] = False
    needs: ClassVar[tuple[lazy[str] | Need, ...] | None] = None

    @abstractmethod
    def parse(self, line: Line) -> Iterable[Event]:
        """The events that *begin* on this line; empty where the line is not understood. Never raises on any input."""

    def is_told_elsewhere(self, line: Line) -> bool:
        """True of a line that is understood and yet gives no event, because another line tells the same with more."""
        return False


class Parsed(Struct, frozen=True):
    """The content of one file: its events, calls and gaps.

    ``batch`` holds the calls of a recorder dump, until those of all dumps are put together.
    ``lines`` were read, ``understood`` of the ``candidates`` led to an event; ``first_unknown`` is the first candidate
    that did not, with its place. ``unexplained`` are the last of those that look like failures.
    """

    source: Source
    events: tuple[Event, ...] = ()
    batch: Batch | None = None
    gaps: tuple[Gap, ...] = ()
    lines: int = 0
    candidates: int = 0
    understood: int = 0
    first_unknown: str = ""
    first_unknown_at: Place | None = None
    unexplained: tuple[Unexplained, ...] = ()

    def with_lines(self, numbers: Sequence[int]) -> Parsed:
        """The same with other line numbers: line ``i``, from 1, becomes ``numbers[i - 1]``."""

        def moved(place: Place) -> Place:
            return replace(place, line=numbers[min(place.line, len(numbers)) - 1]) if place.line else place

        return replace(
            self,
            events=tuple(replace(e, place=moved(e.place)) for e in self.events),
            first_unknown_at=moved(self.first_unknown_at) if self.first_unknown_at else None,
            unexplained=tuple(replace(u, place=moved(u.place)) for u in self.unexplained),
        )


class FileParser(ABC):
    """Claims a whole file by its first bytes (a py-spy JSON, a torchrun ``error.json``, a RAS document)."""

    @abstractmethod
    def claims(self, head: bytes, path: str) -> bool:
        """True when a file that begins with ``head`` (at most 64 kB) is of this kind. Content decides before the name."""

    @abstractmethod
    def parse(self, source: Source, content: bytes) -> Parsed:
        """Its events. Never raises on any input: what is wrong becomes a Gap."""


LINE_PARSERS: list[LineParser] = []
FILE_PARSERS: list[FileParser] = []

_F = TypeVar("_F", bound=FileParser)


def reads(
    *literals: str,
    needs: tuple[lazy[str] | Need, ...] | None = None,
    sampled: bool = False,
    general: bool = False,
    told_elsewhere: Callable[[Line], bool] | None = None,
) -> Callable[[Callable[[Line], Iterable[Event]]], LineParser]:
    """Make a line parser of a function, which is its ``parse``, and register it; the rest as in :class:`LineParser`."""

    def registered(parse: Callable[[Line], Iterable[Event]]) -> LineParser:
        methods = {"parse": parse, **({"is_told_elsewhere": told_elsewhere} if told_elsewhere else {})}
        own = {name: staticmethod(method) for name, method in methods.items()}
        about = {"literals": literals, "needs": needs, "sampled": sampled, "general": general}
        named = {"__module__": parse.__module__, "__doc__": parse.__doc__}
        parser: LineParser = type(parse.__name__, (LineParser,), own | about | named)()
        LINE_PARSERS.append(parser)
        return parser

    return registered


def finds(
    pattern: lazy[str], *literals: str, sampled: bool = False, general: bool = False
) -> Callable[[Callable[[Line, re.Match[str]], Iterable[Event]]], LineParser]:
    """As :func:`reads`, for a function of a line and of the place where the pattern matches its ``body``."""

    def registered(read: Callable[[Line, re.Match[str]], Iterable[Event]]) -> LineParser:
        @functools.wraps(read)
        def parse(line: Line) -> Iterable[Event]:
            return read(line, hit) if (hit := pattern.search(line.body)) else ()

        return reads(*literals, needs=(pattern,), sampled=sampled, general=general)(parse)

    return registered


def file_parser(cls: type[_F]) -> type[_F]:
    """Register a file parser."""
    FILE_PARSERS.append(cls())
    return cls


def ranks_in(text: str) -> Ranks:
    """The rank numbers that stand in a text: 1, 2 and 7 in ``[1, 2, 7]``."""
    return Ranks(int(number) for number in re.findall(r"\d{1,7}", text))


def common(line: Line, **more: Any) -> dict[str, Any]:
    """The fields every event takes from its line; ``more`` overrides (``group_rank``, ``group`` …)."""
    mark = line.mark
    own: dict[str, Any] = {
        "rank": mark.rank,
        "time": mark.time or mark.collected,
        "host": mark.host,
        "pod": mark.pod,
        "pid": mark.pid,
    }
    if mark.actor is not None:
        own["actor"] = mark.actor
    return {"place": line.place, "text": line.body[:500], **own, **more}
