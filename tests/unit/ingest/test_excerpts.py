"""Lines that are read a second time are those of the file, wherever its blocks end."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nccldoctor.discover.discover import discover
from nccldoctor.ingest import excerpts
from nccldoctor.ingest.excerpts import read_excerpts
from nccldoctor.model.excerpts import SourceLine

LINES = st.lists(st.text(st.characters(codec="ascii", exclude_characters="\n\r"), max_size=40), min_size=1, max_size=30)


@given(LINES, st.sets(st.integers(1, 33), max_size=8), st.sampled_from([7, 16, 1 << 20]), st.booleans())
def test_a_line_is_found_wherever_blocks_end(lines: list[str], wanted: set[int], block: int, ends: bool) -> None:
    text = "\n".join(lines) + ("\n" if ends else "")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(excerpts, "_BLOCK", block)
        found = excerpts._wanted_lines(io.BytesIO(text.encode()), sorted(wanted))

    expected = {n: lines[n - 1] for n in wanted if n <= len(lines)}
    assert {n: found.get(n, "") for n in expected} == expected
    assert all(found[n] == "" for n in found.keys() - expected.keys())


def test_lines_of_plain_packed_and_wide_files_are_read_again(tmp_path: Path) -> None:
    text = "one\ntwo\nthree\n"
    (tmp_path / "a.log").write_text(text)
    (tmp_path / "b.log.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "c.log").write_bytes(text.encode("utf-16"))
    inputs = discover([tmp_path]).inputs

    found = read_excerpts(inputs, {i.source.id: {2, 3} for i in inputs})

    for i in inputs:
        assert found.between(i.source.id, 1, 9) == (SourceLine(2, "two"), SourceLine(3, "three"))


def test_a_file_that_went_away_gives_no_lines(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("one\n" * 20_000)
    inputs = discover([tmp_path]).inputs
    (tmp_path / "a.log").unlink()

    assert read_excerpts(inputs, {inputs[0].source.id: {1}}).between(0, 1, 1) == ()


def test_of_a_progress_bar_the_piece_that_was_cited_is_shown(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b" 1%|#\r 2%|#\rRuntimeError: boom\r 3%|#\n")
    inputs = discover([tmp_path]).inputs
    found = read_excerpts(inputs, {0: {1}})

    assert found.citing(0, 1, "RuntimeError: boom") == (SourceLine(1, "RuntimeError: boom"),)
    assert found.between(0, 1, 1) == (SourceLine(1, " 3%|#"),)
