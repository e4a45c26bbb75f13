"""``nccldoctor live``: a collection, its analysis, and what moved by the next."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from builders.live import shims
from builders.live.clocks import FakeClock
from click.testing import CliRunner

from nccldoctor.cli.app import cli
from nccldoctor.cli.live.repeating import run_live
from nccldoctor.collect import gather

RANKS = """
import io, json, sys, tarfile
step = int(open({state!r}).read())
described = {{"version": 1, "host": "gpu", "started": "2026-01-11T10:05:00+00:00", "ended": "2026-01-11T10:05:01+00:00",
             "files": [], "processes": [], "missing": []}}
rows = []
if step == 99:
    described["missing"].append({{"what": "training processes", "why": "no Python process has RANK"}})
for rank in range(4 if step < 99 else 0):
    at = step if rank != 2 else min(step, 12)
    lines = "".join(f"2026-01-11 10:{{n // 60:02}}:{{n % 60:02}} [rank {{rank}}] step {{n}} loss=2.5\\n" for n in range(at))
    rows.append((f"rank-{{rank}}/logs/train.log", lines.encode()))
    described["files"].append({{"path": rows[-1][0], "kind": "log", "rank": rank, "local_rank": rank, "pid": 11 + rank,
                               "time": "2026-01-11T10:05:00+00:00", "look": 1}})
rows.append(("node/machine.txt", b"load: 1\\n"))
rows.append(("node.json", json.dumps(described).encode()))
with tarfile.open(fileobj=sys.stdout.buffer, mode="w|") as tar:
    for name, data in rows:
        member = tarfile.TarInfo(name)
        member.size = len(data)
        tar.addfile(member, io.BytesIO(data))
"""
"""A collector that sends the logs of four ranks up to the step in a file; rank 2 ends at step 11, and at 99 no rank is left."""


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    cluster = shims.Cluster(tmp_path / "bin", monkeypatch)
    cluster.answers("squeue", "4711|4711|RUNNING|gpu\n")
    cluster.answers("scontrol", "gpu\n")
    (tmp_path / "step").write_text("12")
    monkeypatch.setattr(gather, "collector_source", lambda: RANKS.format(state=str(tmp_path / "step")))
    return tmp_path / "step"


OPTIONS: dict[str, Any] = {
    "pid": None, "local": False, "slurm": "4711", "k8s": False, "selector": "", "namespace": "", "container": "", "ssh": None,
    "where": (), "gdb": False, "twice": 0.0, "seconds": 90.0, "limit_mb": 64, "python": "python3", "only_print": False, "force": False,
    "report": None, "watch": None, "color": "never", "form": "text",
}  # fmt: skip


def test_one_look_is_analysed_and_reported(state: Path, tmp_path: Path) -> None:
    bundle, report = tmp_path / "b.tar.zst", tmp_path / "r.html"
    result = CliRunner().invoke(cli, ["live", "--slurm", "4711", "-o", str(bundle), "--report", str(report)])
    assert result.exit_code == 3, result.output
    assert "1 of 1 node answered" in result.stderr
    assert f"wrote {bundle}" in result.stderr
    assert "next: nccldoctor analyze" not in result.output, "it is analysed already"
    assert result.stdout.startswith(("warning", "error", "note", "undetermined")) or "[undetermined]" in result.stdout
    assert bundle.exists() and report.read_text().startswith("<!DOCTYPE html>")


def test_what_moves_is_told_until_no_rank_is_left(
    state: Path, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    steps = iter(["15", "18", "99"])
    clock = FakeClock(on_sleep=lambda now: (state.write_text(next(steps)), None)[1])
    run_live({**OPTIONS, "output": tmp_path / "b.tar.zst", "watch": 30.0}, clock)
    printed = capsysbinary.readouterr().out.decode()
    assert clock.slept == [30.0] * 3
    assert printed.count("Ranks 0-1, 3 moved on within 30 s.") == 1
    assert printed.count("Ranks 0-1, 3 moved on within 60 s.") == 1
    assert printed.count("Rank 2 didn't move for 60 s.") == 1
    assert "No process of the job is left." in printed


def test_a_round_without_an_answer_is_told_and_three_end_the_watch(
    state: Path, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    node, bundle = tmp_path / "bin" / "gpu.sh", tmp_path / "b.tar.zst"
    kept: list[bytes] = []

    def on_sleep(now: float) -> None:
        kept.append(bundle.read_bytes())
        works = len(kept) == 2
        node.unlink(missing_ok=True) if works else node.write_text("exit 1")

    clock = FakeClock(on_sleep=on_sleep)
    code = run_live({**OPTIONS, "output": bundle, "watch": 30.0}, clock)
    printed = capsysbinary.readouterr().out.decode()
    assert (code, len(clock.slept)) == (3, 5)
    assert printed.count("Nothing was collected: no node answered.") == 4
    assert printed.count("No answer in three rounds.") == 1
    assert kept[2] == bundle.read_bytes(), "a round without an answer leaves the bundle as it is"


def test_no_answer_is_an_error_and_no_verdict(state: Path, tmp_path: Path) -> None:
    (tmp_path / "bin" / "gpu.sh").write_text("exit 1")
    result = CliRunner().invoke(cli, ["live", "--slurm", "4711", "-o", str(tmp_path / "b.tar.zst")])
    assert result.exit_code == 2
    assert "no node answered" in result.stderr
    assert result.stdout == ""
    assert not list(tmp_path.glob("*.tar.zst"))


def test_json_is_one_document_also_where_nothing_answers(state: Path, tmp_path: Path) -> None:
    words = ["live", "--slurm", "4711", "--format", "json", "--force", "-o", str(tmp_path / "b.tar.zst")]
    result = CliRunner().invoke(cli, words)
    assert (result.exit_code, json.loads(result.stdout)["verdict"]["class"]) == (3, "undetermined")
    (tmp_path / "bin" / "gpu.sh").write_text("exit 1")
    result = CliRunner().invoke(cli, words)
    document = json.loads(result.stdout)
    assert (result.exit_code, document["verdict"]["confidence"]) == (2, "cannot-tell")
    assert "no node answered" in document["verdict"]["headline"]


def test_a_document_is_not_mixed_with_sentences(state: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["live", "--slurm", "4711", "--format", "json", "--watch", "30"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert not list(tmp_path.glob("*.tar.zst"))
