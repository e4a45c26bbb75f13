"""Local ranks in front of the lines of a file (``torchrun --tee``), and when they tell the rank."""

from __future__ import annotations

from io import BytesIO

from builders.jobs.verdicts import torchrun
from builders.logs.lines import watchdog

from nccldoctor.events import ExceptionRaised, Progress
from nccldoctor.model import Source, SourceKind
from nccldoctor.parsers.engine.scan import scan


def steps(text: str) -> list[int | None]:
    """The ranks of the steps that a file reports."""
    parsed = scan(Source(0, "torchrun.log", SourceKind.LOG, len(text)), BytesIO(text.encode()))
    return [e.rank for e in parsed.events if isinstance(e, Progress)]


TEED = "".join(f"[default{n}]:2026-01-01 10:10:00,000 INFO step=5 loss=2.0\n" for n in range(4))


def test_the_launchers_table_tells_what_the_local_ranks_mean() -> None:
    assert steps(TEED + torchrun(0, 1, {1: 1, 2: 1, 3: -15})) == [0, 1, 2, 3]


def test_two_lines_that_name_both_tell_the_others_too() -> None:
    named = "[default0]:[rank4]: RuntimeError: a\n[default3]:[rank7]: RuntimeError: b\n"
    assert steps(TEED + named) == [4, 5, 6, 7]


def test_one_line_that_names_both_is_too_little() -> None:
    assert steps(TEED + "[default0]:[rank0]: RuntimeError: a\n") == [None] * 4


def test_two_launchers_in_one_file_tell_nothing() -> None:
    named = "".join(f"[default{n}]:[rank{r}]: RuntimeError: a\n" for n, r in ((0, 0), (1, 1), (0, 4), (1, 5)))
    assert steps(TEED + named) == [None] * 4


def test_without_anything_that_names_ranks_nothing_is_guessed() -> None:
    assert steps(TEED) == [None] * 4


def test_an_exception_of_another_local_rank_is_not_of_the_only_rank_that_lines_name() -> None:
    """``[default2]:`` raised, and of ``[default3]:`` alone it is known that it is rank 7."""
    text = f"[default2]:RuntimeError: CUDA error: unknown\n[default3]:{watchdog(7, seq=5)}"
    (error,) = [
        e
        for e in scan(Source(0, "node.log", SourceKind.LOG, 1), BytesIO(text.encode())).events
        if isinstance(e, ExceptionRaised)
    ]
    assert (error.rank, error.local_rank) == (None, 2)
