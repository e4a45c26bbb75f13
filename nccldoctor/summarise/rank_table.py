"""Where everyone is: one row for each rank, and the job as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from nccldoctor.align.descriptions import describe
from nccldoctor.align.facts import Facts
from nccldoctor.align.first_pending import Key
from nccldoctor.align.progress.group_progress import GroupProgress
from nccldoctor.events import CommInit
from nccldoctor.identify.clocks import YEARLESS
from nccldoctor.model import Alarm, Finding, Job, Place, RankState, Role
from nccldoctor.model.ranks import Ranks

NOTICES = 3
"""Gaps that are told at the top."""


def rank_table(facts: Facts, findings: tuple[Finding, ...]) -> tuple[RankState, ...]:
    """One row for each rank of the job, by rank."""
    culprits = Ranks(r for f in findings for r in f.ranks)
    suspects = Ranks(r for f in findings[:1] for r in f.suspects)
    victims = Ranks(r for f in findings for r in f.victims)
    fronts: dict[int, list[GroupProgress]] = {}
    for front in facts.progress.by_group_rank.values():
        fronts.setdefault(front.rank, []).append(front)
    names = {s.uid or s.desc for s in facts.case.groups}
    stalled = findings[0].stalled.group if findings[0].stalled is not None and names else None
    missed = findings[0].stalled.missing if findings[0].stalled is not None else Ranks()
    said: dict[Key, str] = {}
    roles = ((rank, _role(rank, culprits, suspects, victims)) for rank in facts.case.world)
    rows = (_state(facts, rank, role, fronts.get(rank, []), stalled, said) for rank, role in roles)
    open_ = frozenset(missed) | {r for r, d in zip(facts.case.dump_rank, facts.case.dumps, strict=True) if d.problem}
    return tuple(replace(r, role=Role.UNKNOWN) if r.role is Role.UNINVOLVED and r.rank in open_ else r for r in rows)


def _role(rank: int, culprits: Ranks, suspects: Ranks, victims: Ranks) -> Role:
    for ranks, role in ((culprits, Role.CULPRIT), (suspects, Role.SUSPECT), (victims, Role.VICTIM)):
        if rank in ranks:
            return role
    return Role.UNINVOLVED


def _state(
    facts: Facts, rank: int, role: Role, fronts: list[GroupProgress], stalled: str | None, said: dict[Key, str]
) -> RankState:
    """The row of one rank; ``said`` keeps how calls are described, since thousands wait in the same one."""
    case, signs = facts.case, facts.liveness.activity(rank)
    firm = facts.wait_graph.waits_in.get(rank, ())
    call = facts.wait_graph.calls.get(firm[0]) if firm else None
    front = next((f for f in fronts if call is not None and f.group == call.group), None)
    if front is None:
        front = next((f for f in fronts if case.groups[f.group].label == stalled), fronts[0] if fronts else None)
    if call is not None and call.key not in said:
        said[call.key] = describe(facts, call)
    sign, where = _last_sign(facts, rank, bool(fronts))
    unknown = role is Role.UNINVOLVED and not fronts and not signs.logged
    return RankState(
        rank=rank,
        role=Role.UNKNOWN if unknown else role,
        host=case.rank_host.get(rank),
        device=case.rank_device.get(rank),
        pid=case.rank_pid.get(rank),
        group=case.groups[front.group].label if front is not None else None,
        completed=front.completed if front is not None else None,
        enqueued=front.enqueued if front is not None else None,
        waits_in=said[call.key] if call is not None else None,
        last_sign=sign,
        where=where,
    )


def _last_sign(facts: Facts, rank: int, counted: bool) -> tuple[str, Place | None]:
    """The last thing seen of a rank: a stack says most, else its last line; ``counted`` where somebody told how far it is."""
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
    return ("nothing of its own was read; others counted its calls" if counted else "nothing was read of it"), None


def job(facts: Facts) -> Job:
    """World size, hosts, versions and groups."""
    case = facts.case
    hosts: Mapping[str, None] = dict.fromkeys(
        sorted({*case.rank_host.values(), *(e.host for e in case.of(CommInit) if e.host)})
    )
    guessed = case.world_size is not None and case.groups[0].learned != "world"  # the default group is always the first
    return Job(case.world_size, tuple(hosts), case.torch, case.nccl, case.groups, guessed)


def notices(facts: Facts) -> tuple[str, ...]:
    """What of the input the answer does not rest on, other runs first; the coverage has the rest."""
    gaps = sorted((gap for gap in facts.case.gaps if gap.apart or gap.lost), key=lambda gap: not gap.apart)
    said = [f"{gap.what}: {gap.why}" for gap in gaps]
    more = len(said) - NOTICES
    return (*said[:NOTICES], *([f"and {more} more files: see the coverage"] if more > 0 else []))


def alarm(facts: Facts) -> Alarm | None:
    """Who complained first."""
    event = facts.liveness.first_alarm
    if event is None:
        return None
    time = event.time if event.time is not None and event.time.year != YEARLESS else None
    return Alarm(event.rank, event.place, time)
