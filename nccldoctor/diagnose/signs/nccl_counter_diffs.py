"""Members of a communicator that issued something else under one number, as COLL lines show it or RAS counts it.

``opCount`` is the number of a launch: calls of one group share it, replays of a captured graph count without a line, and sends and
receives count on their two ends alone. So only calls that stand alone under their number are compared, in communicators without sends,
and behind a number under which the members agreed. Without one, a few that differ from most others are out of step, by the call or by the
number: that is weak.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping

from msgspec import Struct

from nccldoctor.align.descriptions import describe
from nccldoctor.align.facts import Facts
from nccldoctor.align.nccl_counter_evidence import OP_TYPES, counter_evidence, counters_of, issue_evidence
from nccldoctor.align.stalls import Stall, StallKind
from nccldoctor.diagnose.hypothesis import Hypothesis, Line
from nccldoctor.diagnose.phrases.headline import Headline
from nccldoctor.diagnose.phrases.say import doubt_of, headline_of, say
from nccldoctor.diagnose.phrases.sides import each_side
from nccldoctor.diagnose.phrases.who import who
from nccldoctor.events import CollCall, CollectiveMismatch, CommInit
from nccldoctor.identify.nccl_counters import UNEVEN, NcclCounters, calls_by_communicator
from nccldoctor.model import Stalled
from nccldoctor.model.ranks import Ranks, ranks_by
from nccldoctor.words.names import dtype_name

SHIFTED = 3
"""Calls in a row, of more than one kind, that must fit when they are moved by one."""

MAJORITY = 3
"""Fewest members that agree, so that who differs from them is out of step."""

FEWEST_STEPS = 2
"""Past steps that must show what follows a call."""

Kind = tuple[str, int | None, str | None]
"""Parts of a call that must be equal on all members: operation, elements, dtype."""

COUNTS_ALONE = doubt_of("counts-alone")


class Difference(Struct, frozen=True):
    """The first number under which members issued unlike calls; ``odd`` is empty where no majority stands against few.

    ``is_first``: no line shows that they agreed before. ``shift`` is 1 where the calls of ``odd`` fit when its peers' are moved up by one
    (it skipped one), -1 where it issued one more.
    """

    comm: str
    number: int
    aspect: str
    calls: Mapping[int, CollCall]
    odd: Ranks
    is_first: bool
    shift: int = 0


def from_counts(facts: Facts, aspect: str) -> Hypothesis | None:
    """A mismatch in one aspect that is no shift."""
    for found in differences(facts):
        if found.aspect == aspect and not found.shift:
            return _hypothesis(facts, found)
    return _by_kinds(facts) if aspect == "op" else None


def by_shift(facts: Facts, shift: int) -> Hypothesis | None:
    """Ranks whose COLL lines equal their peers' when moved by one."""
    return next((_hypothesis(facts, found) for found in differences(facts) if found.shift == shift), None)


def find_skip(facts: Facts, stall: Stall) -> Hypothesis | None:
    """Concludes that one rank skipped a call and went on in another communicator.

    Only the counts of NCCL's own observers show it, in two queries.

    Example: ranks 0-6 issued 18 calls of communicator a, rank 7 issued 17 and went on in communicator b. Launches do not wait, so that a
    mere swap of two calls leaves equal counts.
    """
    call = stall.call
    counters = counters_of(facts, call) if stall.kind is StallKind.ABSENT else None
    if call is None or counters is None:
        return None
    others = [one for one in facts.case.nccl_counters if one.group != call.group]
    skips = {r for r in stall.proven_absent - counters.advanced for one in others if r in one.advanced}
    if len(skips) != 1 or any(not found.shift for found in differences(facts)) or any(_odd_kinds(facts)):
        return None
    rank = skips.pop()
    other = next(
        (o for o in others if rank in o.lines and (rank in o.advanced or (o.lagging and rank not in o.lagging))), None
    )
    if other is None or rank not in counters.lines:
        return None
    what = describe(facts, call)
    issued_here = say("counters.last-call-was", rank=rank, number=counters.last[rank])
    issued_there = say("counters.last-call-in", rank=rank, number=other.last[rank], comm=other.comm)
    return Hypothesis(
        headline_of("counters.skipped-and-moved-on", who=who(facts.case, Ranks([rank])), call=what, comm=other.comm),
        [
            counter_evidence(counters.lines[rank], counters, issued_here),
            counter_evidence(other.lines[rank], other, issued_there),
            *issue_evidence(facts, call, what, 2),
        ],
        (COUNTS_ALONE,),
        ranks=Ranks([rank]),
        call=call,
    )


