"""A job is watched by a clock that the test turns: nothing waits."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest
from builders.live.clocks import FakeClock
from builders.live.ras_server import RasServer, Report

from nccldoctor import pipeline
from nccldoctor.cli import demo
from nccldoctor.ingest import ingest
from nccldoctor.live.remarks import Remarks
from nccldoctor.live.sources import WatchedFolder, WatchedRas
from nccldoctor.live.watch import Observation, State, Wishes, until_stuck, watch_job

START = 1_780_000_000.0


class Job:
    """Ranks that write a line for each step, with the time or without."""

    def __init__(self, folder: Path, ranks: int = 4, dated: bool = True) -> None:
        self.folder, self.ranks, self.dated = folder, ranks, dated
        folder.mkdir()

    def write(self, now: float, step: int, *but: int, words: str = "step {step} loss=2.5") -> None:
        """All ranks write a line at ``now``, except some."""
        for rank in range(self.ranks):
            if rank not in but:
                stamp = f"{datetime.fromtimestamp(now, UTC):%Y-%m-%d %H:%M:%S} " if self.dated else ""
                path = self.folder / f"rank_{rank}.log"
                with path.open("a") as log:
                    log.write(f"{stamp}[rank {rank}] {words.format(step=step)}\n")
                os.utime(path, (now, now))


def watched(
    job: Job, plays: Callable[[float], None], looks: int, wishes: Wishes
) -> tuple[list[Observation], list[list[str]]]:
    """At most so many looks at a job that ``plays`` after each sleep, and what was said at each."""
    clock, remarks = FakeClock(START + 20, plays), Remarks(wishes)
    seen, said = [], []
    for observation in until_stuck(watch_job(WatchedFolder(job.folder), clock, wishes)):
        seen.append(observation)
        said.append(remarks.about(observation))
        if len(seen) == looks:
            break
    return seen, said


@pytest.mark.parametrize(("dated", "late"), [(True, "35 s"), (False, "30 s")], ids=["times in the lines", "no times"])
def test_a_rank_behind_is_named_while_the_others_run(dated: bool, late: str, tmp_path: Path) -> None:
    """Lines without a time count from the look that saw them first."""
    job = Job(tmp_path / "logs", dated=dated)
    for second in range(0, 21, 5):
        job.write(START + second, second // 5)

    def plays(now: float) -> None:
        job.write(now - 5, int(now - 5 - START) // 5, 2)
        job.write(now, int(now - START) // 5, 2)

    seen, said = watched(job, plays, 6, Wishes(every=10.0, behind=30.0, stall=900.0))
    assert [observation.state for observation in seen] == [State.RUNNING] * 6
    assert said[0] == ["Watching ranks 0-3."]
    told = [sentence for at_once in said for sentence in at_once if sentence.startswith("Rank 2 is")]
    assert told == [f"Rank 2 is {late} behind its peers: its last step is 4, most ranks are at 12."]


def test_a_rank_that_catches_up_is_told_once(tmp_path: Path) -> None:
    job = Job(tmp_path / "logs")
    for second in (0, 10, 20):
        job.write(START + second, second)

    def plays(now: float) -> None:
        job.write(now, int(now - START), *([3] if now < START + 90 else []))

    _, said = watched(job, plays, 10, Wishes(every=10.0, behind=30.0, stall=900.0))
    flat = [sentence for at_once in said for sentence in at_once]
    assert [sentence for sentence in flat if "caught up" in sentence] == ["Rank 3 caught up."]


def test_a_job_without_steps_is_stuck_after_the_limit(tmp_path: Path) -> None:
    job = Job(tmp_path / "logs")
    for second in range(0, 21, 5):
        job.write(START + second, second)
    seen, said = watched(job, lambda now: None, 99, Wishes(every=10.0, behind=30.0, stall=100.0))
    assert [observation.state for observation in seen] == [State.RUNNING] * 11 + [State.STUCK]
    assert seen[-1].at == START + 130
    assert not seen[-1].is_verdict
    flat = [sentence for at_once in said for sentence in at_once if sentence.startswith("No rank")]
    assert flat == [
        "No rank has reported a step for 30 s. The longest pause before that was 5 s.",
        "No rank has reported a step for 60 s. The longest pause before that was 5 s.",
    ]


def test_a_job_that_prints_no_steps_is_stuck_once_no_file_grows(tmp_path: Path) -> None:
    """Its longest pause was 50 s: it is not called before it takes twice as long."""
    job = Job(tmp_path / "logs", dated=False)
    job.write(START, 1, words="all is well")

    def plays(now: float) -> None:
        if now == START + 50:
            job.write(now, 2, words="still well")

    seen, said = watched(job, plays, 99, Wishes(every=10.0, behind=30.0, stall=80.0))
    assert (seen[-1].state, seen[-1].at) == (State.STUCK, START + 160)
    assert not seen[-1].is_verdict
    told = [sentence for at_once in said for sentence in at_once]
    assert "No file has grown for 60 s. The longest pause before that was 50 s." in told


def test_a_pause_like_an_earlier_one_is_no_stall(tmp_path: Path) -> None:
    """A checkpoint of 90 s ended once; the next one is not called before it takes twice as long."""
    job = Job(tmp_path / "logs")
    job.write(START - 95, 1)
    job.write(START - 90, 2)
    job.write(START, 3)
    job.write(START + 20, 4)
    seen, _ = watched(job, lambda now: None, 99, Wishes(every=10.0, behind=30.0, stall=100.0))
    assert seen[-1].at == START + 20 + 190


def test_nothing_is_read_again_while_nothing_grew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(tmp_path / "logs")
    job.write(START, 1)
    analyses: list[object] = []
    analyze = pipeline.analyze
    monkeypatch.setattr(pipeline, "analyze", lambda paths, **more: analyses.append(paths) or analyze(paths, **more))
    seen, _ = watched(job, lambda now: job.write(now, 9) if now == START + 50 else None, 6, Wishes())
    assert [now.incident is before.incident for before, now in pairwise(seen)] == [True, True, False, True, True]
    assert len(analyses) == 2


def test_only_files_that_changed_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(tmp_path / "logs")
    job.write(START, 1)
    (tmp_path / "logs" / "launcher.log").write_text("torchrun started 4 workers\n")
    read: Counter[str] = Counter()
    scan = ingest.scan
    monkeypatch.setattr(
        ingest, "scan", lambda source, *a, **more: read.update([source.path]) or scan(source, *a, **more)
    )
    watched(job, lambda now: job.write(now, 9, 0) if now == START + 50 else None, 6, Wishes())
    assert read == {"launcher.log": 1, "rank_0.log": 1, "rank_1.log": 2, "rank_2.log": 2, "rank_3.log": 2}


def test_a_diagnosed_job_is_stuck_at_once(tmp_path: Path) -> None:
    demo.write("late-rank-three-groups", tmp_path / "logs")
    (seen,) = until_stuck(watch_job(WatchedFolder(tmp_path / "logs"), FakeClock(), Wishes()))
    assert (seen.state, seen.is_verdict) == (State.STUCK, True)
    assert Remarks(Wishes()).about(seen)[-1].startswith("Rank 1")


def test_a_job_that_ended_well_is_watched_no_longer(tmp_path: Path) -> None:
    demo.write("healthy", tmp_path / "logs")
    (seen,) = watch_job(WatchedFolder(tmp_path / "logs"), FakeClock(), Wishes())
    assert seen.state is State.ENDED


def test_a_dead_rank_of_ras_is_a_verdict(tmp_path: Path) -> None:
    reports = [
        Report((40,) * 8, stamp="2026-01-11 10:05:00"),
        Report((44,) * 8, stamp="2026-01-11 10:05:10"),
        Report((45,) * 8, silent=(5,), stamp="2026-01-11 10:05:20"),
        Report((45,) * 8, dead=(5,), stamp="2026-01-11 10:06:20"),
    ]
    with RasServer(reports) as server:
        source = WatchedRas("localhost", server.port, tmp_path, FakeClock())
        seen = list(until_stuck(watch_job(source, source._clock, Wishes())))
    assert [observation.state for observation in seen[:2]] == [State.RUNNING, State.RUNNING]
    assert seen[-1].state is State.STUCK
    assert str(seen[-1].incident.verdict.ranks or seen[-1].incident.verdict.suspects) == "5"


def test_collectives_that_stop_are_a_stall(tmp_path: Path) -> None:
    """All ranks wait in one call: their counts are equal, and move no more."""
    reports = [Report((40 + n,) * 8, stamp=f"2026-01-11 10:05:{n:02}") for n in range(4)]
    with RasServer(reports) as server:
        source = WatchedRas("localhost", server.port, tmp_path, clock := FakeClock())
        remarks, said, seen = Remarks(Wishes(stall=100.0)), [], []
        for observation in until_stuck(watch_job(source, clock, Wishes(stall=100.0))):
            seen.append(observation)
            said += remarks.about(observation)
    assert (seen[-1].state, seen[-1].is_verdict) == (State.STUCK, False)
    assert seen[-1].at == START + 30 + 110
    assert "No rank has launched a collective for 30 s. The longest pause before that was 10 s." in said


def test_counts_that_never_moved_are_no_stall(tmp_path: Path) -> None:
    """Calls of a CUDA graph may not be counted each time: only a count that moved before can stop."""
    with RasServer([Report((40,) * 8)]) as server:
        source = WatchedRas("localhost", server.port, tmp_path, clock := FakeClock())
        looks = watch_job(source, clock, Wishes(stall=50.0))
        assert [next(looks).state for _ in range(12)] == [State.RUNNING] * 12


def test_lines_without_a_time_count_by_the_watch_also_under_a_dated_banner(tmp_path: Path) -> None:
    job = Job(tmp_path / "logs", dated=False)
    (job.folder / "launcher.log").write_text(
        f"{datetime.fromtimestamp(START, UTC):%Y-%m-%d %H:%M:%S} starting torchrun\n"
    )
    for step in (1, 2, 3):
        job.write(START, step)

    def plays(now: float) -> None:
        job.write(now, int(now - START) // 10 + 2, 2)

    _, said = watched(job, plays, 7, Wishes(every=10.0, behind=30.0, stall=900.0))
    assert any(sentence.startswith("Rank 2 is 30 s behind") for at_once in said for sentence in at_once)


def test_a_service_that_goes_away_is_lost(tmp_path: Path) -> None:
    with RasServer([Report((40,) * 8)]) as server:
        clock = FakeClock(on_sleep=lambda now: server.stop() if len(clock.slept) == 1 else None)
        seen = list(watch_job(WatchedRas("localhost", server.port, tmp_path, clock), clock, Wishes()))
    assert [observation.state for observation in seen] == [State.RUNNING] * 3 + [State.LOST]


def test_a_job_that_has_written_nothing_yet_is_not_stuck(tmp_path: Path) -> None:
    job, begun = Job(tmp_path / "logs"), START - 500
    for rank in range(4):
        (job.folder / f"rank_{rank}.log").touch()
        os.utime(job.folder / f"rank_{rank}.log", (begun, begun))
    seen, _ = watched(job, lambda now: None, 40, Wishes(every=10.0, stall=60.0))
    assert {one.state for one in seen} == {State.RUNNING}
