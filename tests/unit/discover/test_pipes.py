"""What is kept of standard input and other pipes."""

from __future__ import annotations

import gzip
import io

import pytest

from nccldoctor.discover.pipes import keep

LINES = [b"line %06d of a long log\n" % number for number in range(5_000)]
TEXT = b"".join(LINES)


def test_a_short_pipe_is_kept_whole() -> None:
    kept = keep(io.BytesIO(TEXT))
    assert (kept.as_stream().read(), kept.kept_bytes, kept.problem) == (TEXT, len(TEXT), "")
    assert keep(io.BytesIO(b"")).as_stream().read() == b""


def test_of_long_text_the_end_is_kept_from_a_whole_line_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nccldoctor.discover.pipes._PIECE", 1_000)
    kept = keep(io.BytesIO(TEXT), most_text=20_000)
    text = kept.as_stream().read()
    assert text is not None
    assert TEXT.endswith(text)
    assert text.split(b"\n", 1)[0] + b"\n" in LINES
    assert 18_000 <= kept.kept_bytes <= 21_000
    assert kept.as_one_file().read() == text
    assert kept.problem.startswith("only its last")


def test_of_packed_data_the_beginning_is_kept() -> None:
    packed = gzip.compress(TEXT)
    kept = keep(io.BytesIO(packed), most_text=100, most_packed=5_000)
    assert kept.as_stream().read() == packed[:5_000]
    assert kept.problem.startswith("only its first")
    assert keep(io.BytesIO(packed), most_text=100).as_stream().read() == packed
