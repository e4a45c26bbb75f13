"""Packed files and archives: what they hold, what damage costs, what is refused."""

import bz2
import copy
import gzip
import io
import lzma
import os
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest
import zstandard
from builders.files.dumps import dump
from builders.files.packing import LOG, gaps, tar_of, texts, write, zip_of
from hypothesis import given, settings
from hypothesis import strategies as st

from nccldoctor.discover import archives, tar
from nccldoctor.discover.discover import discover
from nccldoctor.discover.streams import Budget, Stream, opened, problem_of, reader
from nccldoctor.model import SourceKind


@pytest.mark.parametrize(
    "pack",
    [
        gzip.compress,
        bz2.compress,
        lzma.compress,
        zstandard.compress,
        lambda d: gzip.compress(d[:50]) + gzip.compress(d[50:]),
    ],
    ids=["gz", "bz2", "xz", "zst", "two gz members"],
)
def test_packed_files_are_told_by_their_first_bytes(tmp_path: Path, pack):
    found = discover([write(tmp_path, {"rank_3.log": pack(LOG), "fr_0": pack(dump())})])
    assert texts(found) == {"fr_0": dump(), "rank_3.log": LOG}
    assert [i.source.kind for i in found.inputs] == [SourceKind.RECORDER, SourceKind.LOG]
    assert [i.file for i in found.inputs] == [None, None]


