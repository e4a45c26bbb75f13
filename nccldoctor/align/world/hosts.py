"""Finds which ranks share a host.

That is known by the lines that name hosts, else by blocks of equal size, or by one log for each host.
Launchers give every host as many ranks in a row as the others have. Example: of 16 ranks, 0-2 and 4-7 run on node01, so that a host holds 8
of them. Rank 3 runs on node01 as well, and ranks 8-15 on node02, of which only a kernel log was read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from msgspec import Struct

from nccldoctor.events import CommInit, Event, GpuError, ProcessExit, Writer
from nccldoctor.identify.case import Case
from nccldoctor.model import SourceKind
from nccldoctor.model.hosts import short_host
from nccldoctor.model.ranks import Ranks, ranks_by

USUAL = (4, 8, 16)
"""Ranks that a host usually holds."""


class Hosts(Struct, frozen=True):
    """The hosts of the job.

    ``blocks`` are the ranks of each host, as far as that is known of all hosts; ``names`` are the names of the hosts in that order, empty
    where unknown. ``by_name`` are the ranks under every name of a host: a pod is a host, and so is the machine that it runs on.
    """

    blocks: tuple[Ranks, ...]
    names: tuple[str, ...]
    by_name: Mapping[str, Ranks]

    def on(self, host: str | None) -> Ranks:
        """The ranks that run on a host."""
        return self.by_name.get(host, Ranks()) if host is not None else Ranks()

    def around(self, rank: int) -> str:
        """The name of the host that the ranks around this one fill; "" where that is not known."""
        return next((name for block, name in zip(self.blocks, self.names, strict=True) if rank in block), "")

    def is_whole(self, ranks: Ranks) -> bool:
        """True when these are exactly the ranks of one host among several."""
        return len(self.blocks) > 1 and ranks in self.blocks

    def name(self, ranks: Ranks) -> str | None:
        """The name of the host that runs exactly these ranks; None where there is none."""
        return (self.names[self.blocks.index(ranks)] if self.is_whole(ranks) else "") or None


def find_hosts(case: Case) -> Hosts:
    """Put the ranks of the job on hosts."""
    known = ranks_by((host, rank) for rank, host in case.rank_host.items())
    nodes = {short_host(case.pods.place(host)) for host in known}
    others = {short_host(s.host) for s in case.sources if s.host} - known.keys() - nodes
    blocks = list(known.values())
    if not case.world <= case.rank_host.keys():
        whole = case.world_size is not None
        local = {e.rank: e.local_rank for e in case.of(ProcessExit) if e.local_rank is not None}
        # local rank 3 of rank 11 says that rank 8 is the first of its host
        spans = [(min(rank - local.get(rank, 0) for rank in ranks), max(ranks)) for ranks in blocks]
        blocks = (_equal_blocks(len(case.world), spans, len(others)) or _logs_of_hosts(case, blocks)) if whole else []
    names = [next((case.rank_host[r] for r in block if r in case.rank_host), "") for block in blocks]
    if names.count("") == len(others) == 1:
        names[names.index("")] = others.pop()
    placed = ((name, r) for block, name in zip(blocks, names, strict=True) if name for r in block)
    of_nccl = ((short_host(e.host), e.rank) for e in case.of(CommInit) if e.rank is not None and e.host)
    under = ((name, r) for r, host in case.rank_host.items() for name in (host, short_host(case.pods.place(host))))
    return Hosts(tuple(blocks), tuple(names), ranks_by(chain(under, placed, of_nccl)))


def _equal_blocks(world: int, spans: Sequence[tuple[int, int]], others: int) -> list[Ranks]:
    """The ranks in blocks of the size of a host.

    Empty where the hosts that are known do not show one size. One host alone shows it where it has a usual size,
    or where the input names as many ``others`` as there are blocks left. The only host runs all ranks where it runs more than half.
    """
    if len(spans) == 1 and not others and 2 * (spans[0][1] - spans[0][0] + 1) > world:
        return [Ranks(range(world))]
    for size in sorted({last - first + 1 for first, last in spans}):
        starts = {first // size for first, _ in spans}
        fits = all(first // size == last // size for first, last in spans) and len(starts) == len(spans)
        is_shown = len(spans) > 1 or size in USUAL or world == size * (1 + others)
        if 1 < size < world and world % size == 0 and fits and is_shown:
            return [Ranks(range(start, start + size)) for start in range(0, world, size)]
    return []


def _logs_of_hosts(case: Case, known: Iterable[Ranks]) -> list[Ranks]:
    """The ranks by the file that holds their lines. Empty unless each file has as many in a row: one log for each host."""
    logs = {s.id for s in case.sources if s.kind is SourceKind.LOG}
    lines = (e for e in case.events if e.written_by is Writer.RANK and e.place.source in logs)
    blocks = sorted(ranks_by((e.place.source, e.rank) for e in lines if e.rank is not None).values(), key=min)
    size = len(blocks[0]) if blocks else 0
    expected = [Ranks(range(start, start + size)) for start in range(0, len(case.world), size or 1)]
    are_known_inside = all(any(ranks <= block for block in blocks) for ranks in known)
    is_sound = 1 < size < len(case.world) and blocks == expected and are_known_inside
    return blocks if is_sound else []


def is_usual_block(ranks: Ranks) -> bool:
    """True when one host may hold the ranks: 4, 8 or 16 in a row. Their number divides the first: 8-15 are a block, 4-11 are not."""
    return len(ranks) in USUAL and max(ranks) - min(ranks) + 1 == len(ranks) and min(ranks) % len(ranks) == 0


def slots_of_hosts(case: Case, hosts: Hosts) -> dict[str, int]:
    """The place of each GPU among the ranks of its host, by PCI address. Left out are those whose places differ between hosts."""
    firsts = {rank: min(block) for block in hosts.blocks for rank in block}
    places = ranks_by((address, rank - firsts[rank]) for rank, address in case.rank_device.items() if rank in firsts)
    return {address: next(iter(found)) for address, found in places.items() if len(found) == 1}


def ranks_in_slot(case: Case, hosts: Hosts, slots: Mapping[str, int], event: Event) -> Ranks:
    """The rank of the GPU that a kernel names, by its slot.

    Empty where the host, the slot or the layout is not known. Hosts of one cluster have their GPUs in the same slots. Example: INIT
    lines of the first host put rank 3 on 0000:5d:00. The kernel of the second host, of ranks 8-15, reports an Xid of its 0000:5d:00:
    that is rank 11.
    """
    block = hosts.on(event.host)
    place = slots.get(event.device or "") if isinstance(event, GpuError) else None
    if place is None or block not in hosts.blocks or place >= len(block):
        return Ranks()
    rank = min(block) + place
    # a rank with a GPU on record would have been found by that
    return Ranks() if rank in case.rank_device else Ranks([rank])
