"""What pages keep of the code, the samples and the benchmarks is there in a checkout, and is what these say today."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from builders.documents.doc_blocks import ROOT
from docsite.code_pages import filled
from docsite.kept_pages import KEPT, kept, pages

REFERENCE = sorted((ROOT / "docs" / "reference").glob("*.md"))


def test_the_pages_keep_what_the_code_says_today() -> None:
    """In a process of its own: click remembers the help of a command from the first test that runs it."""
    command = [sys.executable, str(ROOT / "docs" / "reference.py"), "--check"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"run python docs/reference.py: {done.stdout}{done.stderr}"


@pytest.mark.parametrize("page", [*pages()], ids=lambda path: path.stem)
def test_what_is_kept_is_kept_once(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert kept(kept(text)) == kept(text)


@pytest.mark.parametrize("page", REFERENCE, ids=lambda path: path.stem)
def test_a_reference_page_is_not_empty_in_a_checkout(page: Path) -> None:
    assert page in {*pages()}
    assert len(page.read_text(encoding="utf-8").splitlines()) > 30


def test_the_reference_says_what_a_reader_looks_for() -> None:
    text = {page.stem: page.read_text(encoding="utf-8") for page in REFERENCE}
    assert "`load(path: str | Path) -> SavedReport`" in text["api"]
    assert "- `findings`: `tuple[Finding, ...]`" in text["api"]
    assert "--redact" in text["commands"]
    assert "[died](../../sample_logs/died)" in text["incidents"]
    assert "(../../nccldoctor/prescribe/catalogue/lateness/dataloader-stall.toml)" in text["remedies"]
    assert "## TORCH_NCCL_DUMP_ON_TIMEOUT\n" in text["settings"]


SYMPTOMS = [page for page in sorted((ROOT / "docs" / "symptoms").glob("*.md")) if page.stem != "index"]


@pytest.mark.parametrize("page", SYMPTOMS, ids=lambda path: path.stem)
def test_a_symptom_begins_with_checks_then_says_how_to_install_and_analyze(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    meaning, checks, files, *_ = text.split("\n## ")
    assert meaning.startswith("# ")
    assert checks.startswith("Three checks in five minutes\n")
    assert [line[:2] for line in checks.splitlines() if line[:2] in ("1.", "2.", "3.", "4.")] == ["1.", "2.", "3."]
    assert files.index("pip install nccldoctor") < files.index("nccldoctor analyze logs/")
    assert f"\n{page.stem}\n" in page.with_name("index.md").read_text(encoding="utf-8")


def test_a_part_is_replaced_with_what_is_kept_of_it() -> None:
    page = "a\n<!-- built here: new -->\n<!-- built here: old -->\n\nkept\n\n<!-- up to here -->\nz\n"
    assert filled(page, lambda name: f"<{name}>") == "a\n<new>\n<old>\nz\n"


def test_every_part_is_on_a_page() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in pages())
    assert [name for name in KEPT if f"<!-- built here: {name} -->" not in text] == []
