"""How a text becomes a sentence."""

from __future__ import annotations

import pytest

from nccldoctor.words.sentences import capitalized, sentence, uncapitalized


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rank 1 exited", "Rank 1 exited."),
        ("NCCL_DEBUG is off", "NCCL_DEBUG is off."),
        ("gpu-04 lost a link", "gpu-04 lost a link."),
        ("node.example lost a link", "node.example lost a link."),
        ("also, a link broke", "Also, a link broke."),
        ("is it stuck?", "Is it stuck?"),
        ("see the table:", "See the table:"),
        ("cut here…", "Cut here…"),
        ("with a blank ", "With a blank."),
        ("", ""),
    ],
)
def test_a_sentence_begins_large_and_ends_with_a_mark(text: str, said: str) -> None:
    assert sentence(text) == said


def test_only_the_first_letter_changes() -> None:
    assert capitalized("ranks 0-2 of TP 1") == "Ranks 0-2 of TP 1"
    assert uncapitalized("Init hang on NCCL") == "init hang on NCCL"
    assert capitalized("") == uncapitalized("") == ""
