"""Folders from strangers: whatever lies in them, the healthy files are read, nothing escapes and nothing is run."""

import gzip
import io
import os
import pickle
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

import pytest
from builders.files.dumps import dump
from hypothesis import given, settings
from hypothesis import strategies as st

from nccldoctor.discover.discover import discover
from nccldoctor.ingest.ingest import Ingested, ingest
from nccldoctor.parsers.flight_recorder.process import Limits

LOG = b"""[rank1]: Traceback (most recent call last):
[rank1]:   File "/opt/train.py", line 3, in f
[rank1]: ValueError: x
"""
QUICK = Limits(cpu_seconds=1, wall_seconds=20.0)


class _Owned:
    def __reduce__(self):
        return os.system, ("touch owned",)


def tar_of(name: str, data: bytes, size: int | None = None) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        info = tarfile.TarInfo(name)
        info.size = len(data) if size is None else size
        archive.addfile(info, io.BytesIO(data + bytes(info.size - len(data))))
    return out.getvalue()


def zip_of(name: str, data: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, data)
    return out.getvalue()


HOSTILE = {
    "rank_0": b"\x80\x02}r\x00\x00\x00\x20.",
    "rank_2": b"\x80\x02}p1000000000\n.",
    "rank_3": b"\x80\x02})" + b"2\x86" * 60 + b"Ns.",
    "rank_4": pickle.dumps(_Owned(), 2),
    "rank_5.pkl": pickle.dumps({"entries": [_Owned()], "version": "2.4"}, 4),
    "rank_6": b'{"pg_config": ' + b"[" * 500_000,
    "rank_7.tar.gz": tar_of("../../owned", LOG),
    "rank_8.zip": zip_of("/etc/owned", LOG),
    "rank_9.gz": gzip.compress(gzip.compress(gzip.compress(LOG))),
    "rank_10.tgz": tar_of("zeros", b"", 20 << 20),
    "rank_11.log": b"x" * (3 << 20),
    "rank_12.log": b"\r" * (1 << 20) + b"NCCL" * 100_000,
    "rank_13.log": b"\x1b[" + b"0;" * 500_000 + b"m NCCL WARN\n",
    "rank_14.json": b"[" * 100_000,
    "rank_15.log": os.urandom(100_000),
    "rank_16.log": b"\xff\xfe" + "NCCL WARN \ud7ff".encode("utf-16-le") * 99 + b"\x00\xd8",
    "__import__('os').system('touch owned').log": LOG,
    "..%2f..%2fowned\x1b]0;x\x07.log": LOG,
    "-rf": LOG,
}


def read(root: Path) -> Ingested:
    return ingest(discover([root]), limits=QUICK)


@pytest.mark.skipif(sys.platform == "win32", reason="names that are none there")
def test_a_hostile_folder_costs_its_own_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for name, data in HOSTILE.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "healthy_rank_1.log").write_bytes(LOG)
    (tmp_path / "nccl_trace_rank_1").write_bytes(dump())
    before = sorted(path.name for path in tmp_path.parent.rglob("*"))

    found = read(tmp_path)

    by_path = {parsed.source.path: parsed for parsed in found.parsed}
    assert [event.kind for event in by_path["healthy_rank_1.log"].events] == ["exception"]
    healthy = [head for head in found.batch.dumps if not head.problem]
    assert [(head.path, head.entries) for head in healthy] == [("nccl_trace_rank_1", 2)]
    assert sorted(path.name for path in tmp_path.parent.rglob("*")) == before, "nothing was written anywhere"
    assert all(path.isprintable() for path in by_path)
    told = {gap.what for gap in found.gaps} | {head.path for head in found.batch.dumps}
    for name in (
        "rank_0",
        "rank_4",
        "rank_5.pkl",
        "rank_6",
        "rank_7.tar.gz/../../owned",
        "rank_8.zip//etc/owned",
        "rank_9.gz",
    ):
        assert name in told


@settings(max_examples=12, deadline=None)
@given(
    contents=st.lists(
        st.binary(max_size=300)
        | st.builds(
            lambda start, rest: start + rest,
            st.sampled_from(
                [
                    b"\x80\x02}",
                    b"\x1f\x8b\x08",
                    b"PK\x03\x04",
                    b"BZh9",
                    b'{"pg_status":',
                    b"\xfd7zXZ\x00",
                    b"\x28\xb5\x2f\xfd",
                    b"\xff\xfe",
                    b"[rank1]: ",
                ]
            ),
            st.binary(max_size=200),
        ),
        max_size=12,
    )
)
def test_any_bytes_under_any_name(contents: list[bytes]):
    with tempfile.TemporaryDirectory() as folder:
        for number, data in enumerate(contents):
            (Path(folder) / f"rank_{number}").write_bytes(data)
        (Path(folder) / "rank_99").write_bytes(dump())
        found = read(Path(folder))
        assert any(head.path == "rank_99" and head.entries == 2 for head in found.batch.dumps)
        assert len({parsed.source.id for parsed in found.parsed}) == len(found.parsed)
