"""The catalogue's CommonMark as plain words."""

from __future__ import annotations

import pytest

from nccldoctor.reports.parts import prose


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("*active*, R or another frame: it **computes**.", "active, R or another frame: it computes."),
        ("Fetch `/tmp/nccl_trace_rank_*` and `*.log`.", "Fetch /tmp/nccl_trace_rank_* and *.log."),
        ("2 * 3 * 4, and 2*3*4", "2 * 3 * 4, and 2*3*4"),
        (r"a \*star\*", "a *star*"),
    ],
)
def test_a_terminal_gets_words_without_marks(text: str, plain: str) -> None:
    assert prose.plain(text) == plain
