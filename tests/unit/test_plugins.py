"""What installed packages add is found by name, in a fixed order, by one reading of their files."""

from __future__ import annotations

import importlib.metadata
from importlib.metadata import EntryPoint, EntryPoints

import pytest

from nccldoctor import plugins


@pytest.fixture(autouse=True)
def read_anew():
    plugins._installed.cache_clear()
    yield
    plugins._installed.cache_clear()


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
    assert plugins.entry_points_of("nccldoctor.parsers") == [earlier, later]
    assert plugins.entry_points_of("nccldoctor.rules") == [rule]
    assert plugins.entry_points_of("nccldoctor.catalogues") == []
    assert len(readings) == 1
