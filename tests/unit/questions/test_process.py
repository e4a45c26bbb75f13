"""What the process of a rank does: stopped, moving or at a prompt, and what is missing where no file tells."""

from __future__ import annotations

import math

import pytest
from builders.remedies.fixtures_conditions import at, case, stack
from msgspec.structs import replace

from nccldoctor.align.facts import Facts, align
from nccldoctor.events import Event, Note, Phase, ProcessState, Progress
from nccldoctor.questions.process import at_prompt, moving, stopped

OWN = "main (/opt/job/train.py:12)"
SPY = ("Shards.read (shards.py:8)", "main (train.py:12)")
READ, NEXT = ("read (/opt/job/shards.py:8)", OWN), ("read (/opt/job/shards.py:9)", OWN)
PARSED, SPLIT = ("parse (site-packages/yaml/loader.py:80)", OWN), ("split (site-packages/yaml/reader.py:9)", OWN)
POLLS, SELECTS = ("poll (multiprocessing/connection.py:257)", OWN), ("select (selectors.py:415)", OWN)


def facts(*events: Event, seconds: tuple[float, ...] | None = None) -> Facts:
    return align(case(events, seconds))


def looks(*frames: tuple[str, ...]) -> list[Event]:
    return [replace(stack(5, *each), look=number) for number, each in enumerate(frames, 1)]


def state(word: str, look: int = 0, rank: int = 5) -> ProcessState:
    return ProcessState(place=at("ps.txt", 2 + look, 1), text=word, rank=rank, state=word, look=look)


@pytest.mark.parametrize(
    ("seen", "holds"),
    [
        (looks(READ, SPY), False),  # py-spy prints the class and no folders, faulthandler the folders and no class
        (looks(SPY, NEXT), True),
        (looks(READ, NEXT, READ), True),  # a loop that comes back to its line moved
        (looks(PARSED, SPLIT), True),  # its own line is the same, the library that it called goes on
        (looks(POLLS, SELECTS), False),  # a wait that polls is one wait
        (looks(READ), None),
        ([], None),
        ([state("running")], True),
        ([state("blocked"), *looks(READ, NEXT)], False),
        ([replace(stack(5, *READ), state="active")], True),
    ],
)
def test_a_rank_moves_where_two_looks_or_a_state_show_it(seen: list[Event], holds: bool | None) -> None:
    answer = moving(facts(*seen), [5])
    assert answer.holds is holds
    assert answer.says


@pytest.mark.parametrize(
    ("states", "seconds", "holds"),
    [
        ((state("stopped"),), None, True),
        ((state("sleeping"),), None, False),
        ((), None, None),
        ((state("stopped", 1), state("sleeping", 2)), None, False),
        ((state("sleeping", 2), state("stopped", 1)), None, False),
        ((state("stopped"), state("sleeping")), (1700.0, 1600.0), True),  # the newest by the clock
        ((state("stopped"), state("sleeping")), (1600.0, 1700.0), False),
        ((state("stopped"), state("sleeping")), (math.nan, 1700.0), False),
        ((state("stopped", rank=4),), None, None),
    ],
)
def test_a_rank_is_stopped_where_the_newest_state_says_so(
    states: tuple[ProcessState, ...], seconds: tuple[float, ...] | None, holds: bool | None
) -> None:
    assert stopped(facts(*states, seconds=seconds), [5]).holds is holds


PROMPT = Note(place=at(line=7), text="(Pdb) ", rank=5, what="debugger")
STEP = Progress(place=at(line=9), text="step 4", rank=5, step=4)
PDB = ("interaction (pdb.py:300)", OWN)


@pytest.mark.parametrize(
    ("seen", "holds"),
    [
        ([PROMPT], True),
        ([PROMPT, STEP], False),  # somebody answered
        ([replace(PROMPT, rank=4), STEP], False),
        ([replace(PROMPT, rank=None)], None),
        (looks(PDB), True),
        (looks(PDB, READ), False),  # it was there, and is not any more
        ([Phase(place=at(line=3), text="saving", rank=5, what="checkpoint")], False),
        ([], None),
    ],
)
def test_a_rank_is_at_a_prompt_that_nothing_follows(seen: list[Event], holds: bool | None) -> None:
    assert at_prompt(facts(*seen), [5]).holds is holds
