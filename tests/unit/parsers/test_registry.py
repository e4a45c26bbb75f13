"""The shelves hold every parser of every family, and those of other packages."""

from __future__ import annotations

import importlib
import pkgutil
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from nccldoctor.parsers import registry
from nccldoctor.parsers.base import FILE_PARSERS, LINE_PARSERS, FileParser, LineParser, reads

WORDINGS = Path(registry.parsers.__path__[0]) / "wordings"


@pytest.fixture
def loaded_anew():
    """Loads the shelves once more in the test, and leaves them as they were."""
    registry.line_parsers()
    kept = list(LINE_PARSERS)
    registry.load_parsers.cache_clear()
    yield
    LINE_PARSERS[:] = kept
    registry.load_parsers.cache_clear()
    registry.load_parsers()


def test_every_class_of_every_family_is_registered():
    registered = {type(parser) for parser in (*registry.line_parsers(), *registry.file_parsers())}
    for found in pkgutil.walk_packages(registry.parsers.__path__, "nccldoctor.parsers."):
        if found.name.count(".") < 3:
            continue  # no family: the base classes
        for value in vars(importlib.import_module(found.name)).values():
            if (
                isinstance(value, type)
                and value.__module__ == found.name
                and issubclass(value, LineParser | FileParser)
            ):
                assert value in registered, f"{found.name}.{value.__name__}"


def test_every_parser_is_there_once_and_has_its_wordings():
    for parsers in (registry.line_parsers(), registry.file_parsers()):
        assert len({type(parser) for parser in parsers}) == len(parsers)
        for parser in parsers:
            *folders, module = type(parser).__module__.removeprefix("nccldoctor.parsers.").split(".")
            assert WORDINGS.joinpath(*folders, f"{module}.toml").is_file(), f"{'/'.join(folders)}/{module}.toml"


@pytest.mark.usefixtures("loaded_anew")
def test_an_installed_package_adds_parsers(monkeypatch):
    class Points(EntryPoint):
        def load(self):
            @reads("LustreError")
            def lustre(line):
                return ()

    monkeypatch.setattr(registry, "entry_points_of", lambda group: [Points("lustre", "a.b", group)])
    assert "lustre" in {type(parser).__name__ for parser in registry.line_parsers()}
    assert registry.load_parsers() == ()


@pytest.mark.usefixtures("loaded_anew")
def test_a_package_that_fails_to_import_is_a_gap(monkeypatch, caplog):
    point = EntryPoint("lustre", "no_such_package.parsers", registry.ENTRY_POINTS)
    monkeypatch.setattr(registry, "entry_points_of", lambda group: [point] if group == registry.ENTRY_POINTS else [])
    (gap,) = registry.load_parsers()
    assert (gap.what, gap.why) == ("parsers of lustre", "no_such_package.parsers fails to import: ModuleNotFoundError")
    assert "no_such_package.parsers are left out" in caplog.text
    assert len(registry.line_parsers()) == len(LINE_PARSERS) > 60
    assert len(FILE_PARSERS) >= 4
