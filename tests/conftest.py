"""Options of the test run."""

from __future__ import annotations

import pytest
from hypothesis import settings

settings.register_profile("patient", deadline=None, derandomize=True)  # a busy machine is no defect of the code
settings.register_profile("search", deadline=None)  # pytest --hypothesis-profile=search looks for what is not known yet
settings.load_profile("patient")

MUST_RUN = ("live", "browser", "notebook")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--all-must-run", action="store_true", help=f"fail when a test marked {', '.join(MUST_RUN)} is skipped"
    )


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
