"""Dumps and logs in the forms in which people fetch them: each is read, whose it is stays known."""

from __future__ import annotations

import base64
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import nccldoctor
from nccldoctor.discover.discover import discover
from nccldoctor.discover.unwrapping import unwrapped
from nccldoctor.events import ExceptionRaised
from nccldoctor.model import SourceKind

WORLD = 4


def dump(rank: int) -> dict[str, Any]:
    """Rank 2 never issued #10, the others wait in it."""
    entries = [
        {
            "record_id": n,
            "pg_id": 0,
            "process_group": ["0", "default_pg"],
            "collective_seq_id": n + 1,
            "op_id": n,
            "p2p_seq_id": 0,
            "is_p2p": False,
            "profiling_name": "nccl:all_reduce",
            "time_created_ns": 10**18 + n,
            "input_sizes": [[4]],
            "output_sizes": [[4]],
            "input_dtypes": ["Float"],
            "output_dtypes": ["Float"],
            "state": "completed" if n < 9 else "started",
            "retired": n < 9,
            "timeout_ms": 600000,
            "frames": [],
        }
        for n in range(10 if rank != 2 else 9)
    ]
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}}
    return {"version": "2.10", "entries": entries, "pg_config": config}


def text(rank: int) -> bytes:
    return json.dumps(dump(rank)).encode()


BANNER = b'Defaulted container "train" out of: train, sidecar (init)\n'
HEADERS = b"HTTP/1.1 200 OK\r\nServer: x\r\nContent-Type: application/json\r\nDate: today\r\n\r\n"

EACH: dict[str, Callable[[int], bytes]] = {
    "as it is": text,
    "utf-16": lambda rank: text(rank).decode().encode("utf-16"),
    "utf-32": lambda rank: text(rank).decode().encode("utf-32"),
    "byte order mark": lambda rank: b"\xef\xbb\xbf" + text(rank),
    "kubectl exec": lambda rank: BANNER + text(rank),
    "kubectl exec, pickle": lambda rank: BANNER + pickle.dumps(dump(rank), protocol=2),
    "curl -i": lambda rank: HEADERS + text(rank),
    "a prompt behind": lambda rank: text(rank) + b"\nroot@node:/# exit\n",
    "inside an object": lambda rank: json.dumps({"rank": rank, "dump": dump(rank)}).encode(),
    "inside a string": lambda rank: json.dumps({"rank": rank, "dump": text(rank).decode()}).encode(),
    "indented": lambda rank: json.dumps({"host": "n0", "dump": dump(rank)}, indent=2).encode(),
    "base64": lambda rank: base64.encodebytes(text(rank)),
    "base64 in one line": lambda rank: base64.b64encode(text(rank)),
    "base64 of a pickle": lambda rank: base64.encodebytes(pickle.dumps(dump(rank), protocol=2)),
    "base64 of UTF-16": lambda rank: base64.encodebytes(text(rank).decode().encode("utf-16")),
    "zeros behind": lambda rank: text(rank) + b"\0" * 4096,
    "in the middle of a log": lambda rank: b"".join(b"step %d\n" % n for n in range(50)) + text(rank) + b"\nend\n",
}


def blamed(folder: Path) -> tuple[str, list[int]]:
    verdict = nccldoctor.analyze(folder).verdict
    return verdict.cause.value, list(verdict.ranks)


@pytest.mark.parametrize("form", EACH)
def test_the_dump_of_each_rank_is_read(tmp_path: Path, form: str) -> None:
    for rank in range(WORLD):
        (tmp_path / f"rank_{rank}.json").write_bytes(EACH[form](rank))
    assert blamed(tmp_path) == ("not-arrived", [2])


@pytest.mark.parametrize(
    "content",
    [
        json.dumps({f"rank_{rank}": dump(rank) for rank in range(WORLD)}),
        json.dumps([{"rank": rank, "trace": dump(rank)} for rank in range(WORLD)]),
        "\n".join(json.dumps({"rank": rank, **dump(rank)}) for rank in range(WORLD)),
        "".join(
            f"== node {rank}\n" + json.dumps({"global_rank": rank, "fr": dump(rank)}) + "\n" for rank in range(WORLD)
        ),
    ],
)
def test_the_dumps_of_all_ranks_in_one_file_are_read(tmp_path: Path, content: str) -> None:
    (tmp_path / "all.json").write_text(content)
    assert blamed(tmp_path) == ("not-arrived", [2])


def test_dumps_that_name_nobody_are_given_to_nobody(tmp_path: Path) -> None:
    (tmp_path / "all.json").write_bytes(b"\n".join(map(text, range(WORLD))))
    found = discover([tmp_path]).inputs
    assert [one.source.kind for one in found] == [SourceKind.RECORDER] * WORLD
    assert {one.source.rank for one in found} == {None}


def test_a_log_around_a_dump_is_read_too(tmp_path: Path) -> None:
    (tmp_path / "rank_0.json").write_bytes(EACH["in the middle of a log"](0))
    found = discover([tmp_path]).inputs
    assert sorted((one.source.path, one.source.kind.value, one.source.rank) for one in found) == [
        ("rank_0.json", "log", 0),
        ("rank_0.json/dump-1.json", "flight recorder", 0),
    ]
    log = next(one for one in found if one.source.kind is SourceKind.LOG)
    assert b"step 49" in log.open().read() and b"pg_config" not in log.open().read()


