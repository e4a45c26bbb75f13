"""Where a rank left the order of calls, by its own past steps and by its peers.

Two witnesses are heard: the rank's own past (what always followed these calls before), and its peers (what they issued after the same
calls, also in sister groups of one role). One peer's word against another's names nobody.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from nccldoctor.align.call_sequences import KIND_MASK, call_chain, call_site, role_of
from nccldoctor.align.descriptions import describe, describe_row
from nccldoctor.align.divergence.mismatches import rows_at
from nccldoctor.align.facts import Facts
from nccldoctor.align.wait_graph import StuckCall
from nccldoctor.diagnose.hypothesis import Entry
from nccldoctor.diagnose.phrases.say import say
from nccldoctor.events import Note
from nccldoctor.model import Group
from nccldoctor.model.ranks import Ranks

FEWEST_EQUAL = 3
"""Calls before the place that must be equal on a peer for its word to count."""

WINDOW = 64
"""Calls before the place that are compared at most."""

SAME_STAGE = 0.9
"""Share of that window in which a member of a sister group must agree: another stage of a pipeline does other things at times."""

FEWEST_COUNTS = 3
"""Ranks whose equal number of calls is a custom."""

MOST_PEERS = 16
"""Peers that are asked; more say the same."""


LOOK_BACK = 512
"""Calls behind a rank's last one in the group that are searched for the place where it left its order."""


class OrderBreak(Struct, frozen=True):
    """Marks where a rank went on without ``call``, which others miss: ``row`` is what the rank issued instead.

    ``expected`` is the row that shows what was due: of the rank's own past (``by_past``), or of one of ``peers``. ``went_past``: it went
    beyond the call that normally comes next. ``issued_later``: it issued the missed call too, afterwards. ``surplus``: how many more
    calls of that group it issued than a peer, counted at the next call that both issued in another group: -1 is a skipped call, 0 another
    order, 1 a call too many. ``is_conclusive``: the records would look different had it issued the call late instead of skipping it.
    ``left_out_batch``: the rank said before that it left out a batch.

    Example: each step so far was ALLREDUCE of dp, then BROADCAST of tp. Rank 3 issued the BROADCAST right after the last one:
    ``call`` is ALLREDUCE #18 of dp, ``row`` the BROADCAST, ``expected`` the ALLREDUCE of the step before.
    """

    rank: int
    call: StuckCall
    row: int
    expected: int
    by_past: bool
    peers: Ranks
    went_past: bool
    issued_later: bool
    surplus: int | None
    is_conclusive: bool
    left_out_batch: bool = False

    @property
    def is_skip(self) -> bool:
        """True when the rank went on without the call."""
        has_skipped = not self.issued_later and (self.went_past or self.left_out_batch)
        return has_skipped if self.surplus is None else self.surplus == -1

    @property
    def is_reorder(self) -> bool:
        """True when the rank issued the call in another place of its order."""
        return not self.is_skip if self.surplus is None else self.surplus == 0


def left_out_batches(facts: Facts) -> list[Note]:
    """The lines in which ranks say, before anybody gave up, that they left out a batch and its calls.

    Example: ``batch of step 30 skipped: KeyError('caption')``, logged by an ``except`` that goes on with the next batch.
    """
    notes = (e for e in facts.case.of(Note) if e.what == "batch-skipped" and not facts.liveness.is_after_alarm(e))
    own = [(note, facts.liveness.activity(-1 if note.rank is None else note.rank)) for note in notes]
    return [note for note, activity in own if not any(note.place.is_below(e.place) for e in activity.secondary_errors)]


