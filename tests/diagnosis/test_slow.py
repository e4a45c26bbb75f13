"""Late but alive: stragglers, and absent ranks that never come."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from builders.dumps import content, entry
from builders.lines import old_watchdog
from builders.verdicts import innocent, play, read

import nccldoctor
from nccldoctor.model import CauseClass

DAY = 1_780_000_000


def arrived(rank: int, late_s: float) -> bytes:
    """A dump in which the last of three calls was entered ``late_s`` after midnight of that day."""
    import pickle

    rows: list[dict[str, Any]] = [
        entry(n, time_created_ns=(DAY + 10 * n) * 10**9, time_discovered_completed_ns=(DAY + 10 * n + 1) * 10**9)
        for n in (1, 2)
    ]
    rows.append(
        entry(
            3,
            time_created_ns=int((DAY + 40 + late_s) * 10**9),
            time_discovered_completed_ns=None,
            state="scheduled",
            retired=False,
        )
    )
    groups = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}}
    status = {"0": {"last_enqueued_collective": 3, "last_started_collective": -1, "last_completed_collective": 2}}
    return pickle.dumps(content(*rows, pg_config=groups, pg_status=status), protocol=2)


def dumps_of(late: dict[int, float]) -> dict[str, str | bytes]:
    return {f"fr/comm_lib_trace_rank_{r}": arrived(r, late.get(r, 0.01 * r)) for r in range(4)}


def test_who_came_after_the_limit_is_late_not_stuck() -> None:
    ruling = read(dumps_of({2: 630.0}))
    assert (ruling.cause, ruling.ranks, ruling.at) == ("straggler", "2", ("ALLREDUCE", 3)), str(ruling)


def test_a_second_late_is_no_straggler() -> None:
    ruling = read(dumps_of({2: 1.0}))
    assert (ruling.cause, ruling.ranks) == ("unfinished", ""), str(ruling)


def test_half_of_the_ranks_late_is_nobodys_fault() -> None:
    ruling = read(dumps_of({2: 630.0, 3: 630.0}))
    assert ruling.cause != "straggler" or not ruling.ranks, str(ruling)


@pytest.mark.parametrize("seed", [0, 3])
def test_work_that_finishes_after_the_others_gave_up(seed: int) -> None:
    ruling = play("late_checkpoint", seed)
    assert (ruling.cause, ruling.ranks) == ("straggler", "0"), str(ruling)


@pytest.mark.parametrize("scenario", ["slow_checkpoint", "no_data", "stopped", "killed"])
def test_who_never_comes_is_no_straggler(scenario: str) -> None:
    ruling = play(scenario, 2)
    assert ruling.cause != "straggler", str(ruling)
    innocent(ruling)


def test_a_healthy_job_has_no_straggler() -> None:
    assert play("healthy", 2, beat_every=1).cause == "none"


BAR = "  Class  Images: {:3d}% {}/32 [01:03<00:27,  2.76s/it]"


@pytest.mark.parametrize(("later", "ranks"), [(24, "0"), (23, "")])
def test_a_bar_that_goes_on_after_the_others_gave_up_is_of_rank_0(tmp_path: Path, later: int, ranks: str) -> None:
    gave_up = "".join(old_watchdog(r, None, "BROADCAST", limit_ms=60_000, ran_ms=66_412) for r in (1, 2, 3))
    bars = [BAR.format(*at) + "\n" for at in ((70, 22), (73, 23), (77, later))]
    (tmp_path / "train.log").write_text("".join((*bars[:2], gave_up, bars[2])))
    verdict = nccldoctor.analyze(tmp_path).verdict
    assert str(verdict.ranks) == ranks
    assert (verdict.cause is CauseClass.STRAGGLER) == bool(ranks)
