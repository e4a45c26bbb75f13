"""What is kept of standard input and other pipes."""

from __future__ import annotations

import errno
import functools
import gc
import gzip
import io
import os
import pickle
import stat
import tempfile
from pathlib import Path

import pytest

from nccldoctor.discover import pipes
from nccldoctor.discover.pipes import Piped, keep

LINES = [b"line %06d of a long log\n" % number for number in range(5_000)]
TEXT = b"".join(LINES)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes at which the text is long."""
    monkeypatch.setattr(pipes, "_PIECE", 1_000)
    monkeypatch.setattr(pipes, "SHORT", 3_000)
    monkeypatch.setattr(pipes, "MOST_IN_MEMORY", 8_000)


def is_end_of_text(kept: Piped) -> bool:
    """True where the kept bytes are whole lines to the end of the text, the same in both ways to read them."""
    text = kept.as_stream().read()
    assert text is not None
    assert kept.kept_bytes == len(text)
    assert kept.as_one_file().read() == text
    return TEXT.endswith(text) and text.split(b"\n", 1)[0] + b"\n" in LINES


def without_room_behind(monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    """A disk that takes so many bytes in all."""
    left, really = [room], os.pwrite

    def write(descriptor: int, data: memoryview, at: int) -> int:
        if not left[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        put = really(descriptor, data[: left[0]], at)
        left[0] -= put
        return put

    monkeypatch.setattr(os, "pwrite", write)


@pytest.mark.parametrize("size", [2_500, len(TEXT)])
def test_a_pipe_within_the_limit_is_kept_whole(size: int) -> None:
    kept = keep(io.BytesIO(TEXT[:size]))
    assert (kept.as_one_file().read(), kept.kept_bytes, kept.problem) == (TEXT[:size], size, "")
    assert keep(io.BytesIO(b"")).as_stream().read() == b""


@pytest.mark.parametrize("most", [20_000, 20_017, 20_999, 100_001])
def test_of_long_text_the_newest_lines_are_kept(most: int) -> None:
    kept = keep(io.BytesIO(TEXT), most_text=most)
    assert is_end_of_text(kept)
    assert most - len(LINES[0]) <= kept.kept_bytes <= most
    assert kept.problem.startswith("only its last")


def test_the_kept_end_is_read_by_several_at_once() -> None:
    kept = keep(io.BytesIO(TEXT), most_text=20_000)
    one, other = kept.as_one_file(), kept.as_one_file()
    assert [one.readline(), other.readline(), one.readline(), other.readline()] == [
        line for line in LINES[-kept.kept_bytes // len(LINES[0]) :][:2] for _ in range(2)
    ]
    assert (one.seek(-len(LINES[0]), os.SEEK_END), one.read()) == (kept.kept_bytes - len(LINES[0]), LINES[-1])
    assert (one.seek(0), one.tell(), one.read() + one.read()) == (0, 0, TEXT[-kept.kept_bytes :])


def test_what_is_missing_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipes, "_PIECE", 100_000)
    text = b"a line of 16 b.\n" * (8 << 16)
    kept = keep(io.BytesIO(text), most_text=(3 << 20) + 16)
    assert kept.problem == "only its last 3 MB were kept: the 5 MB before are missing"
    kept = keep(io.BytesIO(text), most_text=6 << 20)
    assert kept.problem == "only its last 5 MB were kept: the 2 MB before are missing", "the first line is left out"


def test_the_file_has_no_name_and_is_for_its_user_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made, really = [], functools.partial(tempfile.TemporaryFile, dir=tmp_path)

    def make(*, buffering: int) -> object:
        made.append(really(buffering=buffering))
        return made[0]

    monkeypatch.setattr(tempfile, "TemporaryFile", make)
    kept = keep(io.BytesIO(TEXT), most_text=20_000)
    status = os.fstat(made[0].fileno())
    assert (status.st_size, status.st_nlink, stat.S_IMODE(status.st_mode)) == (20_000, 0, 0o600)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(TypeError):
        pickle.dumps(kept.as_stream)  # it stays on this machine
    del kept
    gc.collect()
    assert made[0].closed


def test_without_a_temporary_folder_less_is_kept_in_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    kept = keep(io.BytesIO(TEXT), most_text=20_000)
    assert is_end_of_text(kept)
    assert 8_000 - len(LINES[0]) <= kept.kept_bytes <= 9_000
    assert kept.problem.startswith("only its last")


@pytest.mark.parametrize("room", [0, 500, 3_000, 4_000, 15_250, 20_000, 33_333, 39_999, len(TEXT) - 1])
def test_where_the_disk_is_full_less_is_kept_in_memory(monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    without_room_behind(monkeypatch, room)
    kept = keep(io.BytesIO(TEXT), most_text=20_000)
    assert is_end_of_text(kept)
    assert 8_000 - len(LINES[0]) <= kept.kept_bytes <= 9_000
    assert kept.problem.startswith("only its last")


def test_a_full_disk_loses_nothing_of_what_fits_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    without_room_behind(monkeypatch, 3_333)
    kept = keep(io.BytesIO(TEXT[:7_000]))
    assert (kept.as_one_file().read(), kept.problem) == (TEXT[:7_000], "")


def test_of_packed_data_the_beginning_is_kept() -> None:
    packed = gzip.compress(TEXT)
    kept = keep(io.BytesIO(packed), most_text=100, most_packed=5_000)
    assert kept.as_stream().read() == packed[:5_000]
    assert kept.problem.startswith("only its first")
    assert keep(io.BytesIO(packed), most_text=100).as_stream().read() == packed
