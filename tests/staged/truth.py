"""The truth about a job, and how much of it the kept files can tell."""

from __future__ import annotations

from collections import Counter
from typing import Any

from staged.plan import Plan, Program
from staged.play import Played, Scene, Work, open_works
from staged.writing.c10d import OPS, shown_seq
from staged.writing.layouts import Kept

ABSENT = ("not-arrived", "frozen", "died", "raised")
DISAGREE = (
    "op-mismatch",
    "size-mismatch",
    "dtype-mismatch",
    "missed-call",
    "extra-call",
    "order-inversion",
    "unmatched-p2p",
)
RECORDED_ONLY = DISAGREE[2:]
"""What no log line shows: kinds of numbers, and what was called before."""


def root(plan: Plan, healthy: list[Program], played: Played, scene: Scene) -> tuple[list[Work], set[int]]:
    """The works of the stalled call, and the members that are not in it."""
    if not scene.stalled:
        return [], set()
    if scene.away:
        return _root_of_away(healthy, played, scene)
    group = scene.group
    assert group is not None
    transfers = scene.cls == "unmatched-p2p"
    still = [
        w
        for r in group.members
        for w in open_works(played.works[r])
        if w.call.group is group and (w.call.peer is not None) == transfers
    ]
    if not still:
        return [], set()
    if transfers:
        return [w for w in still if w.call.peer in scene.culprits][:1], set(scene.culprits)
    low = min(w.seq for w in still)
    works = [
        w
        for r in group.members
        for w in played.works[r]
        if w.call.group is group and w.seq == low and w.call.peer is None
    ]
    return works, set(group.members) - {w.rank for w in works}


def _root_of_away(healthy: list[Program], played: Played, scene: Scene) -> tuple[list[Work], set[int]]:
    """The first call, in the order of the lowest culprit, that somebody waits in and it did not issue."""
    culprit = min(scene.away)
    step, place = scene.away[culprit]
    mine = played.works[culprit]
    for call in healthy[culprit][step][place:]:
        if call.peer is not None:
            waiting = [w for w in open_works(played.works[call.peer]) if w.call.peer == culprit]
            if waiting:
                return waiting[:1], {culprit}
            continue
        done = sum(w.call.group is call.group and w.call.peer is None for w in mine)
        works = []
        for peer in set(call.group.members) - {culprit}:
            same = [w for w in played.works[peer] if w.call.group is call.group and w.call.peer is None]
            works += same[done : done + 1]
        if works:
            return works, set(call.group.members) - {w.rank for w in works}
    return [], set()


def judge(plan: Plan, played: Played, scene: Scene, kept: Kept, works: list[Work]) -> tuple[bool, bool]:
    """Can the ranks be told, can the class be told. In doubt no."""
    if scene.told is not None:
        return scene.told
    everybody, culprits = set(range(plan.world)), set(scene.culprits)
    until = kept.cut_at if kept.cut_at is not None else float("inf")
    printed = {r for r, f in enumerate(played.fates) if r in kept.logs and f.fires and f.fires[0][0] <= until}
    if not kept.labelled and plan.number < (2, 2) and plan.shape in ("tp_dp", "pp_dp"):
        printed = set()
    direct = _direct(plan, scene, kept)
    if scene.cls == "none":
        well = kept.logs == everybody and scene.ending == "finished"
        return True, well or (scene.ending == "live" and bool(kept.logs))
    if scene.cls == "init":
        return direct, bool(kept.logs)
    if scene.cls in ("network", "hardware", "raised", "died") and direct:
        return True, True
    members = set(works[0].call.group.members) if works else set()
    if works and works[0].call.peer is not None:
        members = {works[0].rank, *scene.culprits}
    entered = {w.rank for w in works}
    inside = entered & (
        kept.dumps | kept.stacks | {r for r in printed if any(w.rank == r and _fired(played, w) for w in works)}
    )
    seen = kept.dumps | kept.stacks
    if scene.cls in DISAGREE:
        return _disagree(scene, kept, members, entered, inside)
    if scene.cls in ("unfinished", "device-stalled"):
        known = len(members) == plan.world or (bool(kept.dumps) and plan.number >= (2, 3))  # who belongs to the group
        full = known and members <= (inside if scene.cls == "unfinished" else kept.dumps)
        return full, full
    if scene.cls in ("network", "hardware"):
        outside = scene.cls == "hardware" and (
            culprits <= seen
            or (members - culprits <= inside and len(culprits) == 1 and _world_known(plan, kept, printed))
        )
        written = scene.cls == "hardware" and scene.named_by == "log" and culprits <= kept.logs
        return outside and bool(works), outside and bool(works) and written
    others = members - culprits <= inside and bool(members)
    silent = kept.cut_at is None and everybody - printed == culprits and kept.logs >= everybody - culprits
    known = _world_known(plan, kept, printed)
    ranks = culprits <= seen or (known and (silent or (others and len(culprits) == 1)))
    if scene.named_by == "log" and culprits <= kept.logs:
        return ranks, ranks  # the text is there, and nobody else can have written it
    return ranks, ranks and _absent_class(plan, played, scene, kept, culprits, until)


