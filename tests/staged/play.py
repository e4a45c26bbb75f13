"""Plays the edited programs: which calls are issued, which end, who gives up when and how each process ends."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from staged.plan import Call, Group, Plan, Program


@dataclass
class Work:
    """A call that a rank has issued. ``end`` is None while it stands."""

    rank: int
    call: Call
    step: int
    record: int
    seq: int
    p2p_seq: int
    op_id: int
    created: float
    end: float | None = None
    place: int = 0


@dataclass
class Fate:
    """How a process goes on after the stall. ``code`` is None where no exit is recorded."""

    fires: list[tuple[float, Work]] = field(default_factory=list)
    dump_at: float | None = None
    gone_at: float | None = None
    code: int | None = None
    by: str = ""


@dataclass
class Scene:
    """What goes wrong: whose fault it is, and what the writers need to know of it."""

    cls: str
    culprits: tuple[int, ...] = ()
    also: tuple[str, ...] = ()
    rank_sets: tuple[tuple[int, ...], ...] = ()
    ending: str = "abort"  # abort, live, finished, crash
    delays: dict[tuple[int, int, int], float] = field(default_factory=dict)
    stuck: set[tuple[int, int, int]] = field(default_factory=set)
    barred: set[tuple[str, int, int]] = field(default_factory=set)  # group, step, place: nobody finishes this call
    away: dict[int, tuple[int, int]] = field(default_factory=dict)  # rank → the step and place where it stops
    doing: dict[int, str] = field(default_factory=dict)  # rank → where it stands instead
    dead: dict[int, tuple[float, int | None, str]] = field(default_factory=dict)  # rank → after the stall, code, by
    frozen: set[int] = field(default_factory=set)
    lost_hosts: set[str] = field(default_factory=set)
    said: list[tuple[float, int, str]] = field(default_factory=list)  # after the stall began, rank, text
    spoken: list[tuple[float, str, str]] = field(default_factory=list)  # after the stall, host, launcher's line
    kernel: list[tuple[float, str, str]] = field(default_factory=list)  # after the stall, host, text
    named_by: str = ""  # the source whose line names the culprits and the cause: log, launcher, kernel
    group: Group | None = None  # where the fault lies, unless somebody is away
    stalled: bool = True
    told: tuple[bool, bool] | None = None  # what can be told where it is not derived
    notes: dict[str, str] = field(default_factory=dict)  # files beside the output that testify to nothing
    codes: dict[int, int] = field(default_factory=dict)  # rank → how it ends when it gives up, if not by SIGABRT
    pause: float = 0.0  # seconds without a step, before the steps that a live job goes on with
    has_coll_lines: bool = False  # NCCL logs every call
    twist: Callable[[dict[str, str | bytes]], None] | None = None  # what becomes of the files after they are written


@dataclass
class Played:
    """The works of every rank, the time at which the stall begins, and what becomes of each process."""

    works: list[list[Work]]
    stall: float
    end: float
    fates: list[Fate]
    first_fire: float | None


def run(plan: Plan, programs: list[Program], scene: Scene) -> Played:
    """Plays everything."""
    works = _issue(plan, programs, scene)
    still = [w for row in works for w in row if w.end is None]
    latest = max((w.end or w.created for row in works for w in row), default=plan.start)
    stall = min((w.created for w in still), default=latest)
    fates = [Fate() for _ in range(plan.world)]
    played = Played(works, stall, latest + 5, fates, None)
    if scene.ending == "abort" and still:
        _give_up(plan, scene, played)
    for rank, (after, code, by) in scene.dead.items():
        fates[rank] = Fate(gone_at=stall + after, code=code, by=by)
    if scene.ending in ("abort", "crash"):
        _tear_down(plan, scene, played)
    if scene.ending == "live":
        played.end = stall + plan.rng.uniform(25, 90)
    return played


def _issue(plan: Plan, programs: list[Program], scene: Scene) -> list[list[Work]]:
    """Each rank issues a whole step, then waits until all calls of that step have ended."""
    works: list[list[Work]] = [[] for _ in range(plan.world)]
    clock = [plan.start + 60.0] * plan.world
    step = [0] * plan.world
    counts = _counts(plan, programs)
    meets: dict[tuple[object, ...], list[Work]] = defaultdict(list)
    moved = True
    while moved:
        moved = False
        for rank in range(plan.world):
            if step[rank] < len(programs[rank]) and all(w.end is not None for w in works[rank]):
                begin = max([clock[rank], *(w.end or 0 for w in works[rank][-1:])]) + plan.step_time * 0.6
                clock[rank] = _issue_step(plan, programs[rank], scene, rank, step[rank], begin, works, counts, meets)
                step[rank] += 1
                moved = True
        moved |= _finish(plan, scene, works, meets)
    return works


def _counts(plan: Plan, programs: list[Program]) -> list[dict[str, list[int]]]:
    """Calls, transfers and operations of each group before the first played step; a job that is old has made many."""
    out: list[dict[str, list[int]]] = []
    past = plan.first_step - 1
    for rank in range(plan.world):
        mine: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
        for call in (programs[rank] or [[]])[0]:
            row = mine[call.group.uid]
            row[1 if call.peer is not None else 0] += past
            row[2] += past
        out.append(mine)
        mine["records"][3] = sum(row[2] for uid, row in mine.items() if uid != "records")
    return out


def _issue_step(
    plan: Plan,
    program: Program,
    scene: Scene,
    rank: int,
    step: int,
    begin: float,
    works: list[list[Work]],
    counts: list[dict[str, list[int]]],
    meets: dict[tuple[object, ...], list[Work]],
) -> float:
    at = begin
    for place, call in enumerate(program[step]):
        if scene.away.get(rank, (1 << 30, 0)) <= (step, place):
            break
        at += plan.step_time * 0.02 + 0.0003 * (rank % 5) + scene.delays.get((rank, step, place), 0.0)
        row = counts[rank][call.group.uid]
        row[1 if call.peer is not None else 0] += 1
        row[2] += 1
        records = counts[rank]["records"]
        work = Work(rank, call, step, records[3], row[0], row[1], row[2], at, place=place)
        records[3] += 1
        works[rank].append(work)
        meets[_meeting(work, counts[rank])].append(work)
    return at


def _meeting(work: Work, row: dict[str, list[int]]) -> tuple[object, ...]:
    """Where this work meets its counterparts: the n-th collective of the group, or the n-th transfer of a pair."""
    call = work.call
    if call.peer is None:
        return call.group.uid, work.seq
    ends = (work.rank, call.peer) if call.op == "send" else (call.peer, work.rank)
    key = f"{call.group.uid} {ends} {call.op}"
    row[key][0] += 1
    return call.group.uid, ends, row[key][0]


def _finish(plan: Plan, scene: Scene, works: list[list[Work]], meets: dict[tuple[object, ...], list[Work]]) -> bool:
    """Ends every call that all have entered, that agrees, and that comes first on each of its ranks."""
    heads = {id(next((w for w in row if w.end is None), None)) for row in works}
    behind = {id(w) for rank, step, place in scene.stuck for w in works[rank] if (w.step, w.place) >= (step, place)}
    done = False
    for met in meets.values():
        call = met[0].call
        wanted = 2 if call.peer is not None else len(call.group.members)
        if len(met) < wanted or all(w.end is not None for w in met):
            continue
        same = call.peer is not None or len({(w.call.op, w.call.n_in, w.call.dtype) for w in met}) == 1
        bar = (call.group.uid, met[0].step, met[0].place) in scene.barred
        free = all(id(w) in heads or (w.end is None and id(w) in behind) for w in met if w.end is None)
        own = [w for w in met if w.end is None and id(w) not in behind]
        if not same or bar or not free or not own:
            continue
        first = all((w.step, w.place) == at for w in met if id(w) in behind for at in _stuck_at(scene, w.rank))
        if not first:
            continue
        end = max(w.created for w in met) + 0.02 * plan.step_time
        for w in own:
            w.end = end
        done = True
    return done


def _stuck_at(scene: Scene, rank: int) -> list[tuple[int, int]]:
    return [(step, place) for r, step, place in scene.stuck if r == rank]


def open_works(row: list[Work]) -> list[Work]:
    """The works of a rank that have not ended."""
    return [w for w in row if w.end is None]


def _give_up(plan: Plan, scene: Scene, played: Played) -> None:
    """Watchdogs fire on the first open work of each group; the first of them asks everybody for a dump."""
    for rank, row in enumerate(played.works):
        if rank in scene.frozen or rank in scene.dead:
            continue
        seen: set[Group] = set()
        for work in open_works(row):
            watched = work.call.peer is None or plan.number >= (2, 2)
            if work.call.group not in seen and watched:
                seen.add(work.call.group)
                late = work.call.group.timeout / 1000 + plan.rng.uniform(0.01, 0.9)
                played.fates[rank].fires.append((work.created + late, work))
        played.fates[rank].fires.sort(key=lambda row: row[0])
    fired = [f.fires[0][0] for f in played.fates if f.fires]
    if not fired:
        return
    played.first_fire = min(fired)
    wait = 60.0 if plan.number >= (2, 7) else 12.0
    for rank, fate in enumerate(played.fates):
        if rank in scene.frozen or rank in scene.dead:
            continue
        if plan.dumps_on and plan.number >= (2, 2):
            fate.dump_at = played.first_fire + plan.rng.uniform(0.3, 1.5)
        if fate.fires:
            fate.fires = [f for f in fate.fires if f[0] < fate.fires[0][0] + wait]
            fate.gone_at, fate.code, fate.by = fate.fires[0][0] + wait, scene.codes.get(rank, -6), "itself"


def _tear_down(plan: Plan, scene: Scene, played: Played) -> None:
    """The launcher ends what is left: torchrun as soon as a process of the host has failed, srun when somebody cancels."""
    own = {r: f.gone_at for r, f in enumerate(played.fates) if f.gone_at is not None and f.by == "itself"}
    if own and plan.launcher != "none":
        for host in plan.hosts:
            local = [r for r in range(plan.world) if plan.host(r) == host]
            gone = [own[r] for r in local if r in own] if plan.launcher == "torchrun" else []
            later = min(own.values()) + 20.0 if plan.launcher == "torchrun" else max(own.values()) + 45.0
            if host not in scene.lost_hosts:
                _close(scene, played, local, min(gone, default=later) + 0.4)
    for fate in played.fates:
        gone_at = fate.gone_at if fate.gone_at is not None else float("inf")
        fate.fires = [f for f in fate.fires if f[0] <= gone_at]
    fired = [f.fires[0][0] for f in played.fates if f.fires]
    played.first_fire = min(fired, default=None)
    for fate in played.fates:
        asked = played.first_fire is not None and fate.dump_at is not None
        if not asked or (fate.gone_at is not None and fate.dump_at is not None and fate.dump_at > fate.gone_at):
            fate.dump_at = None
    played.end = max([played.end, *(f.gone_at for f in played.fates if f.gone_at is not None)]) + 2


def _close(scene: Scene, played: Played, local: list[int], closing: float) -> None:
    for rank in local:
        fate = played.fates[rank]
        if fate.gone_at is None or fate.gone_at > closing:
            hard = rank in scene.frozen
            fate.gone_at, fate.code, fate.by = closing + (30.2 if hard else 0.3), -9 if hard else -15, "launcher"
