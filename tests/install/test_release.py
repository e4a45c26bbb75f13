"""What a release is made of: changelog, packages, recipe and container say the same."""

from __future__ import annotations

import datetime
import json
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from nccldoctor.version import __version__

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT, BUILD = PYPROJECT["project"], PYPROJECT["build-system"]
CONDA_NAMES = {"isal": "python-isal"}
"""Packages that conda-forge calls by another name."""
BUILD_FILES = {"pyproject.toml", "README.md", *PROJECT["license-files"]}


@pytest.fixture(scope="module")
def release() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "packaging" / "release.py"))


def test_the_changelog_has_a_section_for_this_version(release: dict[str, Any]) -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")

    assert "### Evidence it reads" in release["section"](text, __version__)


def test_a_first_release_says_what_the_product_does_and_not_what_became_better(release: dict[str, Any]) -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    if re.findall(r"^## (.*)", text, re.MULTILINE) != [f"{__version__} (not released yet)"]:
        pytest.skip("an earlier version is released")
    section = release["section"](text, __version__)

    assert len(text.splitlines()) <= 120
    assert re.findall(r"no longer|used to|\(was |it took| less time\b|again\b", section) == []
    assert all(line.startswith(("- ", "  ", "### ", "The first release")) for line in section.splitlines() if line)


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


def test_links_of_the_readme_lead_to_the_repository(release: dict[str, Any]) -> None:
    made = release["description"]((ROOT / "README.md").read_text(encoding="utf-8"), "https://example.org/r")

    assert "![" in made
    assert "](https://example.org/r/raw/main/docs/report.png)" in made
    assert "](https://example.org/r/blob/main/CHANGELOG.md)" in made
    assert re.findall(r"\]\((?!https://)", made) == []


def test_nothing_is_released_where_a_test_of_any_family_fails(tmp_path: Path) -> None:
    (tmp_path / "packaging").mkdir()
    (tmp_path / "nccldoctor").mkdir()
    shutil.copy(ROOT / "packaging" / "release.py", tmp_path / "packaging")
    (tmp_path / "nccldoctor" / "version.py").write_text('__version__ = "0.2.0"\n', encoding="utf-8")
    changelog = "## 0.2.0 (not released yet)\n\n- New.\n"
    (tmp_path / "CHANGELOG.md").write_text(changelog, encoding="utf-8")
    check = tmp_path / "check"
    check.write_text('#!/bin/sh\necho "checked $*"\nexit 1\n', encoding="utf-8")
    check.chmod(0o755)
    git = ("git", "-c", "user.name=x", "-c", "user.email=x@example.org")
    for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "All")):
        subprocess.run([*git, *words], cwd=tmp_path, check=True)

    release = [sys.executable, "-B", "packaging/release.py", "--tag"]
    done = subprocess.run(release, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.stdout == "checked --all --all-must-run\n"
    assert done.stderr == "./check --all fails: nothing was released\n"
    assert done.returncode == 1
    assert not (tmp_path / "dist").exists()
    assert (tmp_path / "CHANGELOG.md").read_text(encoding="utf-8") == changelog


def test_every_night_all_tests_run_and_other_days_take_the_usual_ones() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))["jobs"]
    last = {name: (job.get("if"), job["steps"][-1]["run"]) for name, job in jobs.items()}

    assert last["nightly"] == ("github.event_name == 'schedule'", "./check --all --all-must-run")
    assert last["check"] == ("github.event_name != 'schedule'", ".ci/run")


def _in_conda(requirement: str) -> str:
    """A requirement of the package as the recipe writes it."""
    name, *bound = requirement.partition(">=")
    return f"{CONDA_NAMES.get(name, name)} {''.join(bound)}"


def test_the_conda_recipe_says_what_the_package_says() -> None:
    file = ROOT / "packaging" / "conda" / "recipe.yaml"
    recipe = yaml.safe_load(file.read_text(encoding="utf-8"))
    python = f"python {PROJECT['requires-python']}"
    about = recipe["about"]

    assert recipe["context"]["version"] == __version__
    assert recipe["package"]["name"] == PROJECT["name"]
    assert {*recipe["requirements"]["run"]} == {python, *map(_in_conda, PROJECT["dependencies"])}
    assert {*recipe["requirements"]["host"]} == {python, "pip", *map(_in_conda, BUILD["requires"])}
    assert recipe["build"]["python"]["entry_points"] == [f"{k} = {v}" for k, v in PROJECT["scripts"].items()]
    assert (file.parent / recipe["source"]["path"]).resolve() == ROOT
    assert [about["license_file"]] == PROJECT["license-files"]
    assert about["license"] == PROJECT["license"]
    assert about["summary"] == PROJECT["description"]
    assert about["homepage"] == PROJECT["urls"]["Homepage"]


def test_a_container_is_built_from_what_the_package_needs_and_nothing_else() -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    rules = [line for line in lines if not line.startswith("#")]
    folders = {path.partition("/")[0] for path in PYPROJECT["tool"]["setuptools"]["package-dir"].values()}

    assert rules[0] == "*"
    assert {rule[1:] for rule in rules[1:-1]} == folders | BUILD_FILES
    assert rules[-1] == "**/__pycache__"


def test_the_container_installs_the_package_and_runs_it_without_rights() -> None:
    text = (ROOT / "packaging" / "Containerfile").read_text(encoding="utf-8")
    final = text.rpartition("FROM ")[2].splitlines()
    (version,) = {*re.findall(r"^FROM \S+/python:([\d.]+)-slim", text, re.MULTILINE)}
    (user,) = [int(line.split()[1].split(":")[0]) for line in final if line.startswith("USER ")]
    (command,) = [json.loads(line.removeprefix("ENTRYPOINT ")) for line in final if line.startswith("ENTRYPOINT ")]

    assert re.search(r"^RUN pip install .* \.$", text, re.MULTILINE)
    assert f"Programming Language :: Python :: {version}" in PROJECT["classifiers"]
    assert user > 0
    assert command == [*PROJECT["scripts"]]


def test_the_documented_extras_are_those_of_the_package() -> None:
    text = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")

    assert set(re.findall(r"\[([a-z][a-z0-9]+)\]", text)) == set(PROJECT["optional-dependencies"])
