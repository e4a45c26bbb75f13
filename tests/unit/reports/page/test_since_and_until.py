"""How long a stall lasted: from the recorder's clock to lines of the launcher, whose zone nothing tells."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from builders.diagnoses import fixtures_diagnoses
from builders.jobs.cases import RecordedRank, wall, world
from msgspec.structs import replace

import nccldoctor
from nccldoctor.model import CauseClass, Diagnosis, EventRole, IncidentEvent, Place
from nccldoctor.model.excerpts import SourceLine
from nccldoctor.model.exhibits import LastLines
from nccldoctor.model.steps import JobEnd, JobState
from nccldoctor.reports.page import facts
from nccldoctor.reports.parts import incident_time

FOUR = world(4)
SAMPLES = Path(__file__).parents[4] / "sample_logs"


def job(folder: Path, ended: timedelta) -> Path:
    """Rank 3 misses a call; nobody's line has a time but the launcher's table, which is ``ended`` after that call."""
    folder.mkdir()
    for rank in range(4):
        recorded = RecordedRank(rank, FOUR).calls(9)
        (folder / f"nccl_trace_rank_{rank}").write_bytes((recorded if rank == 3 else recorded.call(done=False)).data())
    at = f"{wall(0) + ended:%Y-%m-%d_%H:%M:%S}"
    (folder / "launcher.log").write_text(
        "============================================================\ntrain.py FAILED\n"
        "------------------------------------------------------------\nFailures:\n  <NO_OTHER_FAILURES>\n"
        "------------------------------------------------------------\nRoot Cause (first observed failure):\n[0]:\n"
        f"  time      : {at}\n  host      : node0\n  rank      : 0 (local_rank: 0)\n  exitcode  : -6 (pid: 4000)\n"
        "  error_file: <N/A>\n  traceback : Signal 6 (SIGABRT) received by PID 4000\n"
        "============================================================\n"
    )
    return folder


def labels(diagnosis: Diagnosis) -> set[str]:
    """The facts that are shown."""
    return {fact.label for fact in facts.four(diagnosis)}


def test_an_end_soon_after_the_limit_ends_the_stall(tmp_path: Path) -> None:
    stalled = nccldoctor.analyze(job(tmp_path / "logs", timedelta(minutes=11))).verdict.stalled
    assert stalled is not None and stalled.since is not None and stalled.until is not None
    assert timedelta(minutes=10) < stalled.until - stalled.since < timedelta(minutes=12)


@pytest.mark.parametrize("hours", [2, 8])
def test_an_end_by_the_clock_of_another_zone_is_no_length(tmp_path: Path, hours: int) -> None:
    incident = nccldoctor.analyze(job(tmp_path / "logs", timedelta(hours=hours, minutes=10)))
    stalled = incident.verdict.stalled
    assert stalled is not None and stalled.since is not None
    assert stalled.until is None
    assert "Stalled since" in labels(incident.diagnosis)


def test_a_hang_in_calls_that_no_file_numbers_has_a_call_and_a_length() -> None:
    """Logs of gloo alone: the tracebacks of the victims stand in three operations."""
    of_gloo = [SAMPLES / "not-arrived" / host for host in ("node0", "node1")]
    diagnosis = nccldoctor.analyze(of_gloo).diagnosis
    _, call, length, _ = facts.four(diagnosis)

    assert (call.label, call.value) == ("Stalled call", "ALLREDUCE, SEND and RECV")
    assert (length.value, length.detail) == ("8 s", "since 2026-11-20 11:32:30 at the latest (timeout 8 s)")
    assert incident_time.when(diagnosis) == (
        "since 2026-11-20 11:32:30 at the latest (timeout 8 s); the logs name no zone"
    )


def test_a_crash_without_waiting_ranks_has_no_stalled_call(tmp_path: Path) -> None:
    (tmp_path / "rank_0.log").write_text(
        "[rank0]: 2026-11-20 11:32:30 INFO step=4\n[rank0]: Traceback (most recent call last):\n"
        '[rank0]:   File "/job/train.py", line 4, in <module>\n[rank0]:     load()\n[rank0]: ValueError: no shard 7\n'
    )
    assert not {"Stalled call", "Stalled for"} & labels(nccldoctor.analyze(tmp_path).diagnosis)


def test_a_crash_without_waiting_ranks_tells_when(tmp_path: Path) -> None:
    (tmp_path / "rank_0.log").write_text(
        "[rank0]: 2026-11-20 11:32:30 INFO step=4\n[rank0]: Traceback (most recent call last):\n"
        '[rank0]:   File "/job/train.py", line 4, in <module>\n[rank0]:     load()\n[rank0]: ValueError: no shard 7\n'
    )
    (when,) = (fact for fact in facts.four(nccldoctor.analyze(tmp_path).diagnosis) if fact.label == "When")
    assert when.value == "after 2026-11-20 11:32:30, its last line"


def test_of_two_records_of_one_crash_the_time_with_a_zone_is_told() -> None:
    """The table of a launcher prints local time without a zone, and the line of the exception has one."""
    base = fixtures_diagnoses.lagging()
    crash = replace(base.verdict, cause=CauseClass.RAISED, stalled=None)
    local, zoned = datetime(2025, 8, 17, 20, 32, 17), datetime(2025, 8, 17, 12, 32, 17, tzinfo=UTC)
    end = IncidentEvent(
        EventRole.INITIATING, "process-exit", "exited", Place(0, "a.log", 9), local, crash.ranks, cause=True
    )
    raised = IncidentEvent(EventRole.INITIATING, "exception", "KeyError", Place(0, "a.log", 4), zoned, crash.ranks)
    made = replace(base, findings=(crash,), story=(end, raised))
    assert incident_time.began(made) == "at 2025-08-17 12:32:17 UTC"
    assert incident_time.began(replace(made, story=(end,))) == "at 2025-08-17 20:32:17"


@pytest.mark.parametrize("cause", [CauseClass.OP_MISMATCH, CauseClass.NOT_ARRIVED])
def test_what_no_file_shows_is_no_fact(cause: CauseClass) -> None:
    base = fixtures_diagnoses.lagging()
    first = replace(base.findings[0], cause=cause, stalled=None)
    told = replace(base, findings=(first,), ranks=(), last_lines=())
    assert not {"Stalled call", "Stalled for"} & labels(told)


def test_a_stall_without_a_known_end_lasted_until_the_newest_look_at_least() -> None:
    base = fixtures_diagnoses.lagging()
    assert base.verdict.stalled is not None and base.verdict.stalled.since is not None
    since = base.verdict.stalled.since
    open_end = replace(base.verdict, stalled=replace(base.verdict.stalled, until=None))
    end = JobEnd(JobState.ENDED, seen=since + timedelta(seconds=62.6))
    made = replace(base, findings=(open_end,), alarm=None, job_end=end)

    told = facts.four(made)[2]
    assert (told.label, told.value) == ("Stalled for", "62.6 s or more")
    assert told.detail.endswith(", until the newest look")


@pytest.mark.parametrize("has_call", [True, False])
def test_a_stall_of_unknown_length_tells_how_long_a_log_was_silent(has_call: bool) -> None:
    base = fixtures_diagnoses.lagging()
    assert base.verdict.stalled is not None
    call = replace(base.verdict.stalled, since=None, until=None, timeout_ms=None) if has_call else None
    cause = base.verdict.cause if has_call else CauseClass.OP_MISMATCH
    open_end = replace(base.verdict, stalled=call, cause=cause)
    side = LastLines(5, "rank_5.log", (), (), (), 80_700.0)
    made = replace(base, findings=(open_end,), ranks=(), alarm=None, last_lines=(side,))

    told = next(fact for fact in facts.four(made) if fact.label == "Silent for")
    assert (told.label, told.value, told.detail) == ("Silent for", "80.7 s", "rank 5's log, until it was noticed")
    went_on = replace(side, after=(SourceLine(9, "step 41"),))
    assert "Silent for" not in labels(replace(made, last_lines=(went_on,)))
