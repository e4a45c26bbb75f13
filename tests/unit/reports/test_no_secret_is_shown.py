"""Secrets that stand around the evidence, and inside it, are in no output of any command."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from builders.documents.packed_page import contents, held_by_part
from builders.files.dumps import dump
from builders.logs.planted_secrets import ALL, LINES, PEM, TOKENS, shown_in
from click.testing import CliRunner, Result

import nccldoctor
from nccldoctor.cli.app import cli
from nccldoctor.reports.forms import FORMS

WATCHDOG = (
    "2026-11-20 10:10:00 [rank{rank}]:[E1120 10:10:00.000000000 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective"
    " operation timeout: WorkNCCL(SeqNum=18, OpType=ALLREDUCE, NumelIn=64, NumelOut=64, Timeout(ms)=600000) ran for 600012"
    " milliseconds before timing out."
)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Rank 0 of 2 times out, rank 1 raises.

    The secrets stand between the lines, in the message, in settings, in the names of files, and in the texts of a dump.
    """
    folder = tmp_path / "logs"
    folder.mkdir()
    planted = [f"2026-11-20 10:09:{at % 60:02d} [rank{{rank}}] {line}" for at, line in enumerate(LINES)]
    waits = [*planted, WATCHDOG, *planted]
    raises = [
        *planted,
        "[rank1]: Traceback (most recent call last):",
        '[rank1]:   File "/opt/train/train.py", line 64, in fetch',
        "[rank1]:     session.get(url)",
        f"[rank1]: RuntimeError: request failed: {' '.join(LINES)}",
        *planted,
        *PEM.splitlines(),
    ]
    for rank, rows in enumerate((waits, raises)):
        text = "\n".join(rows).replace("{rank}", str(rank))
        (folder / f"rank_{rank}.log").write_text(f"[rank{rank}] env: WORLD_SIZE=2 RANK={rank}\n{text}\n")
    tokens = list(TOKENS.values())
    (folder / "job.yaml").write_text("".join(f"env{at}:\n  - {line}\n" for at, line in enumerate(LINES)))
    (folder / "launch.sh").write_text(
        "#!/bin/bash\nset -e\n" + "".join(f"export A{n}_TOKEN={t}\n" for n, t in enumerate(tokens))
    )
    (folder / "environment.txt").write_text("".join(f"V{n}={t}\n" for n, t in enumerate(tokens)) + f"KEY_PEM={PEM}\n")
    for number, token in enumerate(tokens[:8]):
        (folder / f"{token}_rank{number % 2}.log").write_text("\n".join(planted).replace("{rank}", str(number % 2)))
    (folder / "nccl_trace_rank_0").write_bytes(dump_with(tokens))
    return folder


def dump_with(tokens: list[str]) -> bytes:
    """A dump whose group, stack and operations carry them."""
    plain = pickle.loads(dump())  # our own
    plain["pg_config"]["0"]["desc"] = tokens[0]
    for entry, token in zip(plain["entries"], tokens[1:], strict=False):
        entry["profiling_name"] = f"nccl:{token}"
        entry["frames"] = [{"name": token, "filename": f"/opt/{token}/train.py", "line": 3} for token in tokens]
    return pickle.dumps(plain)


@pytest.mark.parametrize("redact", [[], ["--redact", "hosts,users,paths,addresses"]])
@pytest.mark.parametrize(
    "form",
    ["text", "json", "attribution", "md", "github", "jira", "slack", "report.html", "report.md", "report.json"],
)
def test_analyze_shows_no_secret(logs: Path, tmp_path: Path, form: str, redact: list[str]) -> None:
    target = tmp_path / form
    output = ["-o", str(target)] if "." in form else ["--format", form]
    result = CliRunner().invoke(cli, ["analyze", str(logs), *output, *redact])
    assert result.exit_code in (1, 3), result.output
    shown = result.output + (target.read_text() if target.exists() else "")
    shown = contents(shown) if form == "report.html" else shown
    assert "rank" in shown.lower()
    assert shown_in(shown) == []


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(one) for one in arguments])


def test_the_planted_secrets_are_many() -> None:
    assert len(set(ALL)) >= 40


@pytest.mark.parametrize("form", ["text", "json"])
def test_inspect_shows_no_secret(logs: Path, form: str) -> None:
    result = run("inspect", logs, "--format", form)
    assert result.exit_code == 0, result.output
    assert "rank_1.log" in result.output
    assert shown_in(result.output) == []


@pytest.mark.parametrize("form", FORMS)
def test_a_filled_form_shows_no_secret(logs: Path, form: str) -> None:
    result = run("report", logs, "--for", form)
    assert result.exit_code == 0, result.output
    assert "How the job is started, `launch.sh`" in result.output
    assert shown_in(result.output) == []


def test_frames_show_no_secret(logs: Path) -> None:
    incident = nccldoctor.analyze(logs)
    for name in ("calls", "events", "ranks", "findings", "hypotheses", "evidence", "groups", "coverage", "remedies"):
        assert shown_in(getattr(incident, name).to_csv()) == [], name
    assert shown_in(repr(incident) + incident._repr_html_() + incident._repr_markdown_()) == []
    assert shown_in(str(incident.source("E1"))) == []


def test_a_part_holds_no_secret(logs: Path, tmp_path: Path) -> None:
    reduced = run("reduce", logs, "-o", tmp_path / "node.nd")
    assert reduced.exit_code == 0, reduced.output
    merged = run("merge", tmp_path / "node.nd", "--format", "json")
    assert merged.exit_code in (1, 3)
    assert shown_in(reduced.output + merged.output) == []
    held = held_by_part(tmp_path / "node.nd")
    assert "rank_1.log" in held
    assert shown_in(held) == []


def test_nothing_we_log_shows_a_secret(logs: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(0):
        result = run("analyze", logs)
    assert shown_in(caplog.text + result.stderr) == []
    assert shown_in(run("analyze", logs / TOKENS["GitHub"]).output) == []
