"""Mismatches that lines show: watchdogs of one group in different calls, wrappers and analysers that compared both ends."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from nccldoctor.align.descriptions import in_group
from nccldoctor.align.facts import Facts
from nccldoctor.align.progress.from_lines import group_of
from nccldoctor.diagnose.hypothesis import Hypothesis, Line
from nccldoctor.diagnose.phrases.headline import Headline
from nccldoctor.diagnose.phrases.say import doubt_of, headline_of, say
from nccldoctor.diagnose.phrases.sides import each_side, sized_sides
from nccldoctor.diagnose.signs.nccl_counter_diffs import from_counts
from nccldoctor.events import CollectiveMismatch, CollectiveTimeout, Event, FrAnalysis
from nccldoctor.model import CauseClass, Stalled
from nccldoctor.model.ranks import Ranks, ranks_by
from nccldoctor.words.names import call_title, op_name
from nccldoctor.words.sanitize import line

FREE_SIZES = frozenset({"ALLTOALL_BASE", "ALLTOALL", "SEND", "RECV", "GATHER", "SCATTER"})
"""Operations whose sizes differ legally between ranks."""

EARLY = frozenset(
    {"BROADCAST", "REDUCE", "GATHER", "SCATTER", "SEND", "RECV", "COALESCED", "ALLTOALL_BASE", "ALLTOALL"}
)
"""Operations that one member may finish while another is still in them."""

ANALYSER = {"TYPE": "op", "STATE": "op", "SIZE": "size", "SYNTAX": "size", "DTYPE": "dtype"}
"""Words of the error types of PyTorch's analyser (torch/distributed/flight_recorder/components/types.py, MatchState)."""


HOST = 8
"""GPUs of most hosts: a job of more has a multiple of them."""

_NOUNS = {"op": "operation", "size": "size", "dtype": "dtype"}
"""The aspects in words."""


def from_lines(facts: Facts, aspect: str) -> Hypothesis | None:
    """The mismatch that lines show in one aspect: the first that names ranks. One that names none confirms it."""
    first: Hypothesis | None = None
    for look in (_from_fingerprints, _from_analyser, _from_timeouts, from_counts):
        found = look(facts, aspect)
        if found is not None and found.ranks:
            return replace(found, citations=[*found.citations, *first.citations[:1]]) if first is not None else found
        first = first or found
    return first


def _from_fingerprints(facts: Facts, aspect: str) -> Hypothesis | None:
    """Lines of ``TORCH_DISTRIBUTED_DEBUG=DETAIL`` and of wrappers that print both ends of a comparison."""
    wanted = {"op": {"op", "sequence"}, "size": {"shape", "size"}, "dtype": {"dtype"}}[aspect]
    told = facts.case.of(CollectiveMismatch)
    found = [e for e in told if set(e.aspects) & wanted or (aspect == "op" and not e.aspects and e.left)]
    if not found or (aspect == "size" and any("op" in e.aspects for e in found)):
        return None
    event = found[0]
    both = [end for e in found for end in ((e.left, e.left_rank, e.left_seq), (e.right, e.right_rank, e.right_seq))]
    sides = ranks_by((side, rank) for side, rank, _ in both if rank is not None and side)
    numbers = {side: number or 0 for side, _, number in both}
    few, *rest = sorted(sides, key=lambda side: len(sides[side])) or [event.left]
    odd = sides[few] if len(rest) == 1 and len(sides[rest[0]]) >= 2 * len(sides[few]) else Ranks()
    pair = Ranks(r for s in sides.values() for r in s)
    is_ahead = bool(odd) and numbers[few] > numbers[rest[0]]
    op, seq = event.op or event.right_op or event.left_op, event.seq if event.seq is not None else event.right_seq
    only_number = set(event.aspects) == {"sequence"} and event.left_op == event.right_op
    is_told = bool(event.right and event.aspects)
    counted, is_shown = is_told and only_number, is_told and (odd or not only_number)
    ends = [line(end, 60) for end in ((few, rest[0]) if odd else (event.left, event.right))]
    call = call_title(op, seq) if op and aspect != "op" else ""
    noun = _NOUNS[aspect] if event.aspects else ""
    return Hypothesis(
        headline_of("disagree.out-of-step", odd=odd, left=ends[0], right=ends[1])
        if only_number
        else headline_of("disagree.mismatch-in-line", aspect=noun, call=call, odd=odd, left=ends[0], right=ends[1]),
        tuple(Line(e, say("disagree.ends-differ")) for e in found[:4]),
        (doubt_of("only-the-library-says", odd=is_told and odd and not only_number, counted=counted, told=is_shown),),
        ranks=odd,
        suspects=pair - odd,
        stalled=Stalled(op=op, seq=seq, entered=pair) if op or seq is not None else None,
        cause=(CauseClass.EXTRA_CALL if is_ahead else CauseClass.MISSED_CALL) if only_number else None,
    )


def _from_analyser(facts: Facts, aspect: str) -> Hypothesis | None:
    """Output of PyTorch's own analyser. Its *culprit rank* merely differs from the first rank: that names no culprit."""
    errors = [e for e in facts.case.of(FrAnalysis) if e.what == "mismatch"]
    told = [
        (e, [of for word, of in ANALYSER.items() if f"{word}_" in e.detail or f"_{word}" in e.detail]) for e in errors
    ]
    found = [e for e, aspects in told if next(iter(aspects), "op") == aspect]
    if not found:
        return None
    first = found[0]
    return Hypothesis(
        headline_of("disagree.found-by-analyzer", seq=first.seq),
        tuple(Line(e, say("disagree.analyzer-says", seq=e.seq)) for e in found[:4]),
        (doubt_of("analyzer-compares-with-first"),),
        stalled=Stalled(op=first.op, seq=first.seq, group=_group_name(facts, first)),
    )


