"""Progress is shown on a terminal alone, after a second, with a rate and the time that remains."""

from __future__ import annotations

import io

import pytest

from nccldoctor.cli.terminal import Waiting

MB = 1_000_000


class Terminal(io.StringIO):
    """Where stderr goes on a terminal."""

    def isatty(self) -> bool:
        return True


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def shown(monkeypatch: pytest.MonkeyPatch, stderr: io.StringIO, *, quiet: bool = False) -> str:
    """What stands on stderr after a reading of 100 MB at 10 MB a second, left when 40 are done."""
    monkeypatch.setattr("sys.stderr", stderr)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    clock = Clock()
    with Waiting(quiet, clock) as waiting:
        for second in range(5):
            clock.now = float(second)
            waiting(second * 10 * MB, 100 * MB)
    return stderr.getvalue()


def test_a_terminal_shows_bytes_rate_and_remaining_time(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(monkeypatch, Terminal())
    assert "reading" in text
    assert "40.0/100.0 MB" in text
    assert "10.0 MB/s" in text
    assert "0:00:06" in text


def test_nothing_is_shown_elsewhere_or_when_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, io.StringIO()) == ""
    assert shown(monkeypatch, Terminal(), quiet=True) == ""


def test_what_takes_less_than_a_second_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = Terminal()
    monkeypatch.setattr("sys.stderr", stderr)
    with Waiting(clock=Clock()) as waiting:
        waiting(50 * MB, 100 * MB)
        waiting(100 * MB, 100 * MB)
    assert stderr.getvalue() == ""
