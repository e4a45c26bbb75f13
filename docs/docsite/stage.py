"""Lays out what Sphinx reads: the pages of ``docs/``, pages of the project, and pages that the code writes."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

from docsite import code_pages, incident_reports, notebook_pages

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PROJECT_PAGES = (
    *("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"),
    *("benchmarks/README.md", "benchmarks/hangbench/README.md"),
)
"""Pages outside ``docs/`` that belong to the site; there they stand below ``project/``."""
NOTEBOOKS = tuple(sorted((DOCS / "notebooks").glob("*.ipynb")))
NO_MENU = "benchmarks/hangbench/README.md"
"""A page that only links lead to: the menu has the results of the benchmark, docs/hangbench.md."""
NO_PAGES = ("agents", "examples")
"""Folders of ``docs/`` whose Markdown is for programs, or part of an example; a link to it is a download."""

SITE = os.environ.get("SITE_URL", "https://nccldoctor.github.io/nccldoctor/")
"""The address of the site, for search engines."""
_SHOWN = 155
"""Letters of a description that search engines show."""
_CODE = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(?<=\]\()(?!https?:|mailto:|#)([^)#\s]+)(#[^)\s]*)?(?=\))")


def stage(source: Path) -> None:
    """Write the source of the whole site into ``source``, a folder that does not exist yet."""
    reports = incident_reports.write(source / "extra" / "incidents")
    built = {**code_pages.BUILT, "incidents": lambda: incident_reports.table(reports)}
    for page in pages():
        bare = code_pages.filled(page.read_text(encoding="utf-8"), lambda name: f"<!-- built here: {name} -->")
        text = _with_site_links(page, bare, source)
        if page == ROOT / NO_MENU:
            text = code_pages.ORPHAN + text
        _write(source / site_path(page), code_pages.filled(text, lambda name: built[name]()))
    for notebook in NOTEBOOKS:
        notebook_pages.write(notebook, source / site_path(notebook))
    for name, text in code_pages.remedy_pages().items():
        _write(source / "reference" / "remedies" / name, text)
    shutil.copyfile(Path(__file__).with_name("conf.py"), source / "conf.py")


def pages() -> tuple[Path, ...]:
    """The Markdown files that become pages as they stand."""
    own = (path for path in sorted(DOCS.rglob("*.md")) if path.relative_to(DOCS).parts[0] not in NO_PAGES)
    return (*own, *(ROOT / name for name in PROJECT_PAGES))


def site_path(path: Path) -> Path:
    """Where a file of the checkout stands in the site."""
    place = path.relative_to(DOCS) if path.is_relative_to(DOCS) else Path("project") / path.relative_to(ROOT)
    return place.with_suffix(".md") if path in NOTEBOOKS else place


def _with_site_links(page: Path, text: str, source: Path) -> str:
    """The text with links that hold in the site. A file that is no page is copied, to be downloaded."""

    def moved(link: re.Match[str]) -> str:
        target = Path(os.path.normpath(page.parent / link[1]))
        if target.is_dir():
            target = target / "README.md"
        if target in (*pages(), *NOTEBOOKS):
            return os.path.relpath(site_path(target), site_path(page).parent) + (link[2] or "")
        if not (source / site_path(target)).exists() and target.exists():
            (source / site_path(target)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(target, _as_download(source / site_path(target)))
        return os.path.relpath(_as_download(site_path(target)), site_path(page).parent) + (link[2] or "")

    parts = _CODE.split(text)  # every second one is code
    return "".join(part if number % 2 else _LINK.sub(moved, part) for number, part in enumerate(parts))


def _as_download(path: Path) -> Path:
    """A Markdown file that is no page is served as text, so that Sphinx makes no page of it."""
    return path.with_suffix(".txt") if path.suffix == ".md" else path


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(described(text), encoding="utf-8")


def described(text: str) -> str:
    """A page with a description for search engines: the first paragraph, without marks, cut at a word."""
    known, body = "", text
    if text.startswith("---\n"):
        known, _, body = text[4:].partition("---\n")
    paragraphs = (part.strip() for part in _CODE.sub("", body).split("\n\n"))
    first = next((part for part in paragraphs if part and part[0] not in "#<!|-`{["), "")
    plain = " ".join(re.sub(r"[*`]|!?\[|\]\([^)]*\)", "", first).split())
    if len(plain) > _SHOWN:
        plain = plain[: plain.rindex(" ", 0, _SHOWN)] + " …"
    meta = f"myst:\n  html_meta:\n    description: {json.dumps(plain, ensure_ascii=False)}\n" if plain else ""
    return f"---\n{known}{meta}---\n\n{body.lstrip()}" if known or meta else text
