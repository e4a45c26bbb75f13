"""Bytes in, events out: one literal search over the whole file, then the parsers on the lines that were hit.

Memory is one buffer of about 5 MB whatever the file; see ``window.py`` for lines and their neighbours, ``sampling.py``
for the parsers whose literals are common in healthy logs.
"""

from __future__ import annotations

import functools
import sys
from collections import deque
from collections.abc import Sequence
from typing import BinaryIO

from msgspec.structs import replace

from nccldoctor.events import Event, ExceptionRaised, Note, ProcessId, Writer
from nccldoctor.model import Gap, Source, SourceRole
from nccldoctor.parsers import registry
from nccldoctor.parsers.base import Line, LineParser, Parsed, common
from nccldoctor.parsers.broken_lines import rejoin
from nccldoctor.parsers.engine.deduplicate import with_groups, without_repetitions
from nccldoctor.parsers.engine.effort import Effort
from nccldoctor.parsers.engine.encodings import Reader, WithHead, as_utf8
from nccldoctor.parsers.engine.forms import Forms
from nccldoctor.parsers.engine.holes import RecordParts
from nccldoctor.parsers.engine.literals import Held, Literals, literals_of
from nccldoctor.parsers.engine.repetitions import Repetitions
from nccldoctor.parsers.engine.retention import Retention
from nccldoctor.parsers.engine.sampling import Sampler
from nccldoctor.parsers.engine.unexplained import LAST_KEPT, first_marked, is_failure_like, is_no_message, unexplained
from nccldoctor.parsers.engine.window import REACH, Buffer, Outer
from nccldoctor.parsers.kernel.prefix import is_kernel_log
from nccldoctor.parsers.line_prefix.labels import Labels, behind_label, has_labels
from nccldoctor.parsers.line_prefix.rank_labels import rank_label
from nccldoctor.parsers.python.tracebacks import is_code_in_traceback

FIRST = 64 << 10
"""Bytes asked for at once while it is not known how large a file is: most files of a large job are small."""
BLOCK = 4 << 20
HISTORY = 1 << 20
_AT_ONCE = 512
"""Lines whose forms are made at once."""

_LINES_ABOVE, _MOST_BOUNDED = 40, 8
"""Lines above an exception without a time that may have one, and exceptions of a file for which it is looked for."""

_MOST_INTRODUCED = 256
"""Processes whose prefixes are looked at."""

_RECENT = 64
"""Events among which one of a line near the newest stands."""

UNSHARED = Effort()
"""What a file may cost that is read alone."""


def scan(
    source: Source,
    stream: BinaryIO,
    parsers: Sequence[LineParser] | None = None,
    effort: Effort = UNSHARED,
    outer: Outer | None = None,
) -> Parsed:
    """Read ``stream`` to its end and hand back what ``parsers`` (default: every line parser) recognise in it.

    ``effort`` bounds what close looks at the file may cost, and what is kept of it. ``outer`` says what the record around a line tells
    of its writer.
    Events come in the order of their lines. Bytes that are no UTF-8 are shown as escapes; UTF-16 is recognised. A
    parser that fails on a line costs that line only and is told as a Gap.
    """
    chosen = tuple(registry.line_parsers() if parsers is None else parsers)
    reader = as_utf8(stream)
    out = bytearray()
    with memoryview(bytearray(FIRST)) as piece:
        while len(out) <= effort.mended and (got := reader.readinto(piece)):
            out += piece[:got]
    content = bytes(out)
    whole = parsers is None and len(content) <= effort.mended
    mended = without_breaks(source, content, effort.trials) if whole else None
    if mended is None:
        return _scan_content(source, content, chosen, effort, reader, outer=outer)
    numbers = mended.lines
    around = None if outer is None else (lambda line: outer(int(numbers[min(line, len(numbers)) - 1])))
    parsed = _scan_content(source, mended.content, chosen, effort, outer=around)
    return replace(parsed.with_lines(numbers.tolist()), lines=int(numbers[-1]) - mended.content.endswith(b"\n"))


def without_breaks(source: Source, content: bytes, trials: int) -> rejoin.Mended | None:
    """The content with its broken lines joined, judged by all parsers; None where nothing had to be."""
    words = _sampled_apart(tuple(registry.line_parsers()))[0]
    is_labelled: bool | None = None

    def read(part: bytes) -> Sequence[Event]:
        nonlocal is_labelled
        is_labelled = has_labels(content[:REACH]) if is_labelled is None else is_labelled
        return _scan_content(source, part, words.parsers, UNSHARED, is_labelled=is_labelled).events

    return rejoin.mend(content, words, read, trials)


