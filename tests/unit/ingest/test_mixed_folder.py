"""A folder of twenty mixed files: for each what it is, whose it is, how that is known, and how much was understood."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from builders.files.dumps import dump, entry
from builders.logs.lines import watchdog
from simulator import file_layouts

import nccldoctor as nd
from nccldoctor import pipeline
from nccldoctor.model import SourceKind
from nccldoctor.parsers.line_prefix.prefixes import read_mark
from nccldoctor.reports import inspect
from nccldoctor.reports.terminal.inspected import inspected_text


def caught(rank: int, prefix: str = "") -> str:
    return prefix + watchdog(rank, at=f"E417 03:28:1{rank % 10}.050510987", numel=1, ran_ms=600_000 + rank)


def cri(rank: int) -> str:
    return f"2026-04-17T03:28:1{rank}.123456789Z stderr F " + caught(rank)


def docker(rank: int) -> str:
    return json.dumps({"log": caught(rank), "stream": "stderr", "time": "2026-04-17T03:28:15.5Z"}) + "\n"


TABLE = (
    "Root Cause (first observed failure):\n[0]:\n  time      : 2026-04-17_03:28:40\n  host      : node2\n"
    "  rank      : 9 (local_rank: 1)\n  exitcode  : -9 (pid: 77)  (SIGKILL)\n  error_file: <N/A>\n"
)
STACK = 'Process 81: python train.py\nPython v3.11.4 (/usr/bin/python3)\n\nThread 81 (idle): "MainThread"\n    wait (threading.py:320)\n'
KERNEL = "[Fri Apr 17 03:20:01 2026] NVRM: Xid (PCI:0000:3a:00): 79, pid=81, GPU has fallen off the bus.\n"

FILES: dict[str, tuple[str | bytes, str, int | None, str | None]] = {
    # name: content, kind, rank, host
    "rank_0.log": (caught(0), "log", 0, None),
    "rank_1.log.gz": (gzip.compress(caught(1).encode()), "log", 1, None),
    "run/node0/attempt_0/2/stderr.log": (caught(2), "log", 2, "node0"),
    "run/node0/attempt_0/3/stderr.log": (caught(3), "log", 3, "node0"),
    "tee.log": (caught(4, "[default4]:"), "log", None, None),
    "slurm-4477.out": ("0: " + caught(5) + "1: " + caught(6), "log", None, None),
    "train-4477-1-7.out": (caught(7), "log", 7, None),
    "kubectl.log": (f"[pod/job-worker-0/pytorch] 2026-04-17T03:28:15Z {caught(8)}", "log", None, None),
    "cri.log": (cri(3), "log", None, None),
    "docker.json": (docker(2), "log", None, None),
    "ray.log": (f"(TrainWorker[rank=1] pid=33, ip=10.0.0.1) {caught(1)}", "log", None, None),
    "pdsh.txt": (f"node5: {caught(5)}node6: {caught(6)}", "log", None, None),
    "quoted.md": (f"> {caught(4)}", "log", None, None),
    "node2/torchrun.log": (TABLE, "log", None, "node2"),
    "stacks_rank_3.txt": (STACK, "stacks", 3, None),
    "dmesg_node2.log": (KERNEL, "kernel log", None, "node2"),
    "nccl_trace_rank_1": (dump(), "flight recorder", 1, None),
    "nccl_trace_rank_2": (dump(), "flight recorder", 2, None),
    "empty.log": ("", "empty", None, None),
    "picture.bin": (bytes(range(256)) * 8, "unknown", None, None),
}


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mixed")
    for name, (content, *_) in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


@pytest.fixture(scope="module")
def sources(mixed: Path) -> dict[str, dict[str, Any]]:
    told = inspect.document(pipeline.read([mixed]))
    return {source["path"]: source for source in told["sources"]}


def test_there_are_twenty_and_none_is_dropped(sources: dict[str, dict[str, Any]]) -> None:
    assert len(FILES) == 20
    assert set(sources) == set(FILES)


@pytest.mark.parametrize("name", FILES)
def test_each_file_is_known_for_what_it_is(sources: dict[str, dict[str, Any]], name: str) -> None:
    _, kind, rank, host = FILES[name]
    source = sources[name]
    assert source["kind"] == kind
    if rank is not None:
        assert source["rank"] == rank and source["why"]
    if host is not None:
        assert source["host"] == host


@pytest.mark.parametrize("name", [n for n, (_, kind, *_) in FILES.items() if kind in ("log", "stacks", "kernel log")])
def test_lines_are_counted_and_understood(sources: dict[str, dict[str, Any]], name: str) -> None:
    source = sources[name]
    content = FILES[name][0]
    text = gzip.decompress(content).decode() if isinstance(content, bytes) else content
    assert source["lines"] == len(text.splitlines())
    assert source["understood"] >= 1


def test_the_time_span_is_told_where_lines_have_dates(sources: dict[str, dict[str, Any]]) -> None:
    assert sources["dmesg_node2.log"]["rank"] is None
    assert sources["dmesg_node2.log"]["first_time"].startswith("2026-04-17T03:20:01")
    assert (
        sources["cri.log"]["first_time"].startswith("2026-04-17T03:28:13") or sources["cri.log"]["first_time"] is None
    )


def test_the_span_of_a_file_without_years_has_none(sources: dict[str, dict[str, Any]]) -> None:
    assert (sources["rank_0.log"]["first_time"], sources["rank_0.log"]["last_time"]) == (
        "04-17T03:28:10",
        "04-17T03:28:10",
    )


def test_the_span_of_a_dump_is_that_of_its_calls(tmp_path: Path) -> None:
    made = 1_780_000_000 * 10**9
    times = {"time_created_ns": made, "time_discovered_completed_ns": made + 5 * 10**9}
    (tmp_path / "nccl_trace_rank_0").write_bytes(dump(entry(1, **times)))
    (source,) = inspect.document(pipeline.read([tmp_path]))["sources"]
    assert (source["first_time"], source["last_time"]) == ("2026-05-28T20:26:40+00:00", "2026-05-28T20:26:45+00:00")


def test_how_a_rank_is_known_is_said(sources: dict[str, dict[str, Any]]) -> None:
    assert sources["rank_0.log"]["why"].startswith("its lines, rank in the name")
    assert sources["pdsh.txt"]["why"] == "lines of ranks 5-6"
    assert "torchrun folder" in sources["run/node0/attempt_0/2/stderr.log"]["why"]
    assert sources["stacks_rank_3.txt"]["why"] == "rank in the name, host of its rank"


def test_the_text_names_every_file_with_something_not_understood(tmp_path: Path) -> None:
    for number in range(12):
        (tmp_path / f"rank_{number}.log").write_text(caught(number) + f"NCCL WARN NET/IB : something new {number}\n")
    (tmp_path / "notes.txt").write_text("nothing of interest\n")
    text = inspected_text(pipeline.read([tmp_path]), 200)
    told = re.findall(r"^  rank_\d+\.log:\d+: ", text, re.MULTILINE)
    case = pipeline.read([tmp_path])
    unknown = [r for r in case.readings if r.first_unknown]
    assert len(told) == len(unknown) >= 9 or not unknown
    assert "notes.txt: none of its lines has a known format" in " ".join(text.split())


def test_ranks_of_a_host_in_names_are_no_global_ones(tmp_path: Path) -> None:
    """``node0/rank_0.log`` beside ``node1/rank_0.log``: the number counts the ranks of a host."""
    for node in (0, 1):
        (tmp_path / f"node{node}").mkdir()
        for local in range(2):
            text = caught(2 * node + local) if local else "INFO step=3\n"
            (tmp_path / f"node{node}" / f"rank_{local}.log").write_text(text)
    case = pipeline.read([tmp_path])
    assert {s.path: s.rank for s in case.sources} == {
        "node0/rank_0.log": 0, "node0/rank_1.log": 1, "node1/rank_0.log": 2, "node1/rank_1.log": 3,
    }  # fmt: skip


def test_a_name_that_none_of_the_lines_bears_out_is_shown(tmp_path: Path) -> None:
    (tmp_path / "rank_9.log").write_text(caught(1) + caught(2))
    (gap,) = [g for g in pipeline.read([tmp_path]).gaps if "named for" in g.what]
    assert (gap.what, gap.why) == ("rank_9.log is named for rank 9", "its lines say ranks 1-2")


def test_a_launcher_that_says_another_rank_than_the_lines_is_shown(tmp_path: Path) -> None:
    folder = tmp_path / "node2" / "run" / "attempt_0" / "1"
    folder.mkdir(parents=True)
    (folder / "stderr.log").write_text(caught(5))
    (tmp_path / "node2" / "torchrun.log").write_text(TABLE)
    case = pipeline.read([tmp_path])
    assert {s.path: s.rank for s in case.sources}["node2/run/attempt_0/1/stderr.log"] == 5
    (gap,) = [g for g in case.gaps if "by the launcher" in g.what]
    assert "local rank 1 of node2, rank 9" in gap.what and gap.why == "its lines say rank 5"


def test_the_odd_site_is_told_by_a_pattern_and_a_conflict_is_shown(tmp_path: Path) -> None:
    (tmp_path / "trainer.x12").write_text(caught(12))
    case = pipeline.read([tmp_path], rank_from=r"\.x(?P<rank>\d+)$")
    assert case.sources[0].rank == 12
    (tmp_path / "trainer.x12").write_text(caught(3))
    case = pipeline.read([tmp_path], rank_from=r"\.x(?P<rank>\d+)$")
    assert case.sources[0].rank == 3
    assert any("12" in gap.what + gap.why for gap in case.gaps) or "12" in case.sources[0].why


PLAYED = {
    (scenario, launcher): file_layouts.lines_of(
        4, scenario, launcher=launcher, nodes=2, gpus=4, era="2.8", skew=0.0, tz_hours=1
    )
    for scenario in ("no_data", "segfault", "uncaught")
    for launcher in ("torchrun", "srun")
}
BLOCKS = ("dshbak",)
"""Layouts that lose the order of the lines."""


def verdict(folder: Path) -> tuple[str, str]:
    found = nd.analyze(folder).verdict
    return str(found.cause), str(found.ranks)


@pytest.mark.costly
@pytest.mark.parametrize("scenario", ["no_data", "segfault", "uncaught"])
@pytest.mark.parametrize("layout", [name for name in file_layouts.LAYOUTS if name not in BLOCKS])
def test_one_incident_has_one_verdict_in_every_layout(tmp_path: Path, layout: str, scenario: str) -> None:
    played, job, lines = PLAYED[scenario, "srun" if layout in ("srun-label", "slurm-tasks") else "torchrun"]
    cause, ranks = verdict(file_layouts.write(tmp_path / layout, layout, job, lines))
    assert cause in played.truth["acceptable_classes"]
    assert ranks == ",".join(map(str, played.truth["culprit_ranks"]))


@pytest.mark.parametrize("scenario", ["no_data", "segfault"])
def test_blocks_of_nodes_one_behind_the_other_are_one_job(tmp_path: Path, scenario: str) -> None:
    """dshbak and ``clush -b`` lose the order of the lines between nodes, not the ranks."""
    played, job, lines = PLAYED[scenario, "torchrun"]
    _, ranks = verdict(file_layouts.write(tmp_path, "dshbak", job, lines))
    assert ranks == ",".join(map(str, played.truth["culprit_ranks"]))


@pytest.mark.parametrize("layout", ["tree", "tree-unnamed"])
def test_the_folder_below_an_attempt_is_the_local_rank(tmp_path: Path, layout: str) -> None:
    _, job, lines = PLAYED["no_data", "torchrun"]
    case = pipeline.read([file_layouts.write(tmp_path, layout, job, lines)])
    of = {(s.path.split("/")[0], s.local_rank): s.rank for s in case.sources if s.local_rank is not None}
    assert len(of) == 8
    first = {node: of[node, 0] for node, _ in of}
    assert sorted(rank or 0 for rank in first.values()) == [0, 4]
    assert all(rank == (first[node] or 0) + (local or 0) for (node, local), rank in of.items())


@pytest.mark.parametrize(
    ("text", "rank", "local", "host"),
    [
        ("[trainer1|5]:[rank5]: x", 5, 1, None),
        ("(head, rank=0, pid=77) [rank3]: x", 3, None, None),
        ("(worker1, rank=1, pid=78, ip=10.4.0.6) [rank5]: x", 5, None, "10.4.0.6"),
        ("(node-0, worker1, rank=1, pid=78, ip=10.4.0.6) text", None, None, "10.4.0.6"),
        ("(RayTrainWorker pid=33, ip=10.4.0.6) [rank5]: x", 5, None, "10.4.0.6"),
    ],
)
def test_prefixes_tell_the_writer(text: str, rank: int | None, local: int | None, host: str | None) -> None:
    mark, _ = read_mark(text)
    assert (mark.rank, mark.local_rank, mark.host) == (rank, local, host)
    assert mark.pid in (None, 33), "the process of SkyPilot's prefix is the shell of a node"


def test_stern_puts_pod_and_container_before_every_line(tmp_path: Path) -> None:
    lines = "".join(
        f"train-worker-{r // 4} pytorch {part}" for r in range(8) for part in (caught(r), "  a line of nobody\n")
    )
    (tmp_path / "stern.log").write_text(lines)
    events = [e for e in pipeline.read([tmp_path]).events if e.kind == "collective-timeout"]
    assert [(e.rank, e.host) for e in events] == [(r, f"train-worker-{r // 4}") for r in range(8)]


def test_a_script_may_print_before_srun_labels(tmp_path: Path) -> None:
    head = "Loading cuda/12.4\nnodes: node0 node1\nstarting now\n"
    text = (
        head + "".join(f"{r}: {part}" for r in range(4) for part in (caught(r), "loss 0.3\n")) + "sbatch script ends\n"
    )
    (tmp_path / "slurm-4711.out").write_text(text.replace("[rank", "[other"))
    events = [e for e in pipeline.read([tmp_path]).events if e.kind == "collective-timeout"]
    assert [e.rank for e in events] == [0, 1, 2, 3]


def test_a_requeue_of_the_collectors_zone_is_not_the_jobs(tmp_path: Path) -> None:
    """The collector writes UTC, the processes local time: a launcher's table has the zone of the processes."""
    table = TABLE.replace("03:28:40", "04:28:40")
    log = "".join(f"[pod/w-0/pytorch] 2026-04-17T03:28:1{r}.5Z {caught(r).replace('03:28', '04:28')}" for r in range(3))
    (tmp_path / "pods.log").write_text(
        log + "".join(f"[pod/w-0/pytorch] 2026-04-17T03:28:41Z {x}\n" for x in table.splitlines())
    )
    case = pipeline.read([tmp_path])
    at = {e.kind: float(case.seconds[i]) for i, e in enumerate(case.events)}
    assert at["process-exit"] - at["collective-timeout"] == pytest.approx(28, abs=1)


@pytest.mark.parametrize(
    "text",
    [
        "Error: Failed to get process executable name. Check that the process is running.\n",
        "    PID STAT WCHAN COMMAND\n   1335 T do_signal_stop python train.py\n",
    ],
    ids=["py-spy's error", "ps"],
)
def test_what_tools_say_of_a_process_is_no_kernel_log(tmp_path, text):
    (tmp_path / "stack-1335.txt").write_text(text)
    (source,) = pipeline.read([str(tmp_path)]).sources
    assert source.kind is SourceKind.STACKS
