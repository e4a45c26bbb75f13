"""Compares the order in which the ranks of a circle issued the calls of several groups.

In a circle each call waits for the other, so that neither is evidence against the ranks outside it. All ranks run one program: the one
whose order of calls differs from that of its peers, over all recorded steps, left it. Groups of one role (dp of ranks 0 and 2, dp of
ranks 1 and 3) count alike.

Example: before BARRIER #5 ranks 1 and 3 issued 17 calls of dp, rank 2 issued 16, and rank 0 stands in #17 itself: rank 2 left the order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from nccldoctor.align.call_sequences import ROLE_BITS
from nccldoctor.align.facts import Facts
from nccldoctor.align.wait_graph import StuckCall
from nccldoctor.model.ranks import Ranks

FEWEST_EQUAL = 3
"""Calls that two ranks must have issued in one order before they part, for the one to be a witness of the other."""

FEWEST_WITNESSES = 2
"""Ranks that must agree with each other against one rank; the word of one peer names nobody."""

FEWEST_LASTING = 2
"""Later calls of other groups at which a surplus must be the same: a call that was only moved makes it vanish."""

MOST_RANKS = 32
"""Ranks that are compared; more say the same."""

_Numbers = npt.NDArray[np.int64]


class Change(Enum):
    """The way in which a rank's order differs from that of its peers."""

    FEWER = "fewer"
    """It issued fewer calls of one group than its peers by each later call of every other group."""
    MORE = "more"
    """It issued more."""
    MOVED = "moved"
    """The counts are equal again by its newest call."""
    OPEN = "open"
    """It issued too little afterwards to show which."""


class OrderChange(Struct, frozen=True):
    """Marks where a rank parts from the order of ``witnesses``: it issued ``row`` where they issued ``expected``.

    ``change`` says what became of the calls of ``group``. ``rival`` is true where as many calls more of another group fit as well.
    """

    rank: int
    row: int
    expected: int
    witnesses: Ranks
    change: Change
    group: int
    rival: bool


class IssueOrders(Struct, frozen=True):
    """Compares the orders of the ranks of a circle: ``departed`` are in the minority, ``in_order`` are exonerated.

    A rank is in order when at least two peers issued all that it issued, in the same order.
    """

    departed: Mapping[int, OrderChange]
    in_order: Ranks


class _Stream(Struct, frozen=True):
    """The collectives of one rank, oldest first: role, number, row. ``starts`` is the lowest recorded number of each role."""

    roles: _Numbers
    seqs: _Numbers
    rows: _Numbers
    starts: Mapping[int, int]

    def since(self, starts: Mapping[int, int]) -> _Stream:
        """Returns the calls of these roles from these numbers on."""
        keep = np.zeros(len(self.roles), dtype=bool)
        for role, start in starts.items():
            keep |= (self.roles == role) & (self.seqs >= start)
        return _Stream(self.roles[keep], self.seqs[keep], self.rows[keep], starts)


class _Pair(Struct, frozen=True):
    """Two streams from their first common calls on, equal up to ``place``. ``is_whole``: their roles are the same, none was left out."""

    one: _Stream
    other: _Stream
    place: int
    is_whole: bool

    @property
    def is_parted(self) -> bool:
        """True when both went on with another call each."""
        return FEWEST_EQUAL <= self.place < min(len(self.one.rows), len(self.other.rows))

    @property
    def is_covered(self) -> bool:
        """True when the other one issued all that this one issued, in the same order."""
        return self.is_whole and self.place == len(self.one.rows) >= FEWEST_EQUAL


