"""PyTorch's own report of who lags (``TORCH_NCCL_DESYNC_DEBUG``), in all its eras, and its failures.

Text: pytorch ``TraceUtils.h`` v2.0 to v2.13. Ranks in it are ranks *in the group*; numbers behind ``#`` follow what
was started, which may be far ahead of the SeqNum that timed out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nccldoctor.events import DesyncReport, Event, Note
from nccldoctor.model.ranks import Ranks
from nccldoctor.parsers.base import Line, common, ranks_in, reads
from nccldoctor.parsers.process_group.prefix import member
from nccldoctor.patterns import lazy

_AT = lazy(r"- \[(\d{1,7})\] Timeout at collective: (\w{1,60}), #(\d{1,20})")
_NEVER = lazy(r"ranks \[([\d, ]{0,60000})\] are the lagging ranks that caused this timeout")
_BEHIND = lazy(
    r"\[([\d, ]{0,60000})\] (?:joined but didn't finish collective #(\d{1,20})"
    r"|finished collective #(\d{1,20}), but didn't join)"
)
_SNAPSHOT = lazy(
    r"#(\d{1,20}) (?:started|finished) ranks|\[[\d, ]{0,60000}\] (?:started|finished) \w{1,60}"
    r"|Snapshot of ranks' latest states"
)
_PART = lazy(r"^\s*(?:- |  |\t|\[\d|#\d)|To our best knowledge|" + _SNAPSHOT.pattern)
_FAILED = lazy(
    r"Failed to retrieve (?:TORCH_)?NCCL_DESYNC_DEBUG report|Store is down while (?:updating #\d{1,20} with"
    r"|getting) key"
)
_LAST_ITEM = lazy(r"Timeout rank \[(\d{1,7})\].{0,200}?thisSeq = (\d{1,20}), col = (\w{1,60})")
_LINES = 400  # states in one snapshot


def laggards(text: str) -> Ranks:
    """The ranks that the report blames: those that never joined, or else those that are furthest behind.

    Of several rows the one with the lowest number counts, since the others may only wait: ``[0, 1] joined but didn't
    finish collective #18`` and ``[2] finished collective #17, but didn't join`` give rank 2.
    """
    never = _NEVER.search(text)
    if never:
        return ranks_in(never[1])
    rows = [(int(m[2] or m[3]), ranks_in(m[1])) for m in _BEHIND.finditer(text)]
    low = min((n for n, _ in rows), default=None)
    return Ranks(rank for n, ranks in rows if n == low for rank in ranks)


@reads(
    "] Timeout at collective: ",
    "DESYNC_DEBUG report",
    "Store is down while",
    "lagging ranks that caused",
    "ranks that caused the desync",
)
def desync_reports(line: Line) -> Iterable[Event]:
    """The report, from its first line to the end of its snapshot.

    One report for each ``Timeout at collective``; a copy that lost that line begins at the sentence about the
    ranks.
    """
    if _FAILED.search(line.body):
        yield Note(**common(line), what="desync-failed", detail=line.body.strip()[:300])
        if last := _LAST_ITEM.search(line.body):
            yield DesyncReport(**common(line, group_rank=int(last[1])), op=last[3], seq=int(last[2]))
        return
    at = _AT.search(line.body)
    if at is None and any(_AT.search(x.body) for x in line.preceding(2)):
        return
    text = "\n".join([line.body, *_rest(line)])
    if at is None and not _NEVER.search(text) and not _BEHIND.search(text):
        return
    head = next((x for x in (line, *line.preceding(3)) if x.mark.file is not None or x.mark.rank is not None), line)
    group, inside = member(head.body)
    yield DesyncReport(
        **common(line, rank=head.mark.rank, time=head.mark.time, group=group, group_rank=int(at[1]) if at else inside),
        laggards=laggards(text),
        snapshot=text[:4_000],
        op=at[2] if at else None,
        seq=int(at[3]) if at else None,
    )


def _rest(line: Line) -> Iterator[str]:
    """The lines of the report behind its first one: indented, without a writer of their own, without a gap."""
    number = line.place.line or 0
    for other in line.following(_LINES):
        begins = other.mark.file is not None or _AT.search(other.body)
        if begins or (other.place.line or 0) - number > 1 or not _PART.search(other.body):
            return
        number = other.place.line or 0
        yield other.body