def _from_timeouts(facts: Facts, aspect: str) -> Hypothesis | None:
    """Watchdogs of one group that gave up on different calls under one number.

    Calls with different numbers are different calls, and rightly differ: ALLREDUCE #18 and BARRIER #20 are no mismatch.
    """
    if aspect == "dtype":
        return None
    for seq, events in _same_number(facts):
        values: dict[int | None, object] = {
            e.rank: e.op if aspect == "op" else (e.numel_in, e.numel_out, e.shape)
            for e in events
            if aspect == "op" or None not in (e.numel_in, e.numel_out) or e.shape
        }
        operations = {e.op for e in events}
        if len(set(values.values())) < 2 or (aspect == "size" and (len(operations) > 1 or operations & FREE_SIZES)):
            continue
        return _differing_timeouts(facts, aspect, seq, [e for e in events if e.rank in values], values)
    return None


def _same_number(facts: Facts) -> Iterator[tuple[int, list[CollectiveTimeout]]]:
    """Timeout lines by number and group; a line whose group is not known is compared with none."""
    lines: dict[tuple[int, int], list[CollectiveTimeout]] = defaultdict(list)
    for event in facts.case.of(CollectiveTimeout):
        group = group_of(facts.case, event)
        if None not in (event.seq, event.rank, group) and event.op not in (None, "SEND", "RECV"):
            lines[event.seq or 0, group or 0].append(event)
    yield from ((seq, lines[seq, group]) for seq, group in sorted(lines))


def _differing_timeouts(
    facts: Facts, aspect: str, seq: int, events: Sequence[CollectiveTimeout], values: dict[int | None, object]
) -> Hypothesis:
    """Ranks that gave up on different calls under one number; a majority of three at least names the others.

    Members without a line may be of the smaller side: of 16 ranks, 0-7 and 9 printed one, so that rank 9 may have seven beside it.
    """
    sides = ranks_by((value, rank) for rank, value in values.items() if rank is not None)
    ordered = sorted(sides.values(), key=lambda s: (-len(s), min(s)))
    majority = ordered[0] if len(ordered[0]) * 2 > len(values) and len(ordered[0]) >= 3 else Ranks()
    ranks = Ranks(r for s in ordered for r in s)
    silent = _possible_members(facts, events[0]) - ranks
    majority = majority if len(majority) > len(ranks - majority) + len(silent) else Ranks()
    odd = ranks - majority if majority else Ranks()
    first = next(e for e in events if not odd or e.rank in majority)
    batch = first.op == "COALESCED"
    is_whole = not batch and len(odd) == 1 and _are_all_compared(facts, first, ranks)
    return Hypothesis(
        _sides_headline(facts, aspect, first, events, [*ordered[1:], ordered[0]]),
        tuple(
            Line(e, say("disagree.timed-out-with", rank=e.rank, call=call_title(e.op, seq), elements=e.numel_in))
            for e in events[:6]
        ),
        (doubt_of("one-call-each", batch=batch, whole=is_whole),),
        ranks=Ranks() if batch else odd,
        suspects=ranks if batch or not odd else Ranks(),
        stalled=first.stalled(ranks, _group_name(facts, first)),
    )


def _sides_headline(
    facts: Facts, aspect: str, first: CollectiveTimeout, events: Sequence[CollectiveTimeout], sides: Sequence[Ranks]
) -> Headline:
    """Each side with what its watchdogs printed, the smaller ones first."""
    number, of_rank = group_of(facts.case, first), {e.rank: e for e in events}
    told = [of_rank[min(side)] for side in sides]
    if aspect == "op":
        at = f"#{first.seq}" if number is None else in_group(facts, number, f"#{first.seq}")
        called = each_side([(s, op_name(e.op)) for s, e in zip(sides, told, strict=True)], "called")
        return headline_of("disagree.op-mismatch", number=at, sides=called)
    title = call_title(first.op, first.seq)
    call = title if number is None else in_group(facts, number, title)
    for did, counts in (("sent", [e.numel_in for e in told]), ("expected", [e.numel_out for e in told])):
        known = [count for count in counts if count is not None]
        if len(known) == len(counts) and len(set(known)) > 1:
            sent = sized_sides(list(zip(sides, known, strict=True)), did)
            return headline_of("disagree.size-mismatch", call=call, sides=sent)
    sent = each_side([(s, e.shape or "an unknown shape") for s, e in zip(sides, told, strict=True)], "sent")
    return headline_of("disagree.size-mismatch", call=call, sides=sent)


def _possible_members(facts: Facts, line: CollectiveTimeout) -> Ranks:
    """The members of the group of a line. Where only the highest rank is known, hosts of eight are whole."""
    number, size = group_of(facts.case, line), facts.case.world_at_least
    group = facts.case.groups[number] if number is not None else None
    if group is not None and group.learned not in ("assumed", "log"):
        return group.members
    whole = facts.case.world_size or (size if size <= HOST else -(-size // HOST) * HOST)
    return Ranks(range(whole)) if group is None or group.learned == "assumed" else group.members


def _are_all_compared(facts: Facts, line: CollectiveTimeout, ranks: Ranks) -> bool:
    """True when the ranks are all members of the group of a line, by a source that lists them."""
    number = group_of(facts.case, line)
    if number is None:
        return facts.case.world_size is not None and frozenset(facts.case.world) <= ranks
    group = facts.case.groups[number]
    return group.learned != "assumed" and frozenset(group.members) <= ranks


def _group_name(facts: Facts, line: Event) -> str | None:
    """The name of a group in reports, as a line names it; None where it names none."""
    if line.group is None:
        return None
    number = group_of(facts.case, line)
    return str(line.group) if number is None else facts.case.groups[number].label
