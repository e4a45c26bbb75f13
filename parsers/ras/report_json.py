"""Reads NCCL's RAS report as JSON (2.28.7 and later), which omits no rank as the text form does.

Source: NVIDIA/nccl ``src/ras/client_support.cc``, v2.28.7 to v2.30.7.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nccldoctor.events import Event, RasStatus, Version
from nccldoctor.model import Gap, Place, Source
from nccldoctor.model.ranks import Ranks
from nccldoctor.parsers.base import FileParser, Parsed, file_parser
from nccldoctor.parsers.json_stream import objects, whole_number
from nccldoctor.parsers.line_prefix.timestamps import iso_time
from nccldoctor.parsers.ras.blocks import MOST_RANKS, comm_id_of
from nccldoctor.patterns import lazy

RESULTS = {
    1: "Unhandled CUDA error",
    2: "System error",
    3: "Internal error",
    4: "Invalid argument",
    5: "Invalid usage",
    6: "Remote process error",
    8: "Timeout",
}
"""``ncclResult_t`` in the words of the text form."""


@file_parser
class RasJsonParser(FileParser):
    """One event for each communicator, and one for each rank that is missing or reports an error."""

    def claims(self, head: bytes, path: str) -> bool:
        """A JSON document that speaks of communicators."""
        start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
        return start.startswith(b"{") and b'"nccl_version"' in head and b'"communicators' in head

    def parse(self, source: Source, content: bytes) -> Parsed:
        """The events of each report: a loop of queries leaves several. A broken document gives a gap, and so does a mended one."""
        text = content.decode("utf-8", "backslashreplace").lstrip("\ufeff")
        events, problem = _read_reports(source, text)
        if problem and (mended := _NO_COMMA.sub(r",\1\2", text)) != text:
            more, still = _read_reports(source, mended)
            if len(more) > len(events):
                why = "mended: NCCL had left out a comma before a key of a rank that does not answer"
                events, problem = more, still or why
        gaps = (Gap(f"RAS report in {source.path}", problem, source=source.id),) if problem else ()
        return Parsed(
            source, tuple(events), gaps=gaps, lines=text.count("\n") + 1, candidates=len(events), understood=len(events)
        )


_NO_COMMA = lazy(r"(?<=[\w\"\]}])(\s{1,99})(\"[^\"\n]{1,80}\"\s{0,9}:)")
"""A key right behind a value: NCCL 2.28.9 prints the ranks that do not answer without the comma before ``"status"``."""


def _read_reports(source: Source, text: str) -> tuple[list[Event], str]:
    """The events of all reports up to where the text breaks, and how it breaks."""
    events: list[Event] = []
    try:
        for _, report in objects(text):
            events += _report(source, report)
    except (ValueError, RecursionError) as error:
        return events, f"not readable as JSON: {error}"[:200]
    return events, ""


def _report(source: Source, report: dict[str, Any]) -> Iterator[Event]:
    common: dict[str, Any] = {"place": Place(source.id, source.path), "time": iso_time(report.get("timestamp"))}
    version = report.get("nccl_version")
    if isinstance(version, str):
        yield Version(**common, text=f"nccl_version {version}"[:500], of="nccl", version=version[:60])
    cuda = report.get("cuda_runtime_version")
    if isinstance(cuda, int) and 1_000 <= cuda < 1_000_000:
        version = f"{cuda // 1000}.{cuda % 1000 // 10}"
        yield Version(**common, text=f"cuda_runtime_version {cuda}", of="cuda", version=version)
    communicators = _dicts(report.get("communicators"))
    all_ranks = (r for c in communicators for r in (*_dicts(c.get("ranks")), *_dicts(c.get("missing_ranks"))))
    # a process may hold several boards
    total = len({tuple(str(rank.get(key)) for key in ("host", "pid", "cuda_dev")) for rank in all_ranks})
    if total:
        sentence = f"{total} GPUs in all"
        yield RasStatus(**common, text=sentence, what="TOTAL", nranks=total, detail=sentence)
    for communicator in communicators:
        yield from _communicator(common, communicator)
    about = report.get("ras")
    lost = about.get("timeouts_count") if isinstance(about, dict) else None
    if isinstance(lost, int) and lost > 0:
        sentence = f"{lost} timeouts while RAS gathered this report: it is not whole"
        yield RasStatus(**common, text=sentence, what="TIMEOUT", detail=sentence)


def _communicator(common: dict[str, Any], communicator: dict[str, Any]) -> Iterator[Event]:
    ranks = [r for r in _dicts(communicator.get("ranks")) if _rank(r) is not None]
    absent = [r for r in _dicts(communicator.get("missing_ranks")) if _rank(r) is not None]
    counts = tuple(sorted((_rank(r) or 0, str(op)[:24], n) for r in ranks for op, n in _counts(r)))
    uneven = len({(op, n) for _, op, n in counts}) > len({op for _, op, _ in counts})
    what = "MISMATCH" if uneven else "INCOMPLETE" if absent else "OK"
    name = f"communicator {communicator.get('hash')} of {communicator.get('size')} ranks"[:120]
    sentence = f"{name}: {len(ranks)} answered, {len(absent)} missing{', counts differ' if uneven else ''}"
    missing = Ranks(_rank(r) or 0 for r in absent)
    size = communicator.get("size")
    yield RasStatus(
        **common,
        text=sentence,
        what=what,
        missing=missing,
        detail=sentence,
        counts=counts,
        comm_id=comm_id_of(str(communicator.get("hash"))[:40]),
        nranks=size if isinstance(size, int) and 0 < size < MOST_RANKS else None,
        processes=tuple(sorted(p for r in (*ranks, *absent) if (p := _process(r)) is not None)),
    )
    for rank in ranks:
        code = _status(rank).get("async_error")
        if isinstance(code, int) and code not in (0, 7):  # success and in progress
            error = RESULTS.get(code, f"ncclResult {code}")
            yield _rank_event(common, rank, "ERROR", f"{name}: rank {_rank(rank)} reports {error}")
    for rank in absent:
        is_dead = bool(_status(rank).get("considered_dead"))
        what, says = ("DEAD", "is considered dead") if is_dead else ("INCOMPLETE", "does not answer")
        yield _rank_event(common, rank, what, f"{name}: rank {_rank(rank)} {says}")


def _process(rank: dict[str, Any]) -> tuple[int, str, int] | None:
    number, host, pid = _rank(rank), rank.get("host"), whole_number(rank.get("pid"))
    if number is None or not isinstance(host, str) or pid is None:
        return None
    return number, host[:200], pid


def _rank_event(common: dict[str, Any], rank: dict[str, Any], what: str, sentence: str) -> RasStatus:
    host = rank.get("host")
    return RasStatus(
        **common,
        text=sentence,
        what=what,
        detail=sentence,
        group_rank=_rank(rank),
        host=host[:200] if isinstance(host, str) else None,
        pid=whole_number(rank.get("pid")),
    )


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value[:MOST_RANKS] if isinstance(item, dict)] if isinstance(value, list) else []


def _rank(rank: dict[str, Any]) -> int | None:
    number = whole_number(rank.get("rank"))
    return number if number is not None and 0 <= number < MOST_RANKS else None


def _status(rank: dict[str, Any]) -> dict[str, Any]:
    status = rank.get("status")
    return status if isinstance(status, dict) else {}


def _counts(rank: dict[str, Any]) -> list[tuple[str, int]]:
    counts = rank.get("collective_counts")
    if not isinstance(counts, dict):
        return []
    return [(op, n) for op, n in list(counts.items())[:32] if whole_number(n) is not None]
