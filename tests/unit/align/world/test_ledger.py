"""Every rank of a job is proven to wait, or open."""

from __future__ import annotations

import pytest
from builders.jobs.cases import Log, RecordedRank, facts, gave_up, said, world

from nccldoctor.align.world.ledger import Ledger
from nccldoctor.events import (
    Event,
    ExceptionRaised,
    Heartbeat,
    HeartbeatStuck,
    NcclError,
    ProcessExit,
    Setting,
    TearDown,
)
from nccldoctor.model.ranks import Ranks

ALARM = 600.0


def ledger(*events: Event, size: int | None = 4) -> Ledger:
    """Of a job in which rank 0 gave up on a call."""
    known = [said(Setting, name="WORLD_SIZE", value=str(size))] if size else []
    return facts(logs=[Log("all.log", [*known, gave_up(0, 7, ALARM), *events])]).ledger


@pytest.mark.parametrize(
    "event",
    [
        gave_up(1, 9, ALARM),
        said(NcclError, 1, 500.0, code="ncclRemoteError"),
        said(
            ExceptionRaised,
            1,
            500.0,
            origin="echo",
            message="Timed out waiting 1800000ms for recv operation to complete",
        ),
        said(TearDown, 1, what="process-down"),
    ],
    ids=["another-call", "lost-peer", "gloo", "own-watchdog"],
)
def test_a_rank_that_waited_by_its_own_words(event: Event) -> None:
    assert ledger(event).open == Ranks([2, 3])


@pytest.mark.parametrize(
    "event",
    [
        said(Heartbeat, 1, 500.0, step=12),
        said(HeartbeatStuck, 1, 500.0),  # its own watchdog stood still: it may be the culprit
        said(NcclError, 1, ALARM + 60, code="ncclRemoteError"),  # after others had left
        said(ProcessExit, 1, exitcode=-6),  # nobody else who gave up was aborted
        said(TearDown, 1, what="closing-signal"),
    ],
    ids=["alive", "stuck-watchdog", "later", "aborted", "closed"],
)
def test_what_proves_no_waiting(event: Event) -> None:
    assert ledger(event).open == Ranks([1, 2, 3])


def test_who_is_aborted_like_those_that_gave_up_waited_too() -> None:
    ends = [said(ProcessExit, r, exitcode=-6) for r in (0, 1)]
    assert ledger(*ends).open == Ranks([2, 3])


def test_a_dump_proves_waiting() -> None:
    ranks = [RecordedRank(r, world(4)).call().call(done=False) for r in range(3)]
    assert facts(*ranks, RecordedRank(3, world(4)).call()).ledger.open == Ranks([3])


def test_only_a_job_of_known_size_is_closed() -> None:
    assert ledger().is_closed
    assert not ledger(size=None).is_closed


def test_as_many_are_left_as_were_counted() -> None:
    strict, wide = Ranks([0]), Ranks([0, 1, 2])
    one = Ledger(Ranks(range(4)), True, strict, wide)
    assert one.left_by(1, strict, wide) == Ranks([3])
    assert one.left_by(2, strict, wide) == Ranks()
    assert Ledger(Ranks(range(4)), False, strict, wide).left_by(1, wide) == Ranks()