def show_order_break(facts: Facts, item: OrderBreak) -> list[Entry]:
    """Cites what a rank issued out of its order, and what its own past or its peers show there."""
    issued, due, call = describe_row(facts, item.row), describe_row(facts, item.expected), describe(facts, item.call)
    if item.call.pair is not None:
        sender, receiver = item.call.pair
        end, peer = ("SEND", receiver) if item.rank == sender else ("RECV", sender)
        call = say("disagree.its-transfer-to", end=end, peer=peer)
    own = say("disagree.called-instead", rank=item.rank, call=issued, due=call)
    key = "disagree.called-earlier" if item.by_past else "disagree.peers-called-there"
    return [Entry(item.row, own), Entry(item.expected, say(key, rank=item.rank, peers=item.peers, call=due))]


def find_order_break(facts: Facts, call: StuckCall, rank: int) -> OrderBreak | None:
    """Returns the place where ``rank`` left its order by not issuing ``call``, or by issuing it late.

    None where neither the rank's past nor its peers show such a place.
    """
    rows = facts.sequences.rows(rank)
    start = _start(facts, call, rank)
    stop = min(len(rows), start + LOOK_BACK)
    past = next(
        ((at, e) for at in range(start, stop) if (e := _norm_from_past(facts, call, rank, at)) is not None), None
    )
    peers = places_by_peers(facts, call, rank, start, stop)
    if past is None and not peers:
        return None
    at = past[0] if past is not None else max(set(peers.values()), key=lambda a: (list(peers.values()).count(a), -a))
    agreeing = Ranks(p for p, place in peers.items() if place == at)
    row = int(rows[at])
    issued_later = call.pair is None and any(
        _is_same_call_kind(facts, call, int(r)) and int(facts.case.calls.seq[r]) == call.seq for r in rows[at + 1 :]
    )
    if rank in call.queued and call.pair is None and not issued_later:
        return None  # it issued the call, and not late
    expected = past[1] if past is not None else pending_row(facts, call, min(agreeing))
    went_past = _has_passed_next(facts, rank, at, expected if past is not None else None)
    surplus = next(iter(_count_differences(facts, call, rank, row)), None)
    is_conclusive = surplus is not None or issued_later or went_past or not _is_same_place(facts, row, expected)
    left_out = any(e.rank == rank for e in left_out_batches(facts))
    return OrderBreak(
        rank, call, row, expected, past is not None, agreeing, went_past, issued_later, surplus, is_conclusive, left_out
    )


def _count_differences(facts: Facts, call: StuckCall, rank: int, row: int) -> list[int]:
    """Counts how many more calls of the group ``rank`` issued than one peer inside the call.

    One difference for each later call that both issued in another group; empty where no such call is recorded. 0 is an
    order that differs; -1 a call missed, 1 a call added.
    """
    case, calls = facts.case, facts.case.calls
    mine = facts.sequences.rows(rank)
    mine = mine[(mine > row) & facts.progress.collective[mine] & (case.call_group[mine] != call.group)]
    for peer in [r for r in (*call.inside, *call.queued, *call.missing) if r != rank][:MOST_PEERS]:
        theirs = facts.sequences.rows(peer)
        at = {(int(case.call_group[r]), int(calls.seq[r])): int(r) for r in theirs.tolist()}
        shared = [(a, at[k]) for a in mine.tolist() if (k := (int(case.call_group[a]), int(calls.seq[a]))) in at]
        if shared:
            return [
                _calls_before(facts, call.group, rank, a) - _calls_before(facts, call.group, peer, b) for a, b in shared
            ]
    return []


def ranks_one_call_ahead(facts: Facts, calls: tuple[StuckCall, ...]) -> list[tuple[int, int, StuckCall]]:
    """Returns members of a group that are one call ahead of a peer: (rank, row, call of the group).

    They are counted at the next call that both share, and are at most a third of the members. The count shows an added
    call even where equal calls in a row hide its place. Example: at BROADCAST #7 of tp, rank 0 has issued 19 calls of
    dp, and rank 1 issued 18.
    """
    ahead: list[tuple[int, int, StuckCall]] = []
    for call in calls:
        if call.pair is None and 3 * len(call.inside) <= len(facts.case.groups[call.group].members):
            rows = ((rank, pending_row(facts, call, rank)) for rank in call.inside)
            counted = [(r, row, _count_differences(facts, call, r, row)) for r, row in rows if row >= 0]
            # a surplus that stays: had the call only been moved, its peers would issue theirs later, and it would vanish
            ahead += [(r, row, call) for r, row, counts in counted if len(counts) > 1 and set(counts) == {1}]
    return ahead


