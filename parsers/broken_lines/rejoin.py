"""Joins lines that were cut once, wrapped by a terminal at a column, or wrapped by an editor at blanks.

A parser that looks for words cannot find them where a line end stands inside. So around the lines that matter, the
pieces that may belong to a line are joined on trial, and stay joined only where the parsers then read more than
before: another rank, another number, another record. What reads as well in pieces is left alone, and no join may run
one record into another.

Example: ``[rank1]:[E417 03:28:14 … [Rank 1] Watchdog caught coll`` and ``ective operation timeout: WorkNCCL(SeqNum=3612,``
hold no event apart, and a ``collective-timeout`` of call #3612 together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from nccldoctor.parsers.broken_lines.evidence import MOST_LINES, Evidence, Words
from nccldoctor.parsers.broken_lines.physical_lines import LONGEST, Lines, count_records
from nccldoctor.parsers.broken_lines.trials import (
    Read,
    Trial,
    Trials,
    contents_of,
    details_told,
    is_gain,
    is_other_host,
    without,
    worth,
)
from nccldoctor.patterns import lazy

_PIECES = 8  # of one record: the longest at 80 columns with room to spare
_FOREIGN = 3  # lines of other writers between two pieces
_FRUITLESS = 1  # pieces that tell nothing new, between two that do

_REST_OF_NUMBER = lazy(r"\d{1,19}(?:$|[.)\],](?:$|[ A-Z]))")  # and what may stand behind it


class Mended(Struct, frozen=True):
    """A file with its broken lines joined; ``lines[i]`` is the number that its line ``i`` (both from 1) had before."""

    content: bytes
    lines: npt.NDArray[np.int64]


def mend(content: bytes, words: Words, read: Read, trials: int) -> Mended | None:
    """The file with its broken records whole again; None where nothing had to be joined.

    ``words`` are those that parsers look for, ``read`` gives the events of some lines, at most ``trials`` times and more where joins
    succeed. Never raises.
    """
    if content.count(b"\n") >= MOST_LINES:
        return None
    lines = Lines(content)
    interesting = Evidence(lines, words).interesting_lines()
    return _Mender(lines, Trials(read, trials)).mended(interesting) if interesting else None


class _Join(Struct, frozen=True):
    """A line and the ``pieces`` behind it that belong to it, as one ``text``.

    ``worth`` is what the joined text tells, ``gain`` how much more that is than the line alone tells.
    """

    head: int
    pieces: tuple[int, ...]
    text: str
    worth: int
    gain: int


class _Mender:
    def __init__(self, lines: Lines, trials: Trials) -> None:
        self._lines = lines
        self._trials = trials
        self._joins: dict[int, _Join] = {}  # by their heads
        self._used: set[int] = set()  # lines that became pieces of others

    def mended(self, interesting: Sequence[int]) -> Mended | None:
        for at in interesting:
            if self._trials.left <= 0:
                break
            if at in self._used or at in self._joins:
                continue
            joins = [join for head in self._heads(at) if (join := self._best_join(head, at))]
            joins = [join for join in joins if not self._has_rival(join)]
            if joins:
                best = max(joins, key=lambda j: (self._lines.can_open(j.head, j.pieces[0]), j.worth, j.head))
                self._joins[best.head] = best
                self._used.update(best.pieces)
                self._trials.earn()
        return self._rebuilt() if self._joins else None

    def _heads(self, at: int) -> Iterator[int]:
        """The lines that ``at`` may belong to: itself, and those just before where it begins nothing."""
        lines = self._lines
        begins = lines.is_beginning(at)
        for number in range(at, max(-1, at - 2 - _FOREIGN), -1):
            if number in self._used or number in self._joins or lines.is_complete(number):
                continue
            if (
                number == at
                or not begins
                or (lines.can_share_writer(at, number) and lines.is_cut_in_prefix(number, at))
            ):
                yield number

    def _best_join(self, head: int, at: int) -> _Join | None:
        """The join of ``head`` with lines behind it, ``at`` among them, that tells most; None where none tells more."""
        lines, trials = self._lines, self._trials
        first = text = lines.split_line(head)[0]
        best: _Join | None = None
        previous: Trial | None = None
        pieces: list[int] = []
        most_records = max(1, count_records(first))
        in_digits = False
        for number in self._pieces(head):
            ways = lines.ways(text, number, head)
            most_records = max(most_records, count_records(ways[0][1]))
            pieces.append(number)
            joined = "".join(ways[0])
            if len(joined) > LONGEST or trials.left <= 0 or count_records(joined) > most_records:
                break
            trial = self._tried(head, pieces, ways) if number >= at else None
            if trial is not None:
                joined = trial.kept + trial.added
                in_digits |= trial.kept[-1:].isdigit() and trial.added[:1].isdigit()
                if self._is_better(trial, previous, head, pieces, in_digits) and (
                    best is None or worth(trial.together) > best.worth
                ):
                    if trials.is_short_record(first) or trials.are_two_records(text, trial.added):
                        return best
                    gain = worth(trial.together) - worth(trial.alone)
                    best = _Join(head, tuple(pieces), joined, worth(trial.together), gain)
                previous = trial
            if best is not None and len(pieces) - len(best.pieces) > _FRUITLESS:
                break
            text = joined
        return best

    def _tried(self, head: int, pieces: Sequence[int], ways: Sequence[tuple[str, str]]) -> Trial | None:
        """The way to join that tells most, the first of equals; None where no joined text holds an event."""
        lines, trials = self._lines, self._trials
        last = pieces[-1]
        between = [lines.split_line(n)[0] for n in range(head + 1, last) if n not in pieces]  # keeps the pieces apart
        foreign = contents_of(trials.events_in(*between)) if between else []
        read = [(way, without(trials.events_in("".join(way), *between), foreign)) for way in ways]
        (kept, added), together = max(read, key=lambda way: (bool(way[1]), details_told(way[1])))
        if not together:
            return None
        apart = without(trials.events_in(*(lines.split_line(n)[0] for n in range(head, last + 1))), foreign)
        alone = without(trials.events_in(lines.split_line(head)[0], *between), foreign)
        return Trial(kept, added, apart, together, alone)

    def _is_better(
        self, trial: Trial, previous: Trial | None, head: int, pieces: Sequence[int], in_digits: bool
    ) -> bool:
        """True when the newest piece belongs to the record: the join tells more, or a parser read across it already."""
        in_number = trial.kept[-1:].isdigit() and bool(_REST_OF_NUMBER.match(trial.added))
        in_record = in_number or (len(pieces) == 1 and self._lines.is_cut_in_prefix(head, pieces[0]))
        if is_gain(trial, in_record, in_digits) or (self._lines.has_nccl_prefix(head) and is_other_host(trial)):
            return True
        if not trial.apart or contents_of(trial.apart) != contents_of(trial.together):
            return False
        texts = [self._lines.split_line(n)[0] for n in (head, *pieces)]
        before = previous.apart if previous else self._trials.events_in(*texts[:-1])
        now = contents_of(trial.apart)
        return contents_of(before) != now != contents_of([*before, *self._trials.events_in(texts[-1])])

    def _has_rival(self, join: _Join) -> bool:
        """True when another record begins between the head and its first piece, and gains more by that piece."""
        for head in range(join.head + 1, join.pieces[0]):
            if head not in self._used and self._lines.is_beginning(head):
                rival = self._best_join(head, head)
                if rival and rival.pieces[0] == join.pieces[0] and rival.gain >= join.gain:
                    return True
        return False

    def _pieces(self, head: int) -> Iterator[int]:
        """The next lines that may continue a record: they are of its writer or of nobody, and begin nothing."""
        lines = self._lines
        foreign = pieces = 0
        stream = lines.split_line(head)[1].stream
        most = _FOREIGN if lines.has_owner(head) else 0
        for number in range(head + 1, min(len(lines), head + 1 + _PIECES * (_FOREIGN + 1))):
            raw, mark, _ = lines.split_line(number)
            if number in self._used or not raw.strip():
                continue
            same = lines.can_share_writer(number, head)
            if same and lines.is_unlabelled(number, head) and foreign and pieces:
                return  # wrapped lines stand together, and a line is cut once
            cut_in_prefix = same and not pieces and lines.is_cut_in_prefix(head, number)
            if not cut_in_prefix and (not same or lines.is_beginning(number)):
                foreign += 1
                if foreign > most or (same and mark.stream and mark.stream == stream):
                    return  # the writer goes on with another record, or too many others wrote
                continue
            yield number
            pieces += 1
            if pieces == _PIECES or (foreign and lines.is_unlabelled(number, head)):
                return
            foreign = 0

    def _rebuilt(self) -> Mended:
        rows: list[bytes] = []
        numbers: list[int] = []
        for number in range(len(self._lines)):
            if number not in self._used:
                join = self._joins.get(number)
                rows.append(join.text.encode("utf-8", "backslashreplace") if join else self._lines.raw(number))
                numbers.append(number + 1)
        return Mended(b"\n".join(rows), np.array(numbers, dtype=np.int64))
