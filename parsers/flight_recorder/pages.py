"""Takes the recorder dumps of all ranks out of one page of PyTorch's debug server.

The page ``fr_trace_json`` holds below ``<h2>Rank 3: http://node1:41003/handler/fr_trace_json?</h2>`` the dump of rank 3 as JSON: it is
read like a file ``rank_3.json``. A page whose text was copied out of a browser has no tags.
Source: pytorch ``torch/distributed/debug/_frontend.py`` and ``_debug_handlers.py`` 2.13.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from nccldoctor.parsers.flight_recorder.dump import is_json_dump
from nccldoctor.patterns import lazy

LARGEST_DUMP = 64 << 20
"""Bytes of one dump in a page at most; a larger one is left out."""

_HEADING = lazy(
    rb"(?:^|\n)[ \t]{0,40}(?:<h[1-6][^<>]{0,80}>|={1,6} |-{1,6} )?Rank (?P<rank>\d{1,7}): https?://[^\s<>]{1,300}/handler/"
    rb"(?P<endpoint>\w{1,60})"
)
_OPENING = lazy(rb"[ \t]{0,40}(?:<pre[^<>]{0,80}>)?[ \t]{0,40}(?=[{\[])")


def is_page_of_dumps(head: bytes) -> bool:
    """True for a text that begins with ``head`` and in which the debug server shows recorder dumps rank by rank."""
    return b"trace_json" in head and any(b"trace_json" in hit["endpoint"] for hit in _HEADING.finditer(head))


def dumps_of_page(page: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """The rank and the JSON of each dump, in the order of the page."""
    rank, kept = -1, bytearray()
    while line := page.readline(LARGEST_DUMP):
        heading = _HEADING.match(line)
        text, closing, _ = line.partition(b"</pre>")
        opening = _OPENING.match(text)
        if heading is None and rank >= 0 and (kept or opening):
            kept += text if kept or opening is None else text[opening.end() :]
        if (heading or closing) and kept:
            yield from _dump(rank, kept)
            rank, kept = -1, bytearray()
        if heading:
            rank = int(heading["rank"]) if b"trace_json" in heading["endpoint"] else -1
        elif len(kept) > LARGEST_DUMP:
            rank, kept = -1, bytearray()
    yield from _dump(rank, kept)


def _dump(rank: int, kept: bytearray) -> Iterator[tuple[int, bytes]]:
    """The dump, with quotes as quotes where the page had escaped them."""
    text = bytes(kept)
    if b"&quot;" in text or b"&#34;" in text:
        from html import unescape

        text = unescape(text.decode("utf-8", "replace")).encode()
    if is_json_dump(text[: 64 << 10]):
        yield rank, text
