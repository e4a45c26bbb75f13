"""The optional engine and the automata find the same lines."""

from __future__ import annotations

import io
import random
from collections.abc import Callable

import pytest

from nccldoctor.model import Source, SourceKind
from nccldoctor.parsers import registry
from nccldoctor.parsers.base import Parsed
from nccldoctor.parsers.engine import literals, multipattern
from nccldoctor.parsers.engine.literals import Literals
from nccldoctor.parsers.engine.scan import scan

pytest.importorskip("hyperscan")


def noisy_log(lines: int) -> bytes:
    """Lines cut out of all literals, with colours, carriage returns, bytes that are no UTF-8 and long lines among them."""
    chance = random.Random(11)
    texts = [text for parser in registry.line_parsers() for text in parser.literals]
    out = bytearray()
    for number in range(lines):
        text = chance.choice(texts)
        cut = chance.randrange(len(text) + 1)
        middle = chance.choice(["", "", "\x1b[31m", "\r", "1"])
        out += f"[rank{number % 8}]: {text[:cut]}{middle}{text[cut:]} {number}".encode()
        out += chance.choice([b"\n", b"\n", b"\r\n", b"\xff\n", b" " * chance.choice([0, 40_000]) + b"\n"])
    return bytes(out)


def scanned(content: bytes) -> Parsed:
    chosen = tuple(registry.line_parsers())
    return scan(Source(0, "a.log", SourceKind.LOG, len(content)), io.BytesIO(content), parsers=chosen)


def test_both_engines_find_the_same_lines_and_events(monkeypatch: pytest.MonkeyPatch) -> None:
    content = noisy_log(1_500)
    monkeypatch.setattr(literals, "_WORTH_ONE_PASS", len(content) // 2)  # both in one file
    with_engine = scanned(content)
    monkeypatch.setattr(multipattern, "_engine", lambda: None)
    literals.literals_of.cache_clear()
    scan_module = __import__("nccldoctor.parsers.engine.scan", fromlist=["_sampled_apart"])
    scan_module._sampled_apart.cache_clear()
    try:
        assert scanned(content) == with_engine
    finally:
        literals.literals_of.cache_clear()
        scan_module._sampled_apart.cache_clear()
    assert with_engine.events
    assert with_engine.candidates > 500


def test_tables_are_compiled_once_there_is_text_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(literals, "one_pass", lambda texts: asked.append(texts))
    monkeypatch.setattr(literals, "_SMALL", 0)
    monkeypatch.setattr(literals, "_WORTH_ONE_PASS", 100)
    found = Literals(registry.line_parsers())
    found.hits(memoryview(b"x" * 99))
    assert not asked
    found.hits(memoryview(b"x"))
    found.hits(memoryview(b"x"))
    assert len(asked) == 1


@pytest.mark.parametrize("small", [0, 1 << 20])
def test_a_few_lines_are_searched_at_once_with_the_same_result(small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(literals, "_SMALL", small)
    found = Literals(registry.line_parsers())
    for line in noisy_log(200).split(b"\n"):
        hits, are_certain = found.found_in(memoryview(line))
        assert not are_certain or bool(hits) == found.held_by([line])[0]
        assert hits or not found.held_by([line])[0] or b"\x1b" in line


def test_every_offset_of_a_literal_is_found_by_one_pass() -> None:
    search = multipattern.one_pass([b"abcdef", b"cd", b"zz"])
    assert search is not None
    assert search(memoryview(b"xxabcdefxx zz")) == ([2, 4, 11], False)
    assert search(memoryview(b"\x1b[31mzz\x1b[0m")) == ([5], True)


class _WithoutViews:
    """The database of a version that searches bytes alone."""

    def scan(self, data: object, **_: object) -> None:
        if not isinstance(data, bytes):
            raise TypeError("a bytes-like object is required")


def _broken(*_: object) -> None:
    raise RuntimeError("no such instruction")


@pytest.mark.parametrize("compiled", [_broken, lambda *_: _WithoutViews()])
def test_an_engine_that_fails_is_left_out(compiled: Callable[..., object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multipattern, "_compiled", compiled)
    multipattern._engine.cache_clear()
    try:
        assert multipattern.one_pass([b"abc"]) is None
    finally:
        multipattern._engine.cache_clear()


def test_a_colour_that_cuts_a_literal_still_hits_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    parser = next(p for p in registry.line_parsers() if "NVRM: Xid" in p.literals)
    monkeypatch.setattr(literals, "_WORTH_ONE_PASS", 0)
    found = Literals([parser])
    text = b"quiet\nNVRM: \x1b[1mXid (PCI:0000:01:00): 79\nquiet \x1b[0m\n"
    hits, are_certain = found.found_in(memoryview(text))
    assert not are_certain
    assert all(0 <= hit < len(text) for hit in hits)
