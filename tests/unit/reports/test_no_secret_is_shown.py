"""Secrets that stand around the evidence, and inside it, are in no output of any command."""

from __future__ import annotations

import gzip
import re
from base64 import b64decode
from pathlib import Path

import pytest
from click.testing import CliRunner

from nccldoctor.cli.app import cli

SECRETS = {
    "zq1value": "export HF_TOKEN=zq1value",
    "zq2value": "api_key=zq2value",
    "zq3value": "python train.py --password zq3value",
    "zq4value": "launch --hf-token=zq4value",
    "zq5value9": "Authorization: Bearer zq5value9",
    "zq6value": "GET https://store.example/o?token=zq6value",
    "zq7value": '{"password": "zq7value"}',
    "zq8value": "cloning https://git:zq8value@git.example/r.git",
    "sk-proj-zq9zq9zq9zq9zq9zq9zq9": "using sk-proj-zq9zq9zq9zq9zq9zq9zq9",
    "AKIAZQ10ZQ10ZQ10ZQ10": "using AKIAZQ10ZQ10ZQ10ZQ10",
    "hf_zqelevenzqelevenzqelevenzqeleven": "login with hf_zqelevenzqelevenzqelevenzqeleven",
    "eyJhbGciOiJIUzI1NiJ9": "jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.zq12zq12zq12zq12",
    "zq13value": "os.environ['AWS_SECRET_ACCESS_KEY'] = 'zq13value'",
    "zq14value": "machine api.wandb.ai login user password zq14value",
    "zq15value": "AccountKey=zq15value;EndpointSuffix=core",
}
"""What must not be shown, and the line that holds it."""

WATCHDOG = (
    "2026-11-20 10:10:00 [rank{rank}]:[E1120 10:10:00.000000000 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective"
    " operation timeout: WorkNCCL(SeqNum=18, OpType=ALLREDUCE, NumelIn=64, NumelOut=64, Timeout(ms)=600000) ran for 600012"
    " milliseconds before timing out."
)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Rank 0 of 2 times out, rank 1 raises; the secrets stand between the lines and in the message."""
    folder = tmp_path / "logs"
    folder.mkdir()
    planted = [f"2026-11-20 10:09:{at:02d} [rank{{rank}}] {line}" for at, line in enumerate(SECRETS.values())]
    waits = [*planted, WATCHDOG, *planted]
    raises = [
        *planted,
        "[rank1]: Traceback (most recent call last):",
        '[rank1]:   File "/opt/train/train.py", line 64, in fetch',
        "[rank1]:     session.get(url)",
        f"[rank1]: RuntimeError: request failed: {' '.join(SECRETS.values())}",
        *planted,
    ]
    for rank, rows in enumerate((waits, raises)):
        text = "\n".join(rows).replace("{rank}", str(rank))
        (folder / f"rank_{rank}.log").write_text(f"[rank{rank}] env: WORLD_SIZE=2 RANK={rank}\n{text}\n")
    return folder


def contents(page: str) -> str:
    """A page and the JSON that is packed into it."""
    packed = re.findall(r">([A-Za-z0-9+/=\s]{200,})</script>", page)
    assert packed
    return page + "".join(gzip.decompress(b64decode(part)).decode() for part in packed)


@pytest.mark.parametrize("redact", [[], ["--redact", "hosts,users,paths,addresses"]])
@pytest.mark.parametrize(
    "form", ["text", "json", "md", "github", "jira", "slack", "report.html", "report.md", "report.json"]
)
def test_analyze_shows_no_secret(logs: Path, tmp_path: Path, form: str, redact: list[str]) -> None:
    target = tmp_path / form
    output = ["-o", str(target)] if "." in form else ["--format", form]
    result = CliRunner().invoke(cli, ["analyze", str(logs), *output, *redact])
    assert result.exit_code in (1, 3), result.output
    shown = result.output + (target.read_text() if target.exists() else "")
    shown = contents(shown) if form == "report.html" else shown
    assert "rank" in shown.lower()
    assert [secret for secret in SECRETS if secret in shown] == []


@pytest.mark.parametrize("form", ["text", "json"])
def test_inspect_shows_no_secret(logs: Path, form: str) -> None:
    result = CliRunner().invoke(cli, ["inspect", str(logs / "rank_1.log"), "--format", form])
    assert result.exit_code == 0, result.output
    assert "rank_1.log" in result.output
    assert [secret for secret in SECRETS if secret in result.output] == []
