"""Reads which ranks did not answer ``torch.distributed.debug`` (2.13); ``stacks`` reads the stacks it collected."""

from __future__ import annotations

from collections.abc import Iterator

from nccldoctor.events import Event, Note
from nccldoctor.parsers.base import Line, LineParser, common, line_parser
from nccldoctor.parsers.stacks.owner import RANK_HEAD
from nccldoctor.patterns import lazy

_PARTIAL = lazy(r"PARTIAL DATA: (?P<some>\d{1,7})/(?P<all>\d{1,7}) workers responded")
_SILENT = lazy(r"^\s{0,8}Rank (?P<rank>\d{1,7}): (?P<why>.{1,300})")


@line_parser
class DebugServerParser(LineParser):
    """Ranks that did not answer the debug server: each is a suspect of its own."""

    literals = ("PARTIAL DATA:", "=== Rank ", "<h2>Rank ")

    def parse(self, line: Line) -> Iterator[Event]:
        """One note for each rank that is named as silent."""
        if _PARTIAL.search(line.body):
            for below in line.following(2000):
                hit = _SILENT.search(below.body)
                if hit is None:
                    break
                yield self._note(below, hit["rank"], hit["why"])
        elif hit := RANK_HEAD.search(line.body):
            first = next((below.body.strip() for below in line.following(2) if below.body.strip()), "")
            if first.startswith(("Error: ", "<p>Failed to fetch: ")):
                yield self._note(line, hit["rank"], first)

    @staticmethod
    def _note(line: Line, rank: str, why: str) -> Note:
        return Note(**common(line, rank=int(rank)), what="debug-server-no-answer", detail=why.strip()[:200])
