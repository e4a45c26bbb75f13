"""Learns which names are pods, and on which node each pod runs.

A pod is no machine: nobody can drain ``train-worker-3``, only the node under it. Processes print the pod's name where NCCL prints a host.
Example: kubectl lists ``train-worker-3`` on node ``gpu-7``, whose kernel log holds an Xid: the ranks of the pod are those of that board.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from msgspec import Struct

from nccldoctor.events import Event, Note, Writer
from nccldoctor.model.hosts import host_key

_GENERATED = frozenset("bcdfghjklmnpqrstvwxz2456789")
"""The characters of the five that a controller puts behind a pod's name (k8s.io/apimachinery, ``util/rand``)."""


class Pods(Struct, frozen=True):
    """The node of each pod by the key of its name, "" where no line names it."""

    nodes: Mapping[str, str] = {}

    def is_pod(self, host: str) -> bool:
        """True of a name that is known to be a pod's."""
        return bool(self.nodes) and host_key(host) in self.nodes

    def machine(self, host: str) -> str | None:
        """The node of a pod, None where it is not known; every other name is that of a machine."""
        return self.nodes.get(host_key(host), host) or None if self.nodes else host

    def place(self, host: str) -> str:
        """The node of a pod where it is known, else the name itself."""
        return self.machine(host) or host

    def on(self, node: str) -> tuple[str, ...]:
        """The names of the pods that run on a node."""
        key = host_key(node)
        return tuple(pod for pod, under in self.nodes.items() if under and host_key(under) == key)


def find_pods(events: Iterable[Event]) -> Pods:
    """The pods that lines, prefixes and records name, each on the one node that they name."""
    listed: dict[str, dict[str, str]] = defaultdict(dict)
    seen: dict[str, dict[str, str]] = defaultdict(dict)
    for event in events:
        if event.pod is None:
            continue
        pod = host_key(event.pod)
        is_listed = isinstance(event, Note) and event.what == "pod-on-node"
        nodes = (listed if is_listed else seen)[pod]
        host = host_key(event.host or "")  # the pod's own name may be it: with or without its generated end, or cut
        is_own = host in (pod, _host_name(pod)) or (len(host) == 63 and pod.startswith(host))
        if event.host is not None and (is_listed or not is_own):
            nodes[host] = event.host
    found = {pod: _only(listed.get(pod) or seen.get(pod) or {}) for pod in sorted({*listed, *seen})}
    return Pods(_with_host_names(found)) if found else Pods()


def with_kernel_logs(pods: Pods, events: Iterable[Event], rank_host: Mapping[int, str]) -> Pods:
    """The same with the nodes whose kernel log tells of a process or a board of a pod's rank."""
    loose = {rank: key for rank, host in rank_host.items() if pods.nodes.get(key := host_key(host)) == ""}
    told: dict[str, dict[str, str]] = defaultdict(dict)
    for event in events if loose else ():
        if event.rank in loose and event.written_by is Writer.KERNEL and event.host and not pods.is_pod(event.host):
            told[loose[event.rank]][host_key(event.host)] = event.host
    return Pods({**pods.nodes, **{pod: _only(nodes) for pod, nodes in told.items()}}) if told else pods


def _host_name(pod: str) -> str:
    """The name inside the pod: ``train-0`` in ``train-0-x7k2p``, where a controller made up the end."""
    name, _, end = pod.rpartition("-")
    return name if name and len(end) == 5 and _GENERATED.issuperset(end) else pod


def _only(nodes: Mapping[str, str]) -> str:
    """The one node that is named. A pod on two nodes was moved, and no line says which one counts."""
    return next(iter(nodes.values())) if len(nodes) == 1 else ""


def _with_host_names(found: Mapping[str, str]) -> dict[str, str]:
    """The pods under their host names too: ``train-0`` for ``train-0-x7k2p``, unless a node has that name."""
    machines = {host_key(node) for node in found.values() if node}
    under: dict[str, set[str]] = defaultdict(set)
    for pod, node in found.items():
        if (name := _host_name(pod)) not in machines and name not in found:
            under[name].add(node)
    return {**{name: nodes.pop() if len(nodes) == 1 else "" for name, nodes in under.items()}, **found}
