"""Every addition in docs/adding-things.md works when it is made in a copy of the checkout exactly as shown."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from builders.logs.lines import watchdog

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "adding-things.md"
BLOCK = re.compile(r"^```\w+\n# (?P<path>[\w/.-]+/[\w.-]+)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)


def additions() -> dict[str, dict[str, str]]:
    """The blocks that name a file, by the heading they stand under: path to text."""
    out: dict[str, dict[str, str]] = {}
    for section in DOCUMENT.read_text(encoding="utf-8").split("\n## ")[1:]:
        if blocks := {hit["path"]: hit["text"] for hit in BLOCK.finditer(section)}:
            out[section.splitlines()[0]] = blocks
    return out


def test_each_addition_is_one_module_and_few_rows_beside_it() -> None:
    touched = {title: list(blocks) for title, blocks in additions().items()}
    assert {title: len(paths) for title, paths in touched.items()} == {
        "A kind of event": 1,
        "A log format": 2,
        "A rule": 3,  # its sentences, and a row in the list of doubts
        "A condition of remedies": 1,
        "A remedy": 1,
    }
    module, samples = touched["A log format"]
    assert samples == module.replace("parsers/", "parsers/wordings/", 1).replace("_rows.toml", ".toml")


@dataclass(frozen=True, slots=True)
class Checkout:
    """A copy of the checkout with every addition, and a folder of logs."""

    root: Path
    logs: Path

    def run(self, *words: str, codes: tuple[int, ...] = (0,)) -> str:
        """The output of a Python that imports from this copy alone."""
        env = {**os.environ, "PYTHONPATH": str(self.root), "XDG_CONFIG_HOME": str(self.root), "COLUMNS": "200"}
        done = subprocess.run(
            [sys.executable, *words], capture_output=True, text=True, timeout=300, env=env, cwd=self.root
        )
        assert done.returncode in codes, done.stdout + done.stderr
        return done.stdout

    def command(self, *words: str) -> str:
        """The output of the command."""
        return self.run("-m", "nccldoctor", *words, codes=(0, 1, 3))


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    work = tmp_path_factory.mktemp("adding")
    ignored = shutil.ignore_patterns(
        ".*", "build", "dist", "*.egg-info", "__pycache__", "docs", "benchmarks", "incident"
    )
    shutil.copytree(ROOT, work / "checkout", symlinks=True, ignore=ignored)
    for blocks in additions().values():
        for path, text in blocks.items():
            with (work / "checkout" / path).open("a", encoding="utf-8") as file:
                file.write(f"\n\n{text}" if file.tell() else text)
    (work / "logs").mkdir()
    for rank in range(3):
        (work / "logs" / f"rank_{rank}.log").write_text(watchdog(rank, 18), encoding="utf-8")
    line = "shard-cache: rank 3 waits for shard 812 (refill 40%)\n"
    (work / "logs" / "rank_3.log").write_text(line, encoding="utf-8")
    return Checkout(work / "checkout", work / "logs")


def test_the_line_is_read_and_its_kind_is_explained(checkout: Checkout) -> None:
    events = json.loads(checkout.command("inspect", str(checkout.logs), "--format", "json"))["events"]
    assert [(e["rank"], e["shard"]) for e in events if e["kind"] == "shard-wait"] == [(3, "shard 812")]
    explained = checkout.command("explain", "shard-wait")
    assert "has not loaded yet" in explained
    assert "Fields: shard." in explained


def test_the_samples_are_tested(checkout: Checkout) -> None:
    words = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/unit/parsers/test_wordings.py", "-k", "shard_cache")
    assert " passed" in checkout.run(*words)


def test_the_rule_is_asked_and_the_remedy_is_offered(checkout: Checkout) -> None:
    document = json.loads(checkout.command("analyze", str(checkout.logs), "--format", "json"))
    assert document["verdict"]["headline"] == "Rank 3 waited for the shard cache."
    remedy = document["remedies"][0]
    assert (remedy["id"], remedy["fit"]) == ("shard-cache", "strong")
    assert any("the shard cache keeps rank 3 waiting" in str(check) for check in remedy["checks"])


def test_the_remedy_is_listed_and_has_no_mistake(checkout: Checkout) -> None:
    assert "shard-cache" in checkout.command("catalogue", "list")
    assert "shard-cache" not in checkout.run("-m", "nccldoctor", "catalogue", "lint")
    assert "waits-for-shard" in checkout.command("catalogue", "schema")
