"""What returned: hosts and devices beyond chance, and fingerprints that were seen before."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from nccldoctor.history.fingerprint import Fingerprint, same_defect
from nccldoctor.history.recurrence import LEVEL, Recurrence, Trial, at_least, recurrences
from nccldoctor.history.saved_report import hosts_of
from nccldoctor.history.store import CONFIRMED, WRONG, PastIncident


class Returned(Struct, frozen=True):
    """A fingerprint with its incidents."""

    fingerprint: Fingerprint
    count: int
    first: datetime
    last: datetime
    headline: str


def accusations(incidents: Sequence[PastIncident]) -> list[PastIncident]:
    """The incidents that accuse a host surely enough to count, or that were confirmed, without wrong ones."""
    sure = [one for one in incidents if one.confidence in ("high", "medium") or one.outcome == CONFIRMED]
    return [one for one in sure if one.outcome != WRONG and hosts_of(one.accused)]


def returning_hosts(incidents: Sequence[PastIncident]) -> tuple[Recurrence, ...]:
    """How often each host was at fault. Jobs on one host say nothing: that host would be at fault in any case."""
    tested = [one for one in accusations(incidents) if len(one.hosts) > 1]
    trials = (Trial(hosts_of(one.accused), one.hosts) for one in tested)
    return tuple(replace(found, always=_same_rank(found, tested)) for found in recurrences(trials))


def _same_rank(found: Recurrence, tested: Sequence[PastIncident]) -> str:
    """``rank 0`` where this host was at fault with that rank alone, which is at fault beyond chance itself.

    A program whose rank 0 is slow accuses the host that always holds rank 0: only jobs that are placed elsewhere tell them apart.
    """
    if found.chance > LEVEL:
        return ""
    ranks = {accused.rank for one in tested for accused in one.accused if accused.host == found.name}
    if len(ranks) > 1:
        return ""
    (rank,) = ranks
    sized = [one for one in tested if one.world_size]
    count = sum(any(accused.rank == rank for accused in one.accused) for one in sized)
    chance = at_least(count, [len(one.accused) / max(one.world_size or 1, len(one.accused)) for one in sized])
    return f"rank {rank}" if chance <= LEVEL else ""


def returning_devices(incidents: Sequence[PastIncident]) -> tuple[Recurrence, ...]:
    """How often each device was at fault, where its host was. It is compared with the other devices of that host."""
    by_host: dict[str, list[tuple[frozenset[str], int]]] = defaultdict(list)
    for one in accusations(incidents):
        per_host = -(-(one.world_size or 0) // max(len(one.hosts), 1))
        for host in {accused.host for accused in one.accused if accused.host and accused.device}:
            named = frozenset(
                f"{host} {accused.device}" for accused in one.accused if accused.host == host and accused.device
            )
            by_host[host].append((named, per_host))
    return recurrences(trial for host, found in sorted(by_host.items()) for trial in _trials(host, found))


def _trials(host: str, found: Sequence[tuple[frozenset[str], int]]) -> list[Trial]:
    """One trial for each incident of a host; devices that were never named stand as ``host another 1``."""
    known = frozenset(name for named, _ in found for name in named)
    return [
        Trial(named, known | {f"{host} another {n}" for n in range(per_host - len(known))})
        for named, per_host in found
        if per_host > 1
    ]


def returning_defects(incidents: Sequence[PastIncident]) -> list[Returned]:
    """The fingerprints that say more than a class, the most frequent first; those of one defect are one."""
    by_mark: dict[Fingerprint, list[PastIncident]] = defaultdict(list)
    told = [one for one in incidents if one.fingerprint.site and one.outcome != WRONG]
    fullest = sorted(dict.fromkeys(one.fingerprint for one in told), key=lambda mark: not mark.group_role)
    for one in told:
        mark = next((mark for mark in fullest if same_defect(mark, one.fingerprint)), one.fingerprint)
        by_mark[mark].append(one)
    rows = [
        Returned(mark, len(found), found[0].time, found[-1].time, found[-1].headline) for mark, found in by_mark.items()
    ]
    return sorted(rows, key=lambda row: (-row.count, str(row.fingerprint)))
