"""The search finds every line that holds a literal, and is not misled by healthy ones."""

from __future__ import annotations

import random

import pytest

from nccldoctor.parsers import registry
from nccldoctor.parsers.engine import literals
from nccldoctor.parsers.engine.literals import Literals


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


@pytest.mark.parametrize("small", [0, 1 << 20])
def test_every_line_with_a_literal_is_hit(small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(literals, "_SMALL", small)
    found = Literals(registry.line_parsers())
    texts = [text.encode() for parser in registry.line_parsers() for text in parser.literals]
    held = [line for line in noisy_log(400).split(b"\n") if any(text in line for text in texts)]
    assert len(held) > 150
    assert all(found.hits(memoryview(line)) for line in held)


@pytest.mark.parametrize("small", [0, 1 << 20])
def test_every_literal_is_found_alone(small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(literals, "_SMALL", small)
    found = Literals(registry.line_parsers())
    texts = [text.encode() for parser in registry.line_parsers() for text in parser.literals]
    assert [text for text in texts if not found.hits(memoryview(b"x" + text + b"x"))] == []


def test_a_literal_with_digits_does_not_stand_in_all_lines_of_a_form() -> None:
    found = Literals([parser for parser in registry.line_parsers() if not parser.sampled])
    assert not found.is_in_all(b"rank 0/00: ready")  # rank 3/64 holds none
    assert found.is_in_all(b"rank 0/00: world_size 00 unchanged")
