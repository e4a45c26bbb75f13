"""Describes stuck calls and recorder entries in words: operation, number, group, and when the call began and timed out.

Example: ``ALLREDUCE #18723 of DP 5``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from operator import itemgetter

from msgspec.structs import replace

from nccldoctor.align.call_sequences import call_site
from nccldoctor.align.facts import Facts
from nccldoctor.align.nccl_counter_evidence import OP_TYPES, counters_of
from nccldoctor.align.progress.from_lines import group_of
from nccldoctor.align.wait_graph import StuckCall
from nccldoctor.align.wait_times import complaints, wait_times
from nccldoctor.events import CallTimeout, WorkStatus
from nccldoctor.identify.clock_skew import clock_offsets
from nccldoctor.identify.event_times import with_year
from nccldoctor.model import Stalled
from nccldoctor.model.operations import op_type
from nccldoctor.model.recorded_calls import COMPLETED, STATES, Calls
from nccldoctor.model.stack_frames import innermost
from nccldoctor.words.lists import and_list
from nccldoctor.words.names import call_title, group_phrase
from nccldoctor.words.numbers import plural

MOST_ASKED = 64
"""Members of a call whose lines are searched for when they gave up."""


def recorded_state(calls: Calls, row: int) -> str:
    """The state of a call as its dump has it: ``completed``, or ``scheduled, retired`` where only that tells its end."""
    is_retired = calls.retired[row] and calls.state[row] != COMPLETED
    return STATES[int(calls.state[row])] + (", retired" if is_retired else "")


def entry_text(facts: Facts, row: int) -> str:
    """A recorder entry in one line: operation, number, group, sizes, state and the user's call site."""
    case, calls = facts.case, facts.case.calls
    inputs = case.vocabulary.sizes[calls.sizes[row]][0] if calls.sizes[row] >= 0 else ()
    state = STATES[int(calls.state[row])] + (", retired" if calls.retired[row] else "")
    group = case.groups[case.call_group[row]].label if case.call_group[row] >= 0 else "?"
    where = call_site(case.vocabulary.stacks[calls.stack[row]])
    sizes = ", ".join(str(list(s)) for s in inputs[:3])
    return f"{case.vocabulary.ops[calls.op[row]]} #{calls.number(row)} in {group} {sizes} {state}" + (
        f", called by {where}" if where else ""
    )


def stalled_of(facts: Facts, call: StuckCall | None) -> Stalled | None:
    """The call in the terms of the contract, with when it began and when the first rank gave up."""
    if call is None:
        return None
    since, until = _duration(facts, call)
    return replace(_without_times(facts, call), since=since, until=until)


def _duration(facts: Facts, call: StuckCall) -> tuple[datetime | None, datetime | None]:
    """When the first member issued a call, and when the first one gave up on it.

    It was issued at the recorder's time (UTC), else at the time of a timeout line less what the call had run, as that line prints
    it. None where neither is known.
    """
    lines = list(timeouts_of(facts, call))
    members = (facts.progress.by_group_rank.get((call.group, rank)) for rank in call.entered)
    rows = [m.row for m in members if m is not None and m.row >= 0 and m.pending == call.seq] or [call.row]
    issued = [ns for row in rows if row >= 0 and (ns := int(facts.case.calls.created_ns[row])) > 0]
    if issued:
        began = min(issued) / 1e9
        ends = [at for e in lines if not math.isnan(at := facts.liveness.time(e))] or _timed_out(facts, call, began)
        return datetime.fromtimestamp(began, UTC), datetime.fromtimestamp(min(ends), UTC) if ends else None
    ahead = clock_offsets(lines, facts.case.skews).tolist()
    printed = [
        (facts.liveness.time(e), e.time - timedelta(seconds=by), e.ran_ms)
        for e, by in zip(lines, ahead, strict=True)
        if e.time is not None
    ]
    timed = sorted(((at, with_year(when, at), ms) for at, when, ms in printed if not math.isnan(at)), key=itemgetter(0))
    starts = [(at - ms / 1e3, when - timedelta(milliseconds=ms)) for at, when, ms in timed if ms is not None]
    return min(starts, key=itemgetter(0), default=(0.0, None))[1], timed[0][1] if timed else None


def _timed_out(facts: Facts, call: StuckCall, began: float) -> list[float]:
    """When members of a call timed out, raised or ended after it began, where no timeout line names the call."""
    members = list(call.entered)[:MOST_ASKED]
    ends = (wait_times(facts, rank, call, complaints(facts, rank, call), began).until for rank in members)
    return [at for at in ends if at is not None and at >= began]


