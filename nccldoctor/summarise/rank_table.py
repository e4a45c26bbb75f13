"""Makes the row of each rank, and what is known of the job as a whole."""

from __future__ import annotations

import math

from msgspec.structs import replace

from nccldoctor.align.descriptions import describe, in_group
from nccldoctor.align.facts import Facts
from nccldoctor.align.progress.from_dumps import GroupProgress
from nccldoctor.align.wait_graph import Key
from nccldoctor.events import CommInit, DumpSignal, Event, ExceptionRaised
from nccldoctor.identify.event_times import YEARLESS
from nccldoctor.model import Alarm, CauseClass, Confidence, Family, Finding, Job, Place, RankState, Role
from nccldoctor.model.diagnosis import AlarmOrder
from nccldoctor.model.ranks import Ranks
from nccldoctor.model.standings import RankWait
from nccldoctor.summarise.rank_waits import Disputed, own_operations, rank_waits
from nccldoctor.words.names import call_title, group_title, ranks_phrase
from nccldoctor.words.numbers import plural

NOTICES = 3
"""Gaps that a report names at the top."""


def rank_table(facts: Facts, findings: tuple[Finding, ...]) -> tuple[RankState, ...]:
    """One row for each rank of the job, by rank."""
    case, call = facts.case, findings[0].stalled
    roles = dict.fromkeys((r for f in findings for r in f.victims), Role.WAITING)
    roles |= dict.fromkeys(findings[0].suspects, Role.SUSPECT)
    roles |= dict.fromkeys((r for f in findings for r in f.ranks), Role.CULPRIT)
    progress: dict[int, list[GroupProgress]] = {}
    for own in facts.progress.by_group_rank.values():
        progress.setdefault(own.rank, []).append(own)
    unread = Ranks(r for r, dump in zip(case.dump_rank, case.dumps, strict=True) if r is not None and dump.problem)
    uncertain = unread | (call.missing | call.unseen if call is not None else Ranks())
    stalled = call.group if call is not None and case.groups else None
    texts: dict[tuple[Key, str | None], str] = {}
    is_clear = findings[0].cause is CauseClass.NONE and findings[0].confidence is not Confidence.LOW
    for rank in case.world:
        counts = progress.get(rank, [])
        idle = (bool(counts) or facts.liveness.activity(rank).logged) if is_clear else _is_idle(facts, rank, counts)
        roles.setdefault(rank, Role.UNINVOLVED if idle and rank not in uncertain else Role.UNKNOWN)
    disputed = own_operations(facts, findings)
    waits = rank_waits(facts, findings, roles, disputed)
    states = (
        _rank_state(facts, rank, roles[rank], progress.get(rank, []), stalled, disputed.get(rank), texts)
        for rank in case.world
    )
    return tuple(_with_wait(state, waits.get(state.rank)) for state in states)


def _with_wait(state: RankState, wait: RankWait | None) -> RankState:
    """The row with the wait of its rank. A finding or a line may name a call that is in no graph."""
    if wait is None or state.waits_in is not None or (wait.call.op is None and wait.call.seq is None):
        return replace(state, wait=wait)
    group = group_title(wait.call.groups[0]) if wait.call.groups else ""
    title = call_title(wait.call.op, wait.call.seq) + (f" in {wait.call.site}" if wait.call.site else "")
    return replace(state, wait=wait, waits_in=f"{title} of {group}" if group not in ("", "default group") else title)


def _is_idle(facts: Facts, rank: int, progress: list[GroupProgress]) -> bool:
    """True where a rank is shown to wait for nobody: it ended well, or all its recorded calls are complete."""
    activity = facts.liveness.activity(rank)
    recorded = bool(progress) and all(p.known_by == "dump" and p.pending is None for p in progress)
    return activity.has_finished or (recorded and not activity.alarms)


def _rank_state(
    facts: Facts,
    rank: int,
    role: Role,
    progress: list[GroupProgress],
    stalled: str | None,
    disputed: Disputed | None,
    texts: dict[tuple[Key, str | None], str],
) -> RankState:
    """The row of one rank; ``texts`` keeps descriptions of calls, since thousands of ranks wait in the same one.

    ``disputed`` is what it called in the call in which the ranks disagree: group, number, operation.
    """
    case, waits_in = facts.case, facts.wait_graph.waits_in.get(rank, ())
    if role is Role.UNINVOLVED:  # its dump may be older than its end
        waits_in = ()
    call = facts.wait_graph.calls.get(waits_in[0]) if waits_in else None
    if call is not None:
        group: int | None = call.group
        own = next((p for p in progress if p.group == group), None)
    else:
        first = progress[0] if progress else None
        own = next((p for p in progress if case.groups[p.group].label == stalled), first) if stalled else first
        group = own.group if own is not None else None
    op = None
    if call is not None and disputed is not None and (case.groups[call.group].label, call.seq) == disputed[:2]:
        op = disputed[2]
    name = (call.key, op) if call is not None else None
    if call is not None and name is not None and name not in texts:
        own_title = in_group(facts, call.group, call_title(op, call.seq))
        texts[name] = own_title if op else describe(facts, call)
    sign, where = _last_sign(facts, rank, bool(progress))
    printed = facts.liveness.activity(rank).printed
    return RankState(
        rank=rank,
        role=role,
        host=case.rank_host.get(rank),
        device=case.rank_device.get(rank),
        pid=case.rank_pid.get(rank),
        group=case.groups[group].label if group is not None else None,
        completed=own.completed if own is not None else None,
        enqueued=own.enqueued if own is not None else None,
        waits_in=texts[name] if name is not None else None,
        last_sign=sign,
        last_line=None if math.isnan(printed) else printed,
        where=where,
    )


