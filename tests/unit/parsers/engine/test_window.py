"""Neighbours of a line: what is passed over without being decoded is what would have been left out anyway."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nccldoctor.model import Source, SourceKind
from nccldoctor.parsers.base import Line
from nccldoctor.parsers.engine.window import REACH, Buffer, Located
from nccldoctor.parsers.line_prefix.prefixes import can_continue

LINES = (
    "[rank3]: Traceback (most recent call last):",
    "[rank12]: 2026-11-03 09:15:01,949 - train - INFO - step 3/250000",
    "no label at all",
    '[rank3]:   File "train.py", line 12, in main',
    "[rank03]: the same rank with a zero",
    "[rank12]: [rank3]: ValueError: two labels, the inner one counts",
    "[default3]:[rank3]: a launcher's label",
    "[default4]:[rank12]: another one",
    "\x1b[31m[rank\x1b[0m3]: coloured",
    "[rank1\x1b[0m2]: a colour inside the number",
    "node3:175:176 [3] NCCL INFO Channel 00/0",
    "[rank\u0663]: the same digit in Arabic",
    "12: labelled 3",
    "",
    "  8%|\u2588 | 3/40 [00:03<00:30, 1.2it/s]\r 10%| | 4/40 [00:03<00:30, 1.2it/s]",
    "[rank12]: done [rank3]: and glued",
    "(Worker pid=12, ip=10.0.0.3) [rank12]: nothing",
    "[rank12]: nothing with that number",
    "[Rank 3] as DeepSpeed prints it",
    "[RANK: 003] as a user prints it",
    "rank=3 | another user",
    "rank3[77][MainThread]: INFO: composer.trainer: as Composer prints it",
    "2026-11-03 09:15:01 [RANK 3] [I] as TensorRT-LLM prints it",
    "[rank12]: rank 13, 33, 30 and frank 3",
)


def every_line() -> tuple[Buffer, list[Located]]:
    """A buffer of these lines, twice, and its lines."""
    content = "\n".join((*LINES, *reversed(LINES))).encode() + b"\n"
    buffer = Buffer(Source(id=0, path="job.log", kind=SourceKind.LOG, size=len(content)), len(content))
    buffer.data[:], buffer.high = content, len(content)
    found, at = [], 0
    for number, raw in enumerate(content.split(b"\n")[:-1], 1):
        for start, end in buffer.pieces(at, at + len(raw)) or [(at, at + len(raw))]:
            found += buffer.lines(start, end, number)
        at += len(raw) + 1
    return buffer, found


def of_writer(line: Line, behind: Iterator[Line]) -> Iterator[Line]:
    """What :meth:`Line.following` promises, of all lines behind one."""
    mine = owner = line.mark.stream
    for other in behind:
        stream = other.mark.stream
        if stream:
            owner = mine if can_continue(stream, mine) else stream
        if (owner == mine) if mine else not stream:
            yield other


@pytest.mark.parametrize("n", range(0, 50, 3))
def test_neighbours_are_those_that_reading_every_line_gives(n: int) -> None:
    buffer, lines = every_line()
    line = lines[n]
    behind = [other.raw for other in buffer.near(line, 1_000)]
    assert behind[: len(LINES)] == [other.raw for other in buffer.near(line, len(LINES))]
    for stream in {other.mark.stream for other in lines} - {""}:
        expected = [other.body for other in buffer.near(line, 1_000) if other.mark.stream == stream]
        assert [other.body for other in buffer.near_of(stream, line, 1_000)] == expected
    expected = [other.body for other in of_writer(line, buffer.near(line, 1_000))]
    assert [other.body for other in line.following(1_000)] == expected
    before = [
        x for x in lines if (x.place.line or 0) < (line.place.line or 0) or (x.at == line.at and x.record < line.record)
    ]
    own = [x.body for x in reversed(before) if can_continue(x.mark.stream, line.mark.stream)]
    if line.mark.stream:
        assert [other.body for other in line.preceding(1_000)] == own


def test_hit_lines_end_with_their_block() -> None:
    text = b"a\nbc de\nf\r\ng\rh\n" + b"last"
    buffer = Buffer(Source(id=0, path="job.log", kind=SourceKind.LOG, size=len(text)), len(text) + 1)
    buffer.data[: len(text)], buffer.high = text, len(text)
    end = len(text)
    assert buffer.hit_lines([2, 5, 8], 0, end) == ([2, 8], [b"bc de", b"f"], {})
    assert buffer.hit_lines([0], 8, end) == ([8], [b"f"], {})
    assert buffer.hit_lines([11, 13, 15], 0, end) == ([11, 15], [b"", b"last"], {0: [11, 13]}), (
        "a line that redraws itself"
    )
    assert buffer.hit_lines([16, 17], 0, 18) == ([15], [b""], {0: [16, 17]}), "the next block goes on with the line"
    assert buffer.hit_lines([1], 3, end) == ([3], [b""], {0: [4]}), "the line began in the block before"
    assert buffer.hit_lines([17], 0, 15) == ([], [], {}), "a hit behind the block is found with the next one"


def test_a_line_too_long_to_be_held_is_known_by_its_hits() -> None:
    text = b"one\n" + b"x" * REACH + b"\ntwo\n"
    buffer = Buffer(Source(id=0, path="job.log", kind=SourceKind.LOG, size=len(text)), len(text) + 1)
    buffer.data[: len(text)], buffer.high = text, len(text)
    hits = [1, 10, 500, len(text) - 3]
    assert buffer.hit_lines(hits, 0, len(text)) == ([0, 4, len(text) - 4], [b"one", b"", b"two"], {1: [10, 500]})


def test_line_ends_are_counted_alike_in_short_and_long_parts() -> None:
    text = b"".join(b"x" * (n % 50) + b"\n" for n in range(4_000))
    buffer = Buffer(Source(id=0, path="job.log", kind=SourceKind.LOG, size=len(text)), len(text))
    buffer.data[:] = text
    for low, high in ((0, 0), (0, 9), (3, 10_000), (3, 40_000), (1, len(text)), (0, len(text))):
        assert buffer.count_line_ends(low, high) == text[low:high].count(b"\n")
