"""Takes texts and recorder dumps out of what tools put around them when people fetch them.

``kubectl exec`` prints a line before the dump, a shell its prompt behind it, ``curl -i`` the headers; scripts put the dumps of all ranks
into one file, or each below a key; PowerShell writes UTF-16; a pod without ``tar`` sends base64; a file system that lost power leaves
zeros at the end; an old editor or a terminal ends lines with a carriage return alone; ``tail -n +1 *``, ``head *``, ``more *`` and
``grep -r`` put many texts into one, with their names. What is inside is read like a file of its own. No value is decoded here: only where
documents begin and end.
"""

from __future__ import annotations

import base64
import codecs
import re
from collections import defaultdict
from collections.abc import Callable, Iterator

from msgspec import Struct

from nccldoctor.discover.bystanders import text_of_json
from nccldoctor.parsers.flight_recorder.dump import is_pickle
from nccldoctor.patterns import lazy

LARGEST = 64 << 20
"""Bytes of a file that is looked into; a larger one is read as it is."""

MOST_DUMPS = 4096

FEW_LINES, FEW_BYTES = 12, 1024
"""What a tool prints around a dump: no more than this says nothing about the job."""

_LAYERS = 3
MOST_PADDED = 60_000
_NULS = b"\0" * 16
_BEFORE = 200
_BANNER = 4096
_DECIDES = 64 << 10
"""First bytes that tell how lines end; as many as are looked at of every file."""
_LOOKED_AT = 512
_TEXT = bytes({9, 10, 13, 27, *range(32, 127), *range(128, 256)})
_DUMP_START = lazy(
    rb'\{\s{0,99}(?:\\?"(?:global_)?rank\\?"\s{0,9}:\s{0,9}(?P<rank>\d{1,7})\s{0,9},\s{0,99})?'
    rb'\\?"(?:version|entries|pg_config|pg_status|nccl_comm_state|nccl_version|comm_lib_version)\\?"\s{0,9}:'
)
_ENTRIES = lazy(rb'\\?"(?:entries|pg_config|pg_status)\\?"\s{0,9}:')
_TOKEN = lazy(rb'"(?:[^"\\]|\\[\s\S])*"|[{}\[\]]')
_STRING = lazy(rb'"(?:[^"\\]|\\[\s\S])*"')
_KEY_BEFORE = lazy(rb'"([\w.-]{1,80})"\s{0,9}:\s{0,9}"?\Z')
_RANK_BEFORE = lazy(rb'"(?:global_)?rank"\s{0,9}:\s{0,9}"?(\d{1,7})\b[^{}]{0,99}\Z')
_RANK_KEY = lazy(r"(?:rank[ _.-]?)?(\d{1,7})")
_BASE64_LINES = lazy(rb"(?:[A-Za-z0-9+/]{40,76}\r?\n){2,}|[A-Za-z0-9+/]{200,}={0,2}\s{0,2}\Z")
_PICKLE_BEHIND = lazy(rb"\n(?=\x80[\x02-\x05][}\]\x95c(])")
_REDRAWN = lazy(rb"\d%|\d/\d{1,9} \[|\d(?:it/s|s/it)\b|\bETA\b|B/s\b")
"""What stands in the states of a progress bar, which go back to the beginning of their line."""
_HEADING = lazy(
    rb"^(?:==> (?P<tail>[^\r\n]{1,400}) <==|:{14}\r?\n(?P<more>[^\r\n]{1,400})\r?\n:{14})\r?\n", re.MULTILINE
)
"""The name of a text above it, as ``tail``, ``head`` and ``more`` write it."""
_PREFIXED = lazy(rb"(?P<name>[^\s:]{1,300}\.(?:log|out|err|txt)(?:\.\d{1,3})?)(?::(?:\d{1,9}:)?|-(?:\d{1,9}-)?)")
"""The name of a text in front of each of its lines, as ``grep -r`` writes it; with ``-`` where the line stands around a hit."""
_BREAK = b"--"
"""What ``grep -A`` writes between parts that do not touch."""
_FEWEST_PREFIXED = 2
_FEWEST_RETURNS, _RETURNS_FOR_ONE_END = 4, 20
_ENCODINGS = ((codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"))
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class Part(Struct, frozen=True):
    """A text or a dump that stood inside a file.

    ``name`` is ``rank_3.json`` where the file says whose dump it is, ``dump-2.json`` where it does not; the path that stood above or before
    the lines of a joined text; "" for the only one, and for the text around dumps.
    """

    name: str
    content: bytes


def is_wrapped(head: bytes, size: int, read: Callable[[], bytes]) -> bool:
    """True for a file that begins with ``head`` and holds something else inside.

    ``read`` gives all of it, and is called only where the file begins like a dump as JSON.
    """
    if size > LARGEST or is_pickle(head):
        return False
    if _is_coded(head) or _is_joined(head):
        return True
    start = _DUMP_START.search(head)
    if start is None or _ENTRIES.search(head, start.start()) is None:
        return _PICKLE_BEHIND.search(head[:_BANNER]) is not None
    if head[: start.start()].strip(b"\xef\xbb\xbf \t\r\n"):
        return True
    content = read()
    return content.count(b'"entries"') > 1 or (
        content.rstrip()[-1:] != b"}" and _balanced_end(content, start.start()) > 0
    )


def unwrapped(content: bytes) -> tuple[Part, ...]:
    """The dumps and texts inside a file, in their order; at most :data:`MOST_DUMPS`."""
    for _ in range(_LAYERS):
        content, before = _peeled(content), content
        if content == before:
            break
    if _is_joined(content[:_DECIDES]):
        texts = _below_headings(content) if _HEADING.match(content) else _behind_names(content)
        return tuple(Part(name, text) for name, text in texts.items())
    behind = _PICKLE_BEHIND.search(content[:_BANNER])
    if is_pickle(content) or behind is not None:
        return (Part("", content[behind.end() if behind is not None else 0 :]),)
    dumps, around = [], []
    end = 0
    for start, stop, name, dump in _json_dumps(content):
        around.append(content[end:start])
        dumps.append(Part(name, dump))
        end = stop
    text = b"".join((*around, content[end:])).strip(b"\0")
    keeps_text = not dumps or len(text) > FEW_BYTES or text.count(b"\n") > FEW_LINES
    if len(dumps) == 1 and not keeps_text and not dumps[0].name:
        return tuple(dumps)
    named = (Part(_named(part.name, number), part.content) for number, part in enumerate(dumps, 1))
    return (*([Part("", text)] if keeps_text else []), *named)


def _is_joined(head: bytes) -> bool:
    """True where the name of a text stands above the first line, or in front of every line."""
    if _HEADING.match(head):
        return True
    if _PREFIXED.match(head) is None:
        return False
    lines = [line for line in head.split(b"\n")[:-1] if line.strip() and line != _BREAK]
    return len(lines) >= _FEWEST_PREFIXED and all(_PREFIXED.match(line) for line in lines)


def _below_headings(content: bytes) -> dict[str, bytes]:
    """The texts by name, the parts of one name in their order. The line end in front of a heading belongs to it."""
    headings = list(_HEADING.finditer(content))[:MOST_DUMPS]
    texts: dict[str, bytes] = defaultdict(bytes)
    for heading, stop in zip(headings, [*(later.start() for later in headings[1:]), len(content)], strict=True):
        text = content[heading.end() : stop]
        is_followed = heading["tail"] and stop < len(content)
        texts[_path_in(heading["tail"] or heading["more"])] += (
            text[:-1] if is_followed and text.endswith(b"\n") else text
        )
    return texts


def _behind_names(content: bytes) -> dict[str, bytes]:
    """The texts by name, from lines that begin with names. A line without one belongs to the text above it."""
    texts: dict[str, list[bytes]] = defaultdict(list)
    name = ""
    for line in content.split(b"\n"):
        found = _PREFIXED.match(line)
        name = _path_in(found["name"]) if found is not None and len(texts) < MOST_DUMPS else name
        if line != _BREAK:
            texts[name].append(line[found.end() if found is not None else 0 :])
    return {name: b"\n".join(lines) for name, lines in texts.items()}


def _path_in(name: bytes) -> str:
    """The path that a text names for another: relative, and nothing of it hidden."""
    parts = (part.lstrip(".") for part in name.decode("utf-8", "replace").replace("\\", "/").split("/"))
    return "/".join(filter(None, parts)) or "text"


def _named(name: str, number: int) -> str:
    rank = _RANK_KEY.fullmatch(name)
    return f"rank_{rank[1]}.json" if rank else f"dump-{number}.json"


def _json_dumps(content: bytes) -> Iterator[tuple[int, int, str, bytes]]:
    """Begin, end, rank or key, and text of each dump; one that is cut goes to the end."""
    at = 0
    for _ in range(MOST_DUMPS):
        found = _DUMP_START.search(content, at)
        if found is None:
            return
        start = found.start()
        before = content[max(at, start - _BEFORE) : start]
        beside, key = _RANK_BEFORE.search(before), _KEY_BEFORE.search(before)
        name = (found["rank"] or (beside[1] if beside else key[1] if key else b"")).decode()
        if b'\\"' in found[0]:
            whole = _STRING.match(content, start - 1)
            stop, dump = (whole.end(), text_of_json(whole[0])) if whole else (found.end(), b"")
        else:
            stop = _balanced_end(content, start) or len(content)
            dump = content[start:stop]
        if _ENTRIES.search(dump):
            yield start, stop, name, dump
        at = stop


def _balanced_end(content: bytes, start: int) -> int:
    """Where the JSON value that begins at ``start`` ends; 0 where it does not."""
    depth = 0
    for token in _TOKEN.finditer(content, start):
        sign = token[0]
        if sign in (b"{", b"["):
            depth += 1
        elif sign in (b"}", b"]"):
            depth -= 1
            if depth == 0:
                return token.end()
    return 0


def _is_coded(head: bytes) -> bool:
    return (
        head.startswith(tuple(mark for mark, _ in _ENCODINGS))
        or _of_base64(head) is not None
        or _is_padded(head)
        or _has_returns_only(head)
        or (
            head.startswith(_UTF16)
            and (_DUMP_START.search(text := _utf16(head)) is not None or _has_returns_only(text))
        )
    )


def _is_padded(head: bytes) -> bool:
    """True for a short text with zeros behind it, as after a crash of its host.

    Text in UTF-16 has zeros in between. A file that is longer than what decides its kind is read as text anyway.
    """
    if not head.endswith(_NULS):
        return False
    text = head.rstrip(b"\0")
    is_text = b"\n" in text or _is_utf8(text)  # the first bytes of a binary format are neither
    return len(head) < MOST_PADDED and bool(text) and b"\0" not in text and is_text


def _has_returns_only(head: bytes) -> bool:
    """True for a text whose lines end with carriage returns, and which is no progress bar.

    It has hardly a line feed. A bar returns to redraw itself: most of what stands between its returns tells how far it is.
    """
    alone = head.count(b"\r") - head.count(b"\r\n")
    if alone < max(_FEWEST_RETURNS, _RETURNS_FOR_ONE_END * head.count(b"\n")) or b"\0" in head:
        return False
    lines = [line for line in head.split(b"\r") if line.strip()]
    return 2 * sum(1 for line in lines if _REDRAWN.search(line)) < len(lines)


def _of_base64(content: bytes) -> bytes | None:
    """What base64 stands for, up to where it is cut; None for a text that only looks like base64."""
    if not _BASE64_LINES.match(content):
        return None
    letters = b"".join(content.split())
    try:
        inside = base64.b64decode(letters[: len(letters) // 4 * 4], validate=True)
    except ValueError:
        return None
    first = inside[:_LOOKED_AT]
    is_wide = first.startswith((*_UTF16, codecs.BOM_UTF32_BE))
    return inside if is_pickle(first) or is_wide or _is_utf8(first) else None


def _is_utf8(first: bytes) -> bool:
    """True for the beginning of a text, which may be cut inside a character."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(first)
    except UnicodeDecodeError:
        return False
    return not first.translate(None, _TEXT)


def _utf16(content: bytes) -> bytes:
    return content.decode("utf-16", "replace").encode("utf-8", "replace")


def _peeled(content: bytes) -> bytes:
    """One layer less: UTF-32 and UTF-16 as UTF-8, base64 as bytes, without zeros at the end, returns as line ends."""
    for mark, encoding in _ENCODINGS:
        if content.startswith(mark):
            return content.decode(encoding, "replace").encode("utf-8", "replace")
    if content.startswith(_UTF16):
        return _utf16(content)
    if (inside := _of_base64(content)) is not None:
        return inside
    if content.endswith(_NULS):
        return content.rstrip(b"\0")
    return content.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if _has_returns_only(content[:_DECIDES]) else content
