"""Monitored barriers: rank 0 of a group names who did not come.

pytorch ``torch/csrc/distributed/c10d/ProcessGroupGloo.cpp`` (1.8 to 2.13) and ``ProcessGroupWrapper.cpp``, which guards
each call with one under ``TORCH_DISTRIBUTED_DEBUG=DETAIL``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from nccldoctor.events import Event, MonitoredBarrier
from nccldoctor.model.ranks import Ranks
from nccldoctor.parsers.base import Line, common, ranks_in, reads
from nccldoctor.parsers.process_group.mismatch import Fingerprint, fingerprints
from nccldoctor.patterns import lazy

_GUARD = "Monitored Barrier encountered error running collective: "

_FAILED = lazy(
    r"(?:\[Rank (?P<root>\d{1,7})\]: )?Ranks? (?P<ranks>\d[\d, ]{0,60000}?) failed to pass monitoredBarrier in "
    r"(?P<ms>\d{1,12}) ms"
)
_REACHED = lazy(r"Rank (?P<rank>\d{1,7}) successfully reached monitoredBarrier")
_TIMED_OUT = lazy(r"Rank (?P<rank>\d{1,7}) timed out in monitoredBarrier after (?P<ms>\d{1,12}) ms")
_PROCESSED = lazy(r"Successfully processed ranks: (?P<ranks>\d[\d, ]{0,60000})")


@reads("onitoredBarrier", "Monitored Barrier encountered")
def monitored_barriers(line: Line) -> Iterator[Event]:
    """All ranks are those inside the group. Who *successfully reached* it is a victim; who *timed out* is the rank that
    checks the others.
    """
    if _GUARD in line.body:
        yield from _guarded(line)
    elif match := _FAILED.search(line.body):
        if not any(_GUARD in above.body for above in line.preceding(2)):
            yield _missing(line, match, Fingerprint())
    elif match := _REACHED.search(line.body):
        rank = int(match["rank"])
        yield MonitoredBarrier(**common(line, group_rank=rank), reached=Ranks([rank]))
    elif match := _TIMED_OUT.search(line.body):
        reached = Ranks()
        for text in (line.body, *(below.body for below in line.following(2))):
            if processed := _PROCESSED.search(text):
                reached = ranks_in(processed["ranks"])
                break
        ms = int(match["ms"])
        yield MonitoredBarrier(**common(line, group_rank=int(match["rank"])), reached=reached, timeout_ms=ms)


def _missing(line: Line, match: re.Match[str], call: Fingerprint) -> Event:
    return MonitoredBarrier(
        **common(line, group_rank=int(match["root"]) if match["root"] else None),
        missing=ranks_in(match["ranks"]),
        timeout_ms=int(match["ms"]),
        op=call.op,
        seq=call.seq,
    )


def _guarded(line: Line) -> Iterator[Event]:
    """The debug wrapper's line: its call, with the barrier's verdict from this line or the next ones."""
    call = next((found for _, found in fingerprints(line.body)), Fingerprint())
    for text in (line.body, *(below.body for below in line.following(3))):
        if match := _FAILED.search(text):
            yield _missing(line, match, call)
            return
    yield MonitoredBarrier(**common(line), op=call.op, seq=call.seq)
