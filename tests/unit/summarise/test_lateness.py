"""The run-up: how late each rank was in the last recorded calls, on clocks that may differ."""

from __future__ import annotations

from builders.jobs.cases import Log, RecordedRank, Team, facts, gave_up, world

from nccldoctor.diagnose.diagnose import diagnose
from nccldoctor.model.figures import LEVEL_NEVER, NEVER, UNKNOWN, Lateness, level
from nccldoctor.summarise.lateness import CALLS, ROWS, lateness

FOUR = world(4)


def recorded(
    rank: int, late: float = 0.0, calls: int = 5, stalls: bool = True, skew: float = 0.0, ends: bool = False
) -> RecordedRank:
    """Calls a second apart; ``late`` seconds behind in each, with a clock ``skew`` seconds ahead."""
    out = RecordedRank(rank, FOUR).pause(skew)
    for number in range(calls):
        out.pause(1.0 + (late if number == 0 else 0.0)).call()
        if ends:
            out.entries[-1]["time_discovered_completed_ns"] = int((1_780_000_000 + skew + number + 1.9) * 10**9)
    return out.pause(1).call(done=False) if stalls else out


def found(*recorded_ranks: RecordedRank) -> Lateness | None:
    aligned = facts(*recorded_ranks)
    return lateness(aligned, diagnose(aligned).findings)


def test_lateness_is_behind_the_first_of_the_group() -> None:
    picture = found(recorded(0), recorded(1, late=0.4), recorded(2), recorded(3, stalls=False))

    assert picture is not None
    assert picture.seqs == (1, 2, 3, 4, 5, 6)
    late = {row.rank: row.late_ms for row in picture.rows}
    assert late[0] == (0.0,) * 6
    assert late[1] == (400.0,) * 6
    assert late[3] == (0.0,) * 5 + (NEVER,)


def test_who_comes_last_is_counted() -> None:
    picture = found(recorded(0), recorded(1, late=0.4), recorded(2), recorded(3, stalls=False))

    assert picture is not None
    assert {row.rank: row.last for row in picture.rows} == {0: 0, 1: 5, 2: 0, 3: 1}


def test_clocks_are_aligned_on_calls_that_end_together() -> None:
    picture = found(*(recorded(r, skew=3.0 if r >= 2 else 0.0, ends=True, stalls=r != 3) for r in range(4)))

    assert picture is not None
    assert picture.correction_ms > 1000
    assert all(abs(value) < 1 for row in picture.rows for value in row.late_ms if value >= 0)


def test_without_completions_clocks_stay_as_they_are_and_it_says_so() -> None:
    picture = found(recorded(0), recorded(1, skew=3.0), recorded(2), recorded(3, stalls=False))

    assert picture is not None
    assert picture.correction_ms == 0
    assert "as recorded" in picture.corrected
    assert picture.rows[1].late_ms[0] == 3000.0


def test_a_rank_without_a_dump_is_unknown_not_late() -> None:
    picture = found(recorded(0), recorded(1), recorded(2))

    assert picture is not None
    assert [row.late_ms for row in picture.rows if row.rank == 3] == [(UNKNOWN,) * 6]


def test_sister_groups_stand_in_one_picture_each_measured_against_itself() -> None:
    teams = (Team("1", "dp", (0, 2)), Team("2", "dp", (1, 3)))
    recorded_ranks = []
    for rank in range(4):
        out = RecordedRank(rank, *teams).pause(5.0 if rank % 2 else 0.0)
        for _ in range(3):
            out.pause(1).call()
        recorded_ranks.append(out if rank == 3 else out.call(done=False))
    picture = found(*recorded_ranks)

    assert picture is not None
    assert [row.rank for row in picture.rows] == [0, 1, 2, 3]
    assert {row.late_ms[0] for row in picture.rows} == {0.0}


def test_no_recorded_time_no_picture() -> None:
    assert found() is None
    aligned = facts(logs=(Log("a.log", (gave_up(0, 7),), rank=0),))
    assert lateness(aligned, diagnose(aligned).findings) is None


def test_a_large_job_is_bounded_and_its_odd_rank_stays() -> None:
    many = world(200)
    recorded_ranks = []
    for rank in range(200):
        out = RecordedRank(rank, many)
        for _ in range(40):
            out.pause(1.0).call()
        recorded_ranks.append(out if rank == 137 else out.call(done=False))
    picture = found(*recorded_ranks)

    assert picture is not None
    assert len(picture.seqs) == CALLS
    assert len(picture.rows) <= ROWS
    assert 137 in [row.rank for row in picture.rows]
    assert len(picture.levels) == 200 * CALLS
    assert picture.levels.count(LEVEL_NEVER) == 1
    assert picture.levels.index(LEVEL_NEVER) == 137 * CALLS + CALLS - 1


def test_levels() -> None:
    assert [level(v) for v in (0, 4.9, 5, 49, 50, 250, 999, 1000, 1e9, NEVER, UNKNOWN)] == [
        0,
        0,
        1,
        1,
        2,
        3,
        3,
        4,
        4,
        5,
        6,
    ]


def test_of_a_transfer_the_collectives_of_both_ends_show_who_was_late() -> None:
    recorded_ranks = [recorded(rank, late=0.4 if rank == 1 else 0.0, stalls=False) for rank in range(4)]
    recorded_ranks[2].call()  # one rank goes on alone: what the others did not issue is not held against them
    aligned = facts(recorded_ranks[0].recv(1, done=False), *recorded_ranks[1:])
    findings = diagnose(aligned).findings
    assert findings[0].stalled is not None
    assert findings[0].stalled.kind == "p2p"
    picture = lateness(aligned, findings)

    assert picture is not None
    assert (picture.group, picture.seqs) == ("default_pg (0)", (1, 2, 3, 4, 5))
    assert {row.rank: row.late_ms[-1] for row in picture.rows} == {0: 0.0, 1: 400.0, 2: 0.0, 3: 0.0}
    assert LEVEL_NEVER not in picture.levels
