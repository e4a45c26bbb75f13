"""What ``explain`` says of a class, and what ``catalogue search`` finds."""

from __future__ import annotations

import re

import pytest

from nccldoctor.cli.explain import OBSERVATIONS, explanation
from nccldoctor.diagnose.why import cause_table
from nccldoctor.model import CauseClass
from nccldoctor.prescribe.catalogue.load import load_catalogue
from nccldoctor.prescribe.catalogue.pages import condition_sentence
from nccldoctor.prescribe.catalogue.remedy import BLOCKS
from nccldoctor.reports.terminal.document import unmarked


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


def test_stars_of_a_command_are_no_marks() -> None:
    page = "# A\n\nRun `grep . /sys/*/ports/*/x`, **not** `*`, and *then* wait\\*."
    assert unmarked(page) == "A\n\nRun grep . /sys/*/ports/*/x, not *, and then wait*."


@pytest.mark.parametrize("cause", list(CauseClass))
def test_no_page_of_a_class_shows_a_placeholder(cause: CauseClass) -> None:
    assert "{" not in explanation(cause)


def test_a_health_page_does_not_describe_a_hang() -> None:
    assert "stands outside the call" not in explanation("none")


def test_a_search_finds_words_of_the_steps() -> None:
    assert "left-in-debugger" in [entry.remedy.id for entry in load_catalogue().search("pdb")]


def test_every_weighed_observation_is_told_in_words() -> None:
    weighed = {name for row in cause_table().values() for name in row.weights}
    assert weighed == set(OBSERVATIONS)


def test_a_condition_reads_like_the_question_that_a_report_shows() -> None:
    page = explanation("dataloader-stall")
    assert "- The rank at fault waits for the data loader or reads data." in page
    assert "(only if the input holds no stacks of the rank at fault)" in page


def test_conditions_are_told_without_the_syntax_of_the_catalogue() -> None:
    remedies = [entry.remedy for entry in load_catalogue().entries]
    clauses = {str(clause): clause for remedy in remedies for block in BLOCKS for clause in remedy.clauses(block)}
    sentences = [condition_sentence(clause) for clause in clauses.values()]
    assert not [text for text in sentences if re.search(r"None|\bof rank_|such a|_=|, ,|to ,", text)]
