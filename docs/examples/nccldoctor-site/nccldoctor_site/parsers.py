"""Reads the lines of the shard cache: ``shard-cache: rank 7 waits for shard 812``."""

from collections.abc import Iterable

from nccldoctor.events import Event, Note
from nccldoctor.parsers.base import Line, LineParser, common, line_parser
from nccldoctor.patterns import lazy

WAITS = lazy(r"shard-cache: rank (?P<rank>\d{1,7}) waits for (?P<shard>shard \d{1,9})")


@line_parser
class ShardCache(LineParser):
    """*note* with the shard that a rank waits for."""

    literals = ("shard-cache: rank",)

    def parse(self, line: Line) -> Iterable[Event]:
        """One note, wherever in the line the message begins."""
        if hit := WAITS.search(line.body[:8_000]):
            yield Note(**common(line, rank=int(hit["rank"])), what="shard-cache", detail=hit["shard"])