def differences(facts: Facts) -> Iterator[Difference]:
    """One for each communicator in which members differ."""
    if facts.progress.recorded_ranks:
        return
    for comm, lines in sorted(calls_by_communicator(facts.case.of(CommInit), facts.case.of(CollCall)).items()):
        if any(line.op in UNEVEN for line in lines):
            continue
        yield from _first_unlike_call(comm, _single_calls(lines))
    for one in facts.case.nccl_counters:
        said = [call for call in one.lines.values() if isinstance(call, CollCall) and call.op_count == one.first]
        stuck = {call.rank: call for call in said if call.rank is not None}
        if one.observer == "comm-dump" and one.is_steady:
            yield from _first_unlike_call(one.comm, {one.first: stuck}, set(stuck))


def _single_calls(lines: list[CollCall]) -> dict[int, dict[int, CollCall]]:
    """By number and rank, the calls that are the only ones of their rank under it."""
    several = Counter((line.rank, line.op_count) for line in lines)
    out: dict[int, dict[int, CollCall]] = defaultdict(dict)
    for line in lines:
        if line.rank is not None and several[line.rank, line.op_count] == 1:
            out[line.op_count][line.rank] = line
    return out


def _first_unlike_call(
    comm: str, calls: Mapping[int, Mapping[int, CollCall]], agreed: Collection[int] = ()
) -> Iterator[Difference]:
    """The first difference among members that ``agreed`` before, if there is one."""
    agreed = set(agreed)
    for number, by_rank in sorted(calls.items()):
        sides = ranks_by((_kind(call), rank) for rank, call in by_rank.items())
        if len(sides) < 2:
            agreed |= set(by_rank) if len(by_rank) > 1 else set()
            continue
        ordered = sorted(sides.items(), key=lambda side: (-len(side[1]), min(side[1])))
        most, is_first = len(ordered[0][1]), number > 0 and not set(by_rank) <= agreed
        is_clear = most >= MAJORITY and 2 * most > len(by_rank)
        if is_first and not is_clear:
            continue
        odd = Ranks(r for _, ranks in ordered[1:] for r in ranks) if is_clear else Ranks()
        kinds, peer = list(sides), min(ordered[0][1])
        place = next(i for i in range(3) if len({kind[i] for kind in kinds}) > 1)
        shift = next(
            (s for s in (1, -1) if odd and all(_is_equal_when_shifted(calls, number, r, peer, s) for r in odd)), 0
        )
        if not shift and odd and all(_is_usual_next(calls, number, r, peer) for r in odd):
            shift = 1
        yield Difference(comm, number, ("op", "size", "dtype")[place], by_rank, odd, is_first, shift)
        return


def _kind(call: CollCall) -> Kind:
    return call.op, call.numel, call.dtype


def _is_equal_when_shifted(
    calls: Mapping[int, Mapping[int, CollCall]], number: int, rank: int, peer: int, by: int
) -> bool:
    """True when the calls of a rank equal its peer's after a move by one number.

    The later of both streams starts at ``number``. Example: rank 3 issued as #18-#20 what its peer issued as #19-#21.
    """
    mine, theirs = number + (by < 0), number + (by > 0)
    seen: list[Kind] = []
    while rank in calls.get(mine, {}) and peer in calls.get(theirs, {}):
        if _kind(calls[mine][rank]) != _kind(calls[theirs][peer]):
            return False
        seen.append(_kind(calls[mine][rank]))
        mine, theirs = mine + 1, theirs + 1
    return len(seen) >= SHIFTED and len(set(seen)) > 1


def _is_usual_next(calls: Mapping[int, Mapping[int, CollCall]], number: int, rank: int, peer: int) -> bool:
    """True when a rank issued the call that has always followed the one that was due.

    It must never have stood in the place of the call that was due.
    """
    stream = {n: _kind(by_rank[peer]) for n, by_rank in calls.items() if peer in by_rank and n < number}
    mine, due, before = _kind(calls[number][rank]), _kind(calls[number][peer]), stream.get(number - 1)
    behind_due = [stream[n + 1] for n, kind in stream.items() if kind == due and n + 1 in stream]
    in_place = [stream[n + 1] for n, kind in stream.items() if kind == before and n + 1 in stream]
    return len(behind_due) >= FEWEST_STEPS and set(behind_due) == {mine} and mine not in in_place


