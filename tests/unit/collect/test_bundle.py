"""A bundle holds what nodes gave, whatever they gave, and says what is missing."""

from __future__ import annotations

import io
import json
import tarfile
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import zstandard

from nccldoctor.collect.bundle import Answer, write_bundle
from nccldoctor.model.errors import OutputError
from nccldoctor.model.ranks import Ranks

STACK = b'Process 7: python\n\nThread 7 (idle): "MainThread"\n    wait (a.py:1)\n'


def stream(*members: tuple[str, bytes] | tarfile.TarInfo) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member)
            else:
                info = tarfile.TarInfo(member[0])
                info.size = len(member[1])
                archive.addfile(info, io.BytesIO(member[1]))
    return out.getvalue()


def node(
    ended: str | None = "2026-01-01T00:00:10+00:00", files: list[dict[str, Any]] | None = None, **more: Any
) -> tuple[str, bytes]:
    rows = [{"path": "rank-3/stack-1.txt", "kind": "stack", "rank": 3, "pid": 7, "look": 1}] if files is None else files
    told = {
        "version": 1,
        "tool": "nccldoctor on_node",
        "host": "gpu-a07",
        "ended": ended,
        "files": rows,
        "missing": [],
        **more,
    }
    return "node.json", json.dumps(told).encode()


