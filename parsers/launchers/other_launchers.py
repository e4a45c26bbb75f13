"""Actors of Ray that died. Sources: Ray ``gcs`` and ``exceptions.py``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from nccldoctor.events import Event, ProcessExit
from nccldoctor.parsers.base import Line, common
from nccldoctor.parsers.rows import for_rows
from nccldoctor.patterns import lazy

_ACTOR_FIELD = lazy(r"(?:^|\s)(pid|name|ip): (\S{1,200})")
_OF_VERL = lazy(r"_(?P<node>\d{1,5}):(?P<local>\d{1,4})$")
"""The end of a worker's name: the number of its node in the group, and its number on that node."""


@for_rows
def dead_actor(line: Line, hit: re.Match[str]) -> Iterator[Event]:
    """The actor that died. Ray lists its process, name and address above the sentence, or in front of it.

    verl names its workers by node and place (``single_controller/ray/base.py``): the ranks of the first node count from 0.
    """
    before = line.body[: hit.start()]
    block = [before]
    for above in line.preceding(8) if "actor_id: " not in before else ():
        block.append(above.body)
        if "actor_id: " in above.body:
            break
    told = {hit[1]: hit[2] for text in reversed(block) for hit in _ACTOR_FIELD.finditer(text)}
    place = _OF_VERL.search(told.get("name", ""))
    local = int(place["local"]) if place else None
    yield ProcessExit(
        **common(line)
        | {
            "rank": local if place and int(place["node"]) == 0 else None,
            "host": told.get("ip") or line.mark.host,
            "pid": int(told["pid"]) if told.get("pid", "").isdecimal() else None,
        },
        local_rank=local,
        name=told.get("name"),
        reporter="ray",
    )
