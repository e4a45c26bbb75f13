"""Rank labels of scripts: learned where their numbers can be nothing but ranks."""

from __future__ import annotations

from io import BytesIO

import pytest

from nccldoctor.events import Progress
from nccldoctor.model import Source, SourceKind
from nccldoctor.parsers.engine.scan import scan

OUT_OF_ORDER = ([0, 3, 2, 1], [1, 0, 3, 2], [3, 2, 0, 1], [0, 1, 3, 2], [2, 3, 1, 0])


def steps(text: str, rank: int | None = None) -> list[int | None]:
    """The ranks of the steps that a file reports."""
    source = Source(0, "train.log", SourceKind.LOG, len(text), rank=rank)
    return [e.rank for e in scan(source, BytesIO(text.encode())).events if isinstance(e, Progress)]


def printed(label: str, before: str = "", rounds: tuple[list[int], ...] = OUT_OF_ORDER) -> str:
    """Rounds of steps, in each of which every rank says how far it is and what its memory holds."""
    return "".join(
        f"{before}{label.format(r)}step {n} loss 0.71\n{before}{label.format(r)}memory {n}.5 GB\n"
        for n, ranks in enumerate(rounds)
        for r in ranks
    )


ALL = [rank for ranks in OUT_OF_ORDER for rank in ranks]


@pytest.mark.parametrize("before", ["", "2026-11-28 23:21:52,748 ", "[2026-11-28 23:21:52,748][pretrain][INFO]"])
@pytest.mark.parametrize(
    "label", ["[r{}] ", "{}/4 ", "R{}: ", "[{}] ", "p{} ", "<{}> ", "({}): ", "w{}| ", "proc={} - "]
)
def test_a_number_that_goes_from_0_to_3_and_comes_back_before_all_messages_is_the_rank(label: str, before: str) -> None:
    assert steps(printed(label, before)) == ALL


def test_a_rank_that_goes_on_alone_at_the_end_takes_no_label_from_the_others() -> None:
    alone = "".join(f"[r2] cannot reach the store, trial {n}\n" for n in range(60))
    assert steps(printed("[r{}] ") + alone) == ALL


def test_of_two_ranks_a_letter_tells_that_they_are_ranks() -> None:
    two = ([0, 1], [1, 0], [0, 1])
    assert steps(printed("[r{}] ", rounds=two)) == [0, 1, 1, 0, 0, 1]
    assert steps(printed("[{}] ", rounds=two)) == [None] * 6


def test_the_size_of_the_world_confirms_numbers_that_come_in_one_order() -> None:
    in_order = printed("[{}] ", rounds=([0, 1, 2, 3],) * 4)
    assert steps(in_order) == [None] * 16
    assert steps("world_size: 4\n" + in_order) == [0, 1, 2, 3] * 4


@pytest.mark.parametrize("told", ["world size = 8", "[rank5]: RuntimeError: a", "rank      : 5 (local_rank: 1)"])
def test_a_rank_or_a_world_beyond_the_labels_says_that_they_are_no_ranks(told: str) -> None:
    assert set(steps(printed("[r{}] ") + told + "\n")) == {None}


@pytest.mark.parametrize(
    ("label", "rounds"),
    [
        ("[epoch {}] ", OUT_OF_ORDER),
        ("[shard {}/4] ", OUT_OF_ORDER),
        ("[gpu {}] ", OUT_OF_ORDER),
        ("[local_rank {}] ", OUT_OF_ORDER),
        ("[{}/4] ", ([0] * 5, [1] * 5, [2] * 5, [3] * 5)),  # an epoch
        ("[{}/4] ", ([1, 4, 3, 2], [2, 3, 4, 1], [4, 1, 2, 3])),  # counts from 1
        ("[{}] ", ([0, 3, 1], [3, 1, 0], [1, 0, 3])),  # 2 is missing
        ("{} ", OUT_OF_ORDER),  # "3 files"
    ],
)
def test_other_numbers_are_no_ranks(label: str, rounds: tuple[list[int], ...]) -> None:
    assert set(steps(printed(label, rounds=rounds))) == {None}


def test_one_kind_of_message_is_no_label() -> None:
    """Four processes load shards 0 to 3, each in an order of its own."""
    assert set(steps("".join(f"[{n}] step loss\n" for n in ALL))) <= {None}


def test_lines_without_the_label_continue_the_message_and_another_rank_stays_itself() -> None:
    text = printed("[r{}] ") + "[r2] ERROR failed\n[rank1]: step 9 loss 0.7\nstep 8 loss 0.5\n"
    assert steps(text) == [*ALL, 1, None]


def test_a_file_of_one_rank_has_no_labels_of_others() -> None:
    assert set(steps(printed("[r{}] "), rank=7)) == {None}
