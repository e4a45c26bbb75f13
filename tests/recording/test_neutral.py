"""Recorded files lose the names of the machine, and what is left of them is found."""

from __future__ import annotations

import json
import pickle
import tomllib
from pathlib import Path

import pytest
from diagnosis.test_samples import KNOWN
from recording.neutral import Machine, Neutral, leaks
from recording.record_nccl_samples import CASES, Plan, keep_bundle, truth

from nccldoctor.model import CauseClass

MACHINE = Machine(
    hosts=("gpu7", "gpu7.lab.example"),
    users=("ada",),
    folders={"/data/ada/job": "/var/log/train", "/data/ada/venv": "/opt/venv"},
)
LINE = "gpu7.lab.example gpu7: ada ran /data/ada/venv/bin/python in /data/ada/job/work on gpu70, see adapt.py\n"
GPU = "GPU-12345678-1234-1234-1234-123456789abc"


def test_names_and_folders_are_replaced_and_words_that_hold_them_are_not() -> None:
    assert Neutral(MACHINE).text(LINE, 2) == (
        "node2 node2: user ran /opt/venv/bin/python in /var/log/train/work on gpu70, see adapt.py\n"
    )


def test_numbers_that_a_device_alone_has_are_removed() -> None:
    told = Neutral(MACHINE).text(f"uuid {GPU}\nSerial Number    : 1652922010523\n", 0)
    assert told == "uuid removed\nSerial Number    : removed\n"


def test_a_dump_stays_a_dump(tmp_path: Path) -> None:
    entry = {"frames": [{"filename": "/data/ada/job/train.py", "line": 7}], "host": "gpu7", "sizes": [[3]]}
    (tmp_path / "nccl_trace_rank_0").write_bytes(pickle.dumps({"entries": [entry]}))
    Neutral(MACHINE).keep(tmp_path / "nccl_trace_rank_0", tmp_path / "out", node=1)
    kept = pickle.loads((tmp_path / "out").read_bytes())["entries"][0]
    assert kept == {"frames": [{"filename": "/var/log/train/train.py", "line": 7}], "host": "node1", "sizes": [[3]]}
    assert not list(leaks(tmp_path / "out", MACHINE))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("on gpu7 at 12:00", ["gpu7"]),
        ("by ada", ["ada"]),
        ('open("/scratch/run/shard_1.idx")', ["/scratch/run/shard_1.idx"]),
        ("/data/ada/job/train.py", ["/data/ada/job", "/data/ada/job/train.py", "ada"]),
        ("/opt/train/train.py, /usr/lib/python3.11/threading.py, /proc/7/stat", []),
        ("at https://pytorch.org/docs/stable or 3/4/5 or torch/autograd/graph.py", []),
    ],
)
def test_what_still_names_the_machine_is_found(tmp_path: Path, text: str, found: list[str]) -> None:
    (tmp_path / "rank_0.log").write_text(text)
    assert list(leaks(tmp_path, MACHINE)) == [f"rank_0.log: {name}" for name in found]


def test_a_name_in_a_path_of_the_sample_is_found(tmp_path: Path) -> None:
    (tmp_path / "nodes" / "gpu7").mkdir(parents=True)
    (tmp_path / "nodes" / "gpu7" / "log.txt").write_text("nothing")
    assert list(leaks(tmp_path, MACHINE)) == ["nodes/gpu7/log.txt: gpu7"]


def test_a_bundle_keeps_what_is_of_the_ranks_and_its_manifest_names_nothing_else(tmp_path: Path) -> None:
    rows = [
        {"path": "nodes/gpu7/rank-0/stack-1.txt", "node": "gpu7", "kind": "stack", "rank": 0},
        {"path": "nodes/gpu7/node/dmesg.log", "node": "gpu7", "kind": "kernel log"},
        {"path": "nodes/gpu7/node/logs/out.log", "node": "gpu7", "kind": "log"},
    ]
    for row in rows:
        path = tmp_path / "raw" / row["path"]  # type: ignore[operator]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(LINE)
    (tmp_path / "raw" / "manifest.json").write_text(json.dumps({"version": 1, "files": rows, "missing": []}))
    keep_bundle(tmp_path / "raw", tmp_path / "out", Neutral(MACHINE))
    files = sorted(str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert files == ["manifest.json", "nodes/node0/rank-0/stack-1.txt"]
    told = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert [row["path"] for row in told["files"]] == ["nodes/node0/rank-0/stack-1.txt"]
    assert not list(leaks(tmp_path / "out", MACHINE))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("plan", [Plan("gloo", 3), Plan("nccl", 1, 1), Plan("nccl", 3, 1), Plan("nccl", 8, 8)])
def test_a_truth_has_the_sections_and_the_classes_of_a_sample(name: str, plan: Plan) -> None:
    told = tomllib.loads(truth(name, plan, "torch 2.13.0"))
    assert set(told) <= KNOWN[""]
    assert all(set(value) <= KNOWN[section] for section, value in told.items() if isinstance(value, dict))
    assert told["verdict"]["class"]
    assert set(told["verdict"]["class"]) <= {str(cause) for cause in CauseClass}
    assert told["verdict"]["ranks"] == str(plan.ranks - 1)


def test_ranks_that_share_a_gpu_are_hosts_of_their_own_to_nccl() -> None:
    shared = [Plan("nccl", 3, 1).variables(rank, 29500, "killed") for rank in range(3)]
    assert {told["CUDA_VISIBLE_DEVICES"] for told in shared} == {"0"}
    assert len({told["NCCL_HOSTID"] for told in shared}) == 3
    assert all(told["NCCL_NET"] == "Socket" for told in shared)
    assert [told["JOB_FAULT"] for told in shared] == ["", "", "killed"]
    own = [Plan("nccl", 2, 2).variables(rank, 29500, "killed") for rank in range(2)]
    assert [told["CUDA_VISIBLE_DEVICES"] for told in own] == ["0", "1"]
    assert all("NCCL_HOSTID" not in told for told in own)


def test_one_rank_alone_has_the_cases_that_need_no_peer() -> None:
    alone = Plan("nccl", 1, 1)
    assert [name for name, case in CASES.items() if alone.can_have(case)] == ["endless-kernel", "stuck-heartbeat"]
