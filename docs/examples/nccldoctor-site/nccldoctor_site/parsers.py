"""Reads the lines of the shard cache: ``shard-cache: rank 7 waits for shard 812``."""

import re
from collections.abc import Iterable

from nccldoctor.events import Event, Note
from nccldoctor.parsers.base import Line, common, finds
from nccldoctor.patterns import lazy

WAITS = lazy(r"shard-cache: rank (?P<rank>\d{1,7}) waits for (?P<shard>shard \d{1,9})")


@finds(WAITS, "shard-cache: rank")
def shard_cache(line: Line, hit: re.Match[str]) -> Iterable[Event]:
    """*note* with the shard that a rank waits for, wherever in the line the message begins."""
    yield Note(**common(line, rank=int(hit["rank"])), what="shard-cache", detail=hit["shard"])
