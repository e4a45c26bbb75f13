"""What is found in folders and under paths."""

import gzip
import io
import os
import re
import socket
import sys
from pathlib import Path

import pytest
from builders.files.dumps import dump
from builders.files.packing import LOG, gaps, tar_of, texts, write, zip_of

from nccldoctor.discover import discover as discover_module
from nccldoctor.discover.discover import Discovered, discover
from nccldoctor.discover.streams import HEAD
from nccldoctor.model import SourceKind
from nccldoctor.model.errors import InputError

needs_links = pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")


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
    own = "<!DOCTYPE html><html><head><title>Rank 1 never reached ALLREDUCE #9. · nccldoctor</title></head>".encode()
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
    log = LOG * (HEAD // len(LOG) + 1)
    write(tmp_path, {"a.log": log})
    one = discover([tmp_path]).inputs[0]
    with (tmp_path / "a.log").open("ab") as file:
        file.write(b"later\n")
    with one.open() as stream:
        with (tmp_path / "a.log").open("ab") as file:
            file.write(b"too late\n")
        assert stream.read() == log + b"later\n"


def test_a_small_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(discover_module, "KEPT_IN_ALL", len(LOG) + 3)
    one, other = discover([write(tmp_path, {"a.log": LOG, "b.log": LOG})]).inputs
    for name in ("a.log", "b.log"):
        (tmp_path / name).write_bytes(b"another\n")
    assert [one.open().read(), other.open().read()] == [LOG, b"another\n"]


def test_a_file_that_vanished_raises_on_opening(tmp_path: Path):
    one = discover([write(tmp_path, {"a.log": LOG * (HEAD // len(LOG) + 1)})]).inputs[0]
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
    assert list(texts(discover(["memory://job/*/rank_*"]))) == ["fr/rank_1"]
    assert list(texts(discover(["memory://job/r*"]))) == ["rank_0.log.gz"]
    for url in ("memory://nowhere", "memory://job/*/nothing*"):
        with pytest.raises(InputError, match=re.escape(url)):
            discover([url])


def test_a_pattern_of_local_urls_finds_what_the_path_finds(tmp_path: Path) -> None:
    for rank in (0, 1, 10):
        (tmp_path / f"rank_{rank}.log").write_bytes(LOG)
    assert list(texts(discover([f"file://{tmp_path}/rank_1*"]))) == ["rank_1.log", "rank_10.log"]


def test_a_url_that_exists_is_no_pattern(tmp_path: Path) -> None:
    for name in ("run[1]", "run1"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.log").write_bytes(LOG)
    assert list(texts(discover([f"file://{tmp_path}/run[1]"]))) == ["run[1].log"]


def test_a_url_without_fsspec_names_the_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(InputError) as raised:
        discover(["s3://bucket/job"])
    assert "nccldoctor[fsspec]" in raised.value.hint


def test_folders_inside_each_other_are_walked_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nccldoctor.discover.paths.MOST_DEEP", 3)
    for depth in range(6):
        folder = tmp_path.joinpath(*(["d"] * depth))
        folder.mkdir(exist_ok=True)
        (folder / "job.log").write_text("hello\n")
    found = discover([tmp_path])
    assert [one.source.path.count("/") for one in found.inputs] == [3, 2, 1, 0]
    assert [(gap.what, gap.lost) for gap in found.gaps] == [("d/d/d/d", True)]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le"])
def test_what_a_person_wrote_is_told_in_every_encoding(tmp_path: Path, encoding: str):
    notes = "# Friday\r\n\r\nLast week rank 2 died with `NVRM: Xid (PCI:0000:1a:00): 79`, and we lost the run.\r\n"
    (tmp_path / "notes.md").write_bytes(notes.encode(encoding))
    (tmp_path / "ticket.txt").write_bytes(
        "error[died]: Rank 5 died.\n  = class: Exited early\n  = more: nccldoctor explain died\n".encode(encoding)
    )
    found = discover([tmp_path])
    assert [(one.source.path, one.source.kind) for one in found.inputs] == [("notes.md", SourceKind.NOTES)]
    assert [gap.what for gap in found.gaps] == ["ticket.txt"]


def test_a_working_directory_that_is_gone_matters_to_relative_paths_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def gone() -> str:
        raise FileNotFoundError(2, "No such file or directory")

    (tmp_path / "a.log").write_text("step 1\n")
    monkeypatch.setattr("os.getcwd", gone)
    assert [one.source.path for one in discover([tmp_path]).inputs] == ["a.log"]
    with pytest.raises(InputError, match="working directory no longer exists"):
        discover(["tests"])


def test_a_large_hole_at_the_end_of_a_file_is_not_read(tmp_path: Path):
    path = tmp_path / "a.log"
    path.write_bytes(b"step 1\n" * 9999)
    with path.open("r+b") as file:
        file.truncate(1 << 40)
    (one,) = discover([path]).inputs
    with one.open() as stream:
        read = stream.read(1 << 20)
    assert read.rstrip(b"\0") == b"step 1\n" * 9999
    assert len(read) < 1 << 20
