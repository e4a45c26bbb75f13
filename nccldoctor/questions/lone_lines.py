"""What one rank printed before the wait and none of its peers: the line that often explains a hang.

Rank 2 prints *loss=nan, batch skipped* and all others only their steps; or all print *micro-batch 12 shape (8, 512)*, and rank 2
*(3, 512)*. Lines are compared by their templates, over the last lines of each log before the first complaint. What a rank prints again
and again, as rank 0 does its summaries, is its habit and no sign; what it prints before its first step is none either.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cached_property
from itertools import islice, pairwise

from msgspec import Struct

from nccldoctor.align.facts import Facts
from nccldoctor.events import Absence, Event, Heartbeat, Note, Phase, Progress, Writer
from nccldoctor.model import CauseClass, Finding, OnlyHere, Place, Printed, SourceKind
from nccldoctor.model.excerpts import Excerpts, SourceLine
from nccldoctor.model.ranks import Ranks
from nccldoctor.parsers.base import Mark
from nccldoctor.parsers.engine.forms import form_of
from nccldoctor.parsers.engine.templates import (
    NO_VALUES,
    is_of_course,
    kind_of,
    template_of,
    values_of,
)
from nccldoctor.parsers.line_prefix.labels import reader_of
from nccldoctor.parsers.line_prefix.prefixes import records

MOST_BLAMED, MOST_PEERS = 4, 12
"""Ranks whose last lines are compared."""

OF_BLAMED, OF_PEER, OF_MANY = 1_200, 400, 4_000
"""Last lines that are read of a blamed rank's own file, of a peer's, and of one with several writers."""

MOST_BYTES = 256 << 20
"""Bytes of files that are opened again, all together."""

NEAR, LAST = 60, 16
"""Last lines of a rank among which the telling one stands, and lines of one template whose values are compared."""

REGULAR = 3
"""Times that a rank prints a line of its steps; and lines that never come again which show a rank to print free text."""

TOLD = 2
"""The weight of a line behind which its rank printed nothing that others print too."""

SHORTEST = 24
"""Characters of a template that name a line, also where it is cut or has a prefix of its own."""

FEWEST = 24
"""Values of peers of which none is a zero, or None, so that such a one deviates."""

_SIGNS = frozenset({"batch-skipped", "loss-nan", "overflow", "module-order", "loader-died", "loader-timeout"})
_SHOWN_BY_ERRORS = frozenset({CauseClass.NONE, CauseClass.HARDWARE, CauseClass.NETWORK, CauseClass.RAISED})
_NO_WORK = frozenset({"starting", "ready", "epoch-end"})


class LastLinesOfRanks(Struct, frozen=True):
    """Whose last lines are compared, and which lines of which source these are; nothing where nobody is blamed or heard."""

    facts: Facts
    blamed: Ranks
    peers: Ranks
    writers: Mapping[int, frozenset[int]]
    wanted: Mapping[int, range]

    def lone(self, excerpts: Excerpts) -> tuple[OnlyHere, ...]:
        """The most telling line of each blamed rank that no peer printed, if there is one; the most telling first."""
        events: dict[int, dict[int | None, Event]] = {source: {} for source in self.wanted}
        for event in self.facts.case.events:
            if event.place.source in events:
                events[event.place.source][event.place.line] = event
        said: dict[int | None, list[_Said]] = defaultdict(list)
        for source, numbers in self.wanted.items():
            for line in self._said(source, excerpts.between(source, numbers.start, numbers.stop - 1), events[source]):
                said[line.rank].append(line)
        lines = {rank: _Lines(of_rank) for rank, of_rank in said.items() if rank is not None}
        unsigned = {line.template for line in said[None]}
        hosts = frozenset(self.facts.case.rank_host.values())
        found = []
        for rank in self.blamed & lines.keys():
            others = {r: each for r, each in lines.items() if r != rank}
            peers = {r: each for r, each in others.items() if lines[rank].by_template.keys() & each.by_template.keys()}
            known = unsigned.union(*(each.by_template for each in others.values()))
            telling = (pair for pair in _telling(rank, lines[rank], peers, known) if pair[1].token not in hosts)
            found += [max(telling, key=lambda pair: pair[0], default=None)] if peers else []
        return tuple(one for _, one in sorted(filter(None, found), key=lambda pair: pair[0], reverse=True))

    def _said(self, source: int, lines: Sequence[SourceLine], events: Mapping[int | None, Event]) -> Iterator[_Said]:
        """The lines of one file with their writers. Lines that differ in digits alone have one template."""
        own = self.writers[source]
        alone = next(iter(own)) if len(own) == 1 else None
        path = next(each.path for each in self.facts.case.sources if each.id == source)
        block = "\n".join(line.text for line in lines).encode("utf-8", "replace")
        read = records if alone is not None else reader_of(block)
        forms: dict[tuple[bytes, int], tuple[int, str, bool, bool]] = {}
        ranks: dict[str, int] = {}  # by what the prefix tells of the writer
        for line, digitless in zip(lines, form_of(block).split(b"\n"), strict=False):  # of no lines the block is one
            form, mark, message, event = (digitless, len(line.text)), Mark(), "", events.get(line.number)
            if alone is None or form not in forms:
                mark, message = read(line.text)[-1]
            if form not in forms:
                of_stack = message[:1].isspace() or message.startswith(("Traceback (", "frame #"))
                aside = mark.is_native or " NCCL " in line.text or of_stack
                is_loud = (mark.severity or "I") in "WEF"
                forms[form] = (len(line.text) - len(message), template_of(message), is_loud, aside)
            front, template, is_loud, is_aside = forms[form]
            rank = mark.rank if mark.rank is not None else event.rank if event is not None else None
            if rank is not None and mark.stream:
                ranks.setdefault(mark.stream, rank)
            rank = alone if alone is not None else ranks.get(mark.stream) if rank is None else rank
            place = Place(source, path, line.number)
            above = any(isinstance(events.get(line.number + n), Absence) for n in (1, 2))
            is_aside = is_aside or above or _is_spoken_of(event)
            yield _Said(rank, place, line.text[front:].strip(), template, event, is_loud, is_aside)


def last_lines_of_ranks(facts: Facts, finding: Finding) -> LastLinesOfRanks:
    """The last lines of the blamed ranks and of some peers before the first complaint."""
    logs = {source.id: source for source in facts.case.sources if source.kind is SourceKind.LOG}
    ranks: dict[int, set[int]] = defaultdict(set)
    for event in facts.case.events:
        if event.rank is not None and event.place.source in logs and event.written_by is Writer.RANK:
            ranks[event.place.source].add(event.rank)
    writers = {i: frozenset(ranks[i] if log.rank is None else {log.rank}) for i, log in logs.items()}
    heard = Ranks(rank for own in writers.values() for rank in own)
    blamed, is_asked = finding.blamed, finding.cause not in _SHOWN_BY_ERRORS
    peers = heard - blamed
    peers = Ranks(sorted(peers, key=lambda rank: rank not in finding.inside | finding.victims)[:MOST_PEERS])
    totals = {reading.source: reading.lines for reading in facts.case.readings}
    wanted: dict[int, range] = {}
    left = MOST_BYTES if blamed & heard and peers and is_asked and len(blamed) <= MOST_BLAMED else -1
    for i in sorted(logs, key=lambda i: not writers[i] & blamed):
        if writers[i] & (blamed | peers) and logs[i].size <= left:
            left -= logs[i].size
            end = facts.liveness.alarmed.get(i, totals.get(i, 0) + 1)
            many = OF_MANY if len(writers[i]) > 1 else OF_BLAMED if writers[i] & blamed else OF_PEER
            wanted[i] = range(max(1, end - many), end)
    return LastLinesOfRanks(facts, blamed, peers, writers, wanted)


class _Said(Struct, frozen=True):
    """One line: its writer (None: not known), its message, and how it reads.

    ``event`` is what parsers found in it; ``is_loud`` where its logger warns. ``is_aside`` is true of what tells nothing of the work:
    lines of native code, of tracebacks, of errors that other evidence holds, and heads of reports about ranks.
    """

    rank: int | None
    place: Place
    message: str
    template: str
    event: Event | None
    is_loud: bool
    is_aside: bool

    @property
    def is_activity(self) -> bool:
        """True where the rank begins something outside the step, or ends its training."""
        if isinstance(self.event, Phase):
            return not self.event.is_over and self.event.what not in _NO_WORK
        return isinstance(self.event, Progress) and not self.event.is_step


def _is_spoken_of(event: Event | None) -> bool:
    """True of a line of which other rules speak: an error, a report, what its launcher or another rank wrote."""
    return event is not None and not isinstance(event, Note | Phase | Progress | Heartbeat)


class _Lines(Struct, frozen=True, dict=True):
    """The last lines of one rank, in order."""

    said: Sequence[_Said]

    @cached_property
    def by_template(self) -> Mapping[str, list[int]]:
        """Where the lines of each template stand."""
        found: dict[str, list[int]] = defaultdict(list)
        for at, line in enumerate(self.said):
            found[line.template].append(at)
        return found

    def first_regular(self, known: Set[str]) -> int | None:
        """Where the first line stands that peers and this rank print again and again: the set-up is before it."""
        regular = [at[0] for t, at in self.by_template.items() if len(at) >= REGULAR and t in known]
        return min(regular, default=None)

    def how_telling(self, at: int, known: Set[str], near: int) -> int:
        """How telling a line of one rank alone is; 0 for a habit and for no work."""
        line = self.said[at]
        shared = [place for place, said in enumerate(self.said) if said.template in known]
        start, is_last = self.first_regular(known), not shared or at > shared[-1]
        is_known = isinstance(line.event, Note) and line.event.what in _SIGNS  # a course of its own
        is_sign = is_known or (line.is_activity and is_last)
        runs = len({bisect_left(shared, place) for place in self.by_template[line.template]})
        behind_error = is_last and any(
            _is_spoken_of(said.event) for said in self.said[shared[-1] + 1 if shared else 0 : at]
        )
        if behind_error or runs > (1 if not is_sign else REGULAR if is_known else len(self.said)):
            return 0
        is_of_first = line.rank == 0 and (start is None or not (is_last or line.is_loud))
        is_plain = is_of_first or not is_of_course(line.template) or self._is_free_text(at, known, near)
        return 0 if is_plain and not is_sign else 1 + 3 * is_sign + line.is_loud + TOLD * is_last

    def _is_free_text(self, at: int, known: Set[str], near: int) -> bool:
        """True where many lines begin as this one and go on in new words, as texts of a model do."""
        words = [said.template.split() for said in self.said]
        front = next((n for n, column in enumerate(zip(*words, strict=False)) if len(set(column)) > 1), 0)
        first = self.first_regular(known) or 0
        once = (p[0] for t, p in self.by_template.items() if t not in known and len(p) == 1 and first < p[0] < near)
        return sum(words[place][front : front + 1] == words[at][front : front + 1] for place in once) >= REGULAR

    def columns(self, template: str) -> list[list[str]]:
        """What fills each hole in the last lines of a template."""
        rows = (values_of(self.said[at].message) for at in self.by_template.get(template, ())[-LAST:])
        return [list(column) for column in zip(*rows, strict=False)]  # a prefix cut one sign off may cost a hole


def _telling(
    rank: int, own: _Lines, peers: Mapping[int, _Lines], known: set[str]
) -> Iterator[tuple[tuple[int, int], OnlyHere]]:
    """The lines of a rank that nobody else has or that deviate, each with how telling it is."""
    compared, end = Ranks([rank, *peers]), len(own.said)
    near = range(max(own.first_regular(known) or 0, end - NEAR, 0), end)
    templates = {own.said[at].template: at for at in near if not own.said[at].is_aside}
    for at in templates.values():
        line = own.said[at]
        if not _is_printed_in(known, line.template) and (weight := own.how_telling(at, known, near.start)):
            yield (weight, at), OnlyHere(rank, line.place, line.message, "", _last_of(peers), compared)
    for template in templates.keys() & known:
        of_peers = [columns for lines in peers.values() if (columns := lines.columns(template))]
        places = own.by_template[template]
        for column, *theirs in zip(own.columns(template), *of_peers, strict=False) if of_peers else ():
            back = _lost_value(column, theirs) or _other_turn(column, theirs, is_first=rank == 0)
            signed = (
                sum(column[-back] in said.message for said in own.said) if back else 0
            )  # the rank, its host or its process
            if back and (at := places[-back]) in near and 2 * signed <= len(own.said):
                line, weight = own.said[at], 4 + (kind_of(column[-back]) in NO_VALUES)
                alike = _last_of(peers, template)
                yield (weight, at), OnlyHere(rank, line.place, line.message, column[-back], alike, compared)


def _is_printed_in(known: Set[str], template: str) -> bool:
    """True where others print a line too, or it without its end, or behind another prefix."""
    parts = (other in template or template in other for other in known if min(len(other), len(template)) >= SHORTEST)
    return template in known or any(parts)


def _last_of(peers: Mapping[int, _Lines], template: str | None = None) -> tuple[Printed, ...]:
    """The last line of a template, or about its work, of the first peer that has one."""
    said = (line for lines in peers.values() for line in reversed(lines.said))
    found = (x for x in said if (not x.is_aside if template is None else x.template == template))
    return tuple(Printed(line.place, line.message) for line in islice(found, 1))


def _lost_value(column: Sequence[str], of_peers: Sequence[Sequence[str]]) -> int | None:
    """1 where the last value is none, or zero, and no peer has such a one."""
    kind, kinds = kind_of(column[-1]), Counter(kind_of(value) for values in of_peers for value in values)
    is_habit = len(column) > REGULAR and len({kind_of(value) for value in column}) == 1
    if kind in ("nan", "inf"):
        return None if kinds[kind] else 1
    is_odd = not kinds[kind] and kinds.total() >= FEWEST and not is_habit
    return 1 if is_odd and (kind in NO_VALUES or (kind == "zero" and kinds.keys() == {"number"})) else None


def _other_turn(column: Sequence[str], of_peers: Sequence[Sequence[str]], *, is_first: bool) -> int | None:
    """How many lines back the rank printed a value that no peer did; None where it printed none.

    Numbers go on as they like, so that a number counts only where it never changed before. Of values that never change one that stands
    for the rank itself differs among the peers as well.
    """
    everything = {value for values in of_peers for value in values}
    constant = next(iter(everything)) if len(everything) == 1 and len(of_peers) > 1 else None
    for back in range(1, min(len(column), REGULAR) + 1):
        value, before = column[-back], column[-back - 1 : -back]
        kind = kind_of(value)
        if value in everything or kind == "address":
            continue
        if kind in ("number", "zero"):
            is_whole = "." not in value and ":" not in value
            if constant and is_whole and len(column) - back >= REGULAR and set(column[:-back]) == everything:
                return back
        elif set(before) & everything:
            turns = [{b for a, b in pairwise(values) if [a] == before} for values in of_peers]
            if len(set().union(*turns)) == 1 and sum(map(bool, turns)) > (before[0] not in set().union(*turns)):
                return back
        elif constant and not is_first and len(column) < REGULAR and kind_of(constant) == kind:
            return back
    return None
