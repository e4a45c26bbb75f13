"""What ``explain`` says of a class, and what ``catalogue search`` finds."""

from __future__ import annotations

import pytest

from nccldoctor.cli.explain import explanation
from nccldoctor.model import CauseClass
from nccldoctor.prescribe.catalogue.load import load_catalogue


@pytest.mark.parametrize(
    ("cause", "first"),
    [
        ("none", "The job is shown to be well."),
        ("not-arrived", "A rank is alive and never issued the call that the others wait in."),
        ("straggler", "A rank is late but alive"),
    ],
)
def test_the_rule_of_its_own_name_explains_a_class_first(cause: str, first: str) -> None:
    assert explanation(cause).split("\n\n")[1].startswith(first)


@pytest.mark.parametrize("cause", list(CauseClass))
def test_no_page_of_a_class_shows_a_placeholder(cause: CauseClass) -> None:
    assert "{" not in explanation(cause)


def test_a_health_page_does_not_describe_a_hang() -> None:
    assert "stands outside the call" not in explanation("none")


def test_a_search_finds_words_of_the_steps() -> None:
    assert "left-in-debugger" in [entry.remedy.id for entry in load_catalogue().search("pdb")]