def _hypothesis(facts: Facts, found: Difference) -> Hypothesis:
    some = [*list(found.odd)[:3], *[r for r in found.calls if r not in found.odd][:3]]
    shown = [(rank, found.calls[rank]) for rank in some]
    peer = found.calls[next(r for r in found.calls if r not in found.odd)]
    is_reported = facts.liveness.first_alarm is not None or any(facts.case.of(CollectiveMismatch))
    return Hypothesis(
        _difference_headline(facts, found, peer),
        [Line(c, say("counters.launched", rank=r, call=_call_words(c), number=found.number)) for r, c in shown],
        (COUNTS_ALONE if is_reported and not found.is_first else doubt_of("may-differ-briefly", quiet=True),),
        ranks=found.odd,
        suspects=Ranks() if found.odd else Ranks(found.calls),
        stalled=Stalled(
            OP_TYPES.get(peer.op, peer.op.upper()),
            found.number,
            group=f"communicator ({found.comm})",
            numel_in=peer.numel,
            dtype=peer.dtype,
            entered=Ranks(found.calls),
        ),
        refuted_by=say("refuted.same-lines"),
    )


def _difference_headline(facts: Facts, found: Difference, peer: CollCall) -> Headline:
    """The shift, or each side with what it launched, the smaller ones first."""
    where = f"of communicator {found.comm}"
    call = f"{OP_TYPES.get(peer.op, peer.op.upper())} #{found.number} {where}"
    if found.shift:
        key = "counters.shifted-back" if found.shift > 0 else "counters.shifted-ahead"
        return headline_of(key, who=who(facts.case, found.odd), ranks=found.odd, call=call)
    sides = ranks_by((_kind(one), rank) for rank, one in found.calls.items())
    ordered = sorted(sides.values(), key=lambda side: (len(side), min(side)))
    told = [(side, _call_words(found.calls[min(side)])) for side in ordered]
    if found.aspect == "op":
        return headline_of("disagree.op-mismatch", number=f"#{found.number} {where}", sides=each_side(told, "called"))
    if found.aspect == "dtype":
        return headline_of("disagree.dtype-mismatch", call=call, sides=each_side(told, "sent"))
    return headline_of("disagree.size-mismatch", call=call, sides=each_side(told, "sent"))


def _call_words(call: CollCall) -> str:
    if call.numel is None:
        return call.op or "a call"
    return f"{call.op or 'a call'} of {call.numel:,} {dtype_name(call.dtype or 'element')}"


def _odd_kinds(facts: Facts) -> Iterator[tuple[NcclCounters, Ranks, Ranks]]:
    """Communicators in which the members that came furthest launched unlike operations: the fewer, and the others."""
    for one in facts.case.nccl_counters:
        most = max(one.totals.values(), default=0)
        furthest = [rank for rank in one.by_op if one.totals[rank] == most]
        sides = ranks_by((frozenset(one.by_op[rank].items()), rank) for rank in furthest)
        if len(sides) == 2 and not one.is_moving:
            odd, rest = sorted(sides.values(), key=lambda side: (len(side), min(side)))
            yield one, odd, rest


def _by_kinds(facts: Facts) -> Hypothesis | None:
    """Members that launched as many calls as the others, and one operation instead of another."""
    for one, odd, rest in _odd_kinds(facts):
        mine, theirs = one.by_op[min(odd)], one.by_op[min(rest)]
        less = [op for op in theirs if mine.get(op, 0) < theirs[op]]
        more = [op for op in mine if theirs.get(op, 0) < mine[op]]
        if len(less) == len(more) == 1:
            break
    else:
        return None
    clear = len(rest) >= MAJORITY and 2 * len(odd) < len(rest)
    number = theirs[less[0]]
    counts = {side: [f"{n:,} {op}" for op, n in sorted(one.by_op[min(side)].items()) if n] for side in (odd, rest)}
    stands = one.is_steady or facts.liveness.first_alarm is not None
    return Hypothesis(
        headline_of(
            "disagree.op-mismatch",
            number=f"call #{number} of communicator {one.comm}",
            sides=each_side([(odd, more[0]), (rest, less[0])], "called"),
        ),
        [
            counter_evidence(one.lines[min(side)], one, say("counters.launched-kinds", ranks=side, counts=told))
            for side, told in counts.items()
        ],
        (COUNTS_ALONE if stands and clear else doubt_of("may-differ-briefly", others=True),),
        ranks=odd if clear else Ranks(),
        suspects=Ranks() if clear else odd | rest,
        stalled=Stalled(OP_TYPES.get(less[0]), number, group=f"communicator ({one.comm})", entered=odd | rest),
        refuted_by=say("refuted.equal-counts"),
    )