@pytest.mark.parametrize(
    ("encoded", "name"),
    [
        (lambda log: base64.encodebytes(log), "job.log.b64"),
        (lambda log: log.decode().encode("utf-32"), "job.log"),
        (lambda log: log + b"\0" * 4096, "job.log"),
        (lambda log: log.replace(b"\n", b"\r"), "job.log"),
        (lambda log: log.replace(b"\n", b"\r").decode().encode("utf-16"), "job.log"),
    ],
)
def test_a_log_in_another_coding_is_read(tmp_path: Path, encoded: Callable[[bytes], bytes], name: str) -> None:
    log = b"".join(b"[rank%d] 2026-01-01 00:00:0%d step %d\n" % (n % 4, n % 10, n) for n in range(200))
    (tmp_path / name).write_bytes(encoded(log))
    (one,) = discover([tmp_path]).inputs
    assert (one.source.path, one.source.kind) == (name, SourceKind.LOG)
    assert one.open().read() == log


@pytest.mark.parametrize(
    "content",
    [
        b"loss 1.0\n" * 9000,
        json.dumps({"version": "1", "files": []}).encode(),
        b"A" * 39 + b"\n",
        b"".join(b"\rEpoch 1: %3d%%|#   | %d/90 [00:01<00:09, 9.1it/s]" % (n, n) for n in range(90)),
        b"".join(b"step %d loss 1.0\r%d of 9 saved\n" % (n, n) for n in range(90)),
        b"".join(b"step %d loss 1.0\r\n" % n for n in range(90)),
        "step 7 готово\n".encode("utf-16"),
        pickle.dumps(dump(0), protocol=2),
        text(0),
    ],
)
def test_other_files_stay_as_they_are(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a").write_bytes(content)
    (one,) = discover([tmp_path]).inputs
    assert one.source.path == "a"
    assert one.open().read() == content


@pytest.mark.parametrize(
    "cut", [b'{"version": "2", "entries": [{"a": "', b'x {\\"version\\": ', b'{"pg_config":' * 9000, b"\n\x80\x02}"]
)
def test_what_is_cut_or_nested_ends_nothing(cut: bytes) -> None:
    assert all(isinstance(part.content, bytes) for part in unwrapped(cut))


def test_lines_that_end_with_returns_have_their_own_numbers(tmp_path: Path) -> None:
    """A traceback is read over its lines, and quoted from its own one."""
    log = (
        "[rank1]: Traceback (most recent call last):\n"
        '[rank1]:   File "/app/train.py", line 8, in load\n'
        "[rank1]:     return table[key]\n"
        "[rank1]: KeyError: 'shard-7'\n"
    )
    (tmp_path / "job.log").write_bytes(log.replace("\n", "\r").encode())
    incident = nccldoctor.analyze(tmp_path)
    (raised,) = (event for event in incident.case.events if isinstance(event, ExceptionRaised))
    assert (raised.type, raised.place.line, raised.rank) == ("KeyError", 4, 1)
    assert "KeyError: 'shard-7'" in incident.to_text()


TEXTS = {
    "out/rank_0.log": b"[rank0] step 1\n[rank0] step 2\n",
    "out/rank_1.log": b"[rank1] step 1\n\n[rank1] step 2",
    "run.1.slurm": b"Loading\n",
}


def below_headings(texts: dict[str, bytes]) -> bytes:
    """What ``tail -n +1`` writes."""
    return b"\n".join(b"==> ./%s <==\n%s" % (name.encode(), text) for name, text in texts.items())


def behind_names(texts: dict[str, bytes]) -> bytes:
    """What ``grep -rn ''`` writes, of texts whose last line has an end."""
    rows = ((name, n, row) for name, text in texts.items() for n, row in enumerate(text.decode().splitlines(), 1))
    return "".join(f"{name}:{n}:{row}\n" for name, n, row in rows).encode()


def test_texts_in_one_file_are_read_by_the_names_above_them(tmp_path: Path) -> None:
    (tmp_path / "all.log").write_bytes(below_headings(TEXTS))
    found = discover([tmp_path]).inputs
    assert {one.source.path: one.open().read() for one in found} == {f"all.log/{n}": t for n, t in TEXTS.items()}
    assert [(one.source.rank, one.source.host) for one in found] == [(0, None), (1, None), (None, None)]


def test_lines_behind_names_are_read_by_them(tmp_path: Path) -> None:
    texts = {f"out/rank_{r}.log": b"step 1\nstep 2 of 9: ok\n" for r in range(3)}
    (tmp_path / "all.txt").write_bytes(behind_names(texts).replace(b"log:1:", b"log-1-") + b"--\n")
    found = discover([tmp_path]).inputs
    assert [one.source.rank for one in found] == [0, 1, 2]
    assert [one.open().read().split() for one in found] == [text.split() for text in texts.values()]


def test_parts_of_one_name_are_one_text_and_no_name_leaves_the_file() -> None:
    followed = b"==> ../../a.log <==\n1\n\n==> /b.log <==\n2\n\n==> ../../a.log <==\n3\n"
    assert [(part.name, part.content) for part in unwrapped(followed)] == [("a.log", b"1\n3\n"), ("b.log", b"2\n")]
    paged = b"::::::::::::::\na.log\n::::::::::::::\n1\n::::::::::::::\n.hidden/b.log\n::::::::::::::\n2\n"
    assert [(part.name, part.content) for part in unwrapped(paged)] == [("a.log", b"1\n"), ("hidden/b.log", b"2\n")]
