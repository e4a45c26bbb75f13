"""Decides for each class how much of the truth an expert could read from the kept files."""

from __future__ import annotations

from simulator.faults.scenarios import Fault
from simulator.state import Work
from simulator.truth.shown import absent_one, absent_ranks, alive_shown, dumped, fired_in, kernel_names, labelled
from simulator.truth.truth import Kept
from simulator.watchdogs import Story

ABSENT = ("not-arrived", "frozen", "died", "raised")


def judge(story: Story, fault: Fault, kept: Kept, works: list[Work], missing: set[int]) -> tuple[bool, bool, list[str]]:
    """Can ranks be told, can the class be told, and which classes are right answers."""
    classes = [fault.cls, *fault.classes]
    classes += _too_short(story, fault, works)
    ranks, told = _JUDGES.get(fault.cls, _absent)(story, fault, kept, works)
    if ranks and told:
        return True, True, classes
    if fault.cls in ("init", "hardware") and told:
        return ranks, True, classes
    also = _OTHERWISE.get(fault.cls, [*ABSENT, "undetermined", "unfinished"])
    return ranks, False, [*classes, *also]


def _too_short(story: Story, fault: Fault, works: list[Work]) -> list[str]:
    """A stream that is out of step looks like one call that differs where little comes before or after it."""
    if fault.cls not in ("missed-call", "extra-call") or not works:
        return []
    at = works[0]
    after = [
        w
        for rank in fault.culprits
        for w in story.sim.hosts[rank].works
        if w.call.group is at.call.group and w.coll_seq >= at.coll_seq
    ]
    short = len(after) <= 1 or story.job.knobs.step <= 2
    return ["op-mismatch", "size-mismatch"] if short else []


def _absent(story: Story, fault: Fault, kept: Kept, works: list[Work]) -> tuple[bool, bool]:
    return absent_ranks(story, fault, kept, works), all(absent_one(story, fault, kept, r) for r in fault.culprits)


def _healthy(story: Story, fault: Fault, kept: Kept, works: list[Work]) -> tuple[bool, bool]:
    """A job is surely healthy only when all its files were kept. Dumps alone do not show that it went on."""
    whole = set(range(story.job.knobs.world)) <= kept.logs and kept.launcher
    return True, (whole and "snapshot" not in fault.traits) or (bool(kept.logs) and "snapshot" in fault.traits)


def _never(story: Story, fault: Fault, kept: Kept, works: list[Work]) -> tuple[bool, bool]:
    return False, False


def _unfinished(story: Story, fault: Fault, kept: Kept, works: list[Work]) -> tuple[bool, bool]:
    told = _all_inside(story, kept, works)
    return told, told


def _network(story: Story, fault: Fault, kept: Kept, works: list[Work]) -> tuple[bool, bool]:
    """Both ends printed what their adapters reported."""
    told = all(rank in kept.logs and story.fates[rank].gone_at <= kept.until for rank in fault.traits["peer"])
    return told, told


def _hardware(story: Story, fault: Fault, kept: Kept, works: list[Work]) -> tuple[bool, bool]:
    """A kernel line about the board, or the error in the rank's own log."""
    own = {
        r for r in fault.culprits if "cuda" in fault.traits and r in kept.logs and story.fates[r].gone_at <= kept.until
    }
    ranks = all(r in own or kernel_names(story, kept, r) for r in fault.culprits)
    if "cuda" not in fault.traits and fault.call is None:
        ranks = ranks or absent_ranks(story, fault, kept, works)
    return ranks, all(r in own or r in kept.kernel for r in fault.culprits)


def _init(story: Story, fault: Fault, kept: Kept, works: list[Work]) -> tuple[bool, bool]:
    """A rank that did not join is known when all others are seen waiting; a count alone names nobody."""
    others = set(range(story.job.knobs.world)) - set(fault.culprits)
    return others <= kept.logs and "short" not in fault.traits, bool(kept.logs)


def _straggler(story: Story, fault: Fault, kept: Kept, works: list[Work]) -> tuple[bool, bool]:
    """Late, if the late rank's own line about it was kept; slow devices leave nothing sure."""
    if "late" not in fault.traits:
        return False, False
    said = [t for host in story.sim.hosts for t, _, text in host.said if text and t <= story.fates[host.rank].gone_at]
    # where nothing says which rank printed a line, the line proves little
    told = bool(said) and 0 in kept.logs and said[0] <= kept.until and labelled(story)
    ranks = absent_ranks(story, fault, kept, works)
    return ranks, told or (ranks and alive_shown(story, kept, 0))


def _all_inside(story: Story, kept: Kept, works: list[Work]) -> bool:
    if not works:
        return False
    shown = {w.rank for w in works if dumped(story, kept, w) or fired_in(story, kept, w.rank, w)}
    return shown == set(works[0].call.group.members)


def _disagree(story: Story, fault: Fault, kept: Kept, works: list[Work]) -> tuple[bool, bool]:
    """A culprit's own record and those of enough peers; a log line holds operation and size, nothing else."""
    if not works:
        return False, False
    members = set(works[0].call.group.members)
    shown = {w.rank for w in works if dumped(story, kept, w) and (w.rank, w.index) in kept.entries}
    culprits = set(fault.culprits) or members
    peers = members - culprits
    if fault.cls in ("op-mismatch", "size-mismatch"):
        shown |= {w.rank for w in works if fired_in(story, kept, w.rank, w)}
    tie = not fault.culprits
    if fault.cls in ("op-mismatch", "size-mismatch", "dtype-mismatch"):
        recorded = fault.cls != "dtype-mismatch" or story.job.knobs.release.recorder != "list"  # those hold no types
        enough = recorded and culprits <= shown and (tie or len(peers & shown) * 2 > len(members))
        return enough, enough
    full = not story.job.knobs.only_active
    if fault.cls == "unmatched-p2p":
        pair = culprits | {w.rank for w in works}
        return pair <= kept.dumps, pair <= kept.dumps and full
    if not shown:
        return False, False  # the rings have dropped the call itself
    majority = len(peers & kept.dumps) * 2 > len(members) or (len(members) == 2 and peers <= kept.dumps)
    enough = culprits <= kept.dumps and majority
    return enough, enough and full


_LOOSE = [
    "op-mismatch",
    "size-mismatch",
    "dtype-mismatch",
    "missed-call",
    "extra-call",
    "order-inversion",
    "unmatched-p2p",
]
_LOOSE += ["not-arrived", "unfinished", "undetermined", "device-stalled"]
_DISAGREE = [*_LOOSE[:7], "device-stalled"]
_JUDGES = {
    "none": _healthy,
    "undetermined": _never,
    "unfinished": _unfinished,
    "network": _network,
    "hardware": _hardware,
    "init": _init,
    "straggler": _straggler,
    **dict.fromkeys(_DISAGREE, _disagree),
}
_OTHERWISE = {
    "none": ["undetermined", "unfinished", "straggler"],
    "undetermined": ["not-arrived", "frozen", "died", "unfinished", "none"],
    "unfinished": ["device-stalled", "not-arrived", "frozen", "died", "undetermined"],
    "network": ["unfinished", "died", "undetermined", "none"],
    "hardware": [*ABSENT, "unfinished", "device-stalled", "undetermined", "none"],
    "init": [*ABSENT, "undetermined", "none"],
    "straggler": ["none", *ABSENT, "undetermined"],
    **dict.fromkeys(_DISAGREE, _LOOSE),
}