def _world_known(plan: Plan, kept: Kept, printed: set[int]) -> bool:
    """Something that was kept tells how many ranks the job has."""
    last = plan.world - 1
    if (kept.dumps and plan.number >= (2, 3)) or (plan.nccl_info and kept.logs):
        return True
    return last in kept.exits | kept.stacks | (kept.spoke if kept.labelled else set()) or (
        plan.shape == "fsdp" and bool(printed)
    )


def _fired(played: Played, work: Work) -> bool:
    return any(w is work for _, w in played.fates[work.rank].fires)


def _direct(plan: Plan, scene: Scene, kept: Kept) -> bool:
    """The line that names the culprits and the cause was kept, and says whose it is."""
    if scene.named_by == "log":
        signed = (
            kept.labelled or (plan.number >= (2, 4) and scene.cls in ("raised", "hardware")) or scene.cls == "network"
        )
        return signed and (set(scene.culprits) <= kept.logs or scene.cls == "init")
    if scene.named_by == "launcher":
        return set(scene.culprits) <= kept.exits
    return scene.named_by == "kernel" and kept.kernel and plan.nccl_info and set(scene.culprits) <= kept.logs


def _disagree(scene: Scene, kept: Kept, members: set[int], entered: set[int], inside: set[int]) -> tuple[bool, bool]:
    culprits = set(scene.culprits)
    if len(members) < 3 and scene.cls in DISAGREE[:5]:
        return False, False  # two that disagree: nobody else to compare with
    seen = kept.dumps if scene.cls in RECORDED_ONLY else kept.dumps | inside
    crowd = (members & seen) - culprits
    enough = culprits <= seen and len(crowd) * 2 > len(members)
    if scene.cls in DISAGREE[2:] or kept.dumps >= members:
        enough = culprits <= kept.dumps and len(kept.dumps & members - culprits) * 2 >= len(members)
    return enough, enough


def _absent_class(plan: Plan, played: Played, scene: Scene, kept: Kept, culprits: set[int], until: float) -> bool:
    if scene.cls in ("not-arrived", "straggler"):
        closed = {r for r in culprits & kept.exits if played.fates[r].code == -15}
        alive = kept.dumps | kept.stacks | closed
        spoke = {
            r for t, r, _ in scene.said if r in kept.logs and kept.labelled and t > 0 and played.stall + t <= until
        }
        return culprits <= alive | spoke
    if scene.cls == "frozen":
        others = set(range(plan.world)) - culprits
        answered = others <= kept.dumps or all(played.fates[r].fires for r in others & kept.logs)
        return answered and culprits <= kept.exits and kept.cut_at is None and not scene.lost_hosts
    return False


def describe(
    plan: Plan, played: Played, scene: Scene, kept: Kept, works: list[Work], missing: set[int]
) -> dict[str, Any] | None:
    """``stalled`` as the contract defines it."""
    waiting = [w for w in works if w.end is None] or works
    if not waiting:
        return None
    call = Counter(w.call for w in waiting).most_common(1)[0][0]
    numbers = sorted({w.seq if call.peer is None else shown_seq(plan, w) for w in waiting})
    first = numbers[0]
    if call.peer is not None:
        numbers = sorted({*numbers, *(w.p2p_seq for w in waiting)})  # recorded and printed numbers differ before 2.6
    elif scene.cls == "device-stalled":
        numbers.append(numbers[0] + 1)  # what its peers wait in
    fired = any(_fired(played, w) and w.rank in kept.logs for w in waiting)
    return {
        "op": OPS[call.op],
        "seq": first,
        "seqs": numbers,
        "group": call.group.uid,
        "members": list(call.group.members),
        "kind": "p2p" if call.peer is not None else "collective",
        "entered": sorted({w.rank for w in works}),
        "missing": sorted(missing),
        "timeout_ms": call.group.timeout,
        "seen": fired or any(w.rank in kept.dumps for w in waiting),
    }