def _scan_content(
    source: Source,
    content: bytes,
    parsers: tuple[LineParser, ...],
    effort: Effort,
    rest: Reader | None = None,
    is_labelled: bool | None = None,
    outer: Outer | None = None,
) -> Parsed:
    """The events in ``content`` and the rest of the stream, through a buffer no larger than needed.

    ``is_labelled`` says of a piece of a file that the whole file carries labels, or none.
    """
    state = _Scan(source, parsers, effort, min(len(content) + 1, HISTORY + BLOCK))
    state.is_labelled = is_labelled
    state.buffer.outer = outer
    try:
        return state.run(WithHead(content, rest))
    finally:
        state.close()


@functools.lru_cache(maxsize=16)
def _sampled_apart(parsers: tuple[LineParser, ...]) -> tuple[Literals, tuple[LineParser, ...]]:
    """The search for the parsers that see every line, and the others."""
    return literals_of(tuple(p for p in parsers if not p.sampled)), tuple(p for p in parsers if p.sampled)


class _Scan:
    """One pass over a stream: the buffer, the parsers, and the events so far."""

    def __init__(self, source: Source, parsers: tuple[LineParser, ...], effort: Effort, size: int) -> None:
        self.source = source
        self.is_labelled: bool | None = None  # None: the beginning tells
        self.is_whole = parsers == tuple(registry.line_parsers())
        self.is_of_one_rank = source.rank is not None or source.local_rank is not None
        self.bounded = 0  # exceptions without a time above which a dated line was looked for
        self.literals, others = _sampled_apart(parsers)
        self.sampler = Sampler(others, self.offer, effort.sampled, one_writer=source.rank is not None)
        self.labels = Labels()
        self.forms = Forms(self.literals)
        self.repetitions = Repetitions()
        self.buffer = Buffer(source, size)
        self.events = Retention(effort.room)
        self.gaps: dict[str, Gap] = {}
        self.counted, self.number = 0, 1  # offset up to which line ends are counted, and the number of the line there
        self.not_understood = 0
        self.told_ahead: set[int | None] = set()  # lines whose event began on an earlier one, as that of a traceback
        self.unknown: Line | None = None  # the first of them
        self.failure_like: deque[Line] = deque(maxlen=LAST_KEPT)
        self.parts = RecordParts()
        self.introduced: list[ProcessId] = []

    def run(self, reader: Reader) -> Parsed:
        """Read block after block to the end of the stream."""
        buffer = self.buffer
        done, first = 0, True
        while True:
            with memoryview(buffer.data) as view:
                while buffer.high < len(view) and (got := reader.readinto(view[buffer.high :])):
                    buffer.high += got
            over = buffer.high < len(buffer.data)
            head = bytes(buffer.data[: min(buffer.high, REACH)]) if first else b""
            if has_labels(head) if self.is_labelled is None else self.is_labelled:
                buffer.read = behind_label
                self.labels.study(head)
            elif first and self.is_labelled is self.source.rank is self.source.local_rank is None:
                tail = bytes(buffer.data[max(len(head), buffer.high - REACH) : buffer.high])
                buffer.read = rank_label(head + tail) or buffer.read
            if first and self.is_whole:
                self._introduce(head)
            limit = buffer.high
            if not over:  # up to where every hit has its neighbours in the buffer; behind a line end if possible
                limit = buffer.data.rfind(b"\n", done, buffer.high - REACH) + 1 or buffer.high - REACH
            self.sampler.before_block(buffer, first, over)
            self.sampler.gather_calls(buffer, done, limit, self._line_number_at(done))
            self._scan_block(done, limit)
            self.sampler.after_block(buffer, self.number, first, over)
            if over:
                break
            done, first = self._shift(limit), False
        lines = self.number - (buffer.high == 0 or buffer.data[buffer.high - 1] == 0x0A)
        self._note_last_line()
        return self._result(lines)

    def _introduce(self, head: bytes) -> None:
        """Note the ranks of processes that prefixes name near the beginning: rank 2 of 2303 in ``(Worker_TP2 pid=2303)``."""
        met = set[bytes]()
        start = 0
        for number, raw in enumerate(head.split(b"\n") if b"pid=" in head else (), 1):
            at = raw.find(b"pid=")
            prefix = raw[raw.rfind(b"(", 0, at) : raw.find(b")", at)] if at > 0 else b""
            if prefix and prefix not in met and len(met) < _MOST_INTRODUCED:
                met.add(prefix)
                lines = self.buffer.lines(start, start + len(raw), number)
                self.introduced += [ProcessId(**common(x)) for x in lines if None not in (x.mark.rank, x.mark.pid)]
            start += len(raw) + 1

    def _note_last_line(self) -> None:
        """Note the last line of a file of one rank, if it has a time: the rank was alive then."""
        buffer = self.buffer
        low = max(buffer.low, buffer.high - REACH)
        end = low + len(buffer.data[low : buffer.high].rstrip())
        if self.is_of_one_rank and end > buffer.low:
            number = self.number - buffer.data.count(b"\n", end, buffer.high)
            self._keep_note(self._dated_line(end, number), "last-line")

    def _note_first_error(self) -> None:
        """Note the first line that its program marks as an error, above all that tell of trouble. Kernels and code mark others."""
        buffer, known = self.buffer, self.events.kept
        is_of_job = self.source.kind.role is SourceRole.OUTPUT and not any(e.written_by is Writer.KERNEL for e in known)
        if self.is_whole and is_of_job and not is_kernel_log(bytes(buffer.data[: min(buffer.high, REACH)])):
            first = self.number - buffer.count_line_ends(0, self.counted)
            trouble = min((e.place.line or 0 for e in known if e.is_trouble), default=sys.maxsize)
            self._keep_note(first_marked(buffer, first, trouble), "marked")

    def _note_line_above(self, start: int, number: int) -> None:
        """Note the nearest line with a time above an exception without one: it was not raised before."""
        dated, above = None, number - 1
        while dated is None and above > max(0, number - _LINES_ABOVE) and start - 1 > self.buffer.low:
            end = start - 1  # without the end of the line above
            dated = self._dated_line(end, above)
            start, above = self.buffer.data.rfind(b"\n", self.buffer.low, end) + 1, above - 1
        self._keep_note(dated, "line-above")

    def _dated_line(self, end: int, number: int) -> Line | None:
        """The line that ends there, where it has a time."""
        buffer = self.buffer
        start = max(buffer.data.rfind(b"\n", max(buffer.low, end - REACH), end) + 1, buffer.low)
        dated = [e for e in buffer.lines(start, end, number)[-1:] if (e.mark.time or e.mark.collected) is not None]
        return dated[0] if dated else None

    def _keep_note(self, line: Line | None, what: str) -> None:
        """Keep a line that has no event of its own."""
        has_event = line is not None and any(e.place.line == line.place.line for e in self.events.kept[-_RECENT:])
        if line is not None and not has_event and line.body.strip():
            self.events.retain([Note(**common(line), what=what, detail=line.body.strip()[:200])])

    def close(self) -> None:
        """Break the circle of buffer and lines: the garbage collector is off while files are read."""
        self.buffer.forget()
        del self.sampler

    def _shift(self, done: int) -> int:
        """Move what is still needed to the front of the buffer; returns where the unread part begins."""
        buffer = self.buffer
        away = max(0, done - HISTORY)
        with memoryview(buffer.data) as data:
            data[: buffer.high - away] = data[away : buffer.high]
        buffer.high -= away
        self.counted -= away
        buffer.forget()
        return done - away

    def _line_number_at(self, upto: int) -> int:
        """The number of the line at this offset; offsets must not decrease."""
        self.number += self.buffer.count_line_ends(self.counted, upto)
        self.counted = upto
        return self.number

    def _scan_block(self, done: int, limit: int) -> None:
        """Scan the lines that a literal hits in ``[done, limit)``."""
        self.parts.count(self.buffer.data, done, limit)
        with memoryview(self.buffer.data) as view:
            hits = self.literals.hits(view[done : min(self.buffer.high, limit + self.literals.longest)])
        lines = self.buffer.hit_lines(hits, done, limit)
        # a literal in a line without end may have begun before
        resume = max(self.buffer.low, done - self.literals.longest)
        around = self.repetitions.forms_in(self.buffer.data, lines, done, limit)
        for first in range(0, len(lines.starts), _AT_ONCE):
            pieces = lines.pieces[first : first + _AT_ONCE]
            forms = self.forms.forms_of(pieces)
            counts = self.forms.sure_outcomes(forms)
            self.not_understood += sum(filter(None, counts))
            unknown = [index for index, count in enumerate(counts) if count is None]
            held = self.literals.held_by([pieces[index] for index in unknown])
            for place, index in enumerate(unknown):
                start = lines.starts[first + index]
                if (inside := lines.odd.get(first + index)) is not None:
                    resume = self._scan_long_line(inside, self._line_number_at(start), resume, limit)
                elif not held[place]:
                    continue
                elif (count := self.forms.outcome(forms[index])) is not None:
                    self.not_understood += count
                else:
                    end, number, repeated = (
                        start + len(pieces[index]),
                        self._line_number_at(start),
                        around.get(start),
                    )
                    if (passed := self.repetitions.passed_over(repeated)) is not None:
                        self.events.pass_over(passed, number)
                        continue
                    events = self._scan_piece(start, end, number, held, place, forms[index])
                    self.repetitions.note_outcome(repeated, events)
        self._line_number_at(limit)

    def _scan_long_line(self, hits: list[int], number: int, resume: int, limit: int) -> int:
        """Scan the pieces of a line that is long or redraws itself; returns where the last one ends."""
        buffer = self.buffer
        for at in hits:
            if at < resume or at >= limit:
                continue
            begin, end, _ = buffer.bounds(at, resume)
            start = max(begin, buffer.data.rfind(b"\r", begin, at) + 1)
            cut = buffer.data.find(b"\r", at, end)
            end = end if cut < 0 else cut
            held = self.literals.held_by([bytes(buffer.data[start:end])])
            if held[0]:
                self._scan_piece(start, end, number, held)
            resume = max(end, at + 1)
        return resume

    def _scan_piece(
        self, start: int, end: int, number: int, held: Held, index: int = 0, form: bytes = b""
    ) -> list[Event]:
        """The events in ``[start, end)`` of the line with this number; ``index`` is its place in ``held``."""
        found = list[Event]()
        lines = self.buffer.lines(start, end, number)
        owners = held.owners(index, lines[0].raw, lines[0].raw) if lines else []
        for line in lines if owners else ():
            if is_code_in_traceback(line):
                continue
            events = self.offer(line, owners)
            if events:
                is_undated = any(isinstance(e, ExceptionRaised) and e.time is None for e in events)
                if self.bounded < _MOST_BOUNDED and is_undated:
                    self.bounded += 1
                    self._note_line_above(start, number)
                self._keep(events)
                found += events
                self.told_ahead.update([e.place.line for e in events if e.place.line != line.place.line])
                self.sampler.note_events(self.buffer, start, number, events)
                continue
            if len(lines) > 1 and not self.literals.owners(line.body):
                continue  # a progress bar in front of the line that matters
            if self._is_told(line, owners):
                continue
            count = self._count_fruitless(line)
            if form and len(lines) == 1:
                self.forms.note_fruitless(line, form, count)
        return found

    def _is_told(self, line: Line, owners: Sequence[LineParser]) -> bool:
        """True of a line without an event that belongs to the record of another."""
        if line.place.line in self.told_ahead:
            self.told_ahead.discard(line.place.line)
            return True
        try:
            return any(parser.is_told_elsewhere(line) for parser in owners)
        except Exception:  # the same broken parser as in :meth:`offer`, which has told of it
            return False

    def _count_fruitless(self, line: Line) -> int:
        """Count a line on which no parser found anything, 1 or 0; keep it where it looks like a failure."""
        if is_no_message(line):
            return 0
        count = not self.sampler.has_progress(line)
        if count:
            self.not_understood += 1
            self.unknown = self.unknown or line
        if is_failure_like(line):
            self.failure_like.append(line)
        return int(count)

    def _keep(self, events: list[Event]) -> None:
        """Keep the events of a line; the labels of lines whose events were dropped go too."""
        self.events.retain(events)
        if len(self.labels) > 8 * self.events.room:
            lines = {event.place.line for event in self.events.kept}
            self.labels.forget_others(lines | self.sampler.sampled_lines())

    def offer(self, line: Line, owners: Sequence[LineParser]) -> list[Event]:
        """The events that these parsers find on a line, each once."""
        found: list[Event] = []
        for parser in owners:
            try:
                events = list(parser.parse(line))
            except Exception as error:  # one bad line, or one bad parser, must not cost the file
                name, why = type(parser).__name__, f"{type(error).__name__} at {line.place}"
                self.gaps.setdefault(name, Gap(f"lines of {name}", why, source=self.source.id))
                continue
            found += events if len(events) < 2 else [e for i, e in enumerate(events) if e not in events[:i]]
        self.labels.note(line, found)
        return found

    def _result(self, lines: int) -> Parsed:
        sampled = self.sampler.sampled_events()
        understood = self.events.lines_with(sampled)
        self._note_first_error()
        scanned = [*self.events.kept, *sampled]
        told = {(event.rank, event.pid) for event in scanned}
        scanned += [one for one in self.introduced if (one.rank, one.pid) not in told]
        order = sorted(range(len(scanned)), key=lambda i: (scanned[i].place.line or 0, i))
        events = with_groups(without_repetitions(self.labels.resolved([scanned[i] for i in order])))
        gaps = [*(self.gaps[name] for name in sorted(self.gaps)), *self.events.gaps(self.source)]
        if missing := self.parts.missing:
            why = f"lines are missing between others: {missing} are not whole"
            gaps.append(Gap(self.source.path, why, source=self.source.id, lost=True, odd=True, holes=True))
        return Parsed(
            self.source,
            events=tuple(events),
            gaps=tuple(gaps),
            lines=lines,
            candidates=understood + self.not_understood,
            understood=understood,
            first_unknown=self.unknown.raw.strip()[:300] if self.unknown else "",
            first_unknown_at=self.unknown.place if self.unknown else None,
            unexplained=tuple(unexplained(self.failure_like, events)),
        )