@pytest.mark.parametrize("pack", [gzip.compress, lambda d: bz2.compress(d, 1), lzma.compress, zstandard.compress])
def test_a_packed_file_that_is_cut_gives_what_can_be_had(tmp_path: Path, pack):
    lines = b"".join(b"%d line %d\n" % (n * 7919 % 100_003, n) for n in range(30_000))
    whole = pack(lines)
    one = discover([write(tmp_path, {"a.log": whole[: len(whole) * 2 // 3]})]).inputs[0]
    with one.open() as stream:
        text = stream.read()
        assert problem_of(stream).startswith("damaged (")
    assert lines.startswith(text)
    assert len(text) > 65536


def piped(data: bytes) -> bytes:
    """What ``zstd`` writes where it does not know the size beforehand."""
    stream = zstandard.ZstdCompressor().compressobj()
    return stream.compress(data) + stream.flush()


SMALL = b"".join(b"%d a line that differs\n" % (n * 7919 % 10_007) for n in range(1_000))


@pytest.mark.parametrize(
    ("pack", "cut", "least"),
    [
        (gzip.compress, 9, 24_000),
        (lzma.compress, 99, 22_000),
        (lambda d: bz2.compress(d[:20_000]) + bz2.compress(d[20_000:]), 9, 20_000),
        (lambda d: piped(d[:20_000]) + piped(d[20_000:]), 9, 20_000),
        (lambda d: zstandard.compress(d[:20_000]) + zstandard.compress(d[20_000:]), 9, 20_000),
    ],
    ids=["gz", "xz", "bz2", "zst of a pipe", "zst"],
)
def test_a_small_packed_file_loses_only_its_end(tmp_path: Path, pack, cut: int, least: int):
    found = discover([write(tmp_path, {"a.log": pack(SMALL)[:-cut]})])
    with found.inputs[0].open() as stream:
        text = stream.read()
        assert problem_of(stream).startswith("damaged (EOFError)")
    assert SMALL.startswith(text)
    assert least <= len(text) <= len(SMALL)


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress])
def test_what_came_before_a_damaged_place_is_kept(tmp_path: Path, pack):
    broken = bytearray(pack(SMALL) + pack(SMALL))
    broken[-5] ^= 0xFF
    with discover([write(tmp_path, {"a.log": bytes(broken)})]).inputs[0].open() as stream:
        text = stream.read()
        assert problem_of(stream).startswith("damaged (")
    assert (SMALL * 2).startswith(text)
    assert len(text) >= len(SMALL)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress, zstandard.compress, piped])
def test_zeros_that_fill_up_a_block_are_no_damage(tmp_path: Path, pack):
    with discover([write(tmp_path, {"a.log": pack(SMALL) + bytes(200_000) + pack(LOG)})]).inputs[0].open() as stream:
        assert (stream.read(), problem_of(stream)) == (SMALL + LOG, "")


def test_a_packed_tar_that_is_cut_gives_its_members_as_far_as_they_go(tmp_path: Path):
    whole = tar_of({"a.log": LOG, "b.log": SMALL}, "w:gz")
    found = discover([write(tmp_path, {"x.tar.gz": whole[: len(whole) * 3 // 4]})])
    read = texts(found)
    assert read["x.tar.gz/a.log"] == LOG
    assert SMALL.startswith(read["x.tar.gz/b.log"])
    assert len(read["x.tar.gz/b.log"]) > 10_000
    assert gaps(found)["x.tar.gz"].startswith("damaged (")


def test_a_packed_tar_that_is_cut_between_members_says_so(tmp_path: Path):
    plain = tar_of({"a.log": LOG, "b.log": LOG})
    found = discover([write(tmp_path, {"x.tar.gz": gzip.compress(plain[:1024])[:-8]})])
    assert texts(found) == {"x.tar.gz/a.log": LOG}
    assert gaps(found)["x.tar.gz"].startswith("damaged (")


MEMBERS = {"job/rank_0.log": LOG, "job/fr/rank_1": dump(), "job/rank_2.log.gz": gzip.compress(LOG)}
READ = {"job/fr/rank_1": dump(), "job/rank_0.log": LOG, "job/rank_2.log.gz": LOG}


@pytest.mark.parametrize(
    "make", [tar_of, lambda m: tar_of(m, "w:gz"), lambda m: tar_of(m, "w:xz"), lambda m: tar_of(m, "w:bz2"), zip_of]
)
def test_archives(tmp_path: Path, make):
    path = write(tmp_path, {"bundle": make(MEMBERS)}) / "bundle"
    alone = discover([path])
    assert texts(alone) == READ
    assert [i.source.rank for i in alone.inputs] == [1, 0, 2]
    inside = discover([tmp_path])
    assert texts(inside) == {f"bundle/{name}": data for name, data in READ.items()}
    assert next(reversed(texts(inside).items()))[1] == LOG, "asking again starts anew"


def test_archives_in_archives_once(tmp_path: Path):
    inner = tar_of(MEMBERS, "w:gz")
    write(
        tmp_path,
        {
            "a.zip": zip_of({"n1.tgz": inner}),
            "b.tar": tar_of({"n2.zip": zip_of(MEMBERS)}),
            "c.zip": zip_of({"d.zip": zip_of({"e.tgz": inner})}),
        },
    )
    found = discover([tmp_path])
    assert texts(found) == {
        f"{a}/{name}": data for a in ("a.zip/n1.tgz", "b.tar/n2.zip") for name, data in READ.items()
    }
    assert gaps(found) == {"c.zip/d.zip/e.tgz": "packed more than twice, not opened"}


def test_what_is_refused_in_archives(tmp_path: Path):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, kind in (
            ("l", tarfile.SYMTYPE),
            ("h", tarfile.LNKTYPE),
            ("p", tarfile.FIFOTYPE),
            ("d", tarfile.DIRTYPE),
        ):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "/etc/passwd"
            archive.addfile(info)
        for name in ("../up.log", "/etc/x.log", "a/../../b.log", "ok.log", ".hidden"):
            info = tarfile.TarInfo(name)
            info.size = len(LOG)
            archive.addfile(info, io.BytesIO(LOG))
    link = zipfile.ZipInfo("l")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr(link, "/etc/passwd")
        archive.writestr("C:/x.log", LOG)
        archive.writestr("ok.log", LOG)
    found = discover([write(tmp_path, {"t": out.getvalue(), "z": zipped.getvalue()})])
    assert texts(found) == {"t/ok.log": LOG, "z/ok.log": LOG}
    assert gaps(found) == {
        "t/../up.log and 2 more": "a path that leaves the archive, refused",
        "t/.hidden": "hidden, skipped",
        "t/h": "a hard link, not followed",
        "t/l": "a link, not followed",
        "t/p": "a fifo, not followed",
        "z/C:/x.log": "a path that leaves the archive, refused",
        "z/l": "a link, not followed",
    }


def test_a_torch_checkpoint_is_no_archive_of_logs(tmp_path: Path):
    found = discover(
        [write(tmp_path, {"model.pt": zip_of({"model/data.pkl": b"\x80\x02}q\0.", "model/data/0": b"\0" * 99})})]
    )
    assert not found.inputs
    assert gaps(found) == {"model.pt": "a torch.save file, not a flight recorder dump"}


def test_long_names_in_tars(tmp_path: Path):
    name = "d" * 90 + "/" + "e" * 120 + "/rank_4.log"
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=form) as archive:
            info = tarfile.TarInfo(name)
            info.size = len(LOG)
            archive.addfile(info, io.BytesIO(LOG))
        assert [(m.name, m.size) for m in tar.members(io.BytesIO(out.getvalue()))] == [(name, len(LOG))]


def test_bombs_end_at_the_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("nccldoctor.discover.discover.Budget", lambda size, *more: Budget(size, *more, free=1 << 20))
    zeros = b"0" * (40 << 20)
    write(
        tmp_path,
        {
            "a.log": gzip.compress(zeros),
            "b.tar": tar_of({"x.log": zeros, "y.log": LOG}, "w:gz"),
            "c.zip": zip_of({"z.log": zeros}),
        },
    )
    found = discover([tmp_path])
    for one in found.inputs:
        with one.open() as stream:
            assert len(stream.read()) < 12 << 20
            assert "unpacks to more than" in problem_of(stream)
    assert "unpacks to more than" in gaps(found)["b.tar"]


def test_a_zip_in_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(archives, "_IN_MEMORY", 1000)
    found = discover([write(tmp_path, {"a.tar": tar_of({"b.zip": zip_of({"c": os.urandom(3000)})})})])
    assert not found.inputs
    assert "inside an archive, not opened" in next(iter(gaps(found).values()))


def test_archives_of_very_many_members_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("nccldoctor.discover.discover.MOST_FILES", 12)
    logs = {f"r{n:02}.log": LOG for n in range(30)}
    found = discover([write(tmp_path, {"a.tar": tar_of(logs), "b.zip": zip_of(logs), "c.log": LOG})])
    assert [one.source.path for one in found.inputs if not one.source.path.startswith("a.tar")] == ["c.log"]
    assert len(found.inputs) == 10
    assert gaps(found) == dict.fromkeys(("a.tar", "b.zip"), archives.TOO_MANY)
    assert all(gap.lost for gap in found.gaps)


@pytest.mark.parametrize("kind", ["link", "folder"])
def test_entries_that_are_no_files_count_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str):
    monkeypatch.setattr("nccldoctor.discover.discover.MOST_FILES", 12)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for number in range(30):
            info = tarfile.TarInfo(f"x{number}")
            info.type, info.linkname = (tarfile.SYMTYPE if kind == "link" else tarfile.DIRTYPE), "y"
            archive.addfile(info)
    found = discover([write(tmp_path, {"a.tar": out.getvalue()})])
    assert found.gaps[-1].why == archives.TOO_MANY


def test_a_zip_with_a_directory_of_many_bytes_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(archives, "MOST_DIRECTORY", 1000)
    found = discover([write(tmp_path, {"a.zip": zip_of({f"r{n:02}.log": LOG for n in range(30)})})])
    assert not found.inputs
    assert found.gaps[0].lost


def test_a_damaged_archive_gives_what_came_before(tmp_path: Path):
    whole = tar_of({"a.log": LOG, "b.log": LOG})
    broken = whole[:1024] + b"\xff" * 512 + whole[1536:]
    found = discover([write(tmp_path, {"x.tar": broken, "y.tar": whole[:1100], "z.zip": zip_of(MEMBERS)[:-10]})])
    assert list(texts(found)) == ["x.tar/a.log", "y.tar/a.log"]
    assert {what: why[:7] for what, why in gaps(found).items()} == {
        "x.tar": "damaged",
        "y.tar": "damaged",
        "z.zip": "damaged",
    }


@settings(max_examples=100, deadline=None)
@given(data=st.binary(max_size=200), kind=st.sampled_from(["gz", "bz2", "xz", "zst", "zip", "tar"]))
def test_damage_never_raises(data: bytes, kind: str):
    starts = {
        "gz": gzip.compress(LOG),
        "bz2": bz2.compress(LOG),
        "xz": lzma.compress(LOG),
        "zst": zstandard.compress(LOG),
    }
    start = {"zip": zip_of(MEMBERS), "tar": tar_of(MEMBERS)}.get(kind) or starts[kind]
    for raw in (start[: len(start) // 2] + data, start[:8] + data, start + data):
        if kind in starts:
            one = opened(Stream(io.BytesIO(raw)), Budget(len(raw)))
            reader(one.stream).read()
        else:
            for member in archives.walk(io.BytesIO(raw), kind, Budget(len(raw)), lambda name, why: None):
                reader(member.stream).read()


@pytest.mark.parametrize(
    "packed",
    [
        pytest.param(gzip.compress(LOG), id="zeros behind gzip"),
        pytest.param(zstandard.compress(LOG) + b"\x28\xb5\x2f\xfd\0", id="zstd blocks without content"),
    ],
)
def test_compressed_data_that_gives_nothing_ends_at_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bytes
):
    monkeypatch.setattr("nccldoctor.discover.compression.MOST_SILENT", 1 << 20)
    monkeypatch.setattr("nccldoctor.discover.paths.LARGE_HOLE", 1 << 50)
    path = tmp_path / "job.log.gz"
    path.write_bytes(packed)
    with path.open("r+b") as file:
        file.truncate(1 << 40)  # sparse: it takes no room
    (one,) = discover([path]).inputs
    with one.open() as stream:
        assert stream.read() == LOG
        assert problem_of(stream).startswith("damaged (ValueError)")


def test_a_zip_that_lists_one_member_many_times_unpacks_it_once(tmp_path: Path):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("job.log", LOG)
        first = archive.filelist[0]
        for number in range(50):
            again = copy.copy(first)
            again.filename = f"job{number}.log"
            archive.filelist.append(again)
    (tmp_path / "a.zip").write_bytes(packed.getvalue())
    found = discover([tmp_path])
    assert [one.source.path for one in found.inputs] == ["a.zip/job.log"]
    assert [gap.why for gap in found.gaps] == ["another name for data that was read"]
