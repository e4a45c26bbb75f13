"""What text costs grows with its size and no faster, whatever it repeats. Work is counted in calls, not in seconds."""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Callable
from typing import Any

import pytest

from nccldoctor.collect.on_node.masking import hide_secrets
from nccldoctor.events import ExceptionRaised
from nccldoctor.model import Source, SourceKind
from nccldoctor.parsers.base import Parsed
from nccldoctor.parsers.engine.scan import scan
from nccldoctor.parsers.flight_recorder.child import load_dump
from nccldoctor.parsers.flight_recorder.wire import Unpacker, pack
from nccldoctor.words import secrets

_FRAMES = '  File "/opt/feed/pull.py", line 31, in pull\n    return link.ask(name)\n  File "/opt/feed/link.py", line 9, in ask\n'
_HEADER = "Traceback (most recent call last):\n"


def _retry(i: int) -> str:
    return f"{_HEADER}{_FRAMES}OSError: shard {i} is not there\ntry {i} of many, waiting\n"


def _chained(i: int) -> str:
    return f"{_HEADER}{_FRAMES}OSError: shard {i} is not there\n\nDuring handling of the above exception, another exception occurred:\n\n"


def _cut(i: int) -> str:
    return _HEADER + _FRAMES + "".join(f"    item {i}.{row}\n" for row in range(12))


def _without_name(i: int) -> str:
    return f"{_HEADER}{_FRAMES}queue.Empty\nstep {i} loss 3.1\n"


def _unended(i: int) -> str:
    return _HEADER + _FRAMES


def _bare(i: int) -> str:
    return f"KeyError: sample {i} has no label, it is left out\n"


