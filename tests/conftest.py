"""Options of the test run."""

from __future__ import annotations

import logging
import sys
from collections import defaultdict
from collections.abc import Iterator
from zlib import crc32

import pytest
from hypothesis import settings

settings.register_profile("patient", deadline=None, derandomize=True)  # a busy machine is no defect of the code
settings.register_profile("search", deadline=None)  # pytest --hypothesis-profile=search looks for what is not known yet
settings.load_profile("patient")

BREAKS = "breaks"
"""Marks a test in which a part of the analysis breaks on purpose."""

MUST_RUN = ("live", "browser", "notebook", "site")

COSTLY = "costly"
"""Marks the cases of a family, of which each takes whole analyses or processes: those of one function, or all that name it."""

COVERS = (
    *(f"diagnosis/{family}/" for family in ("absent", "disagree", "inside", "setup", "slow")),
    *(f"unit/{room}/" for room in ("diagnose", "parsers")),
)
"""The tests that reach rules and parsers, whose coverage has a floor."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--all-must-run", action="store_true", help=f"fail when a test marked {', '.join(MUST_RUN)} is skipped"
    )
    parser.addoption(
        "--costly-third", action="store_true", help=f"of the tests marked {COSTLY} run a third, always the same"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out two thirds of the costly cases where asked; measure coverage where it is cheap or wanted."""
    if config.getoption("--costly-third"):
        families: dict[str, list[pytest.Item]] = defaultdict(list)
        for item in items:
            if mark := item.get_closest_marker(COSTLY):
                families[mark.args[0] if mark.args else item.nodeid.partition("[")[0]].append(item)
        left_out = set()
        for cases in families.values():
            cases.sort(key=lambda item: crc32(item.nodeid.encode()))
            left_out |= set(cases[(len(cases) + 2) // 3 :])
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]
    if sys.version_info < (3, 12):  # the tracer doubles the time of a test; sys.monitoring costs a tenth
        for item in items:
            if not item.nodeid.removeprefix("tests/").startswith(COVERS):
                item.add_marker("no_cover")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):  # type: ignore[no-untyped-def]
    """Turn a skip into a failure where everything must run; the report says so in its own words."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and item.config.getoption("--all-must-run"):
        marks = [mark for mark in MUST_RUN if item.get_closest_marker(mark)]
        if marks:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            report.outcome = "failed"
            report.longrepr = f"must run ({', '.join(marks)}), but: {reason}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector):  # type: ignore[no-untyped-def]
    """A whole file that skips itself is no better than its tests skipped one by one."""
    report = yield
    if report.skipped and collector.config.getoption("--all-must-run"):
        report.outcome = "failed"
        report.longrepr = f"must run, but skipped: {report.longrepr}"
    return report


class _BrokenParts(logging.Handler):
    """The parts of the analysis that broke while a test ran."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.module == "attempts":
            self.seen.append(self.format(record))


@pytest.fixture(autouse=True)
def _nothing_breaks(request: pytest.FixtureRequest) -> Iterator[None]:
    """A part that breaks costs only itself, so that a test could miss it: it fails here, unless it is marked."""
    handler, logger = _BrokenParts(), logging.getLogger("nccldoctor")
    logger.addHandler(handler)
    yield
    logger.removeHandler(handler)
    if not request.node.get_closest_marker(BREAKS):
        assert not handler.seen, handler.seen[0]
