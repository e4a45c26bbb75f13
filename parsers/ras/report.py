"""NCCL's RAS report as text (``ncclras -v``): who does not answer, and whose counts differ.

Source: NVIDIA/nccl ``src/ras/client_support.cc``, v2.24.3 to v2.30.7, and the NVIDIA manual. Ranks are those of a
communicator, global only where it has as many ranks as the job. The report lists outliers (at most 10 members and a
quarter of the communicator), so a tie or a majority is not in it; it counts calls that were launched, of five
collectives, never send and recv: equal counts prove nothing, and unequal counts are a hang only if they stay.
Reports with impossible numbers occur (2.27.3) and are kept as notes of that.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccldoctor.events import Event, RasStatus
from nccldoctor.parsers.base import Line, common, reads
from nccldoctor.parsers.ras.blocks import BLOCK_HEAD, block_events
from nccldoctor.parsers.rows import Table
from nccldoctor.patterns import lazy

MOST_GPUS = 1 << 17
"""GPUs that a job is believed to have; a job's size costs time everywhere, and strangers write the summary."""

_SECOND = lazy(
    r"^\s*(?:Missing communicator data from|\d{1,9} job process.{0,20} considered dead|Encountered \d{1,9}"
    r" communication timeout)"
)
_ROW = lazy(
    r"^\s*(?P<group>\d{1,6})\s+(?P<comms>\d{1,7})\s+(?P<nodes>[\d\-]{1,15})\s+(?P<per>[\d\-]{1,15})\s+"
    r"(?P<size>\d{1,9})\s+(?P<ranks>\d{1,9})\s+"
    r"(?P<status>INIT|RUNNING|FINALIZE|ABORT|NOCOMM|UNKNOWN)\s+"
    r"(?P<errors>(?:OK|MISMATCH|ERROR|INCOMPLETE)(?:,(?:MISMATCH|ERROR|INCOMPLETE)){0,3})\s*$"
)
_TOTAL = lazy(r"^\s*\d{1,7}(?:\s+\d{1,9}){2,5}\s*$")


@reads(*Table(__file__).literals)
def ras(line: Line) -> Iterator[Event]:
    """One event for each row of the table, each block below *Errors*.

    Table rows stand alone; a block ends at the next blank line. Heads of one word are found by the line below
    them.
    """
    body = line.body
    if "(total)" in body:
        yield from _all_gpus(line)
    elif hit := _ROW.search(body[:300]):
        size = f"{hit['comms']} communicator(s) of {hit['size']} ranks, {hit['status']}"
        yield RasStatus(
            **common(line, rank=None),
            what=hit["errors"],
            detail=f"group {hit['group']}: {size}",
            nranks=int(hit["size"]),
            table=int(hit["group"]),
        )
    elif hit := BLOCK_HEAD.search(body[:300]):
        if hit["group"]:
            yield from block_events(line, hit)
    elif _SECOND.search(body[:300]):
        above = next(line.preceding(1), None)
        first = BLOCK_HEAD.search(above.body[:300]) if above else None
        if above and first and not first["group"]:
            yield from block_events(above, first)


def _all_gpus(line: Line) -> Iterator[RasStatus]:
    """The last column of the job summary: all GPUs. A varying layout ends in a table of totals alone."""
    below = next(line.following(1), None)
    if "(total)" in line.body.rstrip()[-8:] and below is not None and _TOTAL.match(below.body[:200]):
        total = int(below.body.split()[-1])
        if 0 < total <= MOST_GPUS:
            yield RasStatus(**common(below, rank=None), what="TOTAL", nranks=total, detail=f"{total} GPUs in all")