def _calls(work: Callable[[], object]) -> int:
    count = 0

    def note(_frame: object, event: str, _arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def _read(text: str) -> Parsed:
    return scan(Source(1, "job.log", kind=SourceKind.LOG, size=len(text)), io.BytesIO(text.encode()))


@pytest.mark.parametrize("piece", [_retry, _chained, _cut, _without_name, _unended, _bare])
def test_tracebacks_without_a_rank_cost_as_much_as_their_text(piece: Callable[[int], str]) -> None:
    text = "".join(map(piece, range(500)))
    half = text[: text.index("\n", len(text) // 2) + 1]
    _read(half)  # what is compiled and looked up once
    few, many = _calls(lambda: _read(half)), _calls(lambda: _read(text))
    assert many < 2.4 * few
    assert many < 22 * len(text)  # calls for each character


def _different(i: int) -> str:
    return (
        f'{_HEADER}  File "/opt/a{i}.py", line {i}, in f{i}\n    x{i}()\nb{i}.B{chr(65 + i % 26)}{i}Error: shard {i}\n'
    )


def _of_ranks(i: int) -> str:
    return "".join(f"[rank{i % 16}]: {line}\n" for line in _retry(i).splitlines())


def _bars(i: int) -> str:
    return "".join(f"\rrank {r}: {i % 100:3d}%|{'#' * 9}| {i}/999 [00:10<01:02,  2.9it/s]" for r in range(16))


def _members(i: int) -> str:
    return (
        f"[rank{i % 8}]:[E1120 10:10:00 x.cpp:600] [Rank {i % 8}] ranks missing: [{', '.join(map(str, range(200)))}]\n"
    )


def _json(i: int) -> str:
    return f'{{"level": "ERROR", "rank": {i % 8}, "msg": "NCCL WARN step {i} failed: OSError: x"}}, '


def _bare_stack(i: int) -> str:
    return (
        f"Thread {i} (LWP {i}):\n#0  0x00007f in futex_wait () from /lib/libc.so\n#1  0x1 in foo (a={i}) at x.c:{i}\n"
    )


def _eu_stack(i: int) -> str:
    return f"TID {i + 5}:\n#0  0x00007f01 fn{i} - /lib/libc.so.6\n#1  0x00007f02 wait - /lib/libc.so.6\n"


PIECES = {
    _different: 1200,
    _of_ranks: 400,
    _bars: 400,
    _members: 400,
    _json: 12000,
    _bare_stack: 600,
    _eu_stack: 600,
    lambda i: "NCCL WARN timeout error ": 8000,
    lambda i: "x" * 100: 8000,
    lambda i: "error\n": 8000,
    lambda i: f"{i}\n": 8000,
}


@pytest.mark.parametrize(("piece", "count"), PIECES.items())
def test_twice_the_text_costs_twice_as_much(piece: Callable[[int], str], count: int) -> None:
    text = "".join(map(piece, range(count)))
    half = "".join(map(piece, range(count // 2)))
    _read(text)  # what is compiled and remembered once, of both
    assert _calls(lambda: _read(text)) < 2.4 * _calls(lambda: _read(half)) + 2000


@pytest.mark.parametrize("is_text", [True, False])
def test_member_lists_of_dumps_cost_their_length(is_text: bool) -> None:
    def batch(count: int) -> Any:
        ranks = [rank ^ 1 for rank in range(count)]
        config = {str(n): {"name": str(n), "desc": "", "ranks": str(ranks) if is_text else ranks} for n in range(20)}
        data = pickle.dumps({"pg_config": config, "pg_status": {}, "entries": []}, 2)
        return Unpacker().unpack(pack(load_dump(data)), 0, "rank_0")

    batch(10)
    few, many = _calls(lambda: batch(2000)), _calls(lambda: batch(4000))
    assert many < 2.4 * few
    assert len(batch(4000).dumps[0].config[0].ranks) == 4000


def test_an_exception_among_thousands_of_a_retry_loop_is_read() -> None:
    other = f"{_HEADER}{_FRAMES}ValueError: no shard\ntry 5 of many, waiting\n"
    parsed = _read("".join(map(_retry, range(1000))) + other + "".join(map(_retry, range(1000))))
    raised = [event for event in parsed.events if isinstance(event, ExceptionRaised)]
    assert {event.type for event in raised} == {"OSError", "ValueError"}
    assert len(raised) < 500
    assert raised[-1].message == "shard 999 is not there"
    assert any("of 2001 records repeat others" in gap.why for gap in parsed.gaps)
    assert parsed.understood == parsed.candidates


def test_ranks_in_a_row_are_all_read() -> None:
    lines = "".join(f"[rank{i // 10}]: {line}\n" for i in range(2000) for line in ("OSError: shard 5 is gone", "next"))
    parsed = _read(lines)
    assert {event.rank for event in parsed.events} == set(range(200))


LINES = [
    "step {0} loss 2.{0} tokens/s {1} max_tokens=4096 grad_norm 0.{0} lr 3e-4\n",
    "2026-05-06 07:08:09,{0} trunk-3:412:977 [3] NCCL INFO Channel {0}/0 : 3[3] -> 4[4] via P2P/IPC key 0x{1}\n",
    '{{"step": {0}, "tokens": {1}, "key": "train/loss", "value": 2.{0}}}\n',
]


@pytest.mark.parametrize("line", LINES)
def test_lines_of_one_form_are_searched_for_secrets_once(line: str) -> None:
    def work(count: int) -> int:
        secrets._has_named.cache_clear()
        secrets._without_shapes.cache_clear()
        text = "".join(line.format(1000 + i, 70000 + i) for i in range(count)).encode()
        return _calls(lambda: hide_secrets(text))

    few, many = work(400), work(800)
    assert many < 2.4 * few
    assert many < 25 * 800  # calls for each line


def test_what_is_not_searched_in_time_is_left_out_from_the_beginning() -> None:
    text = "".join(f"row {i} password={i:08d}x\n" for i in range(40_000)).encode()
    left = hide_secrets(text, until=0.0)
    assert 0 < len(left) < len(text) / 2
    assert left.endswith(b"row 39999 password=***\n")
    assert b"x\n" not in left


def test_a_key_on_many_lines_is_hidden_wherever_the_text_is_cut() -> None:
    key = "-----BEGIN PRIVATE KEY-----\n" + "MIIbv9Qx\n" * 60 + "-----END PRIVATE KEY-----\n"
    text = "\n" * 262_000 + key + "go on\n" * 40
    assert b"MIIbv9Qx" not in hide_secrets(text.encode())


def test_a_line_without_end_keeps_its_beginning() -> None:
    left = hide_secrets(b"first\n" + b"ab " * 800_000 + b"\nlast\n")
    assert left.startswith(b"first\nab ") and left.endswith(b"\nlast\n") and len(left) < 1_100_000
