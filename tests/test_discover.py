import bz2
import gzip
import io
import lzma
import os
import socket
import stat
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import zstandard
from dumps import dump
from hypothesis import given, settings
from hypothesis import strategies as st

from nccldoctor import archives, tar
from nccldoctor.discover import Discovered, discover
from nccldoctor.errors import InputError
from nccldoctor.hints import hints
from nccldoctor.kinds import kind_of
from nccldoctor.model import SourceKind
from nccldoctor.streams import Budget, Stream, opened, problem_of, reader

LOG = b"[rank3]: Watchdog caught collective operation timeout\n" * 3
needs_links = pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")


def write(root: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


def texts(found: Discovered) -> dict[str, bytes]:
    out = {}
    for one in found.inputs:
        with one.open() as stream:
            out[one.source.path] = stream.read()
    return out


def gaps(found: Discovered) -> dict[str, str]:
    return {gap.what: gap.why for gap in found.gaps}


def tar_of(members: dict[str, bytes], mode: str = "w") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def zip_of(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


# ---- folders and paths


def test_a_folder_is_read_by_path_with_kinds_and_sizes(tmp_path: Path):
    write(
        tmp_path,
        {"b/rank_1.log": LOG, "a.txt": b"", "fr/rank_0": dump(), "x.bin": bytes(range(256)) * 8, "e.json": b"{}"},
    )
    found = discover([tmp_path])
    assert [(i.source.id, i.source.path, i.source.kind) for i in found.inputs] == [
        (0, "a.txt", SourceKind.EMPTY),
        (1, "b/rank_1.log", SourceKind.LOG),
        (2, "e.json", SourceKind.JSON),
        (3, "fr/rank_0", SourceKind.RECORDER),
        (4, "x.bin", SourceKind.UNKNOWN),
    ]
    assert found.inputs[1].source.size == len(LOG)
    assert texts(found)["b/rank_1.log"] == LOG


def test_a_single_file_is_named_by_itself_and_hinted_by_its_folders(tmp_path: Path):
    path = "node3/run/attempt_1/2/stderr.log"
    source = discover([write(tmp_path, {path: LOG}) / path]).inputs[0].source
    assert (source.path, source.local_rank, source.attempt, source.host) == ("stderr.log", 2, 1, "node3")
    assert source.rank is None


def test_several_inputs_stay_distinct_and_never_absolute(tmp_path: Path):
    write(tmp_path, {"n1/logs/rank_0.log": LOG, "n2/logs/rank_0.log": LOG + b"x"})
    found = discover([tmp_path / "n1/logs", tmp_path / "n2/logs"])
    assert list(texts(found)) == ["n1/logs/rank_0.log", "n2/logs/rank_0.log"]
    found = discover([tmp_path / "n1/logs/rank_0.log", tmp_path / "n2/logs/rank_0.log"])
    assert list(texts(found)) == ["n1/logs/rank_0.log", "n2/logs/rank_0.log"]


def test_the_order_of_the_paths_does_not_matter(tmp_path: Path):
    names = [f"{kind}/rank_{rank}" for kind in ("fr", "logs") for rank in range(3)]
    paths = [write(tmp_path, dict.fromkeys(names, LOG)) / name for name in names]
    shuffled = [paths[i] for i in (4, 0, 5, 2, 1, 3)]
    assert [one.source for one in discover(paths).inputs] == [one.source for one in discover(shuffled).inputs]


@pytest.mark.parametrize(
    ("name", "host"),
    [("logs.tar.gz", None), ("run.tar.gz", None), ("a.tgz.zip", None), ("node07.tar.gz", "node07")],
)
def test_the_name_of_an_archive_is_a_host_only_without_its_suffix(tmp_path: Path, name: str, host: str | None):
    write(tmp_path, {name: tar_of({"x/rank_0.log": LOG})})
    assert [one.source.host for one in discover([tmp_path / name]).inputs] == [host]


def test_what_two_paths_share_is_read_once(tmp_path: Path):
    write(tmp_path, {"logs/rank_0.log": LOG, "logs/rank_1.log": LOG})
    found = discover([tmp_path / "logs/rank_1.log", tmp_path / "logs"])
    assert len(found.inputs) == 2


def test_a_missing_path_is_named(tmp_path: Path):
    with pytest.raises(InputError, match="nowhere: no such file") as raised:
        discover([tmp_path / "nowhere"])
    assert raised.value.hint
    with pytest.raises(InputError, match="nothing matches"):
        discover([str(tmp_path / "*.log")])


def test_an_empty_folder_gives_nothing_and_no_error(tmp_path: Path):
    assert discover([tmp_path]) == Discovered((), ())


def test_patterns_are_expanded(tmp_path: Path):
    write(tmp_path, {"a/rank_0.log": LOG, "a/b/rank_1.log": LOG, "a/b/note.txt": LOG, "[x]/rank_2.log": LOG})
    assert list(texts(discover([str(tmp_path / "**" / "*_[01].log")]))) == ["a/b/rank_1.log", "a/rank_0.log"]
    assert list(texts(discover([tmp_path / "[x]"]))) == ["rank_2.log"], "a name with brackets that exists is no pattern"


def test_hidden_files_and_own_reports_are_skipped_and_said(tmp_path: Path):
    own = b'<!DOCTYPE html><html><head><meta name="generator" content="nccldoctor 0.1"></head>'
    write(tmp_path, {"a.log": LOG, ".git/config": LOG, ".b": LOG, "report.html": own})
    write(tmp_path, {"out.json": b'{"schema_version": "1.0", "tool": {"name": "nccldoctor", "version": "1"}}'})
    found = discover([tmp_path])
    assert list(texts(found)) == ["a.log"]
    assert gaps(found) == {
        ".b and 1 more": "hidden, skipped",
        "out.json": "a report of this tool, skipped",
        "report.html": "a report of this tool, skipped",
    }


@needs_links
def test_links(tmp_path: Path):
    write(tmp_path / "in", {"rank_0.log": LOG, "..2024/rank_1.log": LOG, "sub/rank_2.log": LOG})
    write(tmp_path / "out", {"secret": LOG})
    job = tmp_path / "in"
    (job / "latest.log").symlink_to("rank_0.log")
    (job / "data").symlink_to("..2024")
    (job / "same").symlink_to("sub")
    (job / "up").symlink_to("..")
    (job / "secret").symlink_to("../out/secret")
    (job / "broken").symlink_to("nowhere")
    (job / "circle").symlink_to("circle")
    (job / "sub" / "parent").symlink_to("..")
    found = discover([job])
    assert list(texts(found)) == ["rank_0.log", "sub/rank_2.log", "data/rank_1.log"]
    assert gaps(found) == {
        "..2024": "hidden, skipped",
        "broken": "a link that leads nowhere or in a circle",
        "circle": "a link that leads nowhere or in a circle",
        "secret": "a link that leads out of the folder, not followed",
        "sub/parent": "a link in a circle, not followed",
        "up": "a link in a circle, not followed",
    }


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="POSIX")
def test_pipes_and_sockets_are_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("nccl_trace_rank_0.pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("worker.sock")
        found = discover(["."])
    assert not found.inputs
    assert set(gaps(found).values()) == {"no regular file (a pipe, socket or device), skipped"}


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file_is_a_gap(tmp_path: Path):
    write(tmp_path, {"a.log": LOG})
    (tmp_path / "a.log").chmod(0)
    assert gaps(discover([tmp_path])) == {"a.log": "cannot be read: Permission denied"}


def test_a_growing_file_is_read_as_far_as_it_was_when_opened(tmp_path: Path):
    write(tmp_path, {"a.log": LOG})
    one = discover([tmp_path]).inputs[0]
    with (tmp_path / "a.log").open("ab") as file:
        file.write(b"later\n")
    with one.open() as stream:
        with (tmp_path / "a.log").open("ab") as file:
            file.write(b"too late\n")
        assert stream.read() == LOG + b"later\n"


def test_a_file_that_vanished_raises_on_opening(tmp_path: Path):
    one = discover([write(tmp_path, {"a.log": LOG})]).inputs[0]
    (tmp_path / "a.log").unlink()
    with pytest.raises(OSError):
        one.open()


def test_control_characters_in_names_are_escaped(tmp_path: Path):
    write(tmp_path, {"a\x1b[31m\n.log": LOG})
    assert [i.source.path for i in discover([tmp_path]).inputs] == ["a\\x1b[31m\\n.log"]


def test_standard_input(monkeypatch: pytest.MonkeyPatch):
    for data in (LOG, gzip.compress(LOG)):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        found = discover(["-"])
        assert texts(found) == {"-": LOG}
        assert texts(found) == {"-": LOG}, "it can be read again"


def test_urls():
    fsspec = pytest.importorskip("fsspec")
    system = fsspec.filesystem("memory")
    system.pipe(
        {
            "/job/fr/rank_1": dump(),
            "/job/rank_0.log.gz": gzip.compress(LOG),
            "/job/.hidden": LOG,
            "/all.zip": zip_of({"rank_2.log": LOG}),
        }
    )
    assert list(texts(discover(["memory://job"]))) == ["fr/rank_1", "rank_0.log.gz"]
    assert texts(discover(["memory://job/rank_0.log.gz"])) == {"rank_0.log.gz": LOG}
    assert texts(discover(["memory://all.zip"])) == {"rank_2.log": LOG}
    with pytest.raises(InputError, match="memory://nowhere"):
        discover(["memory://nowhere"])


def test_a_url_without_fsspec_names_the_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(InputError) as raised:
        discover(["s3://bucket/job"])
    assert "nccldoctor[fsspec]" in raised.value.hint


# ---- packed files and archives


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
    assert gaps(found) == {"model.pt": "not a recorder dump: what torch.save writes"}


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
    monkeypatch.setattr("nccldoctor.discover.Budget", lambda size: Budget(size, free=1 << 20))
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
    monkeypatch.setattr(archives, "MOST_MEMBERS", 10)
    found = discover([write(tmp_path, {"a.tar": tar_of({f"r{n:02}.log": LOG for n in range(30)})})])
    assert len(found.inputs) == 10
    assert gaps(found) == {"a.tar": "more than 10 members: the rest was not read"}


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


# ---- hints and kinds


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("rank_3", 3),
        ("rank3.log", 3),
        ("logs/rank-12.out", 12),
        ("nccl_trace_rank_3", 3),
        ("comm_lib_trace_rank_17", 17),
        ("pyspy_rank2.txt", 2),
        ("out/1/rank.3/stdout", 3),
        ("[rank5].log", 5),
        ("job.rank=7.err", 7),
        ("fr_trace_rank3_attempt0.pkl", 3),
        ("rank3-of-8.log", 3),
        ("global_rank_9.log", 9),
        ("rank_0-7.log", None),
        ("node_rank_2.log", None),
        ("dp_rank_2/x.log", None),
        ("lora_rank_64/train.log", None),
        ("crank3.log", None),
        ("train.log", None),
        ("train.log.1", None),
        ("slurm-45171.out", None),
        ("slurm-45171_3.out", None),
        ("stacks_20240101_120000.txt", None),
        ("py-spy-12345.txt", None),
        ("worker-3.log", None),
        ("checkpoint_500.txt", None),
    ],
)
def test_ranks_in_names(name: str, rank: int | None):
    (hint,) = hints([name], [False])
    assert hint.rank == rank
    assert bool(hint.why) == (rank is not None or hint.host is not None)


