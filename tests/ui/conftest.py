"""One browser for all pages of a module: its driver runs an event loop, beside which no other test could start one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync")


def chromium() -> str | None:
    """The path of the browser, None where there is none."""
    named = os.environ.get("NCCLDOCTOR_CHROMIUM")
    return named or next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chromium-browser"))), None)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    executable = chromium()
    if executable is None:
        pytest.skip("no Chromium: set NCCLDOCTOR_CHROMIUM or install it")
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=executable, args=list(ARGUMENTS))
        yield running
        running.close()
