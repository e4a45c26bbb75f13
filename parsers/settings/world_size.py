"""The number of ranks of the job, as programs and launchers print it: 8 in ``world_size=8``.

Three notes: ``job-size`` is the number as a launcher or a framework counts the whole job; ``world-size`` is what a program prints, who may
mean a part of it; ``least-size`` is what the job has at least. Sources: torch ``elastic/agent/server/api.py`` (``global_world_sizes``) and
``distributed/launcher/api.py`` (launch configs), Accelerate ``accelerate/state.py`` (``PartialState.__repr__``), Lightning
``fabric/utilities/distributed.py`` (processes registered), Megatron-LM
``training/arguments.py``, and the usual words of training scripts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from typing import Any

from nccldoctor.events import Event, Note, Phase
from nccldoctor.parsers.base import Line, common
from nccldoctor.parsers.rows import for_rows
from nccldoctor.patterns import lazy

_PART = lazy(
    r"(?i:\b(?:tp|pp|dp|cp|ep|sp|tensor|pipeline|data|model|expert|context|sequence|sub|shard(?:ing)?|replica(?:te)?)"
    r"[ _-]{0,3}(?:model[ _-])?(?:group|parallel|mesh|comm(?:unicator)?)\b[^=,;]{0,40}$"
    r"|\[(?:tp|pp|dp|cp|ep|tensor|pipeline|data|expert|context)[ _-]?(?:group|parallel)?[ _]?\d{0,3}\])"
)
_CONFIG = lazy(r"\b(?P<name>min_nodes|max_nodes|nproc_per_node) {0,20}: (?P<value>\d{1,6})\b")
_STATE = lazy(r"^(?:(?P<size>Num processes)|Process index): (?P<value>\d{1,6})$")
_NODES = lazy(r"--nnodes(?:[ =]|', '){1,2}(?P<least>\d{1,6})(?::(?P<most>\d{1,6}))?\b")

MOST_RANKS = 1_000_000
"""More ranks than any job has."""


@for_rows
def size_of_job(line: Line, hit: re.Match[str]) -> dict[str, Any] | None:
    """Words such as *tensor-parallel group* in front of a number say that it is the size of another group."""
    return None if _PART.search(hit.string[: hit.start()][-200:]) else common(line)


@for_rows
def size_of_configs(line: Line, hit: re.Match[str]) -> Iterator[Event]:
    """The size in the lines below torchrun's launch configs."""
    found = chain.from_iterable(_CONFIG.finditer(near.body) for near in line.following(12))
    words = {config["name"]: int(config["value"]) for config in found}
    processes, least, most = (words.get(name) for name in ("nproc_per_node", "min_nodes", "max_nodes"))
    yield from _size(line, processes, least, most, "job-size")


@for_rows
def size_of_command(line: Line, hit: re.Match[str]) -> Iterator[Event]:
    """The size in a command line."""
    nodes = _NODES.search(line.body)
    least = int(nodes["least"]) if nodes else None
    most = int(nodes["most"] or nodes["least"]) if nodes else None
    yield from _size(line, int(hit["processes"]), least, most, "world-size")


def _size(line: Line, processes: int | None, least: int | None, most: int | None, what: str) -> Iterator[Event]:
    """A range of nodes (``1:4``), or no word on the nodes, tells what the job has at least."""
    if processes is not None and processes * (least or 1) < MOST_RANKS:
        what = "least-size" if least is None or least != most else what
        yield Note(**common(line, what=what, detail=str(processes * max(1, least or 1))))


@for_rows
def accelerate_state(line: Line, hit: re.Match[str]) -> Iterator[Event]:
    """What ``logger.info(accelerator.state)`` prints of each process: *phase* ``ready`` with its rank, and *note* ``job-size``."""
    found = [state for near in line.following(2) if (state := _STATE.match(near.body.strip()))]
    sizes = [int(state["value"]) for state in found if state["size"]]
    ranks = [int(state["value"]) for state in found if not state["size"]]
    if sizes and ranks and ranks[0] < sizes[0] < MOST_RANKS:
        yield Phase(**common(line, rank=ranks[0], what="ready"))
        yield Note(**common(line, rank=ranks[0], what="job-size", detail=str(sizes[0])))
