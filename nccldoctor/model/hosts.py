"""Names and addresses of hosts, and several jobs on them.

One machine is printed with and without its domain, an address whole.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from ipaddress import ip_address, ip_network
from itertools import groupby
from typing import Any

from msgspec import Struct

from nccldoctor.model.ranks import Ranks


@cache
def short_host(host: str) -> str:
    """The first label of a host name, as NCCL prints it; an IP address whole.

    ``gpu-7`` for ``gpu-7.cluster.local``, ``10.0.0.1`` for ``10.0.0.1``.
    """
    return host if _canonical(host) else host.split(".", 1)[0]


def host_key(host: str) -> str:
    """Returns the part that two spellings of one host share; host names have no case."""
    return _canonical(host) or short_host(host).lower()


def is_same_host(one: str, other: str) -> bool:
    """True where two spellings are one host: ``gpu-7`` and ``gpu-7.cluster.local``, not ``10.0.0.1`` and ``10.0.0.2``."""
    return one == other or host_key(one) == host_key(other)


def host_order(host: str) -> list[tuple[int, int, str]]:
    """A sort key that puts node2 before node10."""
    parts = ("".join(part) for _, part in groupby(host, str.isdecimal))
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts]


def endpoint_address(endpoint: str) -> str:
    """The address of ``10.0.0.1<4321>`` or ``[fe80::1]<4321>``, as NCCL prints the two ends of a connection."""
    address = endpoint.split("<", 1)[0].strip().removeprefix("[").split("]", 1)[0]
    return _canonical(address) or address


def is_loopback(endpoint: str) -> bool:
    """True of the address by which every host calls itself: ``127.0.0.1``."""
    address = _canonical(endpoint_address(endpoint))
    return bool(address) and ip_address(address).is_loopback


_NO_WAY = (
    ("169.254.0.0/16", "a link-local address, which an interface gives itself when it gets no other"),
    ("0.0.0.0/8", "not the address of any host; a host name that is a bare number turns into one"),
    ("198.18.0.0/15", "a benchmark address, which proxies and tunnels use"),
)
_OWN = (
    ("127.0.0.0/8", "the loopback address"),
    ("::1/128", "the loopback address"),
    ("172.17.0.1/32", "Docker's bridge"),
)


@cache
def why_unreachable(endpoint: str, *, from_other_hosts: bool) -> str:
    """Why the address of ``10.0.0.1<4321>`` cannot be reached, empty where it can be.

    Some addresses mean a host itself: only the processes of other hosts cannot reach them. An IPv6 address of one link
    (``fe80:``) is ordinary on InfiniBand.
    """
    text = _canonical(endpoint_address(endpoint).split("%", 1)[0])
    if not text:
        return ""
    address = ip_address(text)
    address = getattr(address, "ipv4_mapped", None) or address
    if not int(address):
        return ""
    ranges = (*_NO_WAY, *(_OWN if from_other_hosts else ()))
    return next((why for net, why in ranges if address in ip_network(net)), "")


@cache
def _canonical(text: str) -> str:
    """One spelling for an IP address; empty where the text is none."""
    try:
        return str(ip_address(text))
    except ValueError:
        return ""


MOST_NAME, MOST_NUMBER = 500, 10_000_000
"""Characters of a name and the highest rank or pid that are believed."""


class JobHere(Struct, frozen=True):
    """A job on the nodes that were asked.

    ``name`` are the variables that its ranks share (``MASTER_ADDR=n1 MASTER_PORT=29500 WORLD_SIZE=8``), ``ranks`` those on these nodes.
    ``running`` are the processes of ranks that had not ended when their node had answered.
    """

    name: str
    ranks: Ranks
    running: tuple[int, ...] = ()


def jobs_of(processes: Iterable[Mapping[str, Any]]) -> tuple[JobHere, ...]:
    """The jobs of the processes that one node lists; rows of another form are none."""
    ranks: dict[str, set[int]] = defaultdict(set)
    running: dict[str, list[int]] = defaultdict(list)
    for row in processes:
        name, rank, pid = row.get("job"), _bounded(row.get("rank")), _bounded(row.get("pid"))
        if isinstance(name, str) and name and rank is not None and pid is not None and row.get("of") is None:
            ranks[name[:MOST_NAME]].add(rank)
            if row.get("ended") is False:
                running[name[:MOST_NAME]].append(pid)
    return tuple(JobHere(name, Ranks(ranks[name]), tuple(running[name])) for name in sorted(ranks))


def _bounded(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < MOST_NUMBER else None


def merged(jobs: Iterable[JobHere]) -> tuple[JobHere, ...]:
    """The jobs of several nodes, each once."""
    parts: dict[str, list[JobHere]] = defaultdict(list)
    for job in jobs:
        parts[job.name].append(job)
    return tuple(
        JobHere(
            name,
            Ranks(rank for part in parts[name] for rank in part.ranks),
            tuple(pid for part in parts[name] for pid in part.running),
        )
        for name in sorted(parts)
    )


def chosen_job(jobs: Sequence[JobHere]) -> JobHere | None:
    """The job with the most ranks among those that run, else among all; of equal ones the first by name."""
    running = [job for job in jobs if job.running]
    return max(sorted(running or jobs, key=lambda job: job.name), key=lambda job: len(job.ranks), default=None)