def _calls_before(facts: Facts, group: int, rank: int, before: int) -> int:
    rows = facts.sequences.rows(rank)
    seqs = facts.case.calls.seq[rows[(rows < before) & (facts.case.call_group[rows] == group)]]
    return int(seqs.max()) if len(seqs) else 0


def _start(facts: Facts, call: StuckCall, rank: int) -> int:
    """Returns the position after the rank's last call of that kind before the missed one."""
    rows = facts.sequences.rows(rank)
    same = [i for i, r in enumerate(rows.tolist()) if _is_same_call_kind(facts, call, r)]
    if call.pair is None:
        same = [i for i in same if int(facts.case.calls.seq[rows[i]]) < call.seq]
    else:
        same = [i for i in same if facts.progress.completed[rows[i]]]
    return same[-1] + 1 if same else 0


def _norm_from_past(facts: Facts, call: StuckCall, rank: int, at: int) -> int | None:
    """Returns the row of an earlier occurrence of the missed call, after the same calls as here.

    None where the call that the rank issued instead has followed them before, too.
    """
    rows, labels = facts.sequences.rows(rank), facts.sequences.labels
    outcomes = facts.sequences.outcomes(rank, at)
    if not outcomes or int(labels[rows[at]]) in outcomes:
        return None
    due = [int(rows[p]) for p in outcomes.values() if _is_same_call_kind(facts, call, int(rows[p]))]
    if call.pair is None and call.row >= 0:  # another call of the same group does not count
        due = [row for row in due if (labels[row] ^ labels[call.row]) & KIND_MASK == 0]
    return next(iter(due), None)


def _is_same_call_kind(facts: Facts, call: StuckCall, row: int) -> bool:
    """True when a recorded call is in the same group and, for p2p, between the same ends. A p2p call must also go in the same direction."""
    calls = facts.case.calls
    if facts.case.call_group[row] != call.group:
        return False
    if call.pair is None:
        return bool(facts.progress.collective[row])
    rank = int(facts.case.call_rank[row])
    wanted = "send" if rank == call.pair[0] else "recv"
    names = facts.sequences.batches.get(row) or {facts.case.vocabulary.ops[calls.op[row]]}
    return any(name.startswith(wanted) for name in names)


def _has_passed_next(facts: Facts, rank: int, at: int, expected: int | None) -> bool:
    """True when the rank went past the call that normally follows the missed one.

    Also when it issued a later call of the same step. A line of code that both calls share, a loop over groups, proves
    nothing: a rank that swaps them passes it as well.
    """
    streams, words = facts.sequences, facts.case.vocabulary
    rows = streams.rows(rank)
    if len(rows) - at > 1:
        return True
    after = streams.position(rank, expected) if expected is not None else None
    if after is None or after + 1 >= len(rows):
        return False
    framed = bool(call_site(words.stacks[facts.case.calls.stack[rows[at]]]))
    labels = streams.labels[rows]
    again = np.flatnonzero(labels[after + 1 : at] == labels[after])
    usual_place = bool((labels[after + 1 : after + 1 + int(again[0]) if len(again) else at] == labels[at]).any())
    return framed and usual_place and not _is_same_place(facts, int(rows[at]), int(rows[after]))


def _is_same_place(facts: Facts, row: int, other: int) -> bool:
    """True when two calls were issued by the same line of user code, called by the same lines."""
    stack, stacks = facts.case.calls.stack, facts.case.vocabulary.stacks
    return call_chain(stacks[stack[row]]) == call_chain(stacks[stack[other]]) != ()


