"""What text costs grows with its size and no faster, whatever it repeats. Work is counted in calls, not in seconds."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable

import pytest

from nccldoctor.collect.on_node.masking import hide_secrets
from nccldoctor.model import Source, SourceKind
from nccldoctor.parsers.engine.scan import scan
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


def _read(text: str) -> object:
    return scan(Source(1, "job.log", kind=SourceKind.LOG, size=len(text)), io.BytesIO(text.encode()))


@pytest.mark.parametrize("piece", [_retry, _chained, _cut, _without_name, _unended, _bare])
def test_tracebacks_without_a_rank_cost_as_much_as_their_text(piece: Callable[[int], str]) -> None:
    text = "".join(map(piece, range(500)))
    half = text[: text.index("\n", len(text) // 2) + 1]
    _read(half)  # what is compiled and looked up once
    few, many = _calls(lambda: _read(half)), _calls(lambda: _read(text))
    assert many < 2.4 * few
    assert many < 22 * len(text)  # calls for each character


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