def _last_sign(facts: Facts, rank: int, counted: bool) -> tuple[str, Place | None]:
    """The last thing seen of a rank: its stack, else its last line, else its end. ``counted``: others counted its calls."""
    signs = facts.liveness.activity(rank)
    stack = max((e for e in signs.stacks if e.frames), key=lambda e: e.main, default=None)
    if stack is not None:
        return stack.phrase(), stack.place
    if signs.last_event is not None:
        return signs.last_event.phrase(), signs.last_event.place
    if signs.dump == "good":
        return "wrote a dump", None
    if signs.logged:
        return "its log was read", None
    if signs.exits:
        return signs.exits[-1].phrase(), signs.exits[-1].place
    return ("it left no file; others counted its calls" if counted else "no file or line of it"), None


def job(facts: Facts) -> Job:
    """World size, hosts, versions and groups."""
    case = facts.case
    names = {*case.rank_host.values(), *(e.host for e in case.of(CommInit) if e.host)}
    hosts = sorted({case.pods.place(name) for name in names})
    groups = tuple(group for group in case.groups if group.learned != "unnamed")
    return Job(
        case.world_size,
        tuple(hosts),
        case.torch,
        case.nccl,
        groups,
        case.is_size_guessed,
        case.world_at_least,
        case.job_id,
    )


def notices(facts: Facts) -> tuple[str, ...]:
    """The parts of the input that the answer does not rest on, other runs first; the coverage lists all."""
    gaps = sorted((gap for gap in facts.case.gaps if gap.apart or gap.lost), key=lambda gap: not gap.apart)
    texts = [f"{gap.what}: {gap.why}" for gap in gaps]
    more = len(texts) - NOTICES
    return (*texts[:NOTICES], *([f"and {more} more files: see the coverage"] if more > 0 else []))


def survived(facts: Facts, verdict: Finding) -> tuple[str, ...]:
    """The exceptions of ranks of a job that is well, in one sentence; none where a person stopped it.

    Example: a thread of rank 2 that serves statistics finds its port taken, and the rank trains to the end.
    """
    own = [e for e in facts.case.of(ExceptionRaised) if e.origin == "own" and not e.is_stop_by_person]
    if verdict.family is not Family.NONE or not own:
        return ()
    ranks = Ranks(e.rank for e in own if e.rank is not None)
    thread = " in a thread" if all(e.is_of_thread for e in own) else ""
    where = f" on {ranks_phrase(ranks)}" if ranks else ""
    first = f"{own[0].type}: {own[0].message}".rstrip(": ")[:120]
    return (f"{plural(len(own), 'exception')}{thread}{where}, after which the run continued: {first} ({own[0].place})",)


def alarm(facts: Facts) -> Alarm | None:
    """The first complaint in the input, most often that of a victim; Ctrl-C is none, it is a person's."""
    event = facts.liveness.first_alarm
    if event is None or event.is_stop_by_person:
        return None
    time = event.time if event.time is not None and event.time.year != YEARLESS else None
    told_by = event.from_rank if isinstance(event, DumpSignal) else None
    rank = event.rank if told_by is None or told_by < 0 else told_by
    return Alarm(rank, event.place, time, _alarm_order(facts, event, rank))


def _alarm_order(facts: Facts, alarm: Event, rank: int | None) -> AlarmOrder:
    """How the time of the first complaint compares with those of the errors of all other ranks."""
    errors = [e for e in facts.case.events if e.is_trouble and e.rank != rank and not e.is_stop_by_person]
    open_ones = [e for e in errors if not facts.liveness.is_after_alarm(e) and not e.place.is_below(alarm.place)]
    if not open_ones:
        return AlarmOrder.FIRST
    at = facts.liveness.alarm
    return AlarmOrder.TIED if all(facts.liveness.time(e) == at for e in open_ones) else AlarmOrder.UNKNOWN
