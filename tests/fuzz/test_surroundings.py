"""The command in odd surroundings: a few of the cases of ``python tests/fuzz/surroundings.py``, which runs all of them."""

from __future__ import annotations

import pytest
from fuzz.surroundings import CASES, JUDGED, Surroundings, problems

QUICK = (
    "no-home",
    "closed-stdout",
    "full-stdout",
    "report-to-proc",
    "gone-folder",
    "hostile-settings",
    "links",
    "odd-names",
    "code-in-pickles",
    "outside",
)


@pytest.mark.costly
@pytest.mark.parametrize("name", QUICK)
def test_no_surroundings_break_the_command(name: str) -> None:
    assert problems(CASES[name]) == []


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("exit 70", "exit code 70"),
        ("echo 'Traceback (most recent call last)' >&2; exit 1", "a traceback"),
        ("touch job/canary; exit 1", "code of the input ran"),
    ],
)
def test_what_gives_way_is_seen(command: str, said: str) -> None:
    assert any(said in one for one in problems(Surroundings("made up", command, JUDGED)))
