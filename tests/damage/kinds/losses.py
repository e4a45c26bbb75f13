"""Texts of which something is gone, is there twice, or stands in another place."""

from __future__ import annotations

import random

from damage.kinds.registry import of_texts

CUT, LINES = "cut", "lines"


def _lines(text: bytes) -> list[bytes]:
    return text.splitlines(keepends=True)


@of_texts(CUT, one_too=True)
def torn(rng: random.Random, text: bytes) -> bytes:
    """Cut at any byte of the second half."""
    return text[: rng.randrange(len(text) // 2, len(text))]


@of_texts(CUT)
def torn_early(rng: random.Random, text: bytes) -> bytes:
    """Cut at any byte of the first half."""
    return text[: rng.randrange(0, len(text) // 2 + 1)]


@of_texts(CUT, one_too=True)
def head_lost(rng: random.Random, text: bytes) -> bytes:
    """The first half of the lines is gone."""
    lines = _lines(text)
    return b"".join(lines[len(lines) // 2 :])


@of_texts(CUT)
def head_bytes_lost(rng: random.Random, text: bytes) -> bytes:
    """Begins in the middle of a line, as a ring buffer or a byte limit leaves it."""
    return text[rng.randrange(1, len(text) // 2 + 2) :]


@of_texts(CUT, one_too=True)
def tail_lost(rng: random.Random, text: bytes) -> bytes:
    """The last third of the lines is gone."""
    lines = _lines(text)
    return b"".join(lines[: len(lines) - max(1, len(lines) // 3)])


@of_texts(CUT)
def last_lines_lost(rng: random.Random, text: bytes) -> bytes:
    """The last five lines are gone, as from a buffer that was never flushed."""
    return b"".join(_lines(text)[:-5])


@of_texts(CUT, one_too=True)
def middle_lost(rng: random.Random, text: bytes) -> bytes:
    """A third of the lines in the middle is gone."""
    lines = _lines(text)
    third = max(1, len(lines) // 3)
    return b"".join(lines[:third] + lines[2 * third :])


@of_texts(CUT)
def middle_elided(rng: random.Random, text: bytes) -> bytes:
    """The middle is replaced by the mark of a viewer that truncates."""
    lines = _lines(text)
    third = max(1, len(lines) // 3)
    return b"".join([*lines[:third], b"[... truncated ...]\n", *lines[2 * third :]])


@of_texts(CUT)
def block_lost(rng: random.Random, text: bytes) -> bytes:
    """A block of 4 kB is gone, wherever lines begin."""
    at = rng.randrange(len(text))
    return text[:at] + text[at + 4096 :]


@of_texts(CUT)
def first_100_lines(rng: random.Random, text: bytes) -> bytes:
    """What ``head -100`` shows."""
    return b"".join(_lines(text)[:100])


@of_texts(CUT)
def last_100_lines(rng: random.Random, text: bytes) -> bytes:
    """What ``tail -100`` shows."""
    return b"".join(_lines(text)[-100:])


@of_texts(CUT)
def last_20_lines(rng: random.Random, text: bytes) -> bytes:
    """What ``tail -20`` shows."""
    return b"".join(_lines(text)[-20:])


@of_texts(LINES)
def only_nccl(rng: random.Random, text: bytes) -> bytes:
    """What ``grep NCCL`` shows."""
    return b"".join(line for line in _lines(text) if b"NCCL" in line)


@of_texts(LINES)
def only_errors(rng: random.Random, text: bytes) -> bytes:
    """What ``grep -i error`` shows."""
    return b"".join(line for line in _lines(text) if b"error" in line.lower())


@of_texts(LINES)
def only_ranks(rng: random.Random, text: bytes) -> bytes:
    """What ``grep -i rank`` shows."""
    return b"".join(line for line in _lines(text) if b"rank" in line.lower())


@of_texts(LINES)
def only_watchdog(rng: random.Random, text: bytes) -> bytes:
    """What ``grep -A2 -i watchdog`` shows, with the marks between its parts."""
    lines, out, after = _lines(text), [], 0
    for line in lines:
        after = 3 if b"watchdog" in line.lower() else after
        if after == 1:
            out.append(line + b"--\n")
        elif after:
            out.append(line)
        after = max(0, after - 1)
    return b"".join(out)


@of_texts(LINES)
def indented_lines_lost(rng: random.Random, text: bytes) -> bytes:
    """Lines that begin with a blank are gone: frames of tracebacks, rows of tables."""
    return b"".join(line for line in _lines(text) if line[:1] not in b" \t")


@of_texts(LINES, one_too=True)
def lines_dropped(rng: random.Random, text: bytes) -> bytes:
    """One line in twelve is gone."""
    return b"".join(line for line in _lines(text) if rng.random() > 1 / 12)


@of_texts(LINES)
def half_dropped(rng: random.Random, text: bytes) -> bytes:
    """Every second line is gone, as a collector with a rate limit leaves it."""
    return b"".join(line for line in _lines(text) if rng.random() > 0.5)


@of_texts(LINES)
def lines_repeated(rng: random.Random, text: bytes) -> bytes:
    """One line in eight stands twice."""
    return b"".join(line * (2 if rng.random() < 1 / 8 else 1) for line in _lines(text))


@of_texts(LINES)
def all_repeated(rng: random.Random, text: bytes) -> bytes:
    """The whole text stands twice."""
    return text + (b"" if text.endswith(b"\n") else b"\n") + text


@of_texts(LINES)
def lines_out_of_order(rng: random.Random, text: bytes) -> bytes:
    """Lines change places over a distance of up to eight."""
    return b"".join(line for _, line in sorted((i + rng.uniform(0, 8), line) for i, line in enumerate(_lines(text))))


@of_texts(LINES)
def newest_first(rng: random.Random, text: bytes) -> bytes:
    """The newest line stands first, as in an export of Loki or Cloud Logging."""
    lines = [line if line.endswith(b"\n") else line + b"\n" for line in _lines(text)]
    return b"".join(reversed(lines))


@of_texts(LINES)
def line_ends_lost(rng: random.Random, text: bytes) -> bytes:
    """One line end in ten is gone: two writers shared a descriptor."""
    return b"".join(line.rstrip(b"\r\n") if rng.random() < 0.1 else line for line in _lines(text))


@of_texts(LINES)
def lines_crossed(rng: random.Random, text: bytes) -> bytes:
    """A line in ten is written into the middle of the next one."""
    lines, out = _lines(text), []
    while lines:
        line = lines.pop(0)
        if lines and rng.random() < 0.1 and len(lines[0]) > 2:
            other = lines.pop(0)
            at = rng.randrange(1, len(other) - 1)
            out.append(other[:at] + line + other[at:])
        else:
            out.append(line)
    return b"".join(out)


@of_texts(LINES)
def lines_cut_at_200(rng: random.Random, text: bytes) -> bytes:
    """Lines end after 200 bytes, as a collector with a limit leaves them."""
    return b"".join(line if len(line) <= 200 else line[:200] + b"\n" for line in _lines(text))