def _without_times(facts: Facts, call: StuckCall) -> Stalled:
    """The call by its recorder entry, else by NCCL's counters, else by a timeout line.

    Else by the line of a member whose call failed in NCCL before its limit was reached, where it names the operation.
    """
    group, row, counts = facts.case.groups[call.group].label, call.row, counters_of(facts, call)
    known = Stalled(None, call.seq, group=group, entered=call.entered, missing=call.missing, unseen=call.unknown)
    if row >= 0:
        calls, words = facts.case.calls, facts.case.vocabulary
        dtypes = words.dtypes[calls.dtypes[row]] if calls.dtypes[row] >= 0 else ((), ())
        printed = (e.timeout_ms for e in timeouts_of(facts, call) if e.timeout_ms is not None)
        return replace(
            known,
            op=op_type(words.ops[calls.op[row]]),
            kind="p2p" if call.pair else "collective",
            numel_in=int(calls.numel_in[row]) if calls.numel_in[row] >= 0 else None,
            numel_out=int(calls.numel_out[row]) if calls.numel_out[row] >= 0 else None,
            dtype=next(iter(dtypes[0] or dtypes[1]), None),
            timeout_ms=timeout if (timeout := int(calls.timeout_ms[row])) > 0 else next(printed, None),
        )
    if counts is not None:
        launch = counts.call
        numel, dtype = (launch.numel, launch.dtype) if launch else (None, None)
        return replace(known, op=OP_TYPES.get(counts.op or ""), numel_in=numel, dtype=dtype)
    failed = (e for e in facts.case.of(WorkStatus) if e.failed == call.seq and e.op and e.rank in call.entered)
    line = next(timeouts_of(facts, call), None) or next(failed, None)
    if line is None:
        return known
    return replace(known, op=line.op, numel_in=line.numel_in, numel_out=line.numel_out, timeout_ms=line.timeout_ms)


def timeouts_of(facts: Facts, call: StuckCall) -> Iterator[CallTimeout]:
    """Timeout lines about a call, by ranks that entered it; often the first is enough."""
    lines, entered = facts.case.timeouts(call.seq), call.entered
    return (e for e in lines if e.rank in entered and group_of(facts.case, e) in (call.group, None))


def op_of(facts: Facts, call: StuckCall) -> str | None:
    """The operation of a call, as the watchdog prints it: ``ALLREDUCE``; None where it is unknown."""
    return _without_times(facts, call).op


def describe(facts: Facts, call: StuckCall | None) -> str:
    """``ALLREDUCE #18723 of DP 5``."""
    return "a collective" if call is None else in_group(facts, call.group, call_title(op_of(facts, call), call.seq))


def describe_row(facts: Facts, row: int) -> str:
    """A recorded call as :func:`describe` words it."""
    calls, parts = facts.case.calls, facts.sequences.batches.get(row)
    title = call_title(op_type(facts.case.vocabulary.ops[calls.op[row]]), calls.number(row))
    if parts:
        title = f"a batch of {and_list(sorted({op_type(part) for part in parts}))}"
    return in_group(facts, int(facts.case.call_group[row]), title)


def describe_entry(facts: Facts, row: int) -> str:
    """A recorded call with what tells it from others: ``ALLREDUCE #9 of TP 1 with 1,024 elements in step (train.py:40)``."""
    calls = facts.case.calls
    count, site = int(calls.numel_in[row]), call_site(facts.case.vocabulary.stacks[calls.stack[row]])
    size = f" with {plural(count, 'element')}" if count >= 0 else ""
    return describe_row(facts, row) + size + (f" in {innermost((site,))}" if site else "")


def in_group(facts: Facts, group: int, call: str) -> str:
    """``call`` with its group, unless that is the default or the only one: ``ALLREDUCE #9 of TP 1``."""
    if group < 0 or facts.case.groups[group].desc == "default_pg" or len(facts.case.groups) == 1:
        return call
    return f"{call} of {describe_group(facts, group)}"


def describe_group(facts: Facts, group: int) -> str:
    """``TP 1``, ``the default group``, ``group 5``."""
    found = facts.case.groups[group]
    if found.learned == "unnamed":
        return "a group that the logs don't name"
    return group_phrase(found.label)


def describe_missing(facts: Facts, call: StuckCall | None) -> str:
    """What the absent ranks did not issue: the call, or the other end of a transfer.

    Rank 2 waits in RECV #4 from rank 1: rank 1 did not post ``the SEND that rank 2 waits for in RECV #4``.
    """
    if call is None or call.pair is None or len(call.entered) != 1:
        return describe(facts, call)
    sender, receiver = call.pair
    end, other = ("SEND", receiver) if receiver in call.entered else ("RECV", sender)
    return f"the {end} that rank {other} waits for in {describe(facts, call)}"
