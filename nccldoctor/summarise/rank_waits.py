"""Finds the call that each rank waits in, the ranks it waits for, and when the wait began and ended.

Example: ranks 0 and 2 wait in ALLREDUCE #9 for rank 1. Rank 0 issued it at 12.0 s and timed out at 20.0 s, rank 2 at 12.4 s and 20.4 s:
each has its own values here, and the row that both share in a picture lasts from 12.0 s to 20.4 s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial

from msgspec.structs import replace

from nccldoctor.align.descriptions import op_of
from nccldoctor.align.divergence.mismatches import rows_at
from nccldoctor.align.facts import Facts
from nccldoctor.align.progress.from_lines import group_of
from nccldoctor.align.stack_activity import wait_of
from nccldoctor.align.standing.stances import is_transfer
from nccldoctor.align.wait_graph import Key
from nccldoctor.align.wait_times import complaints, wait_times
from nccldoctor.events import CallTimeout, Event, ExceptionRaised
from nccldoctor.model import Finding, Link, Role
from nccldoctor.model.causes import Family
from nccldoctor.model.operations import op_type
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.stack_frames import innermost
from nccldoctor.model.standings import RankWait, WaitedCall

COUNTED_BY_NCCL = ("ras", "inspector", "comm-dump")


Disputed = tuple[str, int, str]
"""Group, number and operation of what a rank called where the ranks disagree in it."""


def rank_waits(
    facts: Facts, findings: tuple[Finding, ...], roles: Mapping[int, Role], disputed: Mapping[int, Disputed]
) -> dict[int, RankWait]:
    """The wait of each rank that waits or timed out. ``roles`` are the rank table's, ``disputed`` by :func:`own_operations`."""
    links = {rank: link for finding in findings for link in _links(facts, finding) for rank in link.waiting}
    known = cache(partial(_known_of, facts))
    waits = {rank: _rank_wait(facts, rank, role, links.get(rank), known) for rank, role in roles.items()}
    return {rank: _with_own_operation(wait, disputed.get(rank)) for rank, wait in waits.items() if wait is not None}


def _with_own_operation(wait: RankWait, own: Disputed | None) -> RankWait:
    """The wait with what its rank called itself, where that is the call in which the ranks disagree."""
    call = wait.call
    if own is None or own[0] not in ("", *call.groups[:1]) or call.seq != own[1]:
        return wait
    return replace(wait, call=replace(call, op=own[2]))


def own_operations(facts: Facts, findings: tuple[Finding, ...]) -> Mapping[int, Disputed]:
    """Group, number and operation of what each rank called where the ranks disagree in it; empty where they agree.

    Example: rank 0 called ALLGATHER #39 and ranks 1-3 called ALLREDUCE #39. All of them wait in the same stuck call.
    """
    call, case = findings[0].stalled, facts.case
    if findings[0].family is not Family.DISAGREE or call is None or call.seq is None:
        return {}
    groups = [index for index, group in enumerate(case.groups) if group.label == call.group]
    rows = rows_at(case, facts.progress, groups[0], call.seq) if groups else {}
    ops = case.vocabulary.ops
    printed = {e.rank: e.op for e in case.timeouts(call.seq) if e.op and e.rank in call.members}
    called = printed | {rank: op_type(ops[int(case.calls.op[row])]) for rank, row in rows.items()}
    return {rank: (call.group or "", call.seq, op) for rank, op in called.items() if rank is not None}


def _links(facts: Facts, finding: Finding) -> tuple[Link, ...]:
    """The waits that a finding names.

    Where it names no call, its victims wait for its culprits; but where their tracebacks stand in different calls, or several in
    transfers, nothing shows in which of these a culprit is missing.
    """
    call = finding.awaited
    if finding.chain or call is None or finding.stalled is not None:
        return finding.chain
    asked = call.entered if call.op is None else Ranks()  # each transfer has a peer of its own
    shown = [one for rank in asked if (one := _of_traceback(complaints(facts, rank, None).gloo)) is not None]
    is_one = len(set(shown)) < 2 and not (len(shown) > 1 and is_transfer((shown[0].op or "").lower()))
    return (Link(call.entered, call.missing if is_one else Ranks(), "", call.op, None),)


def _rank_wait(
    facts: Facts, rank: int, role: Role, link: Link | None, known: Callable[[Key], tuple[WaitedCall, Ranks]]
) -> RankWait | None:
    """The wait of one rank. ``known`` gives what all ranks in a stuck call share: thousands wait in the same one."""
    keys = facts.wait_graph.waits_in.get(rank, ()) if role is not Role.UNINVOLVED else ()
    stuck = facts.wait_graph.calls[keys[0]] if keys else None
    link = link if role not in (Role.CULPRIT, Role.SUSPECT) else None
    said = complaints(facts, rank, stuck, link.seq if link is not None else None)
    waits_for = Ranks()
    if stuck is not None:
        call, waits_for = known(stuck.key)
    elif link is not None:
        call = WaitedCall(link.group, link.op, link.seq, (link.group,) if link.group else ())
        call = (_of_traceback(said.gloo) if link.op is None and link.seq is None else None) or call
    elif said.about or said.gloo is not None or (said.every and role is Role.WAITING):
        call = _named_by(facts, said.about) or _of_traceback(said.gloo) or WaitedCall("", None, None)
    else:
        return None
    if not waits_for and link is not None:
        waits_for = link.for_
    others = waits_for - {rank} if rank in waits_for else waits_for
    return RankWait(call, others, wait_times(facts, rank, stuck, said))


def _known_of(facts: Facts, key: Key) -> tuple[WaitedCall, Ranks]:
    """The name of a stuck call, and the ranks that hold it up."""
    call = facts.wait_graph.calls[key]
    group = facts.case.groups[call.group]
    name = WaitedCall(group.desc or group.label, op_of(facts, call), call.seq, (group.label,))
    # NCCL's counters give no order between communicators: a rank that counted the call and lags in another one did arrive
    counted = (facts.progress.by_group_rank.get((call.group, rank)) for rank in call.queued)
    arrived = Ranks(own.rank for own in counted if own is not None and own.known_by in COUNTED_BY_NCCL)
    return name, call.blockers - arrived


def _of_traceback(event: Event | None) -> WaitedCall | None:
    """The call in which gloo raised, with the line that made it; None where the traceback does not show it."""
    if not isinstance(event, ExceptionRaised):
        return None
    kind, function = wait_of(event.frames) or ("", "")
    if kind != "call" or function == "wait":
        return None
    return WaitedCall("", op_type(function), None, site=innermost((event.frame,)) if event.frame else "")


def _named_by(facts: Facts, lines: Sequence[CallTimeout]) -> WaitedCall | None:
    """The call as a line of the watchdog names it; None without such a line, as with gloo."""
    if not lines:
        return None
    index = group_of(facts.case, lines[0])
    group = facts.case.groups[index] if index is not None else None
    kind = (group.desc or group.label) if group is not None else ""
    return WaitedCall(kind, lines[0].op, lines[0].seq, (group.label,) if group is not None else ())
