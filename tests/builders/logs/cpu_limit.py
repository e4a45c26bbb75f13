"""A bound on hostile input: not how fast, but that it ends. A pattern that goes back and forth over it takes hours."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

ENOUGH = 20.0
"""Seconds of processor time; what stands inside takes a few tenths, on a busy machine too."""


@contextmanager
def bounded_cpu_time() -> Iterator[None]:
    """Fails where what stands inside took longer than anything honest."""
    begin = time.process_time()
    yield
    spent = time.process_time() - begin
    assert spent < ENOUGH, f"{spent:.1f} s of processor time"
