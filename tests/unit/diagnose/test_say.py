"""How a row of ``phrases/*.toml`` becomes a sentence: places to fill_in in, number, optional parts, headlines."""

from __future__ import annotations

from datetime import datetime

import pytest

from nccldoctor.diagnose.phrases import say as phrases
from nccldoctor.diagnose.phrases.headline import Basis, Headline
from nccldoctor.diagnose.phrases.say import compiled, fill_in, headline_of, say
from nccldoctor.model.ranks import Ranks

ONE, MANY = Ranks([3]), Ranks([0, 1, 2, 7])


@pytest.mark.parametrize(
    ("text", "values", "told"),
    [
        ("{ranks} called", {"ranks": MANY}, "ranks 0-2, 7 called"),
        ("{Ranks} called", {"ranks": ONE}, "Rank 3 called"),
        ("{Who} failed", {"who": "gpu-04 of node1"}, "gpu-04 of node1 failed"),
        ("{ranks:count} of {size:,} ({ranks:numbers})", {"ranks": MANY, "size": 2048}, "4 of 2,048 (0-2,7)"),
        ("#{number} of {count:,}", {"number": 20918844, "count": 1024}, "#20918844 of 1,024"),
        ("after {late:duration}", {"late": 639.0}, "after 10 min 39 s"),
        ("since {since:%H:%M:%S}", {"since": datetime(2026, 1, 2, 11, 32, 50)}, "since 11:32:50"),
        ("{items}", {"items": ["a", "b", "c"]}, "a, b and c"),
        ("{items:or}", {"items": ["a", "b", "c"]}, "a, b or c"),
        ("{items:,}", {"items": ["a", "b", "c"]}, "a, b, c"),
    ],
)
def test_a_value_is_written_in_words(text: str, values: dict[str, object], told: str) -> None:
    assert fill_in(compiled(text), values) == told


@pytest.mark.parametrize(
    ("number", "told"),
    [(ONE, "is"), (MANY, "are"), (Ranks(), "are"), (1, "is"), (0, "are"), (2, "are"), (False, "is"), (True, "are")],
)
def test_a_form_fits_the_number(number: object, told: str) -> None:
    assert fill_in(compiled("{is/are:number}"), {"number": number}) == told


@pytest.mark.parametrize("missing", [None, "", Ranks(), [], False])
def test_a_part_in_brackets_falls_away_where_its_value_is_missing(missing: object) -> None:
    text = compiled("It failed[ on {where}][ with {code}].")
    assert fill_in(text, {"where": missing, "code": 0}) == "It failed with 0."
    assert fill_in(text, {"where": "rank 2"}) == "It failed on rank 2."


def test_the_first_part_that_has_its_values_is_taken() -> None:
    text = compiled("[Rank {rank}[ (device {device})]|A process] failed")
    assert fill_in(text, {"rank": 0}) == "Rank 0 failed"
    assert fill_in(text, {"rank": 0, "device": 4}) == "Rank 0 (device 4) failed"
    assert fill_in(text, {"rank": None, "device": 4}) == "A process failed"


def test_a_question_writes_nothing() -> None:
    text = compiled("It [{?late}came late|came][{?count=1} once|{count} times]")
    assert fill_in(text, {"late": True, "count": 1}) == "It came late once"
    assert fill_in(text, {"late": False, "count": 3}) == "It came3 times"


@pytest.mark.parametrize("text", ["a [b", "a ]b", "a|b", "[a|b"])
def test_a_bracket_without_its_other_end_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\[|\]"):
        compiled(text)


def test_a_row_without_a_value_that_it_needs_is_an_error() -> None:
    with pytest.raises(KeyError, match="queued"):
        say("inside.queued-but-unfinished", rank=2, number=6)
    with pytest.raises(KeyError, match="no-such-row"):
        say("inside.no-such-row")


def test_a_headline_has_its_parts_hedge_and_basis() -> None:
    assert headline_of("inside.gpu-stopped", who="rank 3 (node1)", ranks=ONE, call="ALLREDUCE #7") == Headline(
        "the GPU of rank 3 (node1)", "stopped in ALLREDUCE #7", "its process kept queuing work", briefs=("",)
    )
    never = headline_of("absent.never-reached", who="rank 1", call="ALLREDUCE #9", doing="it was in load")
    assert never == Headline("rank 1", "never reached ALLREDUCE #9", "it was in load", basis=Basis.RANKS)
    assert headline_of("stacks.all-wait", who="ranks 0-1", wait="send").hedge == ""


def test_a_headline_of_one_text_holds_at_every_confidence() -> None:
    found = headline_of("disagree.found-by-analyzer", seq=9)
    assert found.sure == found.unsure == "PyTorch's analyzer found ranks that differ in #9."


def test_a_file_is_read_once() -> None:
    assert phrases.read_book("waiting") is phrases.read_book("waiting")
