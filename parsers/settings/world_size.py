"""The number of ranks of the job, as programs and launchers print it: 8 in ``world_size=8``.

Three notes: ``job-size`` is the number as a launcher or a framework counts the whole job; ``world-size`` is what a program prints, who may
mean a part of it; ``least-size`` is what the job has at least. Sources: torch ``elastic/agent/server/api.py`` (``global_world_sizes``) and
``distributed/launcher/api.py`` (launch configs), Accelerate ``accelerate/state.py`` (``PartialState.__repr__``), Lightning
``fabric/utilities/distributed.py`` (processes registered), Megatron-LM
``training/arguments.py``, and the usual words of training scripts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain
from typing import Any

from nccldoctor.events import Event, Note, Phase
from nccldoctor.parsers.base import Line, common, reads
from nccldoctor.parsers.rows import for_rows
from nccldoctor.patterns import lazy

_PART = lazy(
    r"(?i:\b(?:tp|pp|dp|cp|ep|sp|tensor|pipeline|data|model|expert|context|sequence|sub|shard(?:ing)?|replica(?:te)?)"
    r"[ _-]{0,3}(?:model[ _-])?(?:group|parallel|mesh|comm(?:unicator)?)\b[^=,;]{0,40}$"
    r"|\[(?:tp|pp|dp|cp|ep|tensor|pipeline|data|expert|context)[ _-]?(?:group|parallel)?[ _]?\d{0,3}\])"
)
_CONFIG = lazy(r"\b(?P<name>min_nodes|max_nodes|nproc_per_node) {0,20}: (?P<value>\d{1,6})\b")
_PROCESSES = lazy(r"--nproc[_-]per[_-]node(?:[ =]|', '){1,2}(\d{1,5})\b")
_STATE = lazy(r"^(?:(?P<size>Num processes)|Process index): (?P<value>\d{1,6})$")
_NODES = lazy(r"--nnodes(?:[ =]|', '){1,2}(?P<least>\d{1,6})(?::(?P<most>\d{1,6}))?\b")

MOST_RANKS = 1_000_000
"""More ranks than any job has."""


@for_rows
def size_of_job(line: Line, hit: re.Match[str]) -> dict[str, Any] | None:
    """Words such as *tensor-parallel group* in front of a number say that it is the size of another group."""
    return None if _PART.search(hit.string[: hit.start()][-200:]) else common(line)


@reads("Starting elastic_operator", "--nproc_per_node", "--nproc-per-node", needs=(lazy("launch configs"), _PROCESSES))
def launch_sizes(line: Line) -> Iterable[Event]:
    """*note* with processes times nodes, of torchrun's launch configs or its command line.

    A range of nodes (``1:4``), or no word on the nodes, tells what the job has at least.
    """
    is_told = "launch configs" in line.body
    if is_told:
        found = chain.from_iterable(_CONFIG.finditer(near.body) for near in line.following(12))
        words = {hit["name"]: int(hit["value"]) for hit in found}
        processes, least, most = (words.get(name) for name in ("nproc_per_node", "min_nodes", "max_nodes"))
    else:
        count, nodes = _PROCESSES.search(line.body), _NODES.search(line.body)
        processes = int(count[1]) if count else None
        least = int(nodes["least"]) if nodes else None
        most = int(nodes["most"] or nodes["least"]) if nodes else None
    if processes is None or processes * (least or 1) >= MOST_RANKS:
        return
    what = "least-size" if least is None or least != most else "job-size" if is_told else "world-size"
    yield Note(**common(line, what=what, detail=str(processes * max(1, least or 1))))


@reads("Distributed environment: ")
def accelerate_state(line: Line) -> Iterable[Event]:
    """What ``logger.info(accelerator.state)`` prints of each process: *phase* ``ready`` with its rank, and *note* ``job-size``.

    The size and the rank stand in the two lines that follow.
    """
    found = [hit for near in line.following(2) if (hit := _STATE.match(near.body.strip())) is not None]
    sizes = [int(hit["value"]) for hit in found if hit["size"]]
    ranks = [int(hit["value"]) for hit in found if not hit["size"]]
    if sizes and ranks and ranks[0] < sizes[0] < MOST_RANKS:
        yield Phase(**common(line, rank=ranks[0], what="ready"))
        yield Note(**common(line, rank=ranks[0], what="job-size", detail=str(sizes[0])))