def find_unusual_call(facts: Facts, call: StuckCall, rank: int) -> tuple[int, int] | None:
    """Returns a rank's pending call that is new after these calls: (its row, the row of the usual call).

    Only where no peer recorded such a call. The peers finished the call of that number and went on: theirs was another
    one, which their ring buffers have dropped.
    """
    streams, front = facts.sequences, facts.progress.by_group_rank.get((call.group, rank))
    at = streams.position(rank, front.row) if front is not None and front.row >= 0 else None
    others = set(rows_at(facts.case, facts.progress, call.group, call.seq)) - {*call.inside}
    if front is None or at is None or others:
        return None
    due, label = streams.outcomes(rank, at), int(streams.labels[front.row])
    peers = [p for p in call.completed if p in facts.progress.recorded_ranks]
    if not due or label in due or not peers or any(label & KIND_MASK in streams.kinds(p) for p in peers):
        return None
    return front.row, int(streams.rows(rank)[max(due.values())])


def find_order_breaks(facts: Facts, calls: tuple[StuckCall, ...]) -> list[OrderBreak]:
    """Returns the order breaks of ranks in a circle, sorted by rank.

    A rank's own past decides; else the place that most peers agree on, if they outvote the others.
    """
    waits_in = facts.wait_graph.waits_in
    asked = ((call, rank) for call in calls for rank in call.missing | call.queued if waits_in.get(rank))
    found = [one for call, rank in asked if (one := find_order_break(facts, call, rank)) is not None]
    past = [o for o in found if o.by_past]
    if past:
        return sorted(past, key=lambda o: (o.rank, o.row))
    most = max((len(o.peers) for o in found), default=0)
    best = [o for o in found if len(o.peers) == most and most >= 2]
    return sorted(best, key=lambda o: (o.rank, o.row)) if len({o.rank for o in best}) * 2 <= most else []


