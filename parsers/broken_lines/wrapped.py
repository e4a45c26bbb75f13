"""Records that a terminal, an editor or a mail broke into several lines.

A terminal breaks at a fixed column, in the middle of words (``Num`` / ``elOut``): the halves are joined with nothing.
An editor breaks at a blank: the halves are joined with one, the indent of the next line is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from nccldoctor.parsers.base import Line
from nccldoctor.parsers.line_prefix.prefixes import continues, read_mark
from nccldoctor.patterns import lazy

_PARTS = 6
"""Lines that one record may be broken into: the longest record at 74 columns."""
_FOREIGN = 3
"""Lines of other writers between two parts."""
_LONGEST = 4_000
_BROKEN = 200  # no terminal is wider
_WAYS = 16  # both kinds may mix where a terminal breaks at a blank

BEGINS = lazy(
    # what begins a record of its own and so ends the one before it
    r"\[(?:rank\d|[FEWIV](?:\d{3,4})? )|Traceback \(|frame #\d|#\d+ |terminate called|what\(\):|Exception raised from"
    r"|\S+:\d+:\d+ \[\d+\] NCCL|(?:srun|slurmstepd): "
    r"|\[?\d{4}-\d\d-\d\d[T ]\d\d:|[VIWE]\d{4} \d\d:\d\d|\[PG (?:ID )?\d|\[Rank \d+\] |\w+:\s+\d{1,3}%\|"
)


def joined(line: Line) -> Iterator[str]:
    """The record as it stands, then joined with one, two, … of the lines behind it: first both ways with nothing and
    with a blank.

    Lines of the same writer and lines without one are parts, as long as they begin no record of their own; up to three
    lines of others may stand between.
    """
    yield line.body
    texts = [line.body.rstrip("\r\n")]
    for part in _parts(line):
        texts = [text for head in texts for text in _both(head, part)]
        texts = (
            texts if len(texts) <= _WAYS else [*texts[: _WAYS // 2], *texts[-_WAYS // 2 :]]
        )  # all of one kind stand outside
        if len(texts[0]) > _LONGEST:
            return
        yield from texts


_NAMED = lazy(r"(?:\s{0,4}\[(?:Rank|PG) [^\]\n]{0,300}\])+")


def begins(body: str, *phrases: str) -> bool:
    """Whether a message holds one of the phrases, or is cut before it can: nothing, or just the start of one, stands
    behind the ``[PG …]`` and ``[Rank 3]`` in front.
    """
    if any(phrase in body for phrase in phrases):
        return True
    if len(body) > _BROKEN:
        return False
    named = _NAMED.match(body)
    stub = (body[named.end() :] if named else body).strip()
    return (
        not stub or (stub[0] == "[" and "]" not in stub) or any(phrase.strip().startswith(stub) for phrase in phrases)
    )


_HEADLESS = lazy(r"\s{0,12}[\w.:]{0,60}\.(?:cpp|hpp|h|cc|cu):\d{1,6}\] ")


def mended(line: Line) -> Line:
    """The line with the mark that it would have, had its logger's prefix not been broken: ``[rank1]:[E417
    03:28:14.050`` may stand alone on the line before.
    """
    if line.mark.file is not None or not _HEADLESS.match(line.raw):
        return line
    before = next(line.preceding(1), None)
    if before is None or before.mark.file is not None:
        return line
    for gap in ("", " "):
        mark, body = read_mark(before.raw.rstrip() + gap + line.raw.lstrip())
        if mark.file is not None:
            return replace(line, mark=mark, body=body)
    return line


def continued(line: Line, *phrases: str) -> bool:
    """Whether the line only goes on with what a logger began on the line before, cut before one of the phrases was
    complete.
    """
    if line.mark.file is not None:
        return False
    before = next(line.preceding(1), None)
    return before is not None and before.mark.file is not None and begins(before.body, *phrases)


def _both(head: str, part: str) -> list[str]:
    """The two ways to join. Padding to the width of the terminal is no part of the text: what was cut inside a word
    shows none.
    """
    bare = head.rstrip(" ")
    tight, spaced = head + part, bare + " " + part.lstrip()
    return [tight, spaced] if bare == head else [bare + part.lstrip(), tight, spaced]


def _parts(line: Line) -> Iterator[str]:
    """The next lines that may continue this one."""
    foreign = found = 0
    for other in line.window.near(line, _PARTS * (_FOREIGN + 1)):
        own = other.mark.stream == line.mark.stream or not other.mark.stream
        text = other.body
        if not own or (other.mark.file is not None and not continues(line.mark.stream, other.mark.stream)):
            foreign += 1
            if foreign > _FOREIGN:
                return
            continue
        if not text.strip():
            continue
        first = (
            not found and not line.body.strip()
        )  # what stands behind a lone prefix is its message, however it begins
        if other.mark.file is not None or (not first and BEGINS.match(text.lstrip(" \t>|`"))):
            return
        yield text
        found += 1
        foreign = 0
        if found == _PARTS:
            return
