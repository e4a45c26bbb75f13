"""The scores of hangbench judge made-up answers as their titles say, and the page shows them."""

from __future__ import annotations

import json
import pickle
import re
from dataclasses import replace

import pytest
from hangbench.answers import Answer, NoAnswerError, read_answer
from hangbench.jobs import BenchJob, KnownTruth
from hangbench.results import Results, ToolResult
from hangbench.scores import SCORES, Outcome

from nccldoctor.model.ranks import Ranks

TOLD = KnownTruth("rank 3 is killed", (Ranks([3]), Ranks([3, 4])), ("died", "raised"), True, True)
UNTOLD = replace(TOLD, tells_ranks=False, tells_class=False)
INSIDE = KnownTruth("all are inside", (Ranks(),), ("unfinished",), True, True)
HEALTHY = KnownTruth("nothing is wrong", (Ranks(),), ("none",), True, True)

RIGHT = Answer(Ranks([3]), cause="died", confidence="high")
OTHER = Answer(Ranks([5]), Ranks([3]), "network", "high")
MORE = Answer(Ranks([3, 5]), cause="absent")
OTHER_FAMILY = Answer(Ranks([3]), cause="disagree", confidence="high")
SILENT = Answer()
ALL_WELL = Answer(cause="none", confidence="high", says_healthy=True)


def judged(truth: KnownTruth, answer: Answer) -> set[str]:
    """The titles of the scores that count this answer."""
    return {score.title for score in SCORES if score.judge(truth, answer)}


@pytest.mark.parametrize(
    ("truth", "answer", "counted"),
    [
        (TOLD, RIGHT, {"culprit exact", "culprit among those named", "class right", "family right"}),
        (TOLD, replace(RIGHT, ranks=Ranks([3, 4])), judged(TOLD, RIGHT)),
        (TOLD, OTHER, {"culprit among those named", "innocent accused", "wrong with high confidence"}),
        (TOLD, MORE, {"culprit among those named", "family right", "innocent accused"}),
        (TOLD, SILENT, {"left open, though decidable"}),
        (TOLD, ALL_WELL, {"false all-clear", "wrong with high confidence"}),
        (TOLD, OTHER_FAMILY, {"culprit exact", "culprit among those named", "wrong with high confidence"}),
        (TOLD, Answer(Ranks([4])), set()),
        (UNTOLD, SILENT, {"careful where nobody can tell"}),
        (UNTOLD, RIGHT, {"careful where nobody can tell"}),
        (UNTOLD, replace(OTHER, confidence="low"), {"careful where nobody can tell", "innocent accused"}),
        (UNTOLD, OTHER, {"innocent accused", "wrong with high confidence"}),
        (INSIDE, Answer(cause="unfinished", confidence="high"), {"class right", "family right"}),
        (INSIDE, OTHER, {"family right", "innocent accused", "wrong with high confidence"}),
        (HEALTHY, ALL_WELL, {"healthy job called healthy"}),
        (HEALTHY, SILENT, set()),
        (HEALTHY, RIGHT, {"innocent accused", "wrong with high confidence"}),
    ],
)  # fmt: skip
def test_an_answer_is_judged(truth: KnownTruth, answer: Answer, counted: set[str]) -> None:
    assert judged(truth, answer) == counted


def test_jobs_that_a_score_does_not_ask_are_not_counted() -> None:
    outcomes = [Outcome(BenchJob("j", {}, truth), "answered", RIGHT) for truth in (TOLD, UNTOLD, INSIDE, HEALTHY)]
    counts = {score.title: score.count(outcomes) for score in SCORES}
    assert counts["culprit exact"] == (1, 1)
    assert counts["class right"] == (1, 2)
    assert counts["careful where nobody can tell"] == (1, 1)
    assert counts["healthy job called healthy"] == (0, 1)
    assert counts["innocent accused"] == (2, 4)
    assert counts["false all-clear"] == (0, 3)
    assert counts["wrong with high confidence"] == (2, 4)


def test_an_all_clear_that_the_files_allow_is_not_false() -> None:
    late = replace(UNTOLD, classes=("straggler", "none"))
    assert judged(late, ALL_WELL) == {"careful where nobody can tell"}


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("{}", Answer()),
        ('{"ranks": "0-2, 7", "class": "died", "confidence": "low"}', Answer(Ranks([0, 1, 2, 7]), Ranks(), "died", "low")),
        ('{"ranks": [3], "suspects": "4", "class": null}', Answer(Ranks([3]), Ranks([4]))),
        ('{"ranks": null, "class": "none", "says_healthy": true, "more": 1}', Answer(cause="none", says_healthy=True)),
        ('{"no_input": true, "ranks": "x"}', None),
    ],
)  # fmt: skip
def test_an_answer_is_read(text: str, answer: Answer | None) -> None:
    assert read_answer(text) == answer


