"""Reads only parts of a large file with the parsers whose literals are common in healthy logs (progress, heartbeats).

These parts are the beginning, the end, and the surroundings of the first and the last event that matters; and the last
COLL lines of each communicator, wherever they stand.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from operator import attrgetter, itemgetter

import ahocorasick_rs
from msgspec import Struct

from nccldoctor.events import CollCall, CommInit, Event, Note, Phase, Setting, Version
from nccldoctor.parsers.base import Line, LineParser
from nccldoctor.parsers.engine.effort import SAMPLED_AT_LEAST
from nccldoctor.parsers.engine.literals import Held, Literals, literals_of
from nccldoctor.parsers.engine.window import REACH, Buffer
from nccldoctor.patterns import lazy

LAST = 32
"""Lines kept of each communicator of a process."""

MOST = 4096
"""Communicators kept of one file."""

_FRONT = 120
_SMALL = 16 << 10  # bytes in which ``bytearray.find`` ends before the search below has begun


@cache
def _sign() -> ahocorasick_rs.BytesAhoCorasick:
    """A search for one literal, which the library does at the speed of memory, ten times as fast as ``bytearray.find``."""
    return ahocorasick_rs.BytesAhoCorasick([b"opCount "])


_LINE_END = lazy(rb"\n")
_CALL = lazy(rb"opCount [0-9a-f]{1,16} [^\n]{0,240}? comm 0x([0-9a-f]{1,16})")


class LastCalls:
    """Keeps the last :data:`LAST` COLL lines of each communicator and thread, as the scanner's buffer passes by."""

    def __init__(self) -> None:
        self._kept: dict[tuple[bytes, bytes], deque[tuple[int, bytes]]] = defaultdict(lambda: deque(maxlen=LAST))

    def gather(self, buffer: Buffer, low: int, high: int, number: int) -> None:
        """Look at whole lines in ``[low, high)``; the first of them has this number."""
        data = buffer.data
        if high - low < _SMALL and data.find(b"opCount ", low, high) < 0:
            return
        calls = self._calls(data, low, high)
        if not calls:
            return
        ends = [end.start() for end in _LINE_END.finditer(data, low, high)]
        for key, spans in calls.items():
            for start, end in spans:
                at = bisect_left(ends, start)
                begin = ends[at - 1] + 1 if at else low
                stop = ends[at] if at < len(ends) else min(high, end + _FRONT)
                self._kept[key].append((number + at, bytes(data[begin:stop])))

    def _calls(self, data: bytearray, low: int, high: int) -> dict[tuple[bytes, bytes], deque[tuple[int, int]]]:
        """Where the last calls in ``[low, high)`` begin and end, by thread and communicator."""
        with memoryview(data) as view:
            hits = [low + start for _, start, _ in _sign().find_matches_as_indexes(view[low:high])]
        calls: dict[tuple[bytes, bytes], deque[tuple[int, int]]] = defaultdict(lambda: deque(maxlen=LAST))
        for at in hits:
            hit = _CALL.match(data, at, high)
            if hit is None:
                continue
            key = _thread(data, max(low, at - _FRONT), at), hit[1]
            if key in self._kept or key in calls or len(self._kept) + len(calls) < MOST:
                calls[key].append((hit.start(), hit.end()))
        return calls

    def kept_lines(self) -> Iterator[tuple[int, bytes]]:
        """The kept lines with their numbers, in the order of the file."""
        yield from sorted({line for kept in self._kept.values() for line in kept})


def _thread(data: bytearray, low: int, at: int) -> bytes:
    """``host:pid:tid`` out of ``host:pid:tid [0] NCCL INFO AllReduce: ``; nothing where the line begins otherwise."""
    message = data.rfind(b" NCCL INFO ", low, at)
    device = data.rfind(b" [", low, message) if message >= 0 else -1
    if device < 0:
        return b""
    start = max(data.rfind(b" ", low, device), data.rfind(b"\n", low, device)) + 1
    return bytes(data[start or low : device])