def compare_orders(facts: Facts, calls: Sequence[StuckCall]) -> IssueOrders:
    """Compares the streams of the ranks of a circle with each other, and with those of other ranks."""
    circle = sorted({r for call in calls for r in (*call.inside, *call.queued, *call.missing)})[:MOST_RANKS]
    others = [r for r in facts.case.world if r not in circle][: MOST_RANKS - len(circle)]
    streams = {r: stream for r in (*circle, *others) if len((stream := _stream(facts, r)).rows)}
    pairs = {
        one: {other: _paired(streams[one], streams[other]) for other in streams if other != one} for one in streams
    }
    against = {r: [p for p, pair in found.items() if pair.is_parted] for r, found in pairs.items()}
    covered = {r: Ranks(p for p, pair in found.items() if pair.is_covered) for r, found in pairs.items()}
    agreeing = {r: [p for p, pair in found.items() if not pair.is_parted] for r, found in pairs.items()}
    odd = [r for r in streams if len(against[r]) >= FEWEST_WITNESSES and len(against[r]) > len(agreeing[r])]
    if 2 * len(odd) >= len(streams):
        return IssueOrders({}, Ranks())
    departed = {}
    for rank in odd:
        witnesses = Ranks(p for p in against[rank] if p not in odd)
        if len(witnesses) >= FEWEST_WITNESSES and rank in circle:
            best = max(witnesses, key=lambda p: len(pairs[rank][p].other.rows))
            departed[rank] = _changed(facts, rank, pairs[rank][best], witnesses)
    return IssueOrders(
        departed, Ranks(r for r in circle if r in covered and r not in odd and len(covered[r]) >= FEWEST_WITNESSES)
    )


def _stream(facts: Facts, rank: int) -> _Stream:
    """The rank's collectives in the groups that are the only ones of their role; another rank's cannot be matched."""
    rows = facts.sequences.rows(rank)
    rows = rows[facts.progress.collective[rows]]
    roles, groups = facts.sequences.labels[rows] >> ROLE_BITS, facts.case.call_group[rows]
    seqs = facts.case.calls.seq[rows].astype(np.int64)
    alone = [role for role in np.unique(roles).tolist() if len(np.unique(groups[roles == role])) == 1]
    return _Stream(roles, seqs, rows, {}).since({role: int(seqs[roles == role].min()) for role in alone})


def _paired(one: _Stream, other: _Stream) -> _Pair:
    is_whole = one.starts.keys() == other.starts.keys()
    starts = {role: max(start, other.starts[role]) for role, start in one.starts.items() if role in other.starts}
    one, other = one.since(starts), other.since(starts)
    width = min(len(one.rows), len(other.rows))
    differs = (one.roles[:width] != other.roles[:width]) | (one.seqs[:width] != other.seqs[:width])
    return _Pair(one, other, int(np.argmax(differs)) if differs.any() else width, is_whole)


def _changed(facts: Facts, rank: int, pair: _Pair, witnesses: Ranks) -> OrderChange:
    """Says what the rank did at the place where it parts from a witness."""
    due, instead = int(pair.other.roles[pair.place]), int(pair.one.roles[pair.place])
    fewer, more = _surpluses(pair, due), _surpluses(pair, instead)
    is_fewer = len(fewer) >= FEWEST_LASTING and max(fewer) < 0
    is_more = len(more) >= FEWEST_LASTING and min(more) > 0
    role = due if is_fewer or not is_more else instead
    if is_fewer or is_more:
        change = Change.FEWER if is_fewer else Change.MORE
    else:
        change = Change.MOVED if fewer and more and fewer[-1] == more[-1] == 0 else Change.OPEN
    row, expected = int(pair.one.rows[pair.place]), int(pair.other.rows[pair.place])
    own = pair.one.rows[pair.one.roles == role]
    group = int(facts.case.call_group[own[0]]) if len(own) else -1
    return OrderChange(rank, row, expected, witnesses, change, group, is_fewer and is_more)


def _surpluses(pair: _Pair, role: int) -> list[int]:
    """How many more calls of a role the one issued than the other. It counts at each later call of another role that both issued."""
    at = {(int(r), int(s)): i for i, (r, s) in enumerate(zip(pair.other.roles, pair.other.seqs, strict=True))}
    mine, theirs = np.cumsum(pair.one.roles == role), np.cumsum(pair.other.roles == role)
    found = []
    for i in range(pair.place, len(pair.one.rows)):
        key = int(pair.one.roles[i]), int(pair.one.seqs[i])
        if key[0] != role and key in at:
            found.append(int(mine[i] - theirs[at[key]]))
    return found
