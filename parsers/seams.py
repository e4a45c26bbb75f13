"""Lines that collectors broke, put together before anything is read: cut once, or wrapped at a fixed column.

A parser that looks for words cannot find them where a line end stands inside. So around the lines that matter, the
pieces that may belong to a line are joined on trial, and stay joined only where the parsers then read more than
before: another rank, another number, another record. What reads as well in pieces is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from nccldoctor.events import Event
from nccldoctor.parsers.base import Mark
from nccldoctor.parsers.prefixes import continues, plain, read_mark
from nccldoctor.parsers.wraps import BEGINS

LARGEST = 16 << 20
"""Bytes of a file that is looked at; a larger one is read as it is."""

_TRIALS = 600  # joins tried in one file, some 0.2 ms each
_PARTS = 8  # pieces of one record: the longest at 80 columns with room to spare
_FOREIGN = 3  # lines of other writers between two pieces
_LONGEST = 4_000  # bytes of a line that is tried

_HEADS = (b"ProcessGroup", b"NCCL WARN", b"NET/IB", b"]:[E", b"]:[F")
"""What records begin with that may have lost the words a parser looks for."""

_NATIVE = re.compile(r"(?:^|: )[A-Za-z0-9][\w.-]{0,62}:\d{1,10}:-?\d{1,10} \[-?\d{1,5}\] ")
_QUIET = frozenset(
    ("exception", "setting", "progress", "phase", "heartbeat", "version", "stack", "note", "nccl-warn", "comm-init")
)
"""Kinds that take in whatever follows them: no proof that a join is right."""

_WHOLE = frozenset(("heartbeat", "comm-init"))
"""Kinds of short lines that are complete where they are read at all: what stands below them is somebody else's."""

_LABEL = re.compile(
    r"\[default\d|\[rank\d|\[pod/|\([\w.]{1,80}[ [(]|\d{4}-\d\d-\d\d[T ]\d\d:|\[\d{4}-\d\d|\s{0,6}\d{1,6}: "
    r"|[\w.-]{1,63}: \S"
)
"""What collectors and launchers put in front of every line of a merged log."""

_STUB = re.compile(r"[A-Za-z0-9][\w.-]{0,62}(?::\d{0,10}){0,2}(?: (?:\[\d{0,5})?)?")
"""The beginning of NCCL's own prefix, cut."""

_NOTHING = (None, "", ())

_GOES_ON = re.compile(r"\d{1,19}(?:$|[.)\],](?:$|[ A-Z]))")
"""The rest of a number, and what may stand behind it."""

Read = Callable[[bytes], Sequence[Event]]


@dataclass(frozen=True, slots=True)
class Mended:
    """A file without the seams; ``lines[i]`` is the number that its line ``i`` (both from 1) had before."""

    content: bytes
    lines: npt.NDArray[np.int64]


def mend(content: bytes, hits: Sequence[int], read: Read) -> Mended | None:
    """The file with its broken records whole again; None where nothing had to be joined.

    ``hits`` are offsets of words that parsers look for, ``read`` gives the events of some lines. Never raises.
    """
    text = _Lines(content)
    taken: dict[int, list[int]] = {}  # line to the pieces that belong to it
    gone: set[int] = set()
    trials = _Trials(read)
    for at in _interesting(text, hits):
        if trials.left <= 0:
            break
        if at in gone or at in taken:
            continue
        heads = (h for h in _heads(text, at) if h not in gone and h not in taken and text.raw(h))
        joins = [join for head in heads if (join := _join(text, head, at, gone, trials))]
        if joins:
            best = max(joins, key=lambda join: (join.worth, bool(BEGINS.search(text.read(join.head)[0])), join.head))
            taken[best.head] = list(best.pieces)
            gone.update(best.pieces)
    return _rebuilt(text, taken, gone) if taken else None


