"""The registry of rules: every file of the folder is in it, in the order of the classes, and other packages may add theirs."""

from __future__ import annotations

import logging
import pkgutil
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace

import pytest
from builders.jobs.cases import case

from nccldoctor.align.facts import align
from nccldoctor.diagnose import rules
from nccldoctor.diagnose.diagnose import diagnose
from nccldoctor.diagnose.registry import RULES, rule
from nccldoctor.model import CauseClass


@pytest.fixture
def reloaded() -> Iterator[None]:
    rules.load()
    kept = list(RULES)
    rules.load.cache_clear()
    yield
    RULES[:] = kept
    rules.load.cache_clear()


def test_every_file_of_the_folder_is_registered_and_every_class_has_a_rule() -> None:
    registered = rules.load()
    files = {found.name for found in pkgutil.walk_packages(rules.__path__, f"{rules.__name__}.") if not found.ispkg}
    assert {rule.judge.__module__ for rule in registered} == files
    assert {rule.cause for rule in registered} == set(CauseClass)
    places = [list(CauseClass).index(rule.before) for rule in registered]
    assert places == sorted(places)


def _offered(monkeypatch: pytest.MonkeyPatch, load: object) -> None:
    point = SimpleNamespace(name="acme", value="acme_rules", load=load)
    monkeypatch.setattr(rules, "entry_points_of", lambda group: [point] if group == rules.ENTRY_POINTS else [])


def test_another_package_takes_a_place_before_the_rule_of_a_class(
    reloaded: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load() -> ModuleType:
        rule(CauseClass.NETWORK, refuted_by="a ping", before=CauseClass.HARDWARE)(lambda facts, stall: None)
        rule(CauseClass.FROZEN, refuted_by="a line")(lambda facts, stall: None)
        return rules

    _offered(monkeypatch, load)
    order = [r.cause for r in rules.load() if r.before is r.cause or r.judge.__module__ == __name__]
    assert order[:4] == [CauseClass.INIT, CauseClass.NETWORK, CauseClass.HARDWARE, CauseClass.NETWORK]
    foreign = [r.judge.__module__ == __name__ for r in rules.load() if r.before is CauseClass.FROZEN]
    assert foreign[0] is True
    assert foreign.count(True) == 1


def test_a_package_that_fails_to_import_is_logged_and_left_out(
    reloaded: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def load() -> ModuleType:
        raise ImportError("no module named acme_rules")

    _offered(monkeypatch, load)
    assert {r.cause for r in rules.load()} == set(CauseClass)
    assert "acme = acme_rules are left out" in caplog.text


def test_the_debug_log_says_which_rule_was_asked(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="nccldoctor")
    diagnose(align(case()))
    lines = [record.getMessage() for record in caplog.records]
    assert any("init is not proposed, its rule does not hold" in line for line in lines)
    assert "undetermined explains it" in lines[-1]