def test_numbered_families():
    def ranks(names: list[str], dumps: bool = False) -> list[int | None]:
        return [hint.rank for hint in hints(names, [dumps] * len(names))]

    assert ranks(["_dump_12", "fr_2.json", "trace_6", "stacks/stacks_5.txt"]) == [12, 2, 6, 5]
    assert ranks(["prefix0", "prefix1"]) == [None, None]
    assert ranks(["prefix0", "prefix1"], dumps=True) == [0, 1], "torch appends the rank to any prefix"
    assert ranks(["7", "8.pkl"], dumps=True) == [7, 8]
    assert ranks(["fr_90210", "fr_90377"]) == [None, None], "process ids"
    assert ranks([f"fr_{n}" for n in range(1000, 1200)]) == list(range(1000, 1200))


def test_slurm_tasks_are_ranks_unless_there_is_one_for_each_node():
    several = hints(["job-45171-0-0.out", "job-45171-0-1.out", "job-45171-1-2.out"], [False] * 3)
    assert [h.rank for h in several] == [0, 1, 2]
    assert several[0].why == "Slurm task in the name"
    assert [h.rank for h in hints(["job-45171-0-0.out", "job-45171-1-1.out"], [False] * 2)] == [None, None]


def test_launcher_folders_and_hosts():
    names = [
        "gpu-017/train_nkjmnlha/attempt_2/3/stderr.log",
        "worker0/agent.log",
        "dmesg/gpu-17.dmesg.txt",
        "10.0.1.2/rank_0.log",
        "h100-003.cluster.local/x.log",
        "logs1/run2/x.log",
        "local_rank_3.log",
        "gpu3.log",
    ]
    found = hints(names, [False] * len(names))
    assert [h.host for h in found] == [
        "gpu-017",
        "worker0",
        "gpu-17",
        "10.0.1.2",
        "h100-003.cluster.local",
        None,
        None,
        None,
    ]
    assert [h.local_rank for h in found] == [3, None, None, None, None, None, 3, 3]
    assert (found[0].attempt, found[0].rank) == (2, None)
    assert found[0].why == "torchrun folder, attempt folder, host folder"