WHOLE = 4 << 20
"""Files up to this size are read whole."""
HEAD, WIDEST, NARROWEST = 256 << 10, 1 << 20, 128 << 10
OF_ONE_RANK = 120
"""Lines looked at in a small file of one rank: more of them tell its pace no better."""
MOST_EVENTS = 2_000
"""Events kept of one source; of more, the first and the last of every writer and some between."""

_QUIET = (Setting, Version, CommInit, CollCall, Note, Phase)  # what a healthy job says too


class _Found(Struct, frozen=True):
    """One event with its line, its writer and its subject."""

    line: int
    writer: tuple[str, ...]
    event: Event


class Sampler:
    """Gathers the events of the sampled parsers as the scanner's buffer passes by.

    For each block the scanner calls :meth:`before_block`, :meth:`gather_calls`, :meth:`note_events` for each line on which
    another parser found something, and :meth:`after_block`; at the end :meth:`sampled_events`.
    """

    def __init__(
        self,
        parsers: tuple[LineParser, ...],
        offer: Callable[[Line, Sequence[LineParser]], list[Event]],
        most: int,
        one_writer: bool = False,
    ) -> None:
        self._most = most
        # bytes of the end, and of what stands before an event
        self._width = min(WIDEST, max(NARROWEST, most * (4 << 10)))
        self._most_of_small = min(most // 2, OF_ONE_RANK) if one_writer else 3 * most
        self._most_before_event = min(most, max(most // 2, SAMPLED_AT_LEAST), OF_ONE_RANK) if one_writer else most
        self._literals = literals_of(parsers)
        self._offer = offer
        self._found: list[_Found] = []
        self._seen: set[tuple[int, int, int]] = set()
        self._tried = 0
        self._loud = False
        self._whole = False
        self._last_calls = LastCalls()
        self._pinned: set[int] = set()  # lines that are never thinned out
        self._first: tuple[int, int] | None = None  # offset and line of the first event that matters, in this block
        self._latest: tuple[int, int] | None = None  # the same of the last one
        self._kept: tuple[bytes, int, int] | None = (
            None  # its surroundings: content, offset of the event in them, its line
        )

    def before_block(self, buffer: Buffer, first: bool, over: bool) -> None:
        """Note whether the next block is all there is, and so small that it is read whole."""
        self._whole = first and over and buffer.high <= WHOLE

    def note_events(self, buffer: Buffer, at: int, number: int, events: Sequence[Event]) -> None:
        """Note that another parser found these events at this offset, in this line."""
        is_known = self._loud and self._whole  # then all of the file is in its surroundings
        if is_known or not self._literals.parsers or all(isinstance(e, _QUIET) for e in events):
            return
        if self._loud:
            self._latest = (at, number)
        else:
            self._loud = True
            self._first = (at, number)

    def has_progress(self, line: Line) -> bool:
        """True where a sampled parser finds something on a line; of many such lines the later ones are not tried."""
        owners = self._literals.owners(line.body)
        self._tried += bool(owners)
        return bool(owners) and (self._tried > self._most or bool(self._offer(line, owners)))

    def gather_calls(self, buffer: Buffer, low: int, high: int, number: int) -> None:
        """Keep the last COLL lines among the whole lines in ``[low, high)``, of which the first has this number."""
        if self._literals.parsers:
            self._last_calls.gather(buffer, low, high, number)

    def after_block(self, buffer: Buffer, number: int, first: bool, over: bool) -> None:
        """Parse what matters of a block; ``number`` is the line at the end of it.

        ``first`` and ``over``: no block came before, and none comes after.
        """
        if not self._literals.parsers:
            return
        if self._whole:
            self._parse_whole(buffer)
        else:
            self._parse_regions(buffer, list(self._regions(buffer, number, first, over)))
            self._keep_surroundings(buffer)
        self._first = self._latest = None
        if over:
            self._parse_kept(buffer)
            self._parse_last_calls(buffer)

    def _regions(self, buffer: Buffer, number: int, first: bool, over: bool) -> Iterator[_Region]:
        """The regions of a block to look at."""
        if self._first:
            yield _Region(*self._before(buffer, self._first[0]), *self._first)
        if first:
            yield _Region(0, min(buffer.high, HEAD), 0, 1)
        if over:
            yield _Region(max(0, buffer.high - self._width), buffer.high, buffer.high, number)

    def _before(self, buffer: Buffer, at: int) -> tuple[int, int]:
        """The surroundings of an event that matters: most of them before it."""
        return max(buffer.low, at - self._width), min(buffer.high, at + REACH)

    def _keep_surroundings(self, buffer: Buffer) -> None:
        """Keep what stands around the last event of a block: it may be the last one in the file."""
        if self._latest:
            at, line = self._latest
            low, high = max(buffer.low, at - REACH), min(buffer.high, at + REACH)
            high = high if high == buffer.high else buffer.data.rfind(b"\n", at, high) + 1 or high  # no line cut off
            self._kept = (bytes(buffer.data[low:high]), at - low, line)

    def _parse_kept(self, buffer: Buffer) -> None:
        """Parse what was kept around the last event."""
        if self._kept:
            content, at, line = self._kept
            around = buffer.like(content)
            self._parse_regions(around, [_Region(0, len(content), at, line)])
            around.forget()  # lines and buffer hold each other

    def _parse_last_calls(self, buffer: Buffer) -> None:
        for number, content in self._last_calls.kept_lines():
            around = buffer.like(content)
            self._pinned.add(number)
            self._parse(around, 0, len(content), number, self._literals.held_by([content]), 0)
            around.forget()

    def _parse_whole(self, buffer: Buffer) -> None:
        """Parse lines of a small file; where some are left out, more of those before the first event that matters."""
        candidates = _Candidates.searched(self._literals, buffer, 0, buffer.high)
        chosen = candidates.chosen(self._most_of_small)
        if self._first and len(chosen) < len(candidates.offsets):
            low, high = self._before(buffer, self._first[0])
            skipped = bisect_left(candidates.offsets, low)
            more = candidates.within(low, high).chosen(self._most_before_event)
            chosen = sorted({*chosen, *(skipped + index for index in more)})
        self._parse_chosen(buffer, candidates, chosen, 1)

    def _parse_regions(self, buffer: Buffer, regions: Sequence[_Region]) -> None:
        """Parse some lines of each region; those that overlap are searched once."""
        for several in _overlapping(regions):
            low, high = several[0].low, max(region.high for region in several)
            candidates = _Candidates.searched(self._literals, buffer, low, high)
            for region in several:
                own = candidates.within(region.low, region.high)
                number = region.number - buffer.count_line_ends(region.low, region.at)
                self._parse_chosen(buffer, own, own.chosen(self._most), number)

    def _parse_chosen(self, buffer: Buffer, candidates: _Candidates, chosen: Sequence[int], number: int) -> None:
        """Parse the candidates with these indices; the first line of the region has this ``number``."""
        done = counted = candidates.low
        found: list[tuple[int, int, int]] = []  # where lines begin and end, and their numbers
        pieces: list[bytes] = []
        for offset in map(candidates.offsets.__getitem__, chosen):
            if offset < done:
                continue
            number += buffer.count_line_ends(counted, offset)
            counted = offset
            start, end, _ = buffer.bounds(offset, done)
            done = max(end, offset + 1)
            found.append((start, done, number))
            pieces.append(bytes(buffer.data[start:end]))
        held = self._literals.held_by(pieces)
        for index, (start, done, number) in enumerate(found):
            cuts = buffer.pieces(start, done) if held[index] else []
            for a, b in cuts if len(cuts) < 2 else (cuts[0], cuts[-1]):
                self._parse(buffer, a, b, number, held, index)

    def _parse(self, buffer: Buffer, start: int, end: int, number: int, held: Held, index: int) -> None:
        for line in buffer.lines(start, end, number):
            key = (number, line.record, hash(line.raw))  # regions overlap
            if key in self._seen:
                continue
            self._seen.add(key)
            for event in self._offer(line, held.owners(index, line.raw, line.body)):
                about = (line.mark.stream, event.kind, str(event.rank), str(getattr(event, "label", "")))
                self._found.append(_Found(number, about, event))

    def sampled_lines(self) -> set[int | None]:
        """The lines on which something was found so far."""
        return {found.line for found in self._found}

    def sampled_events(self) -> list[Event]:
        """The events in the order of their lines; beyond :data:`MOST_EVENTS` some are left out."""
        sampled = sorted(self._found, key=attrgetter("line"))
        if len(sampled) > MOST_EVENTS:
            last = {x.writer: i for i, x in enumerate(sampled)}
            first = {x.writer: i for i, x in reversed(list(enumerate(sampled)))}
            keep = {*first.values(), *last.values(), *(i for i, x in enumerate(sampled) if x.line in self._pinned)}
            room = max(1, MOST_EVENTS - len(keep))
            keep.update(range(0, len(sampled), -(-len(sampled) // room)))
            sampled = [sampled[i] for i in sorted(keep)]
        return [x.event for x in sampled]


class _Region(Struct, frozen=True, order=True):
    """The bytes ``[low, high)`` of a buffer; the line at offset ``at`` has this ``number``."""

    low: int
    high: int
    at: int
    number: int


def _overlapping(regions: Iterable[_Region]) -> Iterator[list[_Region]]:
    """The regions in their order, those that overlap together."""
    several: list[_Region] = []
    for region in sorted(regions):
        if several and region.low >= max(one.high for one in several):
            yield several
            several = []
        several.append(region)
    if several:
        yield several


class _Candidates(Struct, frozen=True):
    """The lines of a region that may hold a literal, an offset on each; its rarest literal is its kind.

    ``low`` is where the region begins.
    """

    low: int
    offsets: list[int]
    kinds: list[int]

    @classmethod
    def searched(cls, literals: Literals, buffer: Buffer, low: int, high: int) -> _Candidates:
        """Search ``[low, high)``; of a line without end each stretch counts as one."""
        with memoryview(buffer.data) as view:
            hits = sorted(literals.hits_by_kind(view[low:high]))
        counts = Counter(map(itemgetter(1), hits))
        offsets: list[int] = []
        kinds: list[int] = []
        stop, cut = -1, min(low + REACH // 2, high)  # of the line and of the stretch of the hit before
        for start, kind in hits:
            at = low + start
            if at > stop:
                while cut < at:
                    cut = min(cut + REACH // 2, high)
                stop = buffer.data.find(b"\n", at, cut)
                stop = cut if stop < 0 else stop
                offsets.append(at)
                kinds.append(kind)
            elif counts[kind] < counts[kinds[-1]]:
                offsets[-1], kinds[-1] = at, kind
        return cls(low, offsets, kinds)

    def within(self, low: int, high: int) -> _Candidates:
        """Those in the bytes ``[low, high)``."""
        first, last = bisect_left(self.offsets, low), bisect_left(self.offsets, high)
        return _Candidates(low, self.offsets[first:last], self.kinds[first:last])

    def chosen(self, most: int) -> list[int]:
        """The indices of at most ``most`` of them.

        Half are some of every kind, so that no rare one is lost among the steps; the others are chosen by their order.
        """
        count = len(self.offsets)
        if count <= most:
            return list(range(count))
        room, by_kind = most // 2, defaultdict[int, list[int]](list)
        for index, kind in enumerate(self.kinds):
            by_kind[kind].append(index)
        rarest_first = sorted(by_kind.items(), key=lambda entry: (len(entry[1]), entry[0]))
        chosen: set[int] = set()
        for left, (_, indices) in zip(range(len(rarest_first), 0, -1), rarest_first, strict=True):
            own = _thinned(indices, room // left)
            chosen.update(own)
            room -= len(own)
        others = [index for index in range(count) if index not in chosen]
        return sorted(chosen.union(_thinned(others, most - len(chosen))))


def _thinned(places: list[int], most: int) -> list[int]:
    """At most ``most`` places: the first sixth, the last two thirds, and evenly chosen ones between."""
    count = len(places)
    if count <= most:
        return places
    head, tail = most // 6, -(-most * 2 // 3)
    between = most - head - tail
    apart = (count - tail - head) / between if between else 0.0
    middle = [places[int(k * apart + head)] for k in range(between)]
    return [*places[:head], *middle, *places[count - tail :]]
