"""Explains how the calls of one rank part from those of its peers: missed, added, or another in its place.

The calls of one group are compared by aspect: call site, operation, elements, dtype. What the peers did not record is what followed
the same calls in the past, by the vote of all steps; an aspect that varies from step to step has no vote.

Example: peers issued A #7, B #8 and wait. Rank 3 issued A #7, C #8. In 47 of 48 steps C followed B: rank 3 missed B.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import islice

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from nccldoctor.align.call_sequences import ROLE_BITS, CallSequences, dtype_codes
from nccldoctor.align.divergence.mismatches import Mismatch
from nccldoctor.model.operations import has_varying_sizes, plain_op

WIDTHS = (32, 8, 4, 2, 1)
"""Lengths of a run of calls that is looked up in the past, the longest first."""

MOST_MOVED = 64
"""Calls in a row that one rank may miss or add, at most."""

MOST_FOLLOWED = 128
"""Calls behind the place that are compared at most."""

USUAL = 0.9
"""Share of past calls that come through the same outer lines: those of the loop."""

UNKNOWN = -1
"""The value of an aspect that was not recorded, or that varies from step to step."""

Aspects = tuple[int, ...]
"""Role of the group, operation, call site, elements and dtype of one call, as codes; :data:`UNKNOWN` agrees with everything."""

SITE, ELEMENTS = 2, 3

Stream = Mapping[int, tuple[Aspects, int]]
"""The calls of one rank in one group: sequence number to (aspects, row)."""


class Way(StrEnum):
    """How a rank parts from its peers: it misses calls, adds some, or replaces one."""

    MISSED = "missed"
    ADDED = "added"
    REPLACED = "replaced"


class Departure(Struct, frozen=True):
    """How one rank parts from its peers in a group, from number ``seq`` on.

    ``row`` is the rank's entry there and ``peer_row`` that of a peer. ``count`` calls were missed or added; ``length`` calls behind
    them fit. ``rivals`` are other ways that fit as well: empty where the calls show one way only.
    """

    rank: int
    group: int
    seq: int
    way: Way
    row: int
    peer_row: int
    count: int = 1
    length: int = 0
    rivals: tuple[Way, ...] = ()


def find_departure(sequences: CallSequences, mismatch: Mismatch, rank: int) -> Departure | None:
    """How the calls of ``rank``, one of the minority of a mismatch, part from those of a majority peer.

    None where neither the numbers that both recorded nor the past show it.
    """
    own, stacks = _stream(sequences, mismatch.group, rank), sequences.case.calls.stack
    framed = stacks[mismatch.rows[rank]] > 0  # call sites compare with call sites only
    peers = sorted(mismatch.majority, key=lambda p: (stacks[mismatch.rows[p]] > 0) != framed)
    streams = (_stream(sequences, mismatch.group, p) for p in peers)
    theirs = next((stream for stream in streams if stream), None)
    at = _first_unlike(own, theirs) if own and theirs else None
    if at is None or theirs is None:
        return None
    tail = [own[n][0] for n in _run(own, at)]
    past = _Past([aspects for aspects, _ in theirs.values()], [own[n][0] for n in own if n < at])
    expected = list(islice(_expected(theirs, at, past), len(tail) + MOST_MOVED))
    way, count, length, rivals = _explain(sequences, tail, expected, own[at - 1][0] if at - 1 in own else None)
    found = Departure(rank, mismatch.group, at, way, own[at][1], theirs[at][1], count, length, rivals)
    if way is Way.REPLACED and length and max(own) == max(theirs):
        return replace(found, rivals=())  # both stopped behind as many calls
    if way is Way.REPLACED and rivals and _has_left_loop(sequences, found):
        return replace(found, way=Way.MISSED, rivals=(Way.REPLACED,))
    if rivals and at - 1 in own:
        return _checked_by_other_groups(sequences, found, own[at - 1][1])
    return found


def _checked_by_other_groups(sequences: CallSequences, found: Departure, before: int) -> Departure:
    """The departure, with the way that the rank's calls of other groups show.

    ``before`` is its row before the place.

    Example: A B C A B C, with A of another group. C, issued twice in a row, stands for a missed B if A was issued in between.
    """
    rows = sequences.rows(found.rank)
    first, last = (sequences.position(found.rank, row) for row in (before, found.row))
    if first is None or last is None or len(np.unique(sequences.case.call_group[rows])) < 2:
        return found
    stream = _aspects(sequences, rows[: last + MOST_FOLLOWED])
    past = _Past(stream[: first + 1])
    for at in range(first + 1, last + 1):
        expected = list(islice(_followers(past, stream[:at]), 2 * MOST_FOLLOWED))
        if expected and not _is_alike(stream[at], expected[0]):
            way, _, _, rivals = _explain(sequences, stream[at:], expected, stream[at - 1])
            return found if rivals or way is Way.REPLACED else replace(found, way=way, rivals=())
    return found


def _has_left_loop(sequences: CallSequences, found: Departure) -> bool:
    """True when a rank issued a call that no step issued before, from outside the lines that call all others.

    Example: all calls of the steps come through ``train.py:291``, and this one through ``train.py:304``.
    """
    case, sites = sequences.case, sequences.sites
    chain = sequences.chains[sites[case.calls.stack[found.row]]][::-1]
    rows = sequences.rows(found.rank)
    codes, times = np.unique(sites[case.calls.stack[rows[rows < found.row]]], return_counts=True)
    loop: tuple[tuple[str, int], ...] = ()
    for depth in range(1, len(chain) + 1):
        starts: Counter[tuple[tuple[str, int], ...]] = Counter()
        for code, count in zip(codes.tolist(), times.tolist(), strict=True):
            starts[sequences.chains[code][::-1][:depth]] += count
        (start, most), *_ = starts.most_common(1) or [((), 0)]
        if len(start) < depth or most < USUAL * times.sum():
            break
        loop = start
    return bool(loop) and chain[: len(loop)] != loop


def _stream(sequences: CallSequences, group: int, rank: int) -> Stream:
    rows = sequences.rows(rank)
    rows = rows[sequences.progress.collective[rows] & (sequences.case.call_group[rows] == group)]
    calls = zip(_aspects(sequences, rows), rows.tolist(), strict=True)
    return dict(zip(sequences.case.calls.seq[rows].tolist(), calls, strict=True))


def _aspects(sequences: CallSequences, rows: npt.NDArray[np.int64]) -> list[Aspects]:
    calls, words = sequences.case.calls, sequences.case.vocabulary
    varying = np.array([has_varying_sizes(op) or plain_op(op) == "barrier" for op in words.ops], dtype=bool)
    columns = (
        sequences.labels[rows] >> ROLE_BITS,
        sequences.operations[calls.op[rows]],
        sequences.sites[calls.stack[rows]],
        np.where(varying[calls.op[rows]], UNKNOWN, calls.numel_in[rows]),
        dtype_codes(sequences.case, rows),
    )
    return [tuple(aspects) for aspects in np.stack([c.astype(np.int64) for c in columns], axis=1).tolist()]


def _first_unlike(own: Stream, theirs: Stream) -> int | None:
    """The first number under which the two ranks issued calls that differ in any aspect.

    Where the call sites of two ranks always differed, as in a branch for rank 0, another line is no difference.
    """
    shared = sorted(own.keys() & theirs.keys())
    known = {own[n][0][SITE] for n in own} & {theirs[n][0][SITE] for n in theirs}
    for number in shared:
        mine, other = own[number][0], theirs[number][0]
        if not _is_alike(mine, other):
            is_custom = not {mine[SITE], other[SITE]} & known and _is_alike(_without(mine, SITE), _without(other, SITE))
            if not is_custom:
                return number
    return None


def _without(aspects: Aspects, place: int) -> Aspects:
    return (*aspects[:place], UNKNOWN, *aspects[place + 1 :])


def _is_alike(one: Aspects, other: Aspects) -> bool:
    """True when two calls agree in every aspect that both of them have."""
    return all(a == b or UNKNOWN in (a, b) for a, b in zip(one, other, strict=True))


def _run(stream: Stream, start: int) -> Iterator[int]:
    """The recorded numbers from ``start`` on, up to the first that is not recorded."""
    for number in range(start, start + MOST_FOLLOWED):
        if number not in stream:
            return
        yield number


class _Past:
    """What followed the same calls in the past of a peer and of the rank itself."""

    def __init__(self, *streams: Sequence[Aspects]) -> None:
        self._followers: list[tuple[int, bool, dict[tuple[Aspects, ...], list[Aspects]]]] = []
        for sized in (True, False):
            for width in WIDTHS:
                after: dict[tuple[Aspects, ...], list[Aspects]] = defaultdict(list)
                for stream in streams:
                    keys = stream if sized else [_without(a, ELEMENTS) for a in stream]
                    for i in range(width, len(stream)):
                        after[tuple(keys[i - width : i])].append(stream[i])
                self._followers.append((width, sized, after))

    def follower(self, before: Sequence[Aspects]) -> Aspects | None:
        """The call that most steps issued behind these calls; None where no majority of them agrees."""
        for width, sized, after in self._followers:
            if len(before) < width:
                continue
            keys = before[-width:] if sized else [_without(a, ELEMENTS) for a in before[-width:]]
            votes = after.get(tuple(keys), [])
            if len(votes) >= 2 or (votes and width == 1):
                (common, times), *_ = Counter(_without(vote, ELEMENTS) for vote in votes).most_common(1)
                if 2 * times <= len(votes):
                    return None
                sizes = Counter(vote[ELEMENTS] for vote in votes if _without(vote, ELEMENTS) == common)
                (size, agree), *_ = sizes.most_common(1)
                return (*common[:ELEMENTS], size if 2 * agree > times else UNKNOWN, *common[ELEMENTS + 1 :])
        return None


def _expected(theirs: Stream, at: int, past: _Past) -> Iterator[Aspects]:
    """What the peers issued from number ``at`` on, and then what usually follows."""
    before = [theirs[n][0] for n in sorted(theirs) if n < at][-max(WIDTHS) :]
    for number in _run(theirs, at):
        before.append(theirs[number][0])
        yield theirs[number][0]
    yield from _followers(past, before)


def _followers(past: _Past, before: Sequence[Aspects]) -> Iterator[Aspects]:
    """What usually follows these calls, one call after the other."""
    while (due := past.follower(before)) is not None:
        before = [*before[-max(WIDTHS) :], due]
        yield due


def _explain(
    sequences: CallSequences, tail: Sequence[Aspects], expected: Sequence[Aspects], before: Aspects | None
) -> tuple[Way, int, int, tuple[Way, ...]]:
    """The way in which ``tail`` parts from ``expected``, with its count, its length and its rivals."""
    replaced = _fit(tail[1:], expected[1:])
    resumed = (k for k in range(1, MOST_MOVED) if k == 1 or _can_resume(sequences, expected, k))
    missed = next((k for k in resumed if _fit(tail, expected[k:])), 0)
    added = next((k for k in range(1, min(MOST_MOVED, len(tail))) if _fit(tail[k:], expected)), 0)
    if replaced:
        return Way.REPLACED, 1, replaced, (Way.ADDED,) * (added == 1)
    is_repeated = before is not None and _is_alike(before, tail[0])
    if not added and missed != 1 and is_repeated and len(tail) == 1:
        added = 1
    if added and (not missed or added == 1 < missed):
        return Way.ADDED, added, _fit(tail[added:], expected), (Way.MISSED,) * bool(missed)
    if missed:
        is_open = 0 < added < missed or added == 1 or (is_repeated and len(tail) == 1)
        return Way.MISSED, missed, _fit(tail, expected[missed:]), (Way.ADDED,) * is_open
    return Way.REPLACED, 1, 0, _open_ways(tail, expected[0])


def _can_resume(sequences: CallSequences, expected: Sequence[Aspects], count: int) -> bool:
    """True where a rank that left a step early may go on: further up in the loop than before.

    Without call sites in one function it may be any call.
    """
    if count >= len(expected):
        return False
    here, there = (sequences.chains[expected[place][SITE]][::-1] for place in (count, count - 1))
    parting = next(((a, b) for a, b in zip(here, there, strict=False) if a != b), None)
    if parting is None:
        return not here or not there
    (file, line), (other_file, other_line) = parting
    return file != other_file or line < other_line


def _open_ways(tail: Sequence[Aspects], due: Aspects) -> tuple[Way, ...]:
    """The other ways to explain a call that no step issued before.

    None where it stands at the line of the one that is due; or is about the same data, and the rank stopped there.
    """
    is_last, (_, op, site, *data), (_, due_op, due_site, *due_data) = len(tail) == 1, tail[0], due
    is_same_place = site == due_site != UNKNOWN or (UNKNOWN in (site, due_site) and op == due_op)
    return () if is_same_place or (is_last and data == due_data and data[0] != UNKNOWN) else (Way.ADDED, Way.MISSED)


def _fit(one: Sequence[Aspects], other: Sequence[Aspects]) -> int:
    """How many calls are alike, one after the other; 0 where any pair differs."""
    pairs = list(zip(one, other, strict=False))
    return len(pairs) if all(_is_alike(a, b) for a, b in pairs) else 0