def test_the_users_own_rule(tmp_path: Path):
    write(tmp_path, {"w07-rank_1.log": LOG})
    source = discover([tmp_path], rank_from=r"w(?P<rank>\d+)").inputs[0].source
    assert (source.rank, source.why) == (7, "--rank-from")
    for bad in ("w(", r"w(\d+)"):
        with pytest.raises(InputError, match="--rank-from"):
            discover([tmp_path], rank_from=bad)


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (b"", SourceKind.EMPTY),
        (LOG, SourceKind.LOG),
        ("Größe ✓ 進捗\n".encode() * 9, SourceKind.LOG),
        ("Schritt 3\r\n".encode("utf-16") * 9, SourceKind.LOG),
        ("Schritt 3\r\n".encode("utf-16-le") * 9, SourceKind.LOG),
        (b"caf\xe9 step 3\n" * 9, SourceKind.LOG),
        (b"\x1b[36mstep\x1b[0m\r 10%|#|\r" * 9, SourceKind.LOG),
        (b"\x7fELF" + bytes(200), SourceKind.UNKNOWN),
        (bytes(100), SourceKind.UNKNOWN),
        (dump(), SourceKind.RECORDER),
        (b'{"pg_status": {}, "version": "2.4"}', SourceKind.RECORDER),
        (b'{"message": {}}', SourceKind.JSON),
    ],
)
def test_kinds_by_content(head: bytes, kind: SourceKind):
    assert kind_of(head) is kind


@settings(max_examples=200, deadline=None)
@given(names=st.lists(st.text(alphabet="rank_-.0123456789/attemptgpu[]=x", max_size=40), max_size=6))
def test_no_name_makes_the_hints_raise(names: list[str]):
    assert len(hints(names, [True] * len(names))) == len(names)


@pytest.mark.parametrize(
    ("name", "host"),
    [
        ("node3.tar.gz/logs/train.log", "node3"),
        ("gpu-17.zip/train.log", "gpu-17"),
        ("b.tar.gz/logs/train.log", None),
        ("logs.2026.zip/train.log", None),
    ],
)
def test_an_archive_may_be_named_for_a_host_and_is_none_itself(name: str, host: str | None) -> None:
    (hint,) = hints([name], [False])
    assert hint.host == host
