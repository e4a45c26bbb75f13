"""From the stalled simulation to its end: which watchdog fires when, who dumps, who ends how."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from simulator.discrete_events import Sim
from simulator.program import Job
from simulator.state import NEVER, Work

POLL = 0.1


@dataclass(slots=True)
class Fate:
    """The fate of one rank after the stall."""

    rank: int
    fires: list[tuple[float, Work]] = field(default_factory=list)  # one per process group, in time
    dump_at: float = NEVER
    dump_from: int | None = None  # the rank whose signal it followed; None: its own watchdog
    dump_frames: bool = True
    by_hand: bool = False  # told through the pipe; no watchdog, no store
    gone_at: float = NEVER
    code: int | None = None
    by: str = ""  # self, fault, agent, scheduler

    @property
    def dumped(self) -> bool:
        return self.dump_at < NEVER


@dataclass(slots=True)
class Story:
    """The fates of all ranks and the marks that a launcher leaves."""

    job: Job
    sim: Sim
    fates: list[Fate]
    first_fire: float = NEVER
    first_rank: int = -1
    closed_at: dict[str, float] = field(default_factory=dict)  # host → the agent begins to close its ranks
    first_bad: dict[str, int] = field(default_factory=dict)  # host → the rank whose end the agent saw first
    stopped_from_outside: set[str] = field(default_factory=set)
    step_ended: float = NEVER
    snapshot_at: float = NEVER

    @property
    def last(self) -> float:
        """The last moment anything was written."""
        moments = [f.gone_at for f in self.fates if f.gone_at < NEVER]
        moments += [f.dump_at for f in self.fates if f.dump_at < NEVER]
        moments += [said for host in self.sim.hosts for said, _, _ in host.said[-1:]]
        return max([*moments, 0.0])


def alive_until(sim: Sim, rank: int) -> float:
    """When the threads of a rank stop running because of the fault itself."""
    host = sim.hosts[rank]
    return host.since if host.how in ("stopped", "ended") else NEVER


def _own_fires(sim: Sim, rank: int, rng: random.Random) -> list[tuple[float, Work]]:
    limit = alive_until(sim, rank)
    first: dict[str, tuple[float, Work]] = {}
    for work in sim.hosts[rank].works:
        due = work.issued + work.call.group.timeout_ms / 1000
        if work.end <= due or work.call.group.uid in first:
            continue
        fired = due + rng.uniform(0.01, POLL)
        if fired < limit:
            first[work.call.group.uid] = (fired, work)
    return sorted(first.values(), key=lambda item: item[0])


def _moment(sim: Sim, ranks: list[int]) -> float:
    """When the last of these ranks went into what never ends, or the first process ended."""
    stuck = [next((w.issued for w in sim.hosts[r].works if w.end == NEVER), 0.0) for r in ranks]
    ended = [host.since for host in sim.hosts if host.how == "ended"]
    return max([*stuck, *ended[:1], 0.0])


def watch(job: Job, sim: Sim, rng: random.Random, ends: dict[int, tuple[float, int]], hang: bool) -> Story:
    """Let the watchdogs, monitors and launchers act on a stalled job."""
    fates = [Fate(rank, _own_fires(sim, rank, rng)) for rank in range(job.knobs.world)]
    story = Story(job, sim, fates)
    for fate in fates:
        if fate.fires and fate.fires[0][0] < story.first_fire:
            story.first_fire, story.first_rank = fate.fires[0][0], fate.rank
    moment = _moment(sim, sorted(ends))
    for rank, (delay, code) in ends.items():
        fates[rank].gone_at, fates[rank].code, fates[rank].by = moment + delay, code, "fault"
    _exits(story, rng, hang)
    for fate in fates:
        fate.fires = [f for f in fate.fires if f[0] < fate.gone_at]
    _forget_fires_that_never_came(story)
    _dumps(story, rng)
    return story


def _forget_fires_that_never_came(story: Story) -> None:
    fired = [(f.fires[0][0], f.rank) for f in story.fates if f.fires]
    story.first_fire, story.first_rank = min(fired, default=(NEVER, -1))


def _exits(story: Story, rng: random.Random, hang: bool) -> None:
    """Own ends first, then what the launcher does about them. In a job that hangs nobody's program is at its end."""
    job, sim = story.job, story.sim
    for fate in story.fates:
        host = sim.hosts[fate.rank]
        if host.ended is not None and host.how == "ended":
            fate.gone_at, fate.code, fate.by = host.since, host.ended.code, "fault"
        elif host.how == "done" and not hang:
            fate.gone_at, fate.code, fate.by = host.since + rng.uniform(0.5, 1.5), 0, "self"
        if (
            fate.by != "fault"
            and fate.fires
            and (aborted := fate.fires[0][0] + job.knobs.release.abort_delay) < fate.gone_at
        ):
            fate.gone_at = aborted + rng.uniform(0.0, 0.4)
            fate.code, fate.by = -6, "self"
    if job.knobs.launcher == "srun":
        _srun(story, rng)
    else:
        _torchrun(story, rng)


