"""Counters of training scripts: compared only between lines of one wording and one cadence."""

from __future__ import annotations

from builders.jobs.cases import Log, facts, said
from hypothesis import given, settings
from hypothesis import strategies as st

from nccldoctor.align.divergence.step_counters import comparable_counts, only_rank_ahead, ranks_past_loop
from nccldoctor.align.liveness import RankActivity
from nccldoctor.events import Event, Phase, Progress


def lines(rank: int, *steps: int, words: str = "step {} loss 0.5", epoch: int | None = None) -> list[Event]:
    return [said(Progress, rank, text=words.format(n), step=n, epoch=epoch) for n in steps]


def bar(rank: int, *steps: int, label: str = "train") -> list[Event]:
    return [
        said(Progress, rank, text=f"{label}: 9%|#  | {n}/40 [00:07<00:10]", step=n, total=40, label=label)
        for n in steps
    ]


def activities(*events: list[Event]) -> dict[int, RankActivity]:
    logs = [Log(f"rank_{e[0].rank}.log", e, rank=e[0].rank) for e in events]
    return dict(facts(logs=logs).liveness.by_rank)


def ahead(*events: list[Event]) -> list[int | None]:
    return [only_rank_ahead(counts) for counts in comparable_counts(activities(*events))]


def test_a_rank_that_counted_one_step_more() -> None:
    assert ahead(*(lines(r, *range(6 if r == 2 else 5)) for r in range(4))) == [2]


def test_a_bar_of_one_rank_is_not_compared_with_the_lines_of_the_others() -> None:
    assert ahead(bar(0, 3, 6, 17), *(lines(r, 0, 10) for r in (1, 2, 3))) == [None]


def test_a_bar_that_is_drawn_when_time_has_passed_has_no_cadence() -> None:
    assert ahead(bar(0, 1, 4, 7, 9), *(bar(r, 1, 3, 6, 8) for r in (1, 2, 3))) == []


def test_bars_that_count_every_step_are_compared() -> None:
    assert ahead(*(bar(r, *range(6 if r == 2 else 5)) for r in range(4))) == [2]


def test_every_tenth_step_is_not_compared_with_every_step() -> None:
    assert ahead(lines(0, *range(18)), *(lines(r, 0, 10) for r in (1, 2, 3))) == [None]


def test_other_words_are_another_counter() -> None:
    """Example: the step inside an epoch, and the step since the start."""
    others = [lines(r, 1, 2, 3) for r in (1, 2, 3)]
    assert ahead(lines(0, 41, 42, 43, words="global step {} loss 0.5"), *others) == [None, None]


def test_the_step_of_a_later_epoch_is_ahead() -> None:
    others = [lines(r, 18, 19, epoch=0) for r in (1, 2, 3)]
    assert ahead([*lines(0, 18, 19, epoch=0), *lines(0, 0, epoch=1)], *others) == [0]


def test_several_ranks_ahead_are_none() -> None:
    assert ahead(*(lines(r, *range(6 if r in (1, 2) else 5)) for r in range(4))) == [None]


@settings(max_examples=40, deadline=None)
@given(
    cadence=st.integers(2, 50),
    own=st.integers(1, 9),
    steps=st.integers(2, 9),
    words=st.sampled_from(["step {} x", "iter {}"]),
)
def test_another_cadence_or_wording_never_puts_a_rank_ahead(cadence: int, own: int, steps: int, words: str) -> None:
    other = words if own == cadence else "step {} loss 0.5"
    first = lines(0, *range(0, own * (steps + 5) * cadence, own), words=other)
    assert 0 not in ahead(first, *(lines(r, *range(0, cadence * steps, cadence)) for r in (1, 2, 3)))


# ---- ends of loops


def ends(rank: int, *texts: str, what: str = "epoch-end") -> list[Event]:
    return [*lines(rank, 1), *(said(Phase, rank, text=text, what=what) for text in texts)]


def test_an_epoch_that_only_one_rank_has_finished() -> None:
    both = [ends(r, *(f"epoch {n} finished" for n in range(3 if r == 3 else 2))) for r in range(4)]
    assert [*ranks_past_loop(activities(*both))] == [3]


def test_an_epoch_that_everybody_has_finished() -> None:
    assert not ranks_past_loop(activities(*(ends(r, "epoch 0 finished") for r in range(4))))


def test_who_alone_prints_each_epoch_shows_nothing() -> None:
    one = ends(0, "epoch 0 finished", "epoch 1 finished")
    assert not ranks_past_loop(activities(one, *(lines(r, 1, 2) for r in (1, 2, 3))))


def test_training_is_over_on_one_rank() -> None:
    one = ends(2, "training finished", what="finished")
    assert [*ranks_past_loop(activities(one, *(lines(r, 1, 2) for r in (0, 1, 3))))] == [2]
