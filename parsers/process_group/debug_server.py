"""Reads which ranks answered ``torch.distributed.debug`` (2.10 to 2.13); ``stacks`` reads the stacks it collected.

Source: pytorch ``torch/distributed/debug/_frontend.py`` and ``_debug_handlers.py``. A worker that was not reached gets the status 408, 502
or 503 and the name of the exception; 404 and 500 are answers: the rank has no such handler, or py-spy is not installed there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nccldoctor.events import DumpNote, Event, Note
from nccldoctor.model.hosts import short_host
from nccldoctor.parsers.base import Line, common, reads
from nccldoctor.parsers.stacks.owner import RANK_HEAD
from nccldoctor.patterns import lazy

_PARTIAL = lazy(r"PARTIAL DATA: (?P<some>\d{1,7})/(?P<all>\d{1,7}) workers responded")
_SILENT = lazy(r"^\s{0,8}Rank (?P<rank>\d{1,7}): (?P<why>.{1,300})")
_NOT_REACHED = lazy(
    r"^(?:Error: |<p>Failed to fetch: status=)(?:408|502|503)\b|^(?:Timeout|\w{1,40}Error): |[Tt]imed out|[Cc]onnection refused"
)
_PAGE_FAILED = lazy(r"^\s{0,12}<p>Message: (?P<why>Exception: .{1,200}?)\.?</p>")


@reads("PARTIAL DATA:", "/handler/", "<p>Message: Exception: ", needs=(_PARTIAL, RANK_HEAD, _PAGE_FAILED))
def debug_server(line: Line) -> Iterator[Event]:
    """Ranks that did not answer the debug server, or showed it their recorder; pages that failed.

    One event for each rank that is named as silent, or whose answer is a recorder dump.
    """
    if _PARTIAL.search(line.body):
        yield from _named(line)
    elif hit := RANK_HEAD.search(line.body):
        yield from _answer(line, int(hit["rank"]), short_host((hit["host"] or "").strip("[]")) or line.mark.host)
    elif hit := _PAGE_FAILED.search(line.body):
        yield Note(**common(line, rank=None), what="debug-server-page-failed", detail=hit["why"])


def _named(line: Line) -> Iterator[Event]:
    for below in line.following(2000):
        hit = _SILENT.search(below.body)
        if hit is None:
            break
        if _NOT_REACHED.search(hit["why"]):
            yield _no_answer(below, hit["why"], rank=int(hit["rank"]))


def _answer(line: Line, rank: int, host: str | None) -> Iterator[Event]:
    """What stands below the heading of a rank: in a page the status, then the reason."""
    below = [one.body.strip() for one in line.following(6) if one.body.strip()][:2]
    if below and _NOT_REACHED.search(below[0]):
        reason = below[1].removeprefix("<pre>").removesuffix("</pre>") if below[0].startswith("<p>") else ""
        yield _no_answer(line, reason or below[0], rank=rank, host=host)
    elif "trace_json" in line.body and below and below[0].removeprefix("<pre>")[:1] in ("{", "["):
        yield DumpNote(**common(line, rank=rank, host=host), what="on-request")


def _no_answer(line: Line, why: str, **who: Any) -> Note:
    return Note(**common(line, **who), what="debug-server-no-answer", detail=why.strip()[:200])
