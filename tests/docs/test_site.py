"""The documentation site builds without a warning, no link inside it is broken, and it asks for nothing outside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from builders.documents.doc_blocks import ROOT
from docsite.built_pages import faults
from docsite.stage import SITE, described


def page(folder: Path, name: str, body: str) -> None:
    (folder / name).write_text(f"<html><body>{body}</body></html>", encoding="utf-8")


def test_a_link_that_leads_nowhere_is_named(tmp_path: Path) -> None:
    page(
        tmp_path,
        "a.html",
        '<a href="b.html#here">b</a> <a href="b.html#gone">b</a> <a href="c.html">c</a> <a href="../x">x</a>',
    )
    page(tmp_path, "b.html", '<p id="here"></p><a href="https://example.org">outside, when it is clicked</a>')
    assert faults(tmp_path) == [
        "a.html: b.html#gone names no place of that page",
        "a.html: c.html leads nowhere",
        "a.html: ../x leads nowhere",
    ]


@pytest.mark.parametrize(
    "body",
    [
        '<script src="https://cdn.example/x.js"></script>',
        '<link rel="stylesheet" href="//cdn.example/x.css">',
        '<img src="a.png" srcset="https://cdn.example/x.png 2x">',
        '<p style="background: url(http://cdn.example/x.png)"></p>',
        "<style>@import 'https://cdn.example/x.css';</style>",
        "<script>fetch('https://example.org')</script>",
        '<iframe src="https://example.org"></iframe>',
    ],
)
def test_what_a_browser_would_fetch_from_outside_is_named(tmp_path: Path, body: str) -> None:
    (tmp_path / "a.png").touch()
    page(tmp_path, "a.html", body)
    assert faults(tmp_path)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("furo")
    target = tmp_path_factory.mktemp("site") / "html"
    command = [sys.executable, str(ROOT / "docs" / "build.py"), str(target)]
    built = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return target


def test_a_page_is_described_by_its_first_paragraph() -> None:
    text = (
        "---\norphan: true\n---\n\n# A title\n\n```sh\nno\n```\n\nThe [first](x.md) *paragraph* of `many`.\n\nMore.\n"
    )
    assert described(text).startswith(
        '---\norphan: true\nmyst:\n  html_meta:\n    description: "The first paragraph of many."\n---\n\n# A title\n'
    )
    assert described("# Only a title\n") == "# Only a title\n"
    long = described("word " * 100).splitlines()[3]
    assert long.endswith('word …"') and len(long) < 190


pytestmark = pytest.mark.xdist_group("site")


@pytest.mark.site
def test_the_site_holds_what_is_written_and_what_the_code_says(site: Path) -> None:
    """The build itself refuses warnings, broken links and requests to the outside."""
    text = {path.relative_to(site).as_posix(): path.read_text(encoding="utf-8") for path in site.rglob("*.html")}
    assert "never reached ALLREDUCE #9" in text["incidents/late-rank-three-groups.html"]
    assert 'href="../incidents/late-rank-three-groups.html"' in text["reference/incidents.html"]
    assert 'id="not-arrived"' in text["reference/classes.html"]
    assert 'id="nccldoctor.analyze"' in text["reference/api.html"]
    assert "TORCH_NCCL_DUMP_ON_TIMEOUT" in text["reference/settings.html"]
    assert "-h, --help" in text["reference/commands.html"]
    assert "benchmarks/hangbench/README.html" not in text["index.html"], "hangbench stands in the menu once"
    assert 'href="notebooks/questions.html"' in text["tutorial.html"]
    first_look = text["notebooks/first-look.html"]
    assert all(
        shown in first_look
        for shown in ('src="../_images/first-look-c09-0.png"', '<table class="docutils"', "nccldoctor-card")
    )
    assert "straggler" in text["reference/glossary.html"]
    assert "times the processor time" in text["comparison.html"]
    assert not [name for name, words in text.items() if "built here:" in words]
    assert faults(site) == []


@pytest.mark.site
def test_search_engines_learn_what_a_page_is_and_where_it_stands(site: Path) -> None:
    page = (site / "symptoms" / "hang-no-message.html").read_text(encoding="utf-8")
    assert f'<link rel="canonical" href="{SITE}symptoms/hang-no-message.html"' in page
    assert '<meta content="The loss stops, no error appears, and nvidia-smi shows every GPU at 100 %.' in page
    assert f"<loc>{SITE}symptoms/sigsegv.html</loc>" in (site / "sitemap.xml").read_text(encoding="utf-8")
    assert f"Sitemap: {SITE}sitemap.xml" in (site / "robots.txt").read_text(encoding="utf-8")


@pytest.mark.site
@pytest.mark.parametrize(
    ("words", "page"),
    [
        (("gpu", "hang", "error"), "symptoms/hang-no-message"),
        (("sigsegv",), "symptoms/sigsegv"),
        (("xid",), "symptoms/xid-79"),
        (("address", "alreadi", "use"), "symptoms/address-in-use"),
    ],
)
def test_the_search_of_the_site_finds_a_symptom(site: Path, words: tuple[str, ...], page: str) -> None:
    """As the script of the search does: pages that hold each word by its stem, in text or title, numbers and *no* left out."""
    text = (site / "searchindex.js").read_text(encoding="utf-8")
    index = json.loads(text.removeprefix("Search.setIndex(").rstrip().removesuffix(")"))

    def holding(word: str) -> set[int]:
        found = [index[part].get(word, []) for part in ("terms", "titleterms")]
        return {number for one in found for number in (one if isinstance(one, list) else [one])}

    assert index["docnames"].index(page) in set.intersection(*map(holding, words))
