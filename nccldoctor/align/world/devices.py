"""Finds the rank of a GPU that only the kernel of its host names.

Hosts of one cluster have their GPUs in the same slots, and launchers give them to local ranks in one order. Example: INIT lines of the
first host put rank 3 on 0000:5d:00. The kernel of the second host, of ranks 8-15, reports an Xid of its 0000:5d:00: that is rank 11.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from nccldoctor.align.world.hosts import Hosts
from nccldoctor.events import Event, GpuError
from nccldoctor.identify.case import Case
from nccldoctor.model.ranks import Ranks


def slots_of_hosts(case: Case, hosts: Hosts) -> dict[str, int]:
    """The place of each GPU among the ranks of its host, by PCI address.

    Addresses that have different places on different hosts are left out.
    """
    places: dict[str, set[int]] = defaultdict(set)
    firsts = {rank: min(block) for block in hosts.blocks for rank in block}
    for rank, address in case.rank_device.items():
        if rank in firsts:
            places[address].add(rank - firsts[rank])
    return {address: next(iter(found)) for address, found in places.items() if len(found) == 1}


def ranks_in_slot(case: Case, hosts: Hosts, slots: Mapping[str, int], event: Event) -> Ranks:
    """The rank of the GPU that a kernel names, by its slot.

    Empty where the host, the slot or the layout is not known.
    """
    block = hosts.on(event.host)
    place = slots.get(event.device or "") if isinstance(event, GpuError) else None
    if place is None or block not in hosts.blocks or place >= len(block):
        return Ranks()
    rank = min(block) + place
    return (
        Ranks() if rank in case.rank_device else Ranks([rank])
    )  # a rank with a GPU on record would have been found by that
