"""What installed packages add is found by name, in a fixed order, by one reading of their files."""

from __future__ import annotations

import importlib.metadata
import sys
from importlib.machinery import PathFinder
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from nccldoctor import plugins


@pytest.fixture(autouse=True)
def read_anew():
    plugins._installed.cache_clear()
    yield
    plugins._installed.cache_clear()


def installed_in(folder: Path, groups: str) -> None:
    metadata = folder / "acme-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(groups)


def test_a_package_on_the_path_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed_in(tmp_path / "site", "[console_scripts]\nacme = acme:main\n\n[nccldoctor.rules]\nacme = acme.rules\n")
    monkeypatch.syspath_prepend(tmp_path / "site")
    assert [point.value for point in plugins.entry_points_of("nccldoctor.rules")] == ["acme.rules"]
    assert plugins.entry_points_of("nccldoctor.catalogues") == []


def test_packages_that_add_nothing_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed_in(tmp_path / "site", "[console_scripts]\nnccldoctor = nccldoctor.cli.app:main\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site"), str(tmp_path / "missing")])
    monkeypatch.setattr(
        sys, "meta_path", [PathFinder]
    )  # others, such as that of a backport, may know of further packages
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda: pytest.fail("read"))
    assert plugins.entry_points_of("nccldoctor.rules") == []


@pytest.mark.parametrize("name", ["acme.zip", "site/acme.egg"])
def test_an_archive_may_hold_packages(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / name).write_bytes(b"PK")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site"), str(tmp_path / "acme.zip")])
    point = EntryPoint("acme", "acme.rules", "nccldoctor.rules")
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda: EntryPoints([point]))
    assert plugins.entry_points_of("nccldoctor.rules") == [point]


def test_entry_points_of_a_group_come_by_name_and_files_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rule, later, earlier = (
        EntryPoint("acme", "acme.rules", "nccldoctor.rules"),
        EntryPoint("lustre", "b", "nccldoctor.parsers"),
        EntryPoint("lustre", "a", "nccldoctor.parsers"),
    )
    readings: list[None] = []

    def installed() -> EntryPoints:
        readings.append(None)
        return EntryPoints([later, rule, earlier])

    monkeypatch.setattr(importlib.metadata, "entry_points", installed)
    monkeypatch.setattr(plugins, "_can_add", lambda entry: True)
    assert plugins.entry_points_of("nccldoctor.parsers") == [earlier, later]
    assert plugins.entry_points_of("nccldoctor.rules") == [rule]
    assert plugins.entry_points_of("nccldoctor.catalogues") == []
    assert len(readings) == 1