class Bundles:
    """Writes answers and reads bundles in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.target = folder / "bundle.tar.zst"

    def answer(self, name: str, data: bytes | None, error: str | None = None) -> Answer:
        path = None
        if data is not None:
            path = self.folder / f"{abs(hash(name))}.tar"
            path.write_bytes(data)
        return Answer(name, path, error, 1.25)

    def members(self) -> dict[str, bytes]:
        plain = zstandard.ZstdDecompressor().stream_reader(self.target.read_bytes())
        with tarfile.open(fileobj=plain, mode="r|") as archive:
            return {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]

    def manifest(self) -> dict[str, Any]:
        return json.loads(self.members()["manifest.json"])


@pytest.fixture
def bundles(tmp_path: Path) -> Bundles:
    return Bundles(tmp_path)


def test_the_manifest_ties_each_file_to_node_host_rank_and_process(bundles: Bundles) -> None:
    result = write_bundle(
        bundles.target, [bundles.answer("n1", stream(("rank-3/stack-1.txt", STACK), node()))], "collect"
    )
    assert bundles.members()["nodes/n1/rank-3/stack-1.txt"] == STACK
    (row,) = bundles.manifest()["files"]
    assert (row["path"], row["node"], row["host"], row["rank"], row["pid"], row["look"]) == (
        "nodes/n1/rank-3/stack-1.txt", "n1", "gpu-a07", 3, 7, 1,
    )  # fmt: skip
    assert (result.ranks, result.nodes[0].error, result.size) == (Ranks([3]), None, bundles.target.stat().st_size)


def test_one_bad_answer_costs_itself_alone(bundles: Bundles) -> None:
    whole = stream(("rank-3/stack-1.txt", STACK), node())
    answers = [
        bundles.answer("good", whole),
        bundles.answer("garbage", b"Last login: never\n" * 400),
        bundles.answer("silent", None, "ssh: connect to host silent port 22: Connection timed out"),
        bundles.answer("empty", b""),
    ]
    result = write_bundle(bundles.target, answers, "collect")
    assert {n.name: n.error for n in result.nodes} == {
        "good": None,
        "garbage": "its answer is no tar archive",
        "silent": "ssh: connect to host silent port 22: Connection timed out",
        "empty": "its answer is no tar archive",
    }
    assert {name for name in bundles.members() if name.startswith("nodes/")} == {
        "nodes/good/rank-3/stack-1.txt",
        "nodes/good/node.json",
    }
    assert {row["node"] for row in bundles.manifest()["missing"]} == {"garbage", "silent", "empty"}


def test_an_answer_that_is_cut_keeps_what_came(bundles: Bundles) -> None:
    first, second = ("rank-0/stack-1.txt", STACK), ("rank-1/stack-1.txt", STACK * 100)
    whole = stream(first, node(ended=None, files=[{"path": first[0], "kind": "stack", "rank": 0}]), second)
    for length in range(0, len(whole) - 10240, 512):
        answer = bundles.answer("n1", whole[:length])
        (result,) = write_bundle(bundles.target, [answer], "collect").nodes
        members = bundles.members() if result.has_answered else {}
        assert result.error
        assert members.get(f"nodes/n1/{first[0]}", b"") == STACK[: max(0, length - 512)]
    assert bundles.manifest()["files"][0]["rank"] == 0


def test_members_that_lead_out_of_their_folder_are_left_out(bundles: Bundles) -> None:
    link, device = tarfile.TarInfo("rank-0/link"), tarfile.TarInfo("rank-0/device")
    link.type, link.linkname, device.type = tarfile.SYMTYPE, "/etc/passwd", tarfile.CHRTYPE
    bad = [
        (name, b"x")
        for name in ("/etc/cron", "../up", "rank-0/../../up", "a/./b", "rank-0/.hidden", "x\ny", "C:/x", "a//b")
    ]
    write_bundle(
        bundles.target,
        [bundles.answer("../../n", stream(link, device, *bad, ("rank-0/a.log", b"ok"), node(files=[])))],
        "collect",
    )
    names = set(bundles.members())
    assert names == {"nodes/_.._n/rank-0/a.log", "nodes/_.._n/node.json", "manifest.json"}


def test_nodes_with_like_names_get_folders_of_their_own(bundles: Bundles) -> None:
    answers = [bundles.answer(name, stream(("a.log", name.encode()), node(files=[]))) for name in ("n/1", "n 1", "n:1")]
    write_bundle(bundles.target, answers, "collect")
    assert sorted(data for name, data in bundles.members().items() if name.endswith("a.log")) == [
        b"n 1",
        b"n/1",
        b"n:1",
    ]


def test_values_of_a_stranger_are_not_believed(bundles: Bundles) -> None:
    rows = [
        {
            "path": "a.log",
            "rank": "0; rm",
            "pid": -4,
            "look": 2.5,
            "kind": ["x"],
            "time": {"a": 1},
            "source": "s" * 9999,
        },
        {"path": 7},
        "rubbish",
    ]
    write_bundle(
        bundles.target,
        [bundles.answer("n1", stream(("a.log", b"x"), node(files=rows, missing="rubbish", host=5)))],
        "collect",
    )  # type: ignore[arg-type]
    (row,) = bundles.manifest()["files"]
    assert row.get("pid") is None
    assert row.get("look") is None
    assert (row["host"], row.get("rank"), len(row["source"])) == (None, None, 1000)


def test_equal_answers_give_equal_bytes(bundles: Bundles, tmp_path: Path) -> None:
    answers = [bundles.answer(name, stream(("a.log", b"x"), node(files=[]))) for name in ("n2", "n1")]
    write_bundle(bundles.target, answers, "collect")
    first = {name: data for name, data in bundles.members().items() if name != "manifest.json"}
    write_bundle(bundles.target, reversed(answers), "collect")
    assert list(first.items()) == [item for item in bundles.members().items() if item[0] != "manifest.json"]


def test_what_cannot_be_written_leaves_nothing_behind(bundles: Bundles) -> None:
    target = bundles.folder / "no" / "such" / "folder.tar.zst"
    with pytest.raises(OutputError, match="cannot write"):
        write_bundle(target, [], "collect")
    bundles.target.mkdir()
    with pytest.raises(OutputError, match="cannot write"):
        write_bundle(bundles.target, [bundles.answer("n1", stream(("a.log", b"x")))], "collect")
    assert [path.name for path in bundles.folder.iterdir() if path.suffix != ".tar"] == ["bundle.tar.zst"]


def headed(kind: bytes, size: int, name: str = "x", content: bytes = b"") -> bytes:
    """A header that says any size, and what stands behind it."""
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT) + content + b"\0" * (-len(content) % 512)


@pytest.mark.parametrize(
    "kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_SPARSE, tarfile.REGTYPE]
)
def test_a_header_of_any_size_costs_no_memory(bundles: Bundles, kind: bytes) -> None:
    good = headed(tarfile.REGTYPE, 2, "rank-0/a.log", b"ok")
    tracemalloc.start()
    write_bundle(bundles.target, [bundles.answer("n1", good + headed(kind, 3 << 30, content=b"x" * 1024))], "collect")
    assert tracemalloc.get_traced_memory()[1] < 32 << 20
    tracemalloc.stop()
    assert bundles.members()["nodes/n1/rank-0/a.log"] == b"ok"


def test_a_long_name_is_read(bundles: Bundles) -> None:
    long = "rank-0/" + "a" * 110
    write_bundle(bundles.target, [bundles.answer("n1", stream((long, b"ok"), node(files=[])))], "collect")
    assert bundles.members()[f"nodes/n1/{long}"] == b"ok"


@pytest.mark.parametrize(
    "told",
    [
        "[" * 900 + "]" * 900,
        '{"a":' * 900 + "1" + "}" * 900,
        '{"host": "' + "h" * 100_000 + '"}',
        '{"rank": ' + "9" * 5000 + "}",
    ],
    ids=["deep lists", "deep objects", "a long host", "a long number"],
)
def test_what_a_stranger_says_of_its_files_costs_no_more_than_its_bytes(bundles: Bundles, told: str) -> None:
    files = [(f"rank-{n}/a.log", b"x") for n in range(20)]
    rows = json.dumps([{"path": name, "rank": n} for n, (name, _) in enumerate(files)])
    said = told if not told.startswith('{"host"') else told[:-1] + f', "files": {rows}}}'
    write_bundle(bundles.target, [bundles.answer("n1", stream(*files, ("node.json", said.encode())))], "collect")
    assert len(bundles.members()["manifest.json"]) < 50_000
    assert len([name for name in bundles.members() if name.endswith(".log")]) == 20


def test_only_the_user_may_read_a_bundle(bundles: Bundles) -> None:
    write_bundle(bundles.target, [bundles.answer("n1", stream(("a.log", b"x"), node(files=[])))], "collect")
    assert bundles.target.stat().st_mode & 0o777 == 0o600


def test_where_no_node_answers_a_file_that_is_there_stays(bundles: Bundles) -> None:
    bundles.target.write_bytes(b"from before")
    result = write_bundle(bundles.target, [bundles.answer("n1", b"", "no answer in 25 s")], "collect")
    assert (result.size, bundles.target.read_bytes()) == (0, b"from before")
    assert [path.name for path in bundles.folder.glob("*bundle*")] == ["bundle.tar.zst"]
