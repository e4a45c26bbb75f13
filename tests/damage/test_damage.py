"""Damage invents nothing: on a few jobs, every kind; the longer run is ``python tests/damage/measure.py``."""

from __future__ import annotations

import random
from functools import cache

import pytest
from damage.harness import Answer, by_command, damaged, effect, findings, seen, seen_here
from damage.kinds.every import KINDS
from damage.labelled import Labelled, Truth, of_samples, of_simulator
from damage.measure import report

SAMPLES = ("died", "dtype-mismatch", "not-arrived")
SEEDS = (3, 11, 28)

NEVER = {"crash", "part broke", "slow", "large", "flip", "false all-clear", "silent"}
"""What no damage may do."""


@cache
def _jobs() -> tuple[tuple[Labelled, Answer], ...]:
    jobs = [job for job in of_samples() if job.name.removeprefix("sample ") in SAMPLES]
    jobs += of_simulator(SEEDS)
    return tuple((job, seen_here(job.files)) for job in jobs)


@pytest.mark.costly
@pytest.mark.parametrize("family", sorted({kind.family for kind in KINDS.values()}))
def test_damage_invents_nothing(family: str) -> None:
    bad = []
    for name, kind in sorted(KINDS.items()):
        if kind.family != family:
            continue
        fitting = [pair for pair in _jobs() if damaged(kind, pair[0]) is not None]
        assert fitting, f"{name} damages none of the jobs"
        job, before = random.Random(name).choice(fitting)
        found = effect(kind, job, before)
        assert found is not None
        if NEVER & set(found.findings):
            bad.append(
                f"{name} on {job.name}: {found.findings}\n  before {before}\n  after {found.after} {found.after.crash}"
            )
    assert not bad, "\n".join(bad)


def test_the_report_has_a_row_for_each_kind() -> None:
    job, before = _jobs()[0]
    found = effect(KINDS["torn"], job, before)
    assert found is not None
    text = report(1, [found], "Made today")
    assert text == report(1, [found], "Made today")
    assert all(f"\n| {name} | {kind.about} | {int(name == 'torn')} |" in text for name, kind in KINDS.items())


def test_the_jobs_are_judged_rightly_before_the_damage() -> None:
    wrong = [f"{job.name}: {before}" for job, before in _jobs() if before.is_wrong(job.truth)]
    assert not wrong, wrong


def test_there_are_sixty_kinds_and_each_says_what_it_does() -> None:
    assert len(KINDS) >= 60
    assert all(kind.about for kind in KINDS.values())


def test_the_command_says_what_the_function_says() -> None:
    job, before = _jobs()[0]
    files = damaged(KINDS["torn"], job)
    assert files is not None
    code, document = by_command(files)
    assert code == 1
    answer = seen(files)
    assert f'"class": "{answer.cause}"' in document
    assert before.cause == "died"


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        (Answer(cause="died", ranks="2", confidence="high", in_ranks="high", in_class="high"), "flip"),
        (Answer(cause="raised", ranks="1", confidence="high", in_ranks="high", in_class="high"), "flip"),
        (Answer(cause="died", ranks="2", confidence="medium", in_ranks="medium", in_class="high"), "new rank"),
        (Answer(cause="none", confidence="medium", in_ranks="medium", in_class="medium"), "false all-clear"),
        (Answer(crash="Traceback"), "crash"),
    ],
)
def test_the_harness_sees_what_is_wrong(answer: Answer, word: str) -> None:
    """The rulings of the harness itself, on answers that are made up."""
    truth = Truth((frozenset({1}),), frozenset({"died"}), True)
    before = Answer(cause="died", ranks="1", confidence="high", in_ranks="high", in_class="high")
    job = Labelled("made up", {"a.log": b"text\n"}, truth)
    assert word in findings(job, before, answer, job.files)


@pytest.mark.parametrize(("ranks", "is_flip"), [("1", False), ("2", False), ("3", True), ("1-2", True)])
def test_a_verdict_moves_with_the_names_of_files_and_never_to_a_third_rank(ranks: str, is_flip: bool) -> None:
    whole = {f"rank_{r}.log": b"text of rank %d\n" % r for r in range(4)}
    job = Labelled("made up", whole, Truth((frozenset({1}),), frozenset({"died"}), True))
    before = Answer(cause="died", ranks="1", confidence="high", in_ranks="high", in_class="high")
    after = Answer(cause="died", ranks=ranks, confidence="high", in_ranks="high", in_class="high")
    exchanged = whole | {"rank_1.log": whole["rank_2.log"], "rank_2.log": whole["rank_1.log"]}
    assert ("flip" in findings(job, before, after, exchanged)) is is_flip
    assert ("flip" in findings(job, before, after, whole)) is (ranks != "1"), (
        "only names that were exchanged move a verdict"
    )


def test_a_file_that_falls_silent_is_seen() -> None:
    truth = Truth((frozenset({1}),), frozenset({"died"}), True)
    job = Labelled("made up", {"a.log": b"text\n", "b.log": b"text\n"}, truth)
    before = Answer(cause="died", ranks="1", heard=("a.log", "b.log"))
    assert "silent" in findings(job, before, Answer(cause="died", ranks="1", heard=("a.log",)), job.files)
    named = Answer(cause="died", ranks="1", heard=("a.log",), named=("b.log",))
    assert "silent" not in findings(job, before, named, job.files)
