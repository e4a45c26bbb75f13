"""Lines that collectors broke, put together before anything is read: cut once, or wrapped at a fixed column.

A parser that looks for words cannot find them where a line end stands inside. So around the lines that matter, the
pieces that may belong to a line are joined on trial, and stay joined only where the parsers then read more than
before: another rank, another number, another record. What reads as well in pieces is left alone, and no join may run
one record into another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from nccldoctor.events import Event
from nccldoctor.parsers.broken_lines.physical_lines import LONGEST, Lines, records
from nccldoctor.patterns import lazy

_NOTHING = (None, "", ())


def tells_more(apart: Sequence[Event], together: Sequence[Event], inside: bool) -> bool:
    """Whether a join tells more than its pieces; no kind of event may be lost by it.

    As good is one that says the same in fewer events, or where the cut went through a number or a name another one.
    """
    kept = {e.kind for e in together}
    if any(e.kind not in kept and not _retold(e, together) for e in apart) or any(map(_absurd, together)):
        return False
    before, now = worth(apart), worth(together)
    if now != before:
        return now > before and (inside or len(together) >= len(apart) or _none_lost(apart, together))
    if inside and now:
        return [(e.kind, e.host, e.details()) for e in apart] != [(e.kind, e.host, e.details()) for e in together]
    return len(together) < len(apart) and all(any(_covers(whole, part) for whole in together) for part in apart)


def _none_lost(apart: Sequence[Event], together: Sequence[Event]) -> bool:
    """Whether each record still tells what happened: of two that tell different things, a join makes one longer one."""

    def what(event: Event) -> object:
        return getattr(event, "what", "")

    return all(any(w.kind == p.kind and what(p) in (None, "", what(w)) for w in together) for p in apart)


def _retold(part: Event, together: Sequence[Event]) -> bool:
    """Whether another kind of event says all of one and more: its words had been cut."""
    told = part.details()
    return any(e.details() == told and worth([e]) > worth([part]) for e in together)


def renamed(apart: Sequence[Event], together: Sequence[Event]) -> bool:
    """Whether a join tells the same, but by another host: NCCL's prefix names the one that its process runs on.

    A record that was whole must not change by it: then the second half has only got onto its line.
    """
    if [e.kind for e in apart] != [e.kind for e in together]:
        return False
    pairs = list(zip(apart, together, strict=True))
    kept = all(a.details() == b.details() for a, b in pairs if a.host == b.host)
    return kept and any(a.host != b.host for a, b in pairs)


def _absurd(event: Event) -> bool:
    """Whether numbers contradict each other, as where the rest of another number was glued to one."""
    done, issued = getattr(event, "last_completed", None), getattr(event, "last_enqueued", None)
    ran, limit = getattr(event, "ran_ms", None), getattr(event, "timeout_ms", None)
    return (done is not None and issued is not None and done > issued) or (
        ran is not None and limit is not None and ran < limit
    )


def worth(events: Sequence[Event]) -> int:
    """How much the event tells that tells most."""
    return max((sum(getattr(e, f.name) not in _NOTHING for f in fields(e)) for e in events), default=0)


def _covers(whole: Event, part: Event) -> bool:
    """Whether one event says all that another says."""
    if whole.kind != part.kind or part.rank not in (None, whole.rank):
        return False
    mine, told = whole.details(), part.details()
    return all(told[name] in (*_NOTHING, mine[name]) for name in told)


def but(events: Sequence[Event], foreign: Sequence[object]) -> list[Event]:
    """The events without those that the lines in between hold."""
    return [e for e, said in zip(events, said(events), strict=True) if said not in foreign]


def said(events: Sequence[Event]) -> list[object]:
    """What events say, wherever they stand."""
    return [(e.kind, e.rank, e.host, e.details()) for e in events]


LARGEST = 16 << 20
"""Bytes of a file that is looked at; a larger one is read as it is."""

_TRIALS = 600  # joins tried in one file, some 0.2 ms each
_EARNED, _MOST = 40, 20_000  # more of them for each join that told something, in all so many: some five seconds
_PARTS = 8  # pieces of one record: the longest at 80 columns with room to spare
_FOREIGN = 3  # lines of other writers between two pieces

_HEADS = (b"ProcessGroup", b"NCCL WARN", b"NET/IB", b"]:[E", b"]:[F")
"""What records begin with that may have lost the words a parser looks for."""

_QUIET = frozenset(
    ("exception", "setting", "progress", "phase", "heartbeat", "version", "stack", "note", "nccl-warn", "comm-init")
)
"""Kinds that take in whatever follows them: no proof that a join is right."""

_WHOLE = frozenset(("heartbeat", "comm-init"))
"""Kinds of short lines that are complete where they are read at all."""

_GOES_ON = lazy(r"\d{1,19}(?:$|[.)\],](?:$|[ A-Z]))")  # the rest of a number, and what may stand behind it

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
    text = Lines(content)
    taken: dict[int, tuple[int, ...]] = {}  # line to the pieces that belong to it
    gone: set[int] = set()
    trials = _Trials(read)
    for at in _interesting(text, hits):
        if trials.left <= 0:
            break
        if at in gone or at in taken:
            continue
        heads = (h for h in _heads(text, at) if h not in gone and h not in taken and not text.whole(h))
        joins = [join for head in heads if (join := _join(text, head, at, gone, trials))]
        joins = [join for join in joins if not _rivalled(text, join, gone, trials)]
        if joins:
            best = max(joins, key=lambda join: (text.opens(join.head, join.pieces[0]), join.worth, join.head))
            taken[best.head] = best.pieces
            gone.update(best.pieces)
            trials.earn()
    return _rebuilt(text, taken, gone) if taken else None


class _Trials:
    """Counts how often lines were read on trial; what was read a moment ago is remembered."""

    def __init__(self, read: Read) -> None:
        self.left = _TRIALS
        self._most = _MOST
        self._read = read
        self._known: dict[str, Sequence[Event]] = {}

    def earn(self) -> None:
        """Allow more trials: one was worth it."""
        more = min(_EARNED, self._most)
        self.left, self._most = self.left + more, self._most - more
        self._known.clear()

    def whole(self, line: str) -> bool:
        """Whether a line is a record that needs nothing more."""
        return any(e.kind in _WHOLE for e in self._events(line))

    def events(self, *lines: str) -> list[Event]:
        """The events in some lines that stand behind each other."""
        return [e for e in self._events("\n".join(lines)) if e.kind not in _QUIET]

    def _events(self, text: str) -> Sequence[Event]:
        if text not in self._known:
            self.left -= 1
            self._known[text] = self._read(text.encode())
        return self._known[text]


def _interesting(text: Lines, hits: Sequence[int]) -> Iterator[int]:
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
    """A line, the lines that belong to it, how much the whole tells, and how much of that is due to them."""

    head: int
    pieces: tuple[int, ...]
    worth: int
    gain: int


def _heads(text: Lines, at: int) -> Iterator[int]:
    """The lines that ``at`` may be a part of: itself, and those just before where it is no beginning."""
    yield at
    begins = text.begins(at)
    for number in range(at - 1, max(-1, at - 2 - _FOREIGN), -1):
        if not begins or (text.same_writer(at, number) and text.torn(number, at)):
            yield number


def _join(text: Lines, head: int, at: int, gone: set[int], trials: _Trials) -> _Join | None:
    """The lines that belong to ``head``, ``at`` among them where that is another; None where none tells anything new."""
    first = joined = text.read(head)[0]
    best: _Join | None = None
    last: Sequence[Event] | None = None  # what was read without the newest piece
    pieces: list[int] = []
    most = max(1, records(first))
    for number in _parts(text, head, gone):
        added = text.goes_on(number, head)
        most = max(most, records(added))
        before, joined = joined, joined + added
        pieces.append(number)
        if len(joined) > LONGEST or trials.left <= 0 or records(joined) > most:
            break
        if number < at:
            continue
        tried = _tried(text, head, pieces, joined, trials)
        if tried is None and best is None:
            continue
        if tried is None:
            break
        apart, together, alone = tried
        now = worth(together)
        inside = _through_number(before, added) or (len(pieces) == 1 and text.torn(head, number))
        told = tells_more(apart, together, inside) or (text.native(head) and renamed(apart, together))
        if not told and apart and said(apart) == said(together):
            before_it = trials.events(*(text.read(n)[0] for n in (head, *pieces[:-1]))) if last is None else last
            told = _used(trials, before_it, text.read(number)[0], apart)
        last = apart
        if told and (best is None or now > best.worth):
            if trials.whole(first) or _two(trials, before, added):
                return best
            best = _Join(head, tuple(pieces), now, now - worth(alone))
        elif best is not None:
            break
    return best


def _tried(
    text: Lines, head: int, pieces: Sequence[int], joined: str, trials: _Trials
) -> tuple[list[Event], list[Event], list[Event]] | None:
    """What is read in the pieces as they stand, in the pieces joined, and without them; never what others wrote. None
    where nothing is read in the joined text.
    """
    last = pieces[-1]
    between = [text.read(n)[0] for n in range(head + 1, last) if n not in pieces]  # they keep the halves apart
    foreign = said(trials.events(*between)) if between else []
    together = but(trials.events(joined, *between), foreign)
    if not together:
        return None
    apart = trials.events(*(text.read(n)[0] for n in range(head, last + 1)))
    alone = trials.events(text.read(head)[0], *between)
    return but(apart, foreign), together, but(alone, foreign)


def _rivalled(text: Lines, join: _Join, gone: set[int], trials: _Trials) -> bool:
    """Whether another record begins between the two halves, and makes more of the second one."""
    for head in range(join.head + 1, join.pieces[0]):
        if head not in gone and text.begins(head):
            rival = _join(text, head, head, gone, trials)
            if rival and rival.pieces[0] == join.pieces[0] and rival.gain >= join.gain:
                return True
    return False


def _two(trials: _Trials, first: str, added: str) -> bool:
    """Whether both parts hold records, of different kinds: then they are two."""
    mine, other = ({e.kind for e in trials.events(part)} for part in (first, added))
    return bool(mine and other and not other <= mine)


def _used(trials: _Trials, without: Sequence[Event], piece: str, apart: Sequence[Event]) -> bool:
    """Whether a parser read a piece as part of the record already: no other line may have it then."""
    return said(without) != said(apart) != said([*without, *trials.events(piece)])


def _parts(text: Lines, head: int, gone: set[int]) -> Iterator[int]:
    """The next lines that may go on with a record: of its writer or of nobody, without the beginning of anything."""
    foreign = found = 0
    mark = text.read(head)[1]
    most = _FOREIGN if text.owned(head) else 0
    for number in range(head + 1, min(len(text), head + 1 + _PARTS * (_FOREIGN + 1))):
        if number in gone:
            continue
        raw, other, _ = text.read(number)
        if not raw.strip():
            continue
        mine = text.same_writer(number, head)
        if mine and text.orphan(number, head) and foreign and found:
            return  # wrapped lines stand together, and a line is cut once
        torn = mine and not found and text.torn(head, number)
        if not torn and (not mine or text.begins(number)):
            if mine and other.stream and other.stream == mark.stream:
                return  # the writer goes on with another record
            foreign += 1
            if foreign > most:
                return
            continue
        yield number
        found += 1
        if found == _PARTS or (foreign and text.orphan(number, head)):
            return
        foreign = 0


def _through_number(before: str, added: str) -> bool:
    """Whether the cut went through a number: the record reads well either way, but with another number."""
    return before[-1:].isdigit() and bool(_GOES_ON.match(added))


def _rebuilt(text: Lines, taken: dict[int, tuple[int, ...]], gone: set[int]) -> Mended:
    out: list[bytes] = []
    numbers: list[int] = []
    for number in range(len(text)):
        if number in gone:
            continue
        line = text.raw(number)
        for piece in taken.get(number, ()):
            line += text.goes_on(piece, number).encode("utf-8", "backslashreplace")
        out.append(line)
        numbers.append(number + 1)
    return Mended(b"\n".join(out), np.array(numbers, dtype=np.int64))