@pytest.mark.parametrize(
    "text",
    [
        *("", "rank 3", "[]", "3", "[" * 100_000),
        *('{"ranks": "3;4"}', '{"ranks": "0-999999"}', '{"ranks": [true]}', '{"ranks": [-1]}', '{"ranks": 3}'),
        *('{"class": "gremlins"}', '{"class": ["died"]}', '{"confidence": "sure"}', '{"says_healthy": "no"}'),
    ],
)
def test_what_is_no_answer_is_refused(text: str) -> None:
    with pytest.raises(NoAnswerError):
        read_answer(text)


def made_up() -> Results:
    """Two tools over three jobs: the second reads one of them, crashes on another, and finds no input in the third."""
    told, healthy, odd = (
        BenchJob(name, {}, truth) for name, truth in (("made-1", TOLD), ("made-2", HEALTHY), ("made-3", UNTOLD))
    )
    first = (
        Outcome(told, "answered", RIGHT, 1.0),
        Outcome(healthy, "answered", ALL_WELL, 1.0),
        Outcome(odd, "answered", OTHER, 1.0),
    )
    second = (
        Outcome(told, "answered", MORE, 2.5),
        Outcome(healthy, "crashed", complaint="<b>no|such*file</b>\nat"),
        Outcome(odd, "no input"),
    )
    tools = (ToolResult("one", "1.0", "All of it.", first), ToolResult("two", "2.0", "Half of it.", second))
    return Results("Made today", "0123", tools)


def test_the_page_shows_the_scores_of_each_tool() -> None:
    page = made_up().as_markdown()
    own, shared = page.split("## All tools over")
    assert "| jobs | 3 | 2 |" in own
    assert "| no input it can read | 0 | 1 |" in own
    assert "| crashes | 0 | 1 |" in own
    assert "| culprit exact | 1 / 1 (100 %) | 0 / 1 (0 %) |" in own
    assert "| innocent accused (a fault) | 1 / 3 (33 %) | 1 / 2 (50 %) |" in own
    assert "| wrong with high confidence (a fault) | 1 / 3 (33 %) | - |" in own
    assert "| processor time | 1 | 2.5 times, over 1 jobs |" in own
    assert "| jobs | 2 | 2 |" in shared
    assert "| innocent accused (a fault) | 0 / 2 (0 %) | 1 / 2 (50 %) |" in shared
    assert "| died | 1 / 1 (100 %) | 0 / 1 (0 %) |" in shared
    assert "| wrong with high confidence | one | made-3 |" in shared
    for score in SCORES:
        assert score.meaning in page


def in_sets() -> Results:
    """A job of real processes with dumps of gloo, and one of a kind met at strangers; the second tool fails on the first."""
    gloo = pickle.dumps({"version": "2.10", "pg_config": {"": {"ranks": "[]"}}})
    jobs = [BenchJob("recorded-1", {"fr_0": gloo}, TOLD), BenchJob("strangers-1", {}, TOLD)]
    first = tuple(Outcome(job, "answered", RIGHT, 1.0) for job in jobs)
    second = (Outcome(jobs[0], "crashed"), Outcome(jobs[1], "answered", MORE, 1.0))
    tools = (ToolResult("one", "1.0", "All of it.", first), ToolResult("two", "2.0", "Half of it.", second))
    return Results("Made today", "0123", tools)


def test_the_page_shows_each_set_by_itself() -> None:
    page = in_sets().as_markdown()
    assert re.search(r"^\| recorded \| 1 \| 0 \| 0 \| Real processes", page, re.MULTILINE)
    table = page.partition("## Each set by itself")[2].partition("\n## ")[0]
    assert [row.split(" | ")[:4] for row in table.splitlines() if row.startswith(("| recorded", "| strangers"))] == [
        ["| recorded", "one", "1", "1 / 1 (100 %)"],
        ["| recorded", "two", "1", "0 / 1 (0 %)"],
        ["| strangers", "one", "1", "1 / 1 (100 %)"],
        ["| strangers", "two", "1", "0 / 1 (0 %)"],
    ]


def test_one_table_leaves_out_the_jobs_with_dumps_of_gloo_alone() -> None:
    shared, named = in_sets().as_markdown().partition("## All tools over")[2].split("## The same without")
    assert "| jobs | 2 | 2 |" in shared
    assert "| crashes | 0 | 1 |" in shared
    assert "| jobs | 1 | 1 |" in named
    assert "| crashes | 0 | 0 |" in named.partition("\n## ")[0]


def test_what_a_tool_printed_is_text_on_the_page() -> None:
    page = made_up().as_markdown()
    assert "<b>" not in page
    assert r"made-2 (\<b\>no\|such\*file\</b\> at)" in page


def test_the_same_results_give_the_same_page() -> None:
    assert made_up().as_markdown() == made_up().as_markdown()
    document = json.loads(made_up().as_json())
    assert document == json.loads(made_up().as_json())
    assert [one["ending"] for one in document["tools"][1]["outcomes"]] == ["answered", "crashed", "no input"]
    assert document["tools"][0]["scores"]["culprit exact"] == [1, 1]
