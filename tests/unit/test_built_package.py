"""What the build adds to the package says the same as its sources."""

import runpy
import tomllib
from pathlib import Path
from typing import Any

import pytest
from jinja2 import ModuleLoader

from nccldoctor.prescribe.catalogue import load
from nccldoctor.reports import html
from nccldoctor.reports.template_syntax import TEMPLATES, bare_environment, compiled_templates
from nccldoctor.tables import read_table

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def build() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "setup.py"))


def test_the_remedies_of_a_built_package_are_those_of_the_sources(
    build: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build["write_remedies"](tmp_path / "built_in.py")
    files = runpy.run_path(str(tmp_path / "built_in.py"))["FILES"]
    assert files == {
        path.relative_to(load.BUILT_IN).as_posix(): tomllib.loads(path.read_text("utf-8"))
        for path in load.BUILT_IN.glob("*/*.toml")
    }
    from_sources = load._collect.__wrapped__(())
    monkeypatch.setattr(load, "_built_in", lambda: files)
    assert load._collect.__wrapped__(()) == from_sources
    assert not from_sources.mistakes


def test_the_tables_of_a_built_package_are_those_of_the_sources(build: dict[str, Any], tmp_path: Path) -> None:
    folders = [ROOT / "parsers", *(ROOT / "nccldoctor" / name for name in ("align", "diagnose", "prescribe"))]
    copies = {}
    for source in (
        path for folder in folders for path in folder.rglob("*.toml") if not {"wordings", "catalogue"} & {*path.parts}
    ):
        copy = tmp_path / f"{len(copies)}.toml"
        copy.write_bytes(source.read_bytes())
        copies[copy] = source
    build["write_tables"](tmp_path)
    for copy, source in copies.items():
        copy.write_text("what a built package no longer reads")
        assert read_table(copy) == tomllib.loads(source.read_text("utf-8"))
    assert len(copies) > 10


def test_compiled_templates_are_found_and_render_what_the_sources_render(build: dict[str, Any], tmp_path: Path) -> None:
    build["write_templates"](tmp_path)
    compiled = bare_environment(compiled_templates(tmp_path))
    compiled.filters |= html.environment().filters
    alone = bare_environment()
    alone.loader = ModuleLoader(compiled_templates(tmp_path))
    alone.filters |= html.environment().filters
    for path in TEMPLATES.rglob("*.html"):
        name = path.relative_to(TEMPLATES).as_posix()
        from_source = html.environment().get_template(name)
        assert alone.get_template(name).blocks.keys() == from_source.blocks.keys()
    assert compiled.get_template("page.html").filename != str(TEMPLATES / "page.html")


def test_a_built_page_is_the_page_of_a_checkout(
    build: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import nccldoctor

    incident = nccldoctor.analyze(ROOT / "sample_logs" / "died")
    page = incident.to_html()
    build["write_templates"](tmp_path)
    compiled = bare_environment(compiled_templates(tmp_path))
    compiled.filters |= html.environment().filters
    monkeypatch.setattr(html, "environment", lambda: compiled)
    assert incident.to_html() == page


def test_a_build_gives_the_same_bytes_again(build: dict[str, Any], tmp_path: Path) -> None:
    both = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        build["write_templates"](tmp_path / name)
        build["write_remedies"](tmp_path / name / "built_in.py")
        (tmp_path / name / "rows.toml").write_text('[[rows]]\nliteral = "é"\n', encoding="utf-8")
        build["write_tables"](tmp_path / name)
        both.append(
            {p.relative_to(tmp_path / name): p.read_bytes() for p in (tmp_path / name).rglob("*.*") if p.is_file()}
        )
    assert both[0] == both[1]
    assert len(both[0]) > 15
