"""Damages bytes as a fuzzer does: at random places, in lines, in numbers, and in the opcodes of a pickle. Same seed, same bytes."""

from __future__ import annotations

import pickletools
import random
import re
from collections.abc import Callable

_NUMBERS = (b"-1", b"0", b"18446744073709551616", b"9" * 400, b"1e999", b"nan", b"0x7f", b"00000000003")
_BYTES = (
    b"\0",
    b"\xff\xfe",
    b"\r\n",
    b"\x1b[31m",
    b"\x80\x02",
    b"\xe2\x80\xae",
    b"[rank7]: ",
    b'{"',
    b"\n\n",
    b"(" * 70,
    b"A" * 70_000,
)
LARGEST = 400_000
"""Bytes of a damaged file at most, so that a run tries many files."""

Mutation = Callable[[random.Random, bytes], bytes]


def _span(rng: random.Random, size: int, most: int = 400) -> tuple[int, int]:
    start = rng.randrange(size + 1)
    return start, min(size, start + rng.randrange(1, most))


def flip(rng: random.Random, data: bytes) -> bytes:
    """Some bytes become others."""
    out = bytearray(data)
    for _ in range(rng.randrange(1, 9)):
        if out:
            out[rng.randrange(len(out))] = rng.randrange(256)
    return bytes(out)


def insert(rng: random.Random, data: bytes) -> bytes:
    """Bytes that mean something to some reader come in between."""
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(_BYTES) + data[at:]


def delete(rng: random.Random, data: bytes) -> bytes:
    """A stretch is missing."""
    start, end = _span(rng, len(data))
    return data[:start] + data[end:]


def repeat(rng: random.Random, data: bytes) -> bytes:
    """A stretch stands there several times."""
    start, end = _span(rng, len(data))
    return data[:end] + data[start:end] * rng.randrange(1, 6) + data[end:]


def truncate(rng: random.Random, data: bytes) -> bytes:
    """The end is missing."""
    return data[: rng.randrange(len(data) + 1)]


def move(rng: random.Random, data: bytes) -> bytes:
    """A stretch stands elsewhere."""
    start, end = _span(rng, len(data))
    rest = data[:start] + data[end:]
    at = rng.randrange(len(rest) + 1)
    return rest[:at] + data[start:end] + rest[at:]


def renumber(rng: random.Random, data: bytes) -> bytes:
    """A number becomes one that nobody expects."""
    numbers = list(re.finditer(rb"\d+", data))
    if not numbers:
        return data
    hit = rng.choice(numbers)
    return data[: hit.start()] + rng.choice(_NUMBERS) + data[hit.end() :]


def shuffle_lines(rng: random.Random, data: bytes) -> bytes:
    """Two lines change places, or are joined."""
    lines = data.split(b"\n")
    if len(lines) < 3:
        return data
    one, two = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[one], lines[two] = lines[two], lines[one]
    if rng.random() < 0.5:
        lines[one : one + 2] = [b"".join(lines[one : one + 2])]
    return b"\n".join(lines)


def as_text_mode(_: random.Random, data: bytes) -> bytes:
    """Fetched in text mode."""
    return data.replace(b"\n", b"\r\n")


def opcodes(rng: random.Random, data: bytes) -> bytes:
    """Opcodes of a pickle are left out, doubled, or change places; any other bytes are flipped."""
    try:
        starts = [at for _, _, at in pickletools.genops(data) if at is not None]
    except Exception:
        return flip(rng, data)
    pieces = [data[a:b] for a, b in zip(starts, [*starts[1:], len(data)], strict=True)]
    for _ in range(rng.randrange(1, 5)):
        at, other = rng.randrange(len(pieces)), rng.randrange(len(pieces))
        kind = rng.randrange(4)
        if kind == 0:
            pieces[at] = b""
        elif kind == 1:
            pieces[at] *= 2
        elif kind == 2:
            pieces[at], pieces[other] = pieces[other], pieces[at]
        else:
            pieces[at] = rng.choice(
                [
                    b"N",
                    b"\x88",
                    b"K\xff",
                    b"J\xff\xff\xff\xff",
                    b"]",
                    b"}",
                    b"0",
                    b"2",
                    b"(",
                    b"\x8a\x09" + b"\xff" * 9,
                    b".",
                ]
            )
    return b"".join(pieces)


ALL: tuple[Mutation, ...] = (
    flip,
    insert,
    delete,
    repeat,
    truncate,
    move,
    renumber,
    shuffle_lines,
    as_text_mode,
    opcodes,
)


def damaged(rng: random.Random, data: bytes) -> bytes:
    """The data after one to four mutations; pickles lose opcodes more often."""
    for _ in range(rng.randrange(1, 5)):
        is_pickle = data[:1] == b"\x80"
        data = (opcodes if is_pickle and rng.random() < 0.5 else rng.choice(ALL))(rng, data)[:LARGEST]
    return data
