"""A rank issued another operation, size (number of elements) or dtype than its peers at the same sequence number.

What it means: one call differs and the calls around it fit, or the history is too short to tell a shift from a difference.
How we know: recorder entries of the members under one sequence number. Ranks 0-6 recorded ALLREDUCE #18 of 1,024 elements and rank 7
one of 512: rank 7 differs; a tie names nobody. Without dumps, the lines of watchdogs or of a wrapper that compared both ends; for
operations also tracebacks, where one rank stands at a different line from all others.
What would refute it: equal entries of all members under that number, or calls that fit when one stream is moved by one call.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from nccldoctor.align.descriptions import stalled_of
from nccldoctor.align.divergence.departures import Way
from nccldoctor.align.divergence.mismatches import Mismatch, compare_calls
from nccldoctor.align.facts import Facts
from nccldoctor.align.wait_graph import StuckCall
from nccldoctor.diagnose.citations import Citation, Entry, Line
from nccldoctor.diagnose.hypothesis import Hypothesis
from nccldoctor.diagnose.observations import ObservedStall
from nccldoctor.diagnose.registry import rule
from nccldoctor.diagnose.rules.disagree.missed_call import departure_doubts
from nccldoctor.diagnose.signs import framework_branches, traceback_diffs
from nccldoctor.diagnose.signs.recorded_diffs import has_size_complaint
from nccldoctor.diagnose.signs.watchdog_diffs import REFUTED, from_lines, noun
from nccldoctor.diagnose.signs.where_ranks_stand import hooks_by_rank
from nccldoctor.events import CollectiveMismatch
from nccldoctor.model import CauseClass, Confidence, Doubt, Stalled
from nccldoctor.model.operations import has_varying_sizes, op_type, plain_op
from nccldoctor.model.ranks import Ranks
from nccldoctor.words.names import ranks_phrase, verb


def judge(facts: Facts, stall: ObservedStall, aspect: str) -> Hypothesis | None:
    """The ranks that differ in one aspect; None where the members differ in another one, or merely by a shift."""
    mismatch = stall.mismatch
    if mismatch is not None:
        hypothesis = _from_dumps(facts, stall, mismatch) if mismatch.aspect == aspect else None
    elif aspect == "size" and has_size_complaint(facts):
        hypothesis = _only_rank_without_dump(facts)
    else:
        hypothesis = from_lines(facts, aspect)
    if hypothesis is not None or aspect != "op":
        return hypothesis
    return traceback_diffs.judge(facts, stall, other_group=False) or framework_branches.judge(
        facts, stall.health.troubles
    )


def _register(cause: CauseClass, aspect: str) -> None:
    @rule(cause, refuted_by=REFUTED)
    def judge_aspect(facts: Facts, stall: ObservedStall) -> Hypothesis | None:
        found = judge(facts, stall, aspect)
        return _with_hooks(facts, found) if found is not None else None


_register(CauseClass.OP_MISMATCH, "op")
_register(CauseClass.SIZE_MISMATCH, "size")
_register(CauseClass.DTYPE_MISMATCH, "dtype")


def _with_hooks(facts: Facts, found: Hypothesis) -> Hypothesis:
    """Adds where in a framework a rank that differs stands: ``rank 3 is in on_step_end of the Trainer``."""
    hooks = dict(islice(hooks_by_rank(facts, found.ranks or found.suspects), 2))
    if not hooks:
        return found
    words = " and ".join(f"rank {rank} is in {hook}" for rank, (hook, _) in hooks.items())
    lines = [Line(event, f"rank {rank} is in {hook}") for rank, (hook, event) in hooks.items()]
    return replace(found, headline=f"{found.headline}; {words}", citations=[*found.citations, *lines])


def _only_rank_without_dump(facts: Facts) -> Hypothesis | None:
    """Concludes that the only rank without a dump differs when a library received a wrong size.

    All other ranks must have recorded the last call alike. Only where the group is the whole job: in a part of it they
    might wait for that rank, while it disagrees with somebody else.
    """
    case, newest = facts.case, facts.progress.last_row
    for group in case.groups:
        rows = {r: newest[r] for r in group.members if r in newest and case.call_group[newest[r]] == group.index}
        silent = group.members - rows
        numbers = {int(case.calls.seq[row]) for row in rows.values()}
        free = any(has_varying_sizes(case.vocabulary.ops[case.calls.op[row]]) for row in rows.values())
        if (
            len(rows) < 3
            or len(silent) != 1
            or group.members != case.world
            or silent & facts.progress.recorded_ranks
            or len(numbers) != 1
            or free
        ):
            continue
        if compare_calls(case, group.index, min(numbers), rows) is None:
            key, nobody = ("collective", group.index, min(numbers), 0), Ranks()
            call = StuckCall(
                key, group.index, min(numbers), Ranks(rows), nobody, nobody, nobody, nobody, row=min(rows.values())
            )
            shown = [Entry(row, f"rank {r} issued it as all others did") for r, row in list(rows.items())[:3]]
            return Hypothesis(
                f"{ranks_phrase(silent).capitalize()} issued another size than the {len(rows)} others, who agree with each other",
                (*_size_complaints(facts), *shown),
                (Doubt.at_most(Confidence.MEDIUM, "its own dump is missing: the size is inferred from all others'"),),
                ranks=Ranks(silent),
                stalled=stalled_of(facts, call),
            )
    return from_lines(facts, "size")


def _from_dumps(facts: Facts, stall: ObservedStall, found: Mismatch) -> Hypothesis | None:
    case, departures = facts.case, stall.departures
    if departures and not any(item.way is Way.REPLACED for item in departures):
        return None  # calls were missed or added: this one differs because of that
    minority = found.minority
    shown = [*list(minority)[:3], *list(found.majority)[:2]] if minority else [min(s) for s in found.sides[:3]]
    evidence: list[Citation] = [Entry(found.rows[r], _entry_words(facts, r, minority, found)) for r in shown]
    backing = {r for side in found.sides[:1] for r in side} - set(found.rows)
    evidence += [
        Line(e, f"rank {e.rank} gave up on what the majority recorded")
        for e in case.timeouts(found.seq)
        if e.rank in backing
    ][:2]
    evidence += _size_complaints(facts)
    group = case.groups[found.group]
    row = found.rows[min(found.majority or found.rows)]
    stalled = _stalled(facts, found, row)
    what = f"{stalled.op} #{found.seq} of {group.label}"
    if found.is_tie:
        return Hypothesis(
            f"The members of {group.label} disagree about {noun(found.aspect)} of #{found.seq}, and nobody outnumbers the others",
            evidence,
            (Doubt.at_most(Confidence.MEDIUM, "as many ranks are on either side"),),
            suspects=Ranks(found.rows),
            stalled=stalled,
        )
    mine = " against ".join(_value_of(facts, found, r) for r in (min(minority), min(found.majority)))
    free = found.aspect == "size" and has_varying_sizes(case.vocabulary.ops[case.calls.op[row]])
    whole = len(found.rows) + 1 >= len(group.members) and group.learned != "assumed" and not free
    doubts = [*departure_doubts(departures), *_doubts_of_place(facts, found, is_whole=whole)]
    step = (
        f"{verb(minority, 'is', 'are')} out of step: {verb(minority, 'it', 'they')} "
        if departure_doubts(departures)
        else ""
    )
    return Hypothesis(
        f"{ranks_phrase(minority).capitalize()} {step}issued another {noun(found.aspect)}"
        f" than the {len(found.sides[0])} others at {what}: {mine}",
        evidence,
        doubts,
        ranks=minority,
        stalled=stalled,
    )


def _doubts_of_place(facts: Facts, found: Mismatch, *, is_whole: bool) -> Iterator[Doubt]:
    """Doubts that the members are compared in the right place, and all of them."""
    if not is_whole:
        yield Doubt.at_most(Confidence.MEDIUM, "not all members of the group are known to be compared")
    if len(found.majority) < 2:
        yield Doubt.at_most(Confidence.MEDIUM, "only one rank issued the other call")
    if found.aspect == "op" and _are_missed_elsewhere(facts, found):
        yield Doubt("others wait for it in another group: it may have missed that call", cause=Confidence.MEDIUM)


def _are_missed_elsewhere(facts: Facts, found: Mismatch) -> bool:
    """True when others also wait for the differing ranks in a call of another group.

    The call that they skipped there may have brought them here.
    """
    calls = facts.wait_graph.calls.values()
    return any(c.group != found.group and c.missing & found.minority and c.inside - found.minority for c in calls)


def _stalled(facts: Facts, found: Mismatch, row: int) -> Stalled:
    key = ("collective", found.group, found.seq, 0)
    call = facts.wait_graph.calls.get(key) or StuckCall(
        key, found.group, found.seq, Ranks(found.rows), Ranks(), Ranks(), Ranks(), Ranks(), row=row
    )
    made = stalled_of(facts, replace(call, row=row))
    assert made is not None
    recorded = Ranks(found.rows)  # a record of it is an entry
    return replace(
        made, entered=made.entered | recorded, missing=made.missing - recorded, unseen=made.unseen - recorded
    )


def _entry_words(facts: Facts, rank: int, minority: Ranks, found: Mismatch) -> str:
    role = ", unlike the majority" if rank in minority else ", as the majority did" if minority else ""
    return f"rank {rank} issued {_value_of(facts, found, rank)} at #{found.seq}{role}"


def _value_of(facts: Facts, found: Mismatch, rank: int) -> str:
    case, row = facts.case, found.rows[rank]
    if found.aspect == "op":
        return op_type(plain_op(case.vocabulary.ops[case.calls.op[row]]))
    if found.aspect == "size":
        count = int(case.calls.numel_in[row])
        return f"{count:,} element{'' if count == 1 else 's'}"
    inputs, outputs = case.vocabulary.dtypes[case.calls.dtypes[row]]
    return (inputs or outputs or ("?",))[0]


def _size_complaints(facts: Facts) -> list[Line]:
    """A transport that received another size: the rank that aborts need not be the one that differs."""
    return [
        Line(e, f"rank {e.rank} received a size it did not expect")
        for e in facts.case.of(CollectiveMismatch)
        if "size" in e.aspects
    ][:2]