class _Lines:
    """The physical lines of a file, and what stands in front of each."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        ends = np.flatnonzero(np.frombuffer(content, np.uint8) == 0x0A)
        self.starts = np.concatenate([[0], ends + 1])
        self._marks: dict[int, tuple[str, Mark, str]] = {}

    def __len__(self) -> int:
        return len(self.starts)

    def raw(self, number: int) -> bytes:
        """Line ``number`` (from 0) without its end."""
        end = self.starts[number + 1] - 1 if number + 1 < len(self.starts) else len(self.content)
        return self.content[self.starts[number] : end].rstrip(b"\r")

    def read(self, number: int) -> tuple[str, Mark, str]:
        """The text, its mark, and what stands behind the mark."""
        known = self._marks.get(number)
        if known is None:
            text = plain(self.raw(number)[:_LONGEST].decode("utf-8", "backslashreplace"))
            known = self._marks[number] = (text, *read_mark(text))
        return known

    def orphan(self, number: int, head: int) -> bool:
        """Whether a line has no label although the one it may go on with has: then what looks like one is text."""
        return bool(_LABEL.match(self.read(head)[0])) and not _LABEL.match(self.read(number)[0])


class _Trials:
    """Counts how often lines were read on trial."""

    def __init__(self, read: Read) -> None:
        self.left = _TRIALS
        self._read = read

    def whole(self, line: str) -> bool:
        """Whether a line is a record that needs nothing more."""
        self.left -= 1
        return any(e.kind in _WHOLE for e in self._read(line.encode()))

    def events(self, *lines: str) -> list[Event]:
        """The events in some lines that stand behind each other."""
        self.left -= 1
        return [e for e in self._read("\n".join(lines).encode()) if e.kind not in _QUIET]


def _interesting(text: _Lines, hits: Sequence[int]) -> Iterator[int]:
    """The lines with words that parsers look for, or with the head of a record, in order."""
    offsets = {*hits, *(at for head in _HEADS for at in _found(text.content, head))}
    where = np.searchsorted(text.starts, np.array(sorted(offsets), dtype=np.int64), side="right") - 1
    yield from np.unique(where).tolist()


def _found(content: bytes, word: bytes) -> Iterator[int]:
    at = content.find(word)
    while at >= 0:
        yield at
        at = content.find(word, at + 1)


@dataclass(frozen=True, slots=True)
class _Join:
    """A line, the lines that belong to it, and how much the whole tells."""

    head: int
    pieces: tuple[int, ...]
    worth: int


def _heads(text: _Lines, at: int) -> Iterator[int]:
    """The lines that ``at`` may be a part of: itself, and those just before where it is no beginning."""
    yield at
    raw, mark, body = text.read(at)
    begins = _begins(raw, mark, body)
    for number in range(at - 1, max(-1, at - 2 - _FOREIGN), -1):
        if not begins or _torn(text, number, raw):
            yield number


def _begins(raw: str, mark: Mark, body: str) -> bool:
    """Whether a line is the beginning of something of its own."""
    known = mark.file is not None and mark.severity is not None
    body = raw if mark.file is not None and not known else body  # the rest of a prefix that was cut, no beginning
    return known or bool(_NATIVE.search(body[:160])) or bool(BEGINS.match(body.lstrip(" \t>|`")))


def _torn(text: _Lines, head: int, raw: str) -> bool:
    """Whether a line ends inside the prefix of a logger, so that what looks like a beginning goes on with it."""
    first, mark, body = text.read(head)
    if mark.file is not None:
        return False
    if not body.strip() or _STUB.fullmatch(body):
        return True
    opened, closed = first.rfind("["), raw.find("]")
    return opened > first.rfind("]") and closed >= 0 and "[" not in raw[:closed] and len(first) - opened < 60


def _join(text: _Lines, head: int, at: int, gone: set[int], trials: _Trials) -> _Join | None:
    """The lines that belong to ``head``, ``at`` among them where that is another; None where a join tells nothing
    new.
    """
    first, mark, _ = text.read(head)
    best: _Join | None = None
    pieces: list[int] = []
    joined = first
    for number in _parts(text, head, mark, gone):
        raw, other, body = text.read(number)
        added = raw if not other.stream or text.orphan(number, head) or _torn(text, head, raw) else body
        joined += added
        pieces.append(number)
        if len(joined) > _LONGEST or trials.left <= 0:
            break
        if number < at:
            continue
        others = [n for n in range(head + 1, number) if n not in pieces]  # they keep the halves apart
        apart = trials.events(*(text.read(n)[0] for n in range(head, number + 1)))
        together = trials.events(joined, *(text.read(n)[0] for n in others))
        worth = _worth(together)
        inside = _through_number(joined, added) or (len(pieces) == 1 and _torn(text, head, raw))
        if _tells_more(apart, together, inside) and (best is None or worth > best.worth):
            if trials.whole(first):
                return None
            best = _Join(head, tuple(pieces), worth)
        elif best is not None:
            break
    return best


def _parts(text: _Lines, head: int, mark: Mark, gone: set[int]) -> Iterator[int]:
    """The next lines that may go on with a record: of its writer or of nobody, without the beginning of anything."""
    foreign = found = 0
    for number in range(head + 1, min(len(text), head + 1 + _PARTS * (_FOREIGN + 1))):
        if number in gone:
            continue
        raw, other, body = text.read(number)
        if not raw.strip():
            continue
        mine = text.orphan(number, head) or continues(other.stream, mark.stream)
        if not (not found and _torn(text, head, raw)) and (not mine or _begins(raw, other, body)):
            if mine and other.stream and other.stream == mark.stream:
                return  # the writer goes on with another record
            foreign += 1
            if foreign > _FOREIGN:
                return
            continue
        yield number
        found += 1
        foreign = 0
        if found == _PARTS:
            return


def _through_number(joined: str, added: str) -> bool:
    """Whether the cut went through a number: the record reads well either way, but with another number."""
    return joined[: -len(added)][-1:].isdigit() and bool(_GOES_ON.match(added))


def _tells_more(apart: Sequence[Event], together: Sequence[Event], inside: bool) -> bool:
    """Whether a join tells more than its pieces; no kind of event may be lost by it.

    As good is one that says the same in fewer events, or where the cut went through a number or a name another one.
    """
    if not {e.kind for e in apart} <= {e.kind for e in together}:
        return False
    before, now = _worth(apart), _worth(together)
    if now != before:
        return now > before
    if inside and now:
        return [(e.kind, e.host, e.details()) for e in apart] != [(e.kind, e.host, e.details()) for e in together]
    return len(together) < len(apart) and all(any(_covers(whole, part) for whole in together) for part in apart)


def _worth(events: Sequence[Event]) -> int:
    """How much the event tells that tells most."""
    return max((sum(getattr(e, f.name) not in _NOTHING for f in fields(e)) for e in events), default=0)


def _covers(whole: Event, part: Event) -> bool:
    """Whether one event says all that another says."""
    if whole.kind != part.kind or part.rank not in (None, whole.rank):
        return False
    mine, told = whole.details(), part.details()
    return all(told[name] in (*_NOTHING, mine[name]) for name in told)


def _rebuilt(text: _Lines, taken: dict[int, list[int]], gone: set[int]) -> Mended:
    out: list[bytes] = []
    numbers: list[int] = []
    for number in range(len(text)):
        if number in gone:
            continue
        line = text.raw(number)
        for piece in taken.get(number, ()):
            raw, mark, body = text.read(piece)
            line += (raw if not mark.stream else body).encode("utf-8", "backslashreplace")
        out.append(line)
        numbers.append(number + 1)
    return Mended(b"\n".join(out), np.array(numbers, dtype=np.int64))
