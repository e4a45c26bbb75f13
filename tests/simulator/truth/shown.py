"""Derives from the kept files whether a rank is shown inside a call, outside of it, alive or ended."""

from __future__ import annotations

from simulator.faults.scenarios import Fault
from simulator.lines.desync import latest
from simulator.state import NEVER, Work
from simulator.truth.truth import Kept
from simulator.watchdogs import Story


def kernel_names(story: Story, kept: Kept, rank: int) -> bool:
    """A kernel line knows a process and a board; some log must say which rank that is."""
    if rank not in kept.kernel:
        return False
    knobs, host = story.job.knobs, story.job.host(rank)
    table = knobs.launcher == "torchrun" and kept.launcher and host in story.first_bad
    ended = host in story.closed_at and story.closed_at[host] + 32 < kept.until
    return (knobs.nccl_info and rank in kept.logs) or (table and ended) or rank in kept.stacks


def fired_in(story: Story, kept: Kept, rank: int, work: Work | None = None) -> bool:
    """Did a kept line of that rank say that it (or this work of it) timed out?"""
    fires = [w for t, w in story.fates[rank].fires if t <= kept.until]
    return rank in kept.logs and bool(fires if work is None else [w for w in fires if w is work])


def dumped(story: Story, kept: Kept, work: Work) -> bool:
    """A kept dump was written after that work was issued."""
    return work.rank in kept.dumps and work.issued <= story.fates[work.rank].dump_at


def exit_shown(story: Story, kept: Kept, rank: int) -> bool:
    """A record that this rank ended by itself, or that a closing signal ended it."""
    fate = story.fates[rank]
    if kept.launcher and rank in kept.failed_hosts:
        return True
    if not kept.launcher or fate.gone_at > kept.until or not fate.code:
        return False
    host = story.job.host(rank)
    return story.job.knobs.launcher == "srun" or host not in story.stopped_from_outside


def labelled(story: Story) -> bool:
    """The files say which rank printed a line of the program's own."""
    return story.job.knobs.files in ("per_rank", "tree", "srun")


def traceback_shown(story: Story, fault: Fault, kept: Kept, rank: int) -> bool:
    """The exception of that rank is in a kept log, and the log or the line says whose it is."""
    if rank not in kept.logs or story.sim.hosts[rank].since > kept.until:
        return False
    return labelled(story) or story.job.knobs.release.number >= (2, 4) or bool(fault.traits.get("lingers"))


def world_shown(story: Story, kept: Kept) -> bool:
    """Something that was kept tells the world size: recorded members, INIT lines, or a trace of the last rank itself."""
    knobs, last = story.job.knobs, story.job.knobs.world - 1
    if (kept.dumps and knobs.release.number >= (2, 3)) or (knobs.nccl_info and kept.logs):
        return True
    printed = last in kept.logs and (labelled(story) or fired_in(story, kept, last))
    return printed or last in kept.dumps | kept.bare_dumps | kept.stacks or exit_shown(story, kept, last)


def absent_ranks(story: Story, fault: Fault, kept: Kept, works: list[Work]) -> bool:
    """Named may be who is shown outside, or the only one whose peers are all shown inside.

    Of several who left nothing each may be inside as well, and a member is missed only where the world is known to have it.
    """
    shown = [rank for rank in fault.culprits if shown_outside(story, fault, kept, rank)]
    if len(shown) == len(fault.culprits):
        return True
    if not world_shown(story, kept) or not works or works[0].call.pieces:
        return False
    group = works[0].call.group
    if only_silent(story, fault, kept):
        return True
    known = group.role == "world" or (bool(kept.dumps) and story.job.knobs.release.number >= (2, 3))
    if known and desync_names(story, fault, kept, works[0]):
        return True
    if len(fault.culprits) > 1:
        return False
    others = set(group.members) - set(fault.culprits)
    inside = {w.rank for w in works if dumped(story, kept, w) or fired_in(story, kept, w.rank, w)}
    return known and others <= inside


def only_silent(story: Story, fault: Fault, kept: Kept) -> bool:
    """Every rank but the culprits printed that it waits; whatever the groups are, nobody else is left."""
    printed = {f.rank for f in story.fates if fired_in(story, kept, f.rank)}
    everybody = set(range(story.job.knobs.world))
    return everybody <= kept.logs and everybody - printed == set(fault.culprits)


def desync_names(story: Story, fault: Fault, kept: Kept, work: Work) -> bool:
    """A kept desync report on the stalled group has just the culprits behind."""
    if not story.job.knobs.desync or story.job.knobs.release.number < (2, 4):
        return False
    first = [f.fires[0] for f in story.fates if f.fires and f.rank in kept.logs and f.fires[0][0] <= kept.until]
    if not any(w.call.group is work.call.group and not w.call.pieces for _, w in first):
        return False
    states = latest(story.sim, work, story.first_fire)
    behind = {m for k, m in enumerate(work.call.group.members) if states.get(k, (0, "", ""))[0] < work.coll_seq}
    return behind == set(fault.culprits) & set(work.call.group.members)


def shown_outside(story: Story, fault: Fault, kept: Kept, rank: int) -> bool:
    if rank in kept.dumps or rank in kept.stacks:
        return True
    if fault.cls == "raised" and traceback_shown(story, fault, kept, rank):
        return True
    return fault.cls in ("died", "raised") and (exit_shown(story, kept, rank) or kernel_names(story, kept, rank))


def alive_shown(story: Story, kept: Kept, rank: int) -> bool:
    """A sign of life after the stall began: a dump, a stack, a line, an end by the closing SIGTERM."""
    fate = story.fates[rank]
    closing = exit_shown(story, kept, rank) and fate.by in ("agent", "scheduler") and fate.code == -15
    spoke = rank in kept.logs and min(fate.dump_at, *(t for t, _ in fate.fires), NEVER) <= kept.until
    return rank in kept.dumps | kept.bare_dumps | kept.stacks or spoke or closing


def absent_one(story: Story, fault: Fault, kept: Kept, rank: int) -> bool:
    fate = story.fates[rank]
    closing = exit_shown(story, kept, rank) and fate.by in ("agent", "scheduler")
    if fault.cls == "not-arrived":
        return alive_shown(story, kept, rank)
    if fault.cls == "frozen":
        if closing and fate.code == -9:
            return True
        others = {f.rank for f in story.fates if f.dumped} - {rank}
        silent = others and others <= kept.dumps and kept.launcher and kept.until == NEVER
        return bool(silent) and story.job.knobs.launcher == "srun"
    if fault.cls == "raised":
        own = rank in kept.logs and story.sim.hosts[rank].since <= kept.until
        return traceback_shown(story, fault, kept, rank) or (own and exit_shown(story, kept, rank))
    return exit_shown(story, kept, rank) or kernel_names(story, kept, rank)
