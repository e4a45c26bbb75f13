"""Whole jobs of which only another program's files are left: a log of calls, a trace, samples, metrics, a report of speeds."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from builders.files.other_recorders import clog, profile
from builders.files.parts import reduced
from builders.jobs.verdicts import SCALE

import nccldoctor
from nccldoctor.model.ranks import Ranks


def verdict(folder: Path, files: Mapping[str, str]) -> dict[str, Any]:
    """The verdict, with everybody whom any finding blames."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    document = json.loads(nccldoctor.analyze(folder).to_json())
    found: dict[str, Any] = document["verdict"]
    return found | {"blamed": {r for one in document["findings"] for r in Ranks.parse(one["ranks"])}}


def named(form: str, write: Callable[[int], str]) -> dict[str, str]:
    return {form.format(rank): write(rank) for rank in range(8)}


@pytest.mark.parametrize("form", ["rank_{}.clog", "run7/job-{}.log", "calls_of_process_{}00.txt"])
def test_a_log_of_calls_shows_the_rank_that_missed_one(tmp_path: Path, form: str) -> None:
    found = verdict(tmp_path, named(form, lambda rank: clog(rank, misses=rank == 5)))
    assert (found["class"], found["ranks"], found["stalled"]["seq"]) == ("not-arrived", "5", 9)
    assert found["confidence"] == "low", "nobody complains: a copy of a running job looks the same"


def test_the_log_of_calls_says_whose_it_is_before_its_name_does(tmp_path: Path) -> None:
    files = {f"rank_{7 - rank}.clog": clog(rank, misses=rank == 5) for rank in range(8)}
    assert verdict(tmp_path, files)["ranks"] == "5"


def test_a_rank_that_waits_in_a_batch_of_transfers_is_not_blamed(tmp_path: Path) -> None:
    batch = "C3|sig|batch_op_issue|num_ops=2|async_op=t|comm=world\nC3|Q|work_id=9|+4.400\nC3|S|+4.401\n"
    files = named("{}.clog", lambda rank: clog(rank, misses=rank == 5, more=batch if rank == 5 else ""))
    found = verdict(tmp_path, files)
    assert (found["class"], found["blamed"]) == ("undetermined", set())


def test_parts_keep_whose_a_log_of_calls_is(tmp_path: Path) -> None:
    for rank in range(8):
        (tmp_path / f"{'abcdefgh'[rank]}.txt").write_text(clog(rank, misses=rank == 5), encoding="utf-8")
    halves = [tmp_path / f"{half}.nd" for half in ("first", "second")]
    for half, names in zip(halves, ("abcd", "efgh"), strict=True):
        reduced(tmp_path, half, [tmp_path / f"{name}.txt" for name in names])
    document = json.loads(nccldoctor.analyze(halves).to_json())
    assert document["verdict"]["ranks"] == "5"


def test_logs_of_calls_that_all_ended_or_lost_their_end_blame_nobody(tmp_path: Path) -> None:
    well = verdict(tmp_path / "well", named("rank_{}.clog", lambda rank: clog(rank, hangs=False)))
    assert (well["class"], well["confidence"], well["blamed"]) == ("none", "low", set())
    stuck = verdict(tmp_path / "stuck", named("rank_{}.clog", clog))
    assert (stuck["class"], stuck["blamed"]) == ("unfinished", set())
    torn = verdict(tmp_path / "torn", named("rank_{}.clog", lambda rank: clog(rank)[: -1 if rank != 5 else -40]))
    assert (torn["class"] in ("undetermined", "unfinished"), torn["blamed"]) == (True, set())
    silent = verdict(
        tmp_path / "silent", named("rank_{}.clog", lambda rank: clog(rank, misses=rank == 5, states=False))
    )
    assert (silent["class"], silent["blamed"]) == ("undetermined", set())


@pytest.mark.parametrize(
    ("form", "first"), [("nccl_trace_777_{}.json", 1), ("nccl_profiler-10{}.json", 41), ("p/t{}.json", 0)]
)
def test_the_trace_of_a_communicator_shows_the_rank_that_missed_a_call(tmp_path: Path, form: str, first: int) -> None:
    found = verdict(tmp_path, named(form, lambda rank: profile(rank, misses=rank == 3, first=first)))
    assert (found["class"], found["ranks"], found["stalled"]["seq"]) == ("not-arrived", "3", first + 1)
    assert found["confidence"] == "low", "nobody complains, and the rank is that in the communicator"


