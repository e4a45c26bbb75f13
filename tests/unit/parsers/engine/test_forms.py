"""Lines that only look like signals are remembered by their form, and no event is lost by it."""

from __future__ import annotations

import io
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from nccldoctor.events import Event, GpuError, ProcessExit
from nccldoctor.model import Source, SourceKind
from nccldoctor.parsers import registry
from nccldoctor.parsers.base import Line, LineParser, Parsed
from nccldoctor.parsers.engine import forms
from nccldoctor.parsers.engine.forms import can_speak, form_of
from nccldoctor.parsers.engine.generalised import generalised
from nccldoctor.parsers.engine.scan import _Scan, scan

WORDINGS = Path(registry.parsers.__path__[0]) / "wordings"

PATTERNS = (
    r"Xid \((?:PCI:)?[0-9a-f:.]{7,16}\): (?:79|48)\b",
    r"(?i)exit ?code:? [1-9]\d{0,2}(?!\d)",
    r"^\s{0,8}rank (?P<rank>\d+)[^0-9]{1,3}of (?:[2-9]|1\d)$",
    r"[^5x]+7|\w{2,4}?-0x[0-9a-f]{2,}",
)


@pytest.mark.parametrize("pattern", PATTERNS)
@given(data=st.data())
def test_a_generalised_pattern_finds_the_form_of_whatever_the_pattern_finds(pattern: str, data: st.DataObject) -> None:
    text = data.draw(
        st.from_regex(re.compile(pattern, re.ASCII), fullmatch=False).filter(lambda t: "\n" not in t and t.isascii())
    )
    if re.search(pattern, text):
        assert generalised(pattern).search(form_of(text.encode()).decode())


def test_a_generalised_pattern_passes_over_other_words() -> None:
    assert not generalised(PATTERNS[0]).search(form_of(b"GPU 3 has no Xid (PCI bus 00:01)").decode())
    assert generalised(PATTERNS[0]).search(form_of(b"Xid (PCI:0000:01:00): 31, pid=3").decode()), "79 may follow"


def scanned(content: bytes) -> Parsed:
    return scan(Source(0, "a.log", SourceKind.LOG, len(content)), io.BytesIO(content))


def look_alikes(count: int) -> Iterator[bytes]:
    for number in range(count):
        yield b"[rank%d]: 2026-04-05 00:00:04 - gpu - INFO - no NVRM: Xid (none) since step %d\n" % (
            number % 8,
            10_000 + number,
        )


def test_look_alikes_are_parsed_a_few_times_only(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = []
    parse_piece = _Scan._scan_piece

    def counted(self: _Scan, *args: Any) -> list[Event]:
        pieces.append(args)
        return parse_piece(self, *args)

    monkeypatch.setattr(_Scan, "_scan_piece", counted)
    parsed = scanned(b"".join(look_alikes(20_000)))
    assert len(pieces) < 500
    assert (parsed.candidates, parsed.understood) == (20_000, 0)


def test_numbers_decide_still() -> None:
    healthy = b"".join(
        b"Apr  5 03:35:00 node1 kernel: NVRM: Xid (PCI:0000:01:00): %d, noted\n" % (900 + k % 90) for k in range(400)
    )
    fatal = b"Apr  5 03:35:09 node1 kernel: NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.\n"
    pods = b"".join(b"    Exit Code:    0\n" for _ in range(400)) + b"    Exit Code:    9\n"
    parsed = scanned(b"".join(look_alikes(2_000)) + healthy + fatal + healthy + pods)
    assert 79 in [event.xid for event in parsed.events if isinstance(event, GpuError)]
    assert [event.exitcode for event in parsed.events if isinstance(event, ProcessExit)] == [9]


def test_the_same_is_found_with_and_without_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    signal = b"12: [rank12]: RuntimeError: CUDA error: an illegal memory access was encountered\n"
    labelled = b"".join(b"%d: connect to shard server %d of node%d\n" % (k % 16, k, k % 4) for k in range(4_000))
    content = labelled + signal + b"".join(look_alikes(3_000)) + signal
    with_memory = scanned(content)
    monkeypatch.setattr(forms, "_WORTH", 10**9)
    without = replace(
        scanned(content), candidates=with_memory.candidates
    )  # lines of progress are tried a thousand times only
    assert without == with_memory
    assert with_memory.events


def texts_of_wordings() -> Iterator[str]:
    """All texts of all families, with whatever else their files hold."""
    waiting: list[Any] = [tomllib.loads(path.read_text("utf-8")) for path in sorted(WORDINGS.rglob("*.toml"))]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict | list):
            waiting.extend(value.values() if isinstance(value, dict) else value)


def test_no_parser_finds_an_event_on_a_line_that_its_needs_rule_out(monkeypatch: pytest.MonkeyPatch) -> None:
    missed = []
    judged = 0
    offer = _Scan.offer

    def checked(self: _Scan, line: Line, owners: list[LineParser]) -> Any:
        nonlocal judged
        form = form_of(line.raw.encode("utf-8", "backslashreplace"))
        is_logged = replace(line.mark, time=None).is_logged
        for parser in () if forms._ODD.search(form) else owners:
            judged += 1
            if not can_speak(parser, form.decode(), is_logged=is_logged) and any(True for _ in parser.parse(line)):
                missed.append((type(parser).__name__, line.raw))
        return offer(self, line, owners)

    monkeypatch.setattr(_Scan, "offer", checked)
    for text in texts_of_wordings():
        scanned(text.encode())
    assert judged > 5_000
    assert not missed
