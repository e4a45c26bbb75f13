"""Ranks that had not answered the newest look of capture when the files were read."""

from __future__ import annotations

from datetime import UTC, datetime

from builders.jobs.cases import Log, case, said

from nccldoctor.events import CaptureNotice, Event, Stack

AT = datetime(2026, 11, 23, 20, 32, 56, tzinfo=UTC)
FIRST, SECOND = "20261123T203256Z", "20261123T203501Z"


def asked(rank: int, look: str, within_s: int = 30) -> Event:
    return said(CaptureNotice, rank, time=AT, look=look, within_s=within_s)


def answer(rank: int, look: str) -> Log:
    return Log(f"run/stacks/{look}/rank_{rank}.txt", [said(Stack, rank, main=True, frames=("main (train.py:4)",))])


def owed(*logs: Log) -> list[str]:
    return [f"{gap.why} {gap.ranks}" for gap in case(logs=logs).gaps if gap.what == "newest look"]


def test_only_the_newest_look_is_owed() -> None:
    begun = Log("run/rank_0.log", [asked(0, FIRST), asked(0, SECOND)])
    others = [Log(f"run/rank_{rank}.log", [said(CaptureNotice, rank)]) for rank in (1, 2)]
    (why,) = owed(begun, *others, answer(0, FIRST), answer(0, SECOND), answer(1, FIRST), answer(2, SECOND))
    assert why.startswith("rank 1 had not written stacks yet")
    assert "Rank 0 asked at 2026-11-23 20:32:56 UTC; answers are due by 2026-11-23 20:33:26 UTC" in why
    assert not owed(begun, *others, *(answer(rank, SECOND) for rank in range(3)))


def test_without_a_look_nothing_is_owed() -> None:
    assert not owed(*[Log(f"run/rank_{rank}.log", [said(CaptureNotice, rank)]) for rank in (0, 1)])
