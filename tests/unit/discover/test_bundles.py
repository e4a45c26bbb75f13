"""The manifest of a bundle says whose its files are, and cannot say more than names could."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from builders.files.bundles import pack

from nccldoctor import pipeline
from nccldoctor.discover.discover import Discovered, discover
from nccldoctor.events import ProcessState, Stack
from nccldoctor.model import Source

STACK = (
    b'Process {pid}: python train.py\n\nThread {pid} (idle): "MainThread"\n    wait (a.py:1)\n    <module> (a.py:9)\n'
)


def stack(pid: int) -> bytes:
    return STACK.replace(b"{pid}", str(pid).encode())


def manifest(files: list[dict[str, Any]], **more: Any) -> bytes:
    return json.dumps({"version": 1, "tool": "nccldoctor collect", "files": files, **more}).encode()


def unpack(target: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_bytes(data)
    return target


def sources(found: Discovered) -> dict[str, Source]:
    return {one.source.path: one.source for one in found.inputs}


def claims(*processes: tuple[str, int, int]) -> dict[str, bytes]:
    """A bundle in which processes (host, pid, rank) of one job left a stack, their variables and a log each."""
    files, rows = {}, []
    for host, pid, rank in processes:
        told = {"host": host, "rank": rank, "pid": pid, "look": 1, "job": "MASTER_PORT=29500"}
        for kind, data in (
            ("stack", stack(pid)),
            ("environment", b"RANK=%d\n" % rank),
            ("log", b"[rank%d]: step=3\n" % rank),
        ):
            path = f"nodes/{host}/pid-{pid}/{kind}.txt"
            files[path] = data
            rows.append({**told, "path": path, "kind": kind})
    return {**files, "manifest.json": manifest(rows)}


def test_processes_that_say_they_are_one_rank_speak_for_no_rank(tmp_path: Path) -> None:
    found = discover([pack(tmp_path / "b.tar.zst", claims(("a", 10, 0), ("a", 11, 1), ("b", 77, 1)))])
    assert {path: source.rank for path, source in sources(found).items()} == {
        "nodes/a/pid-10/environment.txt": 0,
        "nodes/a/pid-10/log.txt": 0,
        "nodes/a/pid-10/stack.txt": 0,
        "nodes/a/pid-11/stack.txt": None,
        "nodes/b/pid-77/stack.txt": None,
    }
    (gap,) = (gap for gap in found.gaps if gap.lost)
    assert gap.what == "which process is rank 1"
    assert "pid 11 on a, pid 77 on b" in gap.why


def test_a_worker_of_a_rank_is_no_second_claim(tmp_path: Path) -> None:
    rows = [{**ROW, "path": "a.txt"}, {**ROW, "path": "b.txt", "pid": 4720, "of": 4711}]
    found = discover([unpack(tmp_path, {"a.txt": stack(4711), "b.txt": stack(4720), "manifest.json": manifest(rows)})])
    assert [source.rank for source in sources(found).values()] == [3, 3]
    assert not [gap for gap in found.gaps if gap.lost]


ROW = {
    "path": "nodes/a/x/7.txt",
    "host": "gpu-a",
    "kind": "stack",
    "rank": 3,
    "local_rank": 1,
    "pid": 4711,
    "look": 2,
    "time": "2026-05-01T10:00:00+02:00",
}


@pytest.mark.parametrize("where", ["archive", "folder", "folder in a folder"])
def test_a_file_is_whose_the_manifest_says(tmp_path: Path, where: str) -> None:
    files = {"nodes/a/x/7.txt": stack(4711), "manifest.json": manifest([ROW])}
    if where == "archive":
        path = pack(tmp_path / "bundle.tar.zst", files)
    else:
        unpack(tmp_path / "in" / ("bundle" if "in a" in where else ""), files)
        path = tmp_path / "in"
    (source,) = sources(discover([path])).values()
    assert source.collected is not None
    assert source.collected.taken is not None
    assert (source.rank, source.host, source.pid, source.why, int(source.look)) == (3, "gpu-a", 4711, "manifest", 2)
    assert source.collected.taken.isoformat() == "2026-05-01T10:00:00+02:00"


def test_the_answer_of_one_node_is_enough(tmp_path: Path) -> None:
    told = {
        "version": 1,
        "tool": "nccldoctor on_node",
        "host": "gpu-a",
        "files": [{**ROW, "path": "x/7.txt", "host": None}],
        "missing": [{"what": "RAS", "why": "off"}],
    }
    path = pack(tmp_path / "node.tar.zst", {"x/7.txt": stack(4711), "node.json": json.dumps(told).encode()})
    found = discover([path])
    assert [(s.rank, s.host) for s in sources(found).values()] == [(3, "gpu-a")]
    assert [(gap.what, gap.why) for gap in found.gaps] == [("RAS", "off")]


def test_the_rule_of_the_user_counts_more(tmp_path: Path) -> None:
    path = pack(tmp_path / "b.tar.zst", {"nodes/a/x/7.txt": stack(4711), "manifest.json": manifest([ROW])})
    (source,) = sources(discover([path], r"x/(?P<rank>\d+)")).values()
    assert source.rank == 7


def test_a_file_that_the_manifest_does_not_list_is_told_by_its_name(tmp_path: Path) -> None:
    path = pack(tmp_path / "b.tar.zst", {"nodes/a/rank-5/train.log": b"step 1\n", "manifest.json": manifest([ROW])})
    (source,) = sources(discover([path])).values()
    assert (source.rank, source.collected) == (5, None)


@pytest.mark.parametrize(
    "row",
    [
        {**ROW, "rank": 10**12},
        {**ROW, "rank": -1},
        {**ROW, "rank": "3"},
        {**ROW, "rank": True},
        {**ROW, "rank": 3.0},
    ],
)
def test_a_rank_must_be_a_rank(tmp_path: Path, row: dict[str, Any]) -> None:
    path = pack(tmp_path / "b.tar.zst", {"nodes/a/x/7.txt": stack(4711), "manifest.json": manifest([row])})
    (source,) = sources(discover([path])).values()
    assert source.rank is None


def test_a_manifest_speaks_of_its_own_bundle_alone(tmp_path: Path) -> None:
    unpack(
        tmp_path / "in",
        {
            "outside/7.txt": stack(1),
            "b/manifest.json": manifest(
                [{**ROW, "path": "../outside/7.txt"}, {**ROW, "path": str(tmp_path / "in/outside/7.txt")}]
            ),
        },
    )
    (source,) = sources(discover([tmp_path / "in"])).values()
    assert (source.path, source.rank, source.collected) == ("outside/7.txt", None, None)


@pytest.mark.parametrize(
    "content",
    [b"{", b"[" * 99_999, b'{"version": 2}', b"[]", b'{"version": 1, "files": 3, "nodes": "x", "missing": [4]}'],
)
def test_a_damaged_manifest_costs_itself(tmp_path: Path, content: bytes) -> None:
    head = (
        b'{"tool": "nccldoctor collect",' + content.lstrip(b"{")
        if content.startswith(b"{")
        else b' "nccldoctor collect"' + content
    )
    path = pack(tmp_path / "b.tar.zst", {"nodes/a/rank-3/stack-1.txt": stack(4711), "manifest.json": head})
    (source,) = sources(discover([path])).values()
    assert source.rank == 3


def test_the_manifest_of_another_program_is_an_ordinary_file(tmp_path: Path) -> None:
    path = pack(
        tmp_path / "b.tar.zst",
        {"manifest.json": b'{"name": "app", "files": [{"path": "a.log", "rank": 9}]}', "a.log": b"step 1\n"},
    )
    assert {s.path: s.rank for s in sources(discover([path])).values()} == {"manifest.json": None, "a.log": None}


def test_nodes_that_did_not_answer_are_a_loss_and_no_culprit(tmp_path: Path) -> None:
    nodes = [
        {"name": "node7", "answered": False, "error": "ssh: Connection timed out\x1b[31m"},
        {"name": "node8", "answered": True, "error": "its answer ends early"},
        {"name": "node9", "answered": True, "error": None},
    ]
    missing = [
        {"node": "node7", "what": "node node7", "why": "ssh"},
        *({"node": f"n{i}", "what": "RAS report", "why": "off"} for i in range(5)),
    ]
    path = pack(tmp_path / "b.tar.zst", {"manifest.json": manifest([], nodes=nodes, missing=missing)})
    assert [(gap.what, gap.lost) for gap in discover([path]).gaps] == [
        ("node node7", True),
        ("the rest of node node8", True),
        ("RAS report (n0), RAS report (n1), RAS report (n2) and 2 more", False),
    ]
    assert "\x1b" not in discover([path]).gaps[0].why


def test_many_gaps_are_counted(tmp_path: Path) -> None:
    missing = [
        {"node": "n", "what": f"thing {i}", "why": f"gone {chr(97 + i % 26) * (i // 26 + 1)}"} for i in range(500)
    ]
    path = pack(tmp_path / "b.tar.zst", {"manifest.json": manifest([], missing=missing)})
    gaps = discover([path]).gaps
    assert len(gaps) < 60
    assert gaps[-1].what == "460 more things"


def test_processes_get_their_ranks_by_the_manifest(tmp_path: Path) -> None:
    table = b"PID PPID STAT WCHAN ELAPSED COMMAND\n4711 1 T do_signal_stop 00:01:00 python train.py\n"
    table += b"4712 1 S futex_wait 00:01:00 python train.py\n"
    rows = [
        {**ROW, "path": "nodes/a/rank-3/stack-1.txt", "look": 1},
        {
            "path": "nodes/a/node/processes-1.txt",
            "host": "gpu-a",
            "kind": "processes",
            "rank": None,
            "pid": None,
            "look": 1,
            "time": ROW["time"],
        },
    ]
    files = {
        "nodes/a/rank-3/stack-1.txt": b"Error: no permission\n",
        "nodes/a/node/processes-1.txt": table,
        "manifest.json": manifest(rows),
    }
    case = pipeline.read([pack(tmp_path / "b.tar.zst", files)])
    assert [(e.rank, e.state, e.host) for e in case.of(ProcessState)] == [
        (3, "stopped", "gpu-a"),
        (None, "sleeping", "gpu-a"),
    ]


def test_the_stack_of_a_worker_is_not_that_of_its_rank(tmp_path: Path) -> None:
    rows = [
        {**ROW, "path": "nodes/a/rank-3/stack-1.txt", "look": 1},
        {**ROW, "path": "nodes/a/rank-3/worker-4800-stack-1.txt", "pid": 4800, "of": 4711, "look": 1},
    ]
    files = {row["path"]: stack(row["pid"]) for row in rows}
    case = pipeline.read([pack(tmp_path / "b.tar.zst", {**files, "manifest.json": manifest(rows)})])
    assert [(e.pid, e.rank, e.main, e.helper) for e in case.of(Stack)] == [
        (4711, 3, True, False),
        (4800, 3, False, True),
    ]
    assert case.rank_pid == {3: 4711}


def test_looks_are_joined_by_their_number_and_not_by_the_clocks_of_hosts(tmp_path: Path) -> None:
    rows = []
    for host, hour in (("a", 10), ("b", 9)):
        rows += [
            {
                **ROW,
                "path": f"nodes/{host}/rank/{look}.txt",
                "host": host,
                "rank": ord(host) - 97,
                "pid": 5,
                "look": look,
                "time": f"2026-05-01T{hour:02}:00:{look:02}+00:00",
            }
            for look in (1, 2)
        ]
    files = {row["path"]: stack(5) for row in rows}
    case = pipeline.read([pack(tmp_path / "b.tar.zst", {**files, "manifest.json": manifest(rows)})])
    assert {(e.rank, e.look) for e in case.of(Stack)} == {(0, 1), (0, 2), (1, 1), (1, 2)}


def test_kernel_messages_of_a_node_without_the_job_are_no_evidence(tmp_path: Path) -> None:
    killed = b"[Fri May  1 10:00:00 2026] Out of memory: Killed process 77 (python) total-vm:1kB\n"
    row = {"path": "nodes/a/node/dmesg.log", "kind": "kernel log", "rank": None, "pid": None, "host": "gpu-a"}
    alone = pack(tmp_path / "a.tar.zst", {row["path"]: killed, "manifest.json": manifest([row])})
    found = discover([alone])
    assert sources(found) == {}
    assert "no process of the job" in found.gaps[0].why
    files = {row["path"]: killed, ROW["path"]: stack(4711), "manifest.json": manifest([row, ROW])}
    assert set(sources(discover([pack(tmp_path / "b.tar.zst", files)]))) == {row["path"], ROW["path"]}


def test_only_the_largest_of_several_jobs_is_read(tmp_path: Path) -> None:
    rows, files = [], {}
    for job, ranks in (("MASTER_PORT=1", (0, 1)), ("MASTER_PORT=2", (0, 1, 2))):
        for rank in ranks:
            path = f"nodes/a/rank-{rank}-{job[-1]}/stack-1.txt"
            rows.append({**ROW, "path": path, "rank": rank, "pid": rank, "job": job})
            files[path] = stack(rank)
    rows.append({**ROW, "path": "nodes/a/node/all.log", "kind": "log", "rank": None, "pid": None})
    files["nodes/a/node/all.log"] = b"step 1\n"
    found = discover([pack(tmp_path / "b.tar.zst", {**files, "manifest.json": manifest(rows)})])
    assert {s.rank for s in sources(found).values()} == {None, 0, 1, 2}
    assert not any("-1/" in path for path in sources(found))
    assert [(gap.what, gap.apart) for gap in found.gaps] == [("files of the job with MASTER_PORT=1", True)]


def test_a_job_that_has_ended_is_not_read_while_another_runs(tmp_path: Path) -> None:
    """It had more ranks; what was left out beside the job is no earlier attempt of it."""
    rows, files, processes = [], {}, []
    for job, ranks, ended in (("MASTER_PORT=1", 2, False), ("MASTER_PORT=2", 3, True)):
        for rank in range(ranks):
            path = f"nodes/a/rank-{rank}-{job[-1]}/stack-1.txt"
            rows.append({**ROW, "path": path, "rank": rank, "pid": rank, "job": job})
            processes.append({"job": job, "rank": rank, "pid": rank, "of": None, "ended": ended})
            files[path] = stack(rank)
    node = {"version": 1, "tool": "nccldoctor on_node", "files": [], "processes": processes}
    told = {"nodes/a/node.json": json.dumps(node).encode(), "manifest.json": manifest(rows)}
    found = discover([pack(tmp_path / "b.tar.zst", {**files, **told})])
    assert {s.rank for s in sources(found).values()} == {0, 1}
    (gap,) = found.gaps
    assert (gap.what, gap.apart, gap.is_of_other_run) == ("files of the job with MASTER_PORT=2", True, False)


def test_the_node_whose_ranks_are_all_gone_keeps_its_kernel_messages(tmp_path: Path) -> None:
    """Its own document knows no process; that of the whole bundle does."""
    row = {"path": "node/dmesg.log", "kind": "kernel log", "rank": None, "pid": None}
    told = {"version": 1, "tool": "nccldoctor on_node", "host": "gpu-b", "files": [row]}
    files = {
        "nodes/b/node/dmesg.log": b"[Fri May  1 10:00:00 2026] Out of memory: Killed process 77 (python) total-vm:1kB\n",
        "nodes/b/node.json": json.dumps(told).encode(),
        ROW["path"]: stack(4711),
        "manifest.json": manifest([ROW, {**row, "path": "nodes/b/node/dmesg.log", "host": "gpu-b"}]),
    }
    found = discover([pack(tmp_path / "b.tar.zst", files)])
    assert set(sources(found)) == {"nodes/b/node/dmesg.log", ROW["path"]}
