"""Reads nccl-tests and rccl-tests: the process of each rank, the call that failed, and the results.

Sources: NVIDIA/nccl-tests 2.0 to 2.19 and ROCm/rccl-tests ``src/common.h``, ``src/common.cu``. The lines
``.. host pid 9: Test failure`` only trace one failure through the functions of the program.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from nccldoctor.events import Event, NcclError, Note, Phase, ProcessId
from nccldoctor.parsers.base import Line, common, reads
from nccldoctor.parsers.nccl.topics import topic_of
from nccldoctor.parsers.process_group.nccl_error import code_of_words
from nccldoctor.patterns import lazy

_DEVICE = lazy(
    r"#\s{1,4}Rank\s{1,9}(?P<rank>\d{1,7})\s{1,4}(?:Group\s{1,9}\d{1,7}\s{1,4})?Pid\s{1,9}(?P<pid>\d{1,10}) on\s{1,40}"
    r"(?P<host>[\w.-]{1,200})\s{1,9}device\s{1,4}\d{1,4} \["
)
_FAILURE = lazy(
    r"(?P<host>[\w.-]{1,200}): Test NCCL failure [\w./-]{1,120}:\d{1,6} '(?P<text>[^']{1,300}?)(?: / (?P<last>[^']{0,400}))?'?$"
)
_SUMS = lazy(r"Out of bounds values {0,12}: (?P<wrong>\d{1,12}) (?P<mark>OK|FAILED)")
_TOO_SLOW = lazy(r"Avg bus bandwidth {0,12}: [\d.e+-]{1,20} FAILED")
"""The line below that of the sums; it has a mark only where the user gave the least bandwidth."""

_TRACE = lazy(r"\.\. (?P<host>[\w.-]{1,200}) pid (?P<pid>\d{1,10}): Test failure ")


@reads("Test NCCL failure", ": Test failure ", " Pid ", "Out of bounds values")
def nccl_tests(line: Line) -> Iterator[Event]:
    """*process-id* for each rank of the table of devices, *nccl-error* for a failure, with the process of the next line.

    The check of the sums ends the run: a *phase*, or a *note* where sums are wrong or the links too slow.
    """
    body = line.body[:2_000]
    if hit := _DEVICE.search(body):
        yield ProcessId(**common(line, rank=int(hit["rank"]), pid=int(hit["pid"]), host=hit["host"]))
    elif hit := _FAILURE.search(body.rstrip()):
        trace = next((found for below in line.following(1) if (found := _TRACE.search(below.body))), None)
        last = (hit["last"] or "").strip() or None
        yield NcclError(
            **common(line, host=hit["host"], pid=int(trace["pid"]) if trace else None),
            code=code_of_words(hit["text"]),
            message=hit["text"].strip(" /"),
            last_error=last,
            topic=topic_of(last or ""),
        )
    elif hit := _SUMS.search(body):
        yield _result(line, hit)
    elif hit := _TRACE.search(body):
        yield Note(**common(line, host=hit["host"], pid=int(hit["pid"])), what="nccl-tests-trace", detail=hit[0][:200])


def _result(line: Line, hit: re.Match[str]) -> Event:
    if hit["mark"] == "FAILED":
        return Note(**common(line), what="wrong-results", detail=f"{hit['wrong']} results of the test are wrong")
    if any(_TOO_SLOW.search(below.body) for below in line.following(1)):
        return Note(**common(line), what="low-bandwidth", detail="the bandwidth is below the least that was asked for")
    return Phase(**common(line), what="finished", detail=hit[0].strip())
