"""What ``torch.distributed.debug`` says below its headings: ranks that do not answer, or showed their recorder."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from nccldoctor.events import DumpNote, Event, Note
from nccldoctor.model.hosts import short_host
from nccldoctor.parsers.base import Line, common
from nccldoctor.parsers.rows import for_rows
from nccldoctor.patterns import lazy

_SILENT = lazy(r"^\s{0,8}Rank (?P<rank>\d{1,7}): (?P<why>.{1,300})")
_NOT_REACHED = lazy(
    r"^(?:Error: |<p>Failed to fetch: status=)(?:408|502|503)\b|^(?:Timeout|\w{1,40}Error): |[Tt]imed out|[Cc]onnection refused"
)


@for_rows
def silent_ranks(line: Line, found: re.Match[str]) -> Iterator[Event]:
    """*note* for each rank below that is named as silent."""
    for below in line.following(2000):
        hit = _SILENT.search(below.body)
        if hit is None:
            break
        if _NOT_REACHED.search(hit["why"]):
            yield _no_answer(below, hit["why"], rank=int(hit["rank"]))


@for_rows
def answer_of_rank(line: Line, head: re.Match[str]) -> Iterator[Event]:
    """What stands below the heading of a rank: in a page the status, then the reason."""
    rank, host = int(head["rank"]), short_host((head["host"] or "").strip("[]")) or line.mark.host
    below = [(one, text) for one in line.following(6) if (text := one.body.strip())][:2]
    if below and _NOT_REACHED.search(below[0][1]):
        reason = below[1][1].removeprefix("<pre>").removesuffix("</pre>") if below[0][1].startswith("<p>") else ""
        yield _no_answer(below[0][0], reason or below[0][1], rank=rank, host=host)
    elif "trace_json" in line.body and below and below[0][1].removeprefix("<pre>")[:1] in ("{", "["):
        yield DumpNote(**common(line, rank=rank, host=host), what="on-request")


def _no_answer(line: Line, why: str, **who: Any) -> Note:
    return Note(**common(line, **who), what="debug-server-no-answer", detail=why.strip()[:200])
