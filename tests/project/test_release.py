"""What a release is made of: changelog, packages, recipe and container say the same."""

from __future__ import annotations

import datetime
import re
import runpy
import tomllib
from pathlib import Path
from typing import Any

import pytest

from nccldoctor.version import __version__

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def release() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "release.py"))


def test_the_changelog_has_a_section_for_this_version(release: dict[str, Any]) -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")

    assert "### Reading" in release["section"](text, __version__)


def test_a_section_ends_where_the_next_one_begins(release: dict[str, Any]) -> None:
    text = "# Changelog\n\n## 0.2.0 (not released yet)\n\n- New.\n\n## 0.1.0 (2026-01-02)\n\n- Old.\n"

    assert release["section"](text, "0.2.0") == "- New."
    assert release["section"](text, "0.1.0") == "- Old."
    with pytest.raises(ValueError, match=r"says nothing about 0[.]3[.]0"):
        release["section"](text, "0.3.0")


def test_a_version_is_dated_once(release: dict[str, Any]) -> None:
    text = "## 0.2.0 (not released yet)\n\n- New.\n"
    once = release["dated"](text, "0.2.0", datetime.date(2026, 12, 1))

    assert once == "## 0.2.0 (2026-12-01)\n\n- New.\n"
    with pytest.raises(ValueError, match="released already"):
        release["dated"](once, "0.2.0", datetime.date(2026, 12, 2))


def test_links_of_the_readme_lead_to_the_repository() -> None:
    description = runpy.run_path(str(ROOT / "setup.py"))["description"]
    made = description((ROOT / "README.md").read_text(encoding="utf-8"), "https://example.org/r")

    assert "![" in made
    assert "](https://example.org/r/raw/main/docs/report.png)" in made
    assert "](https://example.org/r/blob/main/CHANGELOG.md)" in made
    assert re.findall(r"\]\((?!https://)", made) == []


def test_the_conda_recipe_has_the_dependencies_of_the_package() -> None:
    recipe = (ROOT / "packaging" / "conda" / "recipe.yaml").read_text(encoding="utf-8")
    run = recipe.partition("  run:\n")[2].partition("\n\n")[0]

    assert {line.strip("- ").replace(" ", "") for line in run.splitlines()} == {
        f"python{PROJECT['requires-python']}",
        *PROJECT["dependencies"],
    }
    assert f'version: "{__version__}"' in recipe


def test_the_documented_extras_are_those_of_the_package() -> None:
    text = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")

    assert set(re.findall(r"\[([a-z][a-z0-9]+)\]", text)) == set(PROJECT["optional-dependencies"])
