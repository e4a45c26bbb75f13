"""The last COLL lines of each communicator are read wherever they stand, in a file of which only parts are parsed."""

from __future__ import annotations

import io

from builders.logs.cpu_limit import bounded_cpu_time

from nccldoctor.events import CollCall
from nccldoctor.model import Source, SourceKind
from nccldoctor.parsers.base import Parsed
from nccldoctor.parsers.engine.sampling import LAST, LastCalls
from nccldoctor.parsers.engine.scan import scan
from nccldoctor.parsers.engine.window import Buffer

OFTEN, SELDOM = "0x55aa", "0x66bb"


def line(number: int, comm: str, pid: int = 7, before: str = "") -> str:
    return (
        f"{before}n1:{pid}:8 [0] NCCL INFO AllReduce: opCount {number:x} sendbuff 0x7f60 recvbuff 0x7f60 count 4096 datatype 7 op 0 "
        f"root 0 comm {comm} [nranks=8] stream 0x55aa\n"
    )


def read(lines: list[str]) -> Parsed:
    content = "".join(lines).encode()
    return scan(Source(0, "r0.log", SourceKind.LOG, len(content), 0), io.BytesIO(content))


def calls(parsed: Parsed, comm: str) -> list[CollCall]:
    return [e for e in parsed.events if isinstance(e, CollCall) and e.comm == comm]


def test_the_last_call_of_a_communicator_that_is_seldom_used_is_found_amid_a_large_file() -> None:
    lines = [line(n, OFTEN) for n in range(60_000)]
    lines[31_000] = line(0x1A, SELDOM)
    parsed = read(lines)
    assert len("".join(lines)) > 8 << 20, "more than one block"
    assert [(e.op_count, e.place.line) for e in calls(parsed, SELDOM)] == [(0x1A, 31_001)]
    often = calls(parsed, OFTEN)
    assert often[-1].op_count == 59_999
    assert [e.op_count for e in often[-LAST:]] == list(range(60_000 - LAST, 60_000)), "the last ones without a hole"
    assert len(often) < 10_000, "not all of them are parsed"
    assert [e.place.line for e in parsed.events] == sorted(e.place.line or 0 for e in parsed.events)


def test_a_small_file_gives_each_line_once() -> None:
    parsed = read([line(n, OFTEN) for n in range(100)])
    assert [e.op_count for e in calls(parsed, OFTEN)] == list(range(100))


def test_processes_of_one_file_are_kept_apart_whatever_stands_before_their_lines() -> None:
    lines = [line(n, OFTEN, pid=7 + n % 2, before=f"[2026-01-02 03:04:{n % 60:02d}] ") for n in range(60_000)]
    lines[30_000] = line(3, SELDOM, pid=9)
    found = calls(read(lines), OFTEN)
    assert {e.pid: max(c.op_count for c in found if c.pid == e.pid) for e in found} == {7: 59_998, 8: 59_999}
    assert len(calls(read(lines), SELDOM)) == 1


def test_more_communicators_than_any_process_has_are_not_kept() -> None:
    buffer = Buffer(Source(0, "x", SourceKind.LOG, 0), 0).like(
        "".join(line(n, f"0x{n:x}", pid=n) for n in range(6000)).encode()
    )
    newest = LastCalls()
    newest.gather(buffer, 0, buffer.high, 1)
    assert 1000 < len(list(newest.kept_lines())) <= 4096


def test_hostile_lines_end() -> None:
    lines = [
        " NCCL INFO opCount 1 " + " comm " * 8000 + "\n",
        "opCount " * 8000 + "\n",
        " NCCL INFO " * 6000 + "opCount \n",
    ]
    with bounded_cpu_time():
        read(lines * 60)