def test_traces_that_all_ended_lost_calls_or_are_of_two_communicators_blame_nobody(tmp_path: Path) -> None:
    well = verdict(tmp_path / "well", named("t_{}.json", lambda rank: profile(rank, hangs=False)))
    assert (well["class"], well["confidence"], well["blamed"]) == ("none", "low", set())
    torn = verdict(tmp_path / "torn", named("t_{}.json", lambda rank: profile(rank)[: None if rank != 3 else -700]))
    assert torn["blamed"] == set()
    gaps = named("t_{}.json", lambda rank: profile(rank, 9, misses=rank == 3, lost=lambda n: rank == 3 and n == 4))
    assert verdict(tmp_path / "gaps", gaps)["blamed"] == set()
    two = named("t_{}.json", lambda rank: profile(rank % 4, misses=rank == 6, comm=100 + rank // 4))
    assert verdict(tmp_path / "two", two)["blamed"] == set(), "a rank inside an unknown communicator is none of the job"


def folded(rank: int, late: int | None) -> str:
    call, leaf = ("train (train.py:40)", "refresh (model/experts.py:77)") if rank == late else (
        "train (train.py:52)", "all_reduce (torch/distributed/distributed_c10d.py:2936)"
    )  # fmt: skip
    return f"<module> (train.py:90);{call};{leaf} 981\n<module> (train.py:90);{call} 3\n"


def speedscope(rank: int, late: int | None) -> str:
    stack, _, count = folded(rank, late).splitlines()[0].rpartition(" ")
    frames = [frame.removesuffix(")").partition(" (") for frame in stack.split(";")]
    told = [{"name": n, "file": w.partition(":")[0], "line": int(w.partition(":")[2])} for n, _, w in frames]
    one = {
        "type": "sampled",
        "name": "py-spy",
        "unit": "none",
        "samples": [[0, 1, 2]] * int(count),
        "weights": [1.0] * int(count),
    }
    schema = "https://www.speedscope.app/file-format-schema.json"
    return json.dumps({"$schema": schema, "profiles": [one], "shared": {"frames": told}, "exporter": "py-spy@0.4.0"})


@pytest.mark.parametrize("write", [folded, speedscope])
def test_samples_show_the_rank_that_stands_elsewhere(tmp_path: Path, write: Callable[[int, int | None], str]) -> None:
    found = verdict(tmp_path / "hang", named("rank_{}.txt", lambda rank: write(rank, 4)))
    assert (found["class"], found["ranks"], found["confidence"]) == ("not-arrived", "4", "low")
    alike = verdict(tmp_path / "alike", named("rank_{}.txt", lambda rank: write(rank, None)))
    assert alike["blamed"] == set()
    assert alike["class"] != "none"


def test_samples_of_ranks_that_move_blame_nobody(tmp_path: Path) -> None:
    rows = "<module> (train.py:90);train (train.py:{0});step_{0} (model.py:{0}) {1}\n"
    moving = named("rank_{}.txt", lambda rank: "".join(rows.format(n, 100 + n * (1 + rank % 3)) for n in (40, 41, 52)))
    found = verdict(tmp_path, moving)
    assert (found["class"], found["blamed"]) == ("undetermined", set())
    assert "Unknown format" not in found["headline"]


def trace(rank: int, micros: float) -> str:
    kernels = [
        {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
         "ts": 1e3 * n, "dur": micros * (1 + n / 100), "args": {"In msg nelems": size, "Process Group Name": "0"}}
        for n, size in enumerate((1024, 1024, 2048, 4096))
    ]  # fmt: skip
    group = {"pg_name": "0", "pg_desc": "default_pg", "pg_size": 8, "ranks": list(range(8))}
    told = {
        "backend": "nccl",
        "rank": rank,
        "world_size": 8,
        "pg_count": 1,
        "pg_config": [group],
        "nccl_version": "2.27.5",
    }
    return json.dumps({"schemaVersion": 1, "deviceProperties": [], "distributedInfo": told, "traceEvents": kernels})


def test_traces_of_torch_show_the_rank_whose_kernels_never_wait(tmp_path: Path) -> None:
    found = verdict(
        tmp_path / "late", named("w{}.pt.trace.json", lambda rank: trace(rank, 900.0 if rank == 6 else 50000.0))
    )
    assert (found["class"], found["ranks"], found["confidence"]) == ("straggler", "6", "low")
    alike = verdict(tmp_path / "alike", named("w{}.pt.trace.json", lambda rank: trace(rank, 50000.0 + 900 * rank)))
    assert (alike["class"], alike["blamed"]) == ("undetermined", set())
    alone = verdict(tmp_path / "alone", {"rank0.json": trace(0, 900.0)})
    assert (alone["class"], alone["blamed"]) == ("undetermined", set())
    assert "Unknown format" not in alone["headline"]


REPORT = (
    "INFO:megatron.core.utils:[2026-11-20 10:0{minute}:00] | MnRtt/Rnk: 95.20ms/3 | MxRtt/Rnk: {most}ms/6 | MnPwr/Rnk: 250.10W/6 | "
    "MxPwr/Rnk: 690.30W/1 | MnTmp/Rnk: 40.00C/6 | MxTmp/Rnk: 77.00C/2 | MnUtl/Rnk: 15.00%/6 | MxUtl/Rnk: 100.00%/1 | "
    "MnClk/Rnk: 345.00MHz/6 | MxClk/Rnk: 1980.00MHz/0 | MnDRtt/Rnk: 0.90ms/1 | MxDRtt/Rnk: 1.10ms/4 | MnEtpt/Rnk: {slow}TF/6 | "
    "MxEtpt/Rnk: 408.30TF/0\n"
    "INFO:megatron.core.utils:^^^^ Bottom 3 Ranks with lowest  Etpt(TF): {slow}/6, 402.10/3, 402.11/1,\n"
)


def test_a_report_of_speeds_blames_a_slow_rank_until_a_later_one_finds_it_alike(tmp_path: Path) -> None:
    slow = REPORT.format(minute=1, most="998.11", slow="38.00")
    alike = REPORT.format(minute=2, most="97.30", slow="398.10")
    found = verdict(tmp_path / "slow", {"train.log": alike.replace("10:02", "10:00") + slow})
    assert (found["class"], found["ranks"]) == ("straggler", "6")
    assert SCALE.index(found["confidence"]) <= SCALE.index("medium")
    later = verdict(tmp_path / "later", {"train.log": slow + alike})
    assert (later["class"], later["blamed"]) == ("undetermined", set())


def metrics(*hanging: int) -> str:
    labels = 'ip="10.0.0.7",job_name="j",level="7",local_rank="{0}",pod_name="p",rank="{0}"'
    speeds = "".join(f"XPU_TIMER_MM_KERNEL_FLOPS{{{labels.format(rank)}}} 330.9\n" for rank in range(8))
    hangs = "".join(f"XPU_TIMER_COMMON_HANG{{{labels.format(rank)}}} {int(rank in hanging)}\n" for rank in range(8))
    return f"# TYPE XPU_TIMER_MM_KERNEL_FLOPS gauge\n{speeds}# TYPE XPU_TIMER_COMMON_HANG gauge\n{hangs}"


def test_metrics_of_xpu_timer_are_heard_and_name_no_culprit(tmp_path: Path) -> None:
    some = verdict(tmp_path / "some", {"metrics": metrics(0, 2, 5)})
    assert (some["class"], some["blamed"]) == ("undetermined", set())
    assert "Ranks 0, 2, 5 made no step" in some["headline"]
    none = verdict(tmp_path / "none", {"metrics": metrics()})
    assert (none["class"], none["blamed"]) == ("undetermined", set())
    assert "metrics of xpu_timer" in none["headline"]


def test_metrics_of_nccl_under_their_heads_show_the_gpu_that_comes_last(tmp_path: Path) -> None:
    name = "nccl_collective_exec_time_microseconds"
    rows = "".join(
        f'{name}{{version="v5.1",node="node7",gpu="GPU{gpu}",comm_name="DP",nranks="8",collective="AllReduce",message_size="{size}"}}'
        f" {900 if gpu == 3 else 9400 + gpu}\n"
        for size in ("4-5GB", "1-2MB")
        for gpu in range(8)
    )
    found = verdict(tmp_path, {"nccl.prom": f"# HELP {name} time\n# TYPE {name} gauge\n{rows}"})
    assert (found["class"], found["blamed"]) == ("straggler", set())
    assert "GPU 3" in found["headline"]