def _close(fate: Fate, when: float, rng: random.Random, by: str, frozen: bool, grace: float) -> None:
    """A closing signal: a stopped process outlives SIGTERM and is killed after the grace time."""
    if fate.gone_at <= when:
        return
    fate.gone_at = when + (grace if frozen else rng.uniform(0.01, 0.05))
    fate.code, fate.by = (-9 if frozen else -15), by


def _torchrun(story: Story, rng: random.Random) -> None:
    job, sim = story.job, story.sim
    lost = {h for h in job.hosts if all(sim.hosts[r].doing == "host lost" for r in _ranks(job, h))}
    for name in job.hosts:
        mine = [story.fates[r] for r in _ranks(job, name)]
        bad = [f for f in mine if f.gone_at < NEVER and f.code != 0]
        if name in lost or not bad:
            continue
        first = min(bad, key=lambda f: f.gone_at)
        closing = first.gone_at + rng.uniform(0.1, 0.4)
        story.closed_at[name], story.first_bad[name] = closing, first.rank
        for fate in mine:
            _close(fate, closing, rng, "agent", sim.hosts[fate.rank].how == "stopped", 30.0)
    _others_stop(story, lost, rng)


def _others_stop(story: Story, lost: set[str], rng: random.Random) -> None:
    """Hosts on which nothing failed by itself are stopped from outside some time after the rest."""
    job, sim = story.job, story.sim
    if not story.closed_at:
        return
    when = max(story.closed_at.values()) + rng.uniform(20, 90)
    for name in job.hosts:
        mine = [story.fates[r] for r in _ranks(job, name)]
        if name in story.closed_at or name in lost or all(f.code == 0 for f in mine):
            continue
        story.stopped_from_outside.add(name)
        story.closed_at[name] = when
        for fate in mine:
            _close(fate, when, rng, "scheduler", sim.hosts[fate.rank].how == "stopped", 30.0)


def _srun(story: Story, rng: random.Random) -> None:
    bad = [f for f in story.fates if f.gone_at < NEVER and f.code != 0 and story.sim.hosts[f.rank].doing != "host lost"]
    if not bad:
        return
    if story.job.knobs.kill_on_exit:
        when = min(f.gone_at for f in bad) + rng.uniform(0.3, 1.2)
    else:
        when = max(f.gone_at for f in bad) + rng.uniform(30, 120)
    if all(f.gone_at < when for f in story.fates):
        return
    story.step_ended = when
    for fate in story.fates:
        if story.sim.hosts[fate.rank].doing != "host lost":
            _close(fate, when, rng, "scheduler", story.sim.hosts[fate.rank].how == "stopped", 32.0)


def _ranks(job: Job, host: str) -> range:
    at = job.hosts.index(host)
    return range(at * job.knobs.gpus, (at + 1) * job.knobs.gpus)


def _dumps(story: Story, rng: random.Random) -> None:
    """Ranks dump for their own watchdog, or when the monitor sees the signal of another in the store."""
    job, sim = story.job, story.sim
    if not job.knobs.dump_on or story.first_fire == NEVER:
        return
    # without an agent the store lives in the process of rank 0
    store = NEVER if job.knobs.launcher == "torchrun" else alive_until(sim, 0)
    for fate in story.fates:
        seen = story.first_fire + 0.3 + rng.uniform(0.0, 1.0)
        own = fate.fires[0][0] + rng.uniform(0.2, 0.6) if fate.fires else NEVER
        at, source = (own, None) if own <= seen or seen > store else (seen, story.first_rank)
        if source is not None and fate.rank == story.first_rank:
            source = None
        if (
            sim.hosts[fate.rank].how == "gil"
        ):  # the first attempt hangs on the interpreter lock, the second has no stacks
            at, fate.dump_frames = at + (60.0 if job.knobs.release.number >= (2, 6) else NEVER), False
        if at < min(fate.gone_at, alive_until(sim, fate.rank)):
            fate.dump_at, fate.dump_from = at, source
