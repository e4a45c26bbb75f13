"""One rank's call has a different operation, size (number of elements) or dtype from its peers'.

What it means: one call differs and the calls around it match, or the history is too short to tell a shift from a difference.
How we know: flight recorder entries of the members with one sequence number. Ranks 0-6 recorded ALLREDUCE #18 of 1,024 elements and rank 7
one of 512: rank 7 differs; a tie names no rank. Without dumps, the lines of watchdogs or of a wrapper that compared both ends; for
operations also tracebacks, where one rank waits at a different line from all its peers.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

from msgspec.structs import replace

from nccldoctor.align.descriptions import describe, describe_row, in_group, stalled_of
from nccldoctor.align.divergence.departures import Way
from nccldoctor.align.divergence.mismatches import Mismatch, call_frames, compare_calls, is_of_several_functions
from nccldoctor.align.facts import Facts
from nccldoctor.diagnose.hypothesis import Citation, Entry, Hypothesis, Line
from nccldoctor.diagnose.observations import ObservedStall
from nccldoctor.diagnose.phrases.headline import Headline
from nccldoctor.diagnose.phrases.say import doubt_of, headline_of, say
from nccldoctor.diagnose.phrases.sides import at_places, each_side, sized_sides
from nccldoctor.diagnose.registry import rule
from nccldoctor.diagnose.rules.disagree.missed_call import departure_doubts
from nccldoctor.diagnose.signs import traceback_diffs
from nccldoctor.diagnose.signs.framework_reports import find_branches
from nccldoctor.diagnose.signs.recorded_diffs import size_complaints
from nccldoctor.diagnose.signs.silence import doubts_of_odd_dumps
from nccldoctor.diagnose.signs.where_ranks_stand import hooks_by_rank
from nccldoctor.model import CauseClass, Stalled
from nccldoctor.model.operations import has_varying_sizes, op_type, plain_op
from nccldoctor.model.ranks import Ranks
from nccldoctor.words.names import call_title, dtype_name, op_name, ranks_phrase


def judge(facts: Facts, stall: ObservedStall, aspect: str) -> Hypothesis | None:
    """The ranks that differ in one aspect; None where the members differ in another one, or merely by a shift."""
    mismatch = stall.mismatch
    if mismatch is not None:
        hypothesis = _from_dumps(facts, stall, mismatch) if mismatch.aspect == aspect else None
    elif aspect == "size" and size_complaints(facts):
        if (parted := stall.job.parted_tracebacks) is not None:
            return parted if parted.cause is CauseClass.SIZE_MISMATCH else None
        hypothesis = _only_rank_without_dump(facts) or stall.job.differing_lines(aspect)
    else:
        hypothesis = stall.job.differing_lines(aspect)
    if hypothesis is not None or aspect != "op":
        return hypothesis
    parted = stall.job.parted_tracebacks
    if parted is not None and parted.cause is CauseClass.OP_MISMATCH:
        return parted
    return traceback_diffs.judge(facts, stall, other_group=False) or find_branches(facts, stall.job.open_reports)


def _register(cause: CauseClass, aspect: str) -> None:
    @rule(cause, refuted_by=say("refuted.records-matched", call="call"))
    def judge_aspect(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
        found = judge(facts, stall, aspect)
        if found is None:
            return None
        doubts = (*found.doubts, *doubts_of_odd_dumps(facts, found.ranks))
        return _with_hooks(facts, replace(found, doubts=doubts))


_register(CauseClass.OP_MISMATCH, "op")
_register(CauseClass.SIZE_MISMATCH, "size")
_register(CauseClass.DTYPE_MISMATCH, "dtype")


def _with_hooks(facts: Facts, found: Hypothesis) -> Hypothesis:
    """Adds where in a framework a rank that differs stands: ``rank 3 is in on_step_end of the Trainer``."""
    hooks = dict(islice(hooks_by_rank(facts, found.ranks or found.suspects), 2))
    if not hooks:
        return found
    headline = at_places(
        found.headline, [say("disagree.place-in-hook", rank=rank, hook=hook) for rank, (hook, _) in hooks.items()]
    )
    lines = [Line(event, say("disagree.was-in-hook", rank=rank, hook=hook)) for rank, (hook, event) in hooks.items()]
    return replace(found, headline=headline, citations=[*found.citations, *lines])


def _only_rank_without_dump(facts: Facts) -> Hypothesis | None:
    """Concludes that the only rank without a dump differs when a library received a wrong size.

    All other ranks must have recorded the last call alike. Two of them suffice where that rank itself received the wrong size. Only where
    the group is the whole job: in a part of it they might wait for that rank, while it disagrees with somebody else.
    """
    case, newest = facts.case, facts.progress.last_row
    complaining = {e.rank for e in size_complaints(facts)}
    for group in case.groups:
        rows = {r: newest[r] for r in group.members if r in newest and case.call_group[newest[r]] == group.index}
        silent = group.members - rows
        numbers = {int(case.calls.seq[row]) for row in rows.values()}
        free = any(has_varying_sizes(case.vocabulary.ops[case.calls.op[row]]) for row in rows.values())
        if (
            len(rows) < (2 if silent <= complaining else 3)
            or len(silent) != 1
            or group.members != case.world
            or silent & facts.progress.recorded_ranks
            or len(numbers) != 1
            or free
        ):
            continue
        if compare_calls(case, group.index, min(numbers), rows) is None:
            call = facts.wait_graph.collective(group.index, min(numbers), Ranks(rows), min(rows.values()))
            what = describe(facts, call)
            shown = [
                Entry(row, say("disagree.called-like-peers", rank=r, call=what)) for r, row in list(rows.items())[:3]
            ]
            return Hypothesis(
                headline_of("disagree.different-size-without-dump", who=ranks_phrase(silent), peers=len(rows)),
                (*_size_complaints(facts), *shown),
                (doubt_of("size-inferred", rank=min(silent)),),
                ranks=Ranks(silent),
                stalled=stalled_of(facts, call),
                refuted_by=say("refuted.records-matched", call=what),
            )
    return None


def _from_dumps(facts: Facts, stall: ObservedStall, found: Mismatch) -> Hypothesis | None:
    case, departures = facts.case, stall.departures
    if departures and not any(item.way is Way.REPLACED for item in departures):
        return None  # calls were missed or added: this one differs because of that
    minority = found.minority
    shown = [*list(minority)[:3], *list(found.majority)[:2]] if minority else [min(s) for s in found.sides[:3]]
    frames = call_frames(case, found.rows)
    if not is_of_several_functions(frames.values()):
        frames = {}  # told only where the functions differ
    evidence: list[Citation] = [Entry(found.rows[r], _entry_words(facts, r, found, frames)) for r in shown]
    backing = {r for side in found.sides[:1] for r in side} - set(found.rows)
    lines = [e for e in case.timeouts(found.seq) if e.rank in backing][:2]
    evidence += [Line(e, say("waiting.timed-out", rank=e.rank, call=call_title(e.op, e.seq))) for e in lines]
    evidence += _size_complaints(facts)
    group = case.groups[found.group]
    row = found.rows[min(found.majority or found.rows)]
    stalled = _stalled(facts, found, row)
    refuted_by = say("refuted.records-matched", call=in_group(facts, found.group, call_title(stalled.op, found.seq)))
    if found.is_tie:
        return Hypothesis(
            _each_side(facts, found, stalled, frames),
            evidence,
            (doubt_of("no-majority-disagree"),),
            suspects=Ranks(found.rows),
            stalled=stalled,
            refuted_by=refuted_by,
        )
    free = found.aspect == "size" and has_varying_sizes(case.vocabulary.ops[case.calls.op[row]])
    whole = len(found.rows) + 1 >= len(group.members) and group.learned != "assumed" and not free
    doubts = departure_doubts(departures)
    if group.learned == "assumed":
        doubts.append(doubt_of("members-assumed"))
    elif free:
        doubts.append(doubt_of("sizes-may-differ", op=op_name(stalled.op)))
    elif not whole:
        doubts.append(doubt_of("not-all-compared"))
    if len(found.majority) < 2:
        doubts.append(doubt_of("one-against-one"))
    # others also wait for the differing ranks in a call of another group: one that they skipped there may have brought them here
    elsewhere = [
        call for call in facts.wait_graph.calls.values() if call.group != found.group and call.missing & minority
    ]
    if found.aspect == "op" and any(call.inside - minority for call in elsewhere):
        doubts.append(doubt_of("awaited-elsewhere", ranks=minority))
    return Hypothesis(
        _each_side(facts, found, stalled, frames),
        evidence,
        doubts,
        ranks=minority,
        stalled=stalled,
        refuted_by=refuted_by,
    )


def _each_side(facts: Facts, found: Mismatch, stalled: Stalled, frames: Mapping[int, str]) -> Headline:
    """Each side with what it called, the minority first."""
    sides = [side & found.rows.keys() for side in (*found.sides[1:], *found.sides[:1])]
    sides = [side for side in (sides if found.minority else sides[-1:] + sides[:-1]) if side]
    if found.aspect == "op":
        number = in_group(facts, found.group, f"#{found.seq}")
        called = each_side([(side, _op_of(facts, found, min(side))) for side in sides], "called")
        return headline_of("disagree.op-mismatch", number=number, sides=called)
    call = in_group(facts, found.group, call_title(stalled.op, found.seq))
    if found.aspect == "dtype":
        sent = each_side([(side, _dtype_of(facts, found, min(side))) for side in sides], "sent")
        return headline_of("disagree.dtype-mismatch", call=call, sides=sent)
    did, counts = _sizes(facts, found)
    told = [(side, counts[min(side)]) for side in sides]
    sent = sized_sides(told, did, [frames.get(min(side), "") for side in sides])
    return headline_of("disagree.size-mismatch", call=call, sides=sent)


def _stalled(facts: Facts, found: Mismatch, row: int) -> Stalled:
    call = facts.wait_graph.collective(found.group, found.seq, Ranks(found.rows), row)
    made = stalled_of(facts, replace(call, row=row))
    assert made is not None
    recorded = Ranks(found.rows)  # a record of it is an entry
    return replace(
        made, entered=made.entered | recorded, missing=made.missing - recorded, unseen=made.unseen - recorded
    )


def _entry_words(facts: Facts, rank: int, found: Mismatch, frames: Mapping[int, str]) -> str:
    if found.aspect == "op":
        return say("disagree.called", rank=rank, call=f"{_op_of(facts, found, rank)} as #{found.seq}")
    call = describe_row(facts, found.rows[rank])
    if found.aspect == "dtype":
        return say("disagree.sent", rank=rank, value=_dtype_of(facts, found, rank), call=call)
    did, counts = _sizes(facts, found)
    frame = frames.get(rank)
    return say("disagree.sent-elements", rank=rank, did=did, count=counts[rank], call=call, frame=frame)


def _op_of(facts: Facts, found: Mismatch, rank: int) -> str:
    case = facts.case
    return op_name(op_type(plain_op(case.vocabulary.ops[case.calls.op[found.rows[rank]]])))


def _dtype_of(facts: Facts, found: Mismatch, rank: int) -> str:
    inputs, outputs = facts.case.vocabulary.dtypes[facts.case.calls.dtypes[found.rows[rank]]]
    return dtype_name((inputs or outputs or ("unknown",))[0])


def _sizes(facts: Facts, found: Mismatch) -> tuple[str, Mapping[int, int]]:
    """The elements that each rank sent; those that it expected where the sides differ in these."""
    calls, sides = facts.case.calls, [side & found.rows.keys() for side in found.sides]
    inputs, outputs = ({r: int(col[row]) for r, row in found.rows.items()} for col in (calls.numel_in, calls.numel_out))
    is_told = all(len({inputs[r] for r in side}) == 1 for side in sides if side) and len(set(inputs.values())) > 1
    return ("sent", inputs) if is_told else ("expected", outputs)


def _size_complaints(facts: Facts) -> list[Line]:
    """A transport that received another size: the rank that aborts need not be the one that differs."""
    return [Line(e, say("disagree.unexpected-size", rank=e.rank)) for e in size_complaints(facts)[:2]]
