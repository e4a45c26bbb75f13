"""Finds the group of lines that name none: one that something proves, else a group of their own.

Watchdogs before PyTorch 2.3 name no group, and up to 2.5 not in every line. Two such lines with one number may be of two groups, so
that they are compared only where something shows that they are of one.

Example: rank 0 gave up on #18 and on #5012. One watchdog gives up once, so that the job has several groups: nothing says which of them
counts #18, and rank 1 that gave up on #18 too may wait in another group.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from nccldoctor.events import CallTimeout, DumpSignal, Event, WorkStatus
from nccldoctor.identify.case import Case
from nccldoctor.identify.group_members import GATHERS
from nccldoctor.identify.groups import LineKey
from nccldoctor.model import Group
from nccldoctor.model.operations import NEEDS_ALL, op_type
from nccldoctor.model.ranks import Ranks

QUEUED = 64
"""Calls of one group that may wait behind each other when the first of them times out."""

FEWEST_IN_ROW = 3
"""Ranks that show by their places alone that they are of one group."""

_Identity = tuple[int, str | None, int | None]
"""A call as different ranks know it: number, operation, elements."""


def line_key(event: Event) -> LineKey | None:
    """What identifies the call of a line: rank, number, operation, elements. None where the line has no number."""
    if event.rank is not None and isinstance(event, CallTimeout) and event.seq is not None:
        return event.rank, event.seq, event.op, event.numel_in
    if event.rank is not None and isinstance(event, WorkStatus) and event.failed is not None:
        return event.rank, event.failed, None, None
    return None


def place_unnamed_lines(case: Case) -> Case:
    """Give each line that names no group a known one where something proves it, else one of its own."""
    lines = [e for e in (*case.of(CallTimeout), *case.of(WorkStatus)) if e.group is None]
    keys = list(dict.fromkeys(key for e in lines if (key := line_key(e)) is not None))
    if not keys:
        return case
    named = _named_calls(case)
    placed = _by_own_records(case, named, keys)
    placed |= _by_peers(case, placed | named, [key for key in keys if key not in placed])
    groups = list(case.groups)
    for key, group in _by_seats(case, placed | named, [key for key in keys if key not in placed]):
        placed[key], groups[group] = group, replace(groups[group], members=groups[group].members | [key[0]])
    placed |= {
        key: 0 for e in lines if (key := line_key(e)) is not None and key not in placed and _is_of_world(case, e)
    }
    left = [key for key in keys if key not in placed]
    if left and _can_be_one_group(case, lines, named):
        placed |= dict.fromkeys(left, 0)
        groups[0] = replace(groups[0], is_assumed=not named)
        left = []
    calls: dict[tuple[int, int], set[int]] = defaultdict(set)
    for key, group in placed.items():
        calls[key[:2]].add(group)
    for key in sorted(left, key=lambda key: (key[:2], key[2] is None)):  # the counters of a call after the call itself
        same = calls[key[:2]] if key[2] is None and len(calls[key[:2]]) == 1 else {len(groups)}
        placed[key] = min(same)
        if placed[key] == len(groups):
            groups.append(Group(len(groups), "", "", Ranks([key[0]]), "unnamed"))
        calls[key[:2]].add(placed[key])
    return replace(case, naming=replace(case.naming, all=tuple(groups), by_line=placed))


def _named_calls(case: Case) -> dict[LineKey, int]:
    """The calls of lines that name their group. A told rank prints the counters of the default group."""
    named: dict[LineKey, int] = {}
    for event in (*case.of(CallTimeout), *case.of(WorkStatus), *case.of(DumpSignal)):
        group, key = case.naming.find(event.group, event.rank), line_key(event)
        if isinstance(event, DumpSignal) and event.rank is not None:
            issued, done = event.last_enqueued, event.last_completed
            if issued is not None and done is not None and issued > done:
                key = (event.rank, done + 1, None, None)
        if group is not None and key is not None:
            named.setdefault(key, group)
    return named


def _by_own_records(case: Case, named: Mapping[LineKey, int], keys: Sequence[LineKey]) -> dict[LineKey, int]:
    """Calls that the rank recorded in one group only, or that another line of the rank names."""
    rows = _recorded(case, {key[1] for key in keys})
    lines: dict[tuple[int, int], list[tuple[LineKey, int]]] = defaultdict(list)
    for key, group in named.items():
        lines[key[:2]].append((key, group))
    placed: dict[LineKey, int] = {}
    for key in keys:
        own = rows.get(key[:2], [])
        if key[3] is not None and len(own) > 1:
            own = [row for row in own if int(case.calls.numel_in[row]) == key[3]]
        groups = {int(case.call_group[row]) for row in own} or {
            group for other, group in lines[key[:2]] if None in (key[2], other[2]) or key[2:] == other[2:]
        }
        if len(groups) == 1:
            placed[key] = groups.pop()
    return placed


def _recorded(case: Case, numbers: set[int]) -> dict[tuple[int, int], list[int]]:
    """The rows of recorded calls with one of these numbers, by rank and number."""
    rows: dict[tuple[int, int], list[int]] = defaultdict(list)
    wanted = np.isin(case.calls.seq, np.array(sorted(numbers))) & (case.call_group >= 0) & (case.call_rank >= 0)
    for row in np.flatnonzero(wanted).tolist():
        rows[int(case.call_rank[row]), int(case.calls.seq[row])].append(row)
    return rows


def _by_peers(case: Case, known: Mapping[LineKey, int], keys: Sequence[LineKey]) -> dict[LineKey, int]:
    """Calls that other members of one group of the rank have under that number, with the same operation and size."""
    groups_of: dict[_Identity, set[int]] = defaultdict(set)
    for (_, number, op, numel), group in known.items():
        groups_of[number, op, numel].add(group)
    for (_, number), rows in _recorded(case, {key[1] for key in keys}).items():
        for row in rows:
            op = op_type(case.vocabulary.ops[case.calls.op[row]])
            groups_of[number, op, int(case.calls.numel_in[row])].add(int(case.call_group[row]))
    placed: dict[LineKey, int] = {}
    for key in keys:
        groups = {g for g in groups_of[key[1:]] if key[0] in case.groups[g].members} if key[3] is not None else set()
        if len(groups) == 1:
            placed[key] = groups.pop()
    return placed


Seats = frozenset[tuple[int, int]]
"""Ranks with their numbers inside a group: members 0, 2, 4 and 6 are its ranks 0, 1, 2 and 3."""


def stride_of(seats: Seats) -> int:
    """What lies between two neighbours; 0 where fewer than two are known, or no one stride fits."""
    (rank, seat), *others = sorted(seats)
    strides = {divmod(r - rank, s - seat) if s != seat else (0, 1) for r, s in others}
    stride, rest = min(strides) if len(strides) == 1 else (0, 0)
    return stride if rest == 0 and stride > 0 else 0


def _by_seats(case: Case, known: Mapping[LineKey, int], keys: Sequence[LineKey]) -> Iterator[tuple[LineKey, int]]:
    """Calls that equal one of a group that lines name, of ranks that sit where its next members do.

    Sister groups make the same calls, so that a place must prove it: two members show the stride; a rank that is its own number inside a
    group has all lower ones beside it; and sisters would not give three and more ranks places in one row. Ranks 0 and 2 are ranks 0 and
    1 of dp, whose rank 2 must be rank 4.
    """
    lines = [e for e in (*case.of(CallTimeout), *case.of(WorkStatus)) if e.group_rank is not None]
    seat_of = {key: (key[0], e.group_rank or 0) for e in lines if (key := line_key(e)) is not None}
    of_call: dict[_Identity, set[int]] = defaultdict(set)
    rows: dict[_Identity, set[tuple[int, int]]] = defaultdict(set)
    seats: dict[int, set[tuple[int, int]]] = defaultdict(set)
    for key, seat in seat_of.items():
        rows[key[1:]].add(seat)
    in_row = {call for call, row in rows.items() if len(row) >= FEWEST_IN_ROW and stride_of(frozenset(row))}
    for key, group in known.items():
        of_call[key[1:]].add(group)
        seats[group] |= {seat_of[key]} if key in seat_of else set()
    for key in keys:
        groups = of_call[key[1:]] if key[3] is not None and key in seat_of else set()
        is_row = len(groups) == 1 and key[1:] in in_row
        fitting = [g for g in groups if seats[g] and (is_row or _is_place_of_next(frozenset(seats[g]), seat_of[key]))]
        if len(fitting) == 1 and case.groups[fitting[0]].learned == "log":
            yield key, fitting[0]


def _is_place_of_next(seats: Seats, new: tuple[int, int]) -> bool:
    """True where the stride of the others leads to this place, or each rank is its own number."""
    stride = stride_of(seats)
    return (stride > 0 and stride_of(seats | {new}) == stride) or all(rank == seat for rank, seat in seats | {new})


def _is_of_world(case: Case, event: Event) -> bool:
    """True for a gather whose output is its input times the size of the job: all ranks are its members."""
    if not isinstance(event, CallTimeout) or event.op not in GATHERS or not case.groups or case.world_size is None:
        return False
    small, big = sorted((event.numel_in or 0, event.numel_out or 0))
    return case.groups[0].learned == "world" and small > 0 and big == small * case.world_size


def _can_be_one_group(case: Case, lines: Sequence[Event], named: Mapping[LineKey, int]) -> bool:
    """True when all calls of a job without other groups fit the default group.

    All members wait in one call, and some watchdogs give up on those queued right behind it too. Another number of a rank, or of a peer
    that can only be past the call when everybody entered it, is of another group. So is a rank with another number inside its group.
    """
    if not case.groups or any(group.learned != "nccl" for group in case.groups[1:]) or len(case.calls):
        return False
    if any(e.group_rank not in (None, e.rank) for e in lines):
        return False
    calls: dict[int, dict[int, set[LineKey]]] = defaultdict(lambda: defaultdict(set))
    for key in {*named, *(key for e in lines if (key := line_key(e)) is not None)}:
        calls[key[0]][key[1]].add(key)
    for own in calls.values():
        is_queue = max(own) - min(own) + 1 == len(own)
        if not is_queue or any(len({key for key in keys if key[2] is not None}) > 1 for keys in own.values()):
            return False
    firsts = [(min(own), key[2]) for own in calls.values() for key in own[min(own)]]
    newest = max(number for number, _ in firsts)
    can_differ = all(op not in NEEDS_ALL for number, op in firsts if number < newest)
    return newest - min(number for number, _ in firsts) <= QUEUED and can_differ