def places_by_peers(facts: Facts, call: StuckCall, rank: int, start: int, stop: int) -> dict[int, int]:
    """Maps each peer to the position in the rank's order at which the peer issued the call.

    The position is that after the same calls. Peers are the ranks inside the call, and one rank of each sister group
    that issued the same call there.
    """
    if call.pair is not None:
        return {}
    mine = facts.sequences.kinds(rank)
    out: dict[int, int] = {}
    sisters = _sister_rows(facts, call)
    witnesses = {p: pending_row(facts, call, p) for p in list(call.inside)[:MOST_PEERS]} | sisters
    for peer, row in witnesses.items():
        theirs, place = facts.sequences.kinds(peer), facts.sequences.position(peer, row) if row >= 0 else None
        if place is None:
            continue
        best, where = FEWEST_EQUAL - 1, -1
        for at in range(start, stop):
            equal = 0
            while equal < min(at, place, WINDOW) and mine[at - 1 - equal] == theirs[place - 1 - equal]:
                equal += 1
            if equal > best:
                best, where = equal, at
        width = min(where, place, WINDOW)
        before, others = mine[:where][-width:], theirs[:place][-width:]
        if peer in sisters and (width < WINDOW // 4 or float(np.mean(before == others)) < SAME_STAGE):
            continue
        if where >= 0 and mine[where] != theirs[place]:
            out[peer] = where
    return out


def _sister_rows(facts: Facts, call: StuckCall) -> dict[int, int]:
    """Maps one rank of each sister group to its row of the same call. Sister groups are alike in description and size."""
    case, group = facts.case, facts.case.groups[call.group]
    others = (g for g in case.groups if g.index != call.group)
    alike = [g.index for g in others if g.desc == group.desc and len(g.members) == len(group.members)]
    out: dict[int, int] = {}
    if call.row < 0:
        return out
    for other in alike[:MOST_PEERS]:
        rows = facts.sequences.rows(min(case.groups[other].members))
        mine = (case.call_group[rows] == other) & (case.calls.seq[rows] == call.seq) & facts.progress.collective[rows]
        mine &= (facts.sequences.labels[rows] ^ facts.sequences.labels[call.row]) & KIND_MASK == 0
        out.update({min(case.groups[other].members): int(row) for row in rows[mine][:1].tolist()})
    return out


def has_one_transfer_fewer(facts: Facts, call: StuckCall, rank: int) -> bool:
    """True when ``rank`` posted one transfer fewer in the group than each rank in its place of a sister group.

    Their newest call is the same, so that it is not merely behind them. One such rank is enough: the other end, which waits, agrees
    with it. Example: ranks 1 and 5 are stage 1 of two pipelines, both stand at ALLREDUCE #18, 5 posted 40 transfers and 1 posted 39.
    """
    groups = facts.case.groups
    group = groups[call.group]
    place = list(group.members).index(rank)
    mine, newest = _transfer_count(facts, group.index, rank), _newest_call(facts, rank)
    sisters = [(g.index, list(g.members)[place]) for g in groups if _can_be_sister(g, group)]
    counts = {
        _transfer_count(facts, index, sister) for index, sister in sisters if _newest_call(facts, sister) == newest
    }
    return mine is not None and counts - {0, None} == {mine + 1}


def has_one_call_fewer(facts: Facts, call: StuckCall, rank: int) -> bool:
    """True when ``rank`` issued one call fewer in the group than its peers did by the same newest call.

    Ranks of sister groups count as peers, and at least three counts must agree. The count shows a skipped call even
    where equal calls in a row hide which one it was. Example: all stand at ALLREDUCE #18 of dp; ranks 1-3 issued 40
    calls in their tp group, rank 0 issued 39.
    """
    groups, fronts = facts.case.groups, facts.progress.by_group_rank
    group = groups[call.group]
    mine, newest = fronts.get((call.group, rank)), _newest_call(facts, rank)
    sisters = [g for g in groups if g.index != group.index and role_of(g) == role_of(group)][:MOST_PEERS]
    asked = ((g.index, r) for g in (group, *sisters) for r in list(g.members)[:MOST_PEERS])
    others = [(index, r) for index, r in asked if r != rank and _newest_call(facts, r) == newest]
    counts = [front.enqueued for key in others if (front := fronts.get(key)) is not None]
    peers = any(index == call.group for index, _ in others)
    return mine is not None and peers and len(counts) >= FEWEST_COUNTS and set(counts) == {mine.enqueued + 1}


def _can_be_sister(one: Group, other: Group) -> bool:
    """True when two groups have the same role, or no name tells their roles and they share no member."""
    is_unnamed = {one.desc, other.desc} <= {"", "undefined"} and len(one.members) == len(other.members)
    is_apart = not one.members & other.members
    return one.index != other.index and (role_of(one) == role_of(other) or (is_unnamed and is_apart))


def _newest_call(facts: Facts, rank: int) -> tuple[str, int, int] | None:
    """The newest call that a rank recorded: its group's role, its number and what it is."""
    row = facts.progress.last_row.get(rank)
    if row is None:
        return None
    group = facts.case.groups[facts.case.call_group[row]]
    return role_of(group)[0], int(facts.case.calls.seq[row]), int(facts.sequences.labels[row]) & KIND_MASK


def _transfer_count(facts: Facts, group: int, rank: int) -> int | None:
    """Counts the transfers that a rank posted in a group. Its own numbers count, else a record that is whole; None without either."""
    case, rows = facts.case, facts.sequences.rows(rank)
    mine = rows[(case.call_group[rows] == group) & ~facts.progress.collective[rows]]
    numbers = case.calls.p2p_seq[mine]
    if len(numbers) and int(numbers.max()) > 0:
        return int(numbers.max())
    own = (d for r, d in zip(case.dump_rank, case.dumps, strict=True) if r == rank)
    return len(mine) if any(d.entries and not d.has_lost_past for d in own) else None


def pending_row(facts: Facts, call: StuckCall, rank: int) -> int:
    """The rank's first unfinished entry in the call's group; -1 where none is recorded."""
    front = facts.progress.by_group_rank.get((call.group, rank))
    return front.row if front is not None else -1
