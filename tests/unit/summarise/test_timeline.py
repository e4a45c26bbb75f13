"""The timeline: who did what when, on one clock."""

from __future__ import annotations

from builders.jobs.cases import START, WORLD, Log, RecordedRank, facts, gave_up, said

from nccldoctor.diagnose.diagnose import diagnose
from nccldoctor.events import GpuError, Heartbeat, ProcessExit, SchedulerEvent, Setting
from nccldoctor.model import SourceKind
from nccldoctor.model.figures import Timeline, TimeRow
from nccldoctor.summarise.timeline import ROWS, timeline


def recorded(rank: int, stalls: bool = True) -> RecordedRank:
    out = RecordedRank(rank)
    for _ in range(20):
        out.pause(1.0).call()
    return out.pause(1.0).call(done=False) if stalls else out


def recorded_ranks() -> list[RecordedRank]:
    return [recorded(0), recorded(1), recorded(2), recorded(3, stalls=False)]


def logs() -> list[Log]:
    return [Log(f"{r}.log", (gave_up(r, 21, 621.0 + r, WORLD),), rank=r) for r in range(3)]


def found(*more: Log) -> Timeline:
    aligned = facts(*recorded_ranks(), logs=[*logs(), *more])
    picture = timeline(aligned, diagnose(aligned).findings)
    assert picture is not None
    return picture


def of(picture: Timeline, rank: int) -> TimeRow:
    return next(row for row in picture.rows if row.ranks == {rank})


def test_a_row_holds_the_timeout_of_its_rank() -> None:
    row = of(found(), 1)

    assert [(m.kind, m.at - START) for m in row.marks] == [("timeout", 622.0)]


def test_the_row_of_a_culprit_ends_with_its_exit() -> None:
    exit_ = Log("launcher.log", (said(ProcessExit, 3, 640.0, exitcode=-15, signal="SIGTERM"),))
    row = of(found(exit_), 3)

    assert row.marks[-1].text == "exited on SIGTERM"


def test_lines_of_hosts_stand_in_a_row_of_their_own() -> None:
    kernel = Log("dmesg", (said(GpuError, None, 30.0, xid=79, host="node0"),), kind=SourceKind.KERNEL_LOG)
    row = found(kernel).rows[-1]

    assert not row.ranks
    assert [(m.kind, m.text) for m in row.marks] == [("trouble", "Xid 79")]


def test_a_fault_behind_the_start_of_the_stall_did_not_begin_it() -> None:
    """Slurm cancels the job ten minutes into the stall."""

    def flags(at: float) -> list[str]:
        host = Log("slurm.out", (said(SchedulerEvent, None, at, what="cancelled", host="node0"),))
        return [mark.kind for mark in found(host).flags]

    assert "trouble" in flags(15.0)
    assert "trouble" not in flags(625.0)


def test_what_was_long_before_or_has_no_time_is_left_out() -> None:
    early = Log(
        "3.log", (said(Heartbeat, 3, -5000.0, step=1), said(Heartbeat, 3, None, step=2), said(Setting, 3, 22.0)), rank=3
    )
    picture = found(early)

    assert picture.start >= START
    assert all(m.kind != "life" for m in of(picture, 3).marks)


def test_times_without_a_zone_are_not_called_utc() -> None:
    local = [gave_up(r, 7, None, time=gave_up(r, 7, 30.0).time.replace(tzinfo=None)) for r in (0, 1)]
    aligned = facts(logs=[Log(f"{e.rank}.log", (e,), rank=e.rank) for e in local])
    picture = timeline(aligned, diagnose(aligned).findings)

    assert picture is not None
    assert picture.zone == ""
    assert found().zone == "UTC"


def test_nothing_with_a_time_no_picture() -> None:
    aligned = facts(logs=[Log("0.log", (said(Heartbeat, 0, None, step=1),), rank=0)])
    assert timeline(aligned, diagnose(aligned).findings) is None


def test_a_large_job_has_few_rows_and_counts_the_rest() -> None:
    from builders.jobs.cases import world

    many = world(100)
    out = []
    for rank in range(100):
        one = RecordedRank(rank, many)
        for _ in range(5):
            one.pause(1.0).call()
        out.append(one if rank == 77 else one.call(done=False))
    aligned = facts(*out)
    picture = timeline(aligned, diagnose(aligned).findings)

    assert picture is not None
    assert len(picture.rows) <= ROWS + 1
    assert any(row.ranks == {77} for row in picture.rows)
    assert picture.hidden == 100 - len(picture.rows)


def test_a_timeout_without_a_time_does_not_stretch_the_picture() -> None:
    exits = Log("launcher.log", (said(ProcessExit, 0, 40.0, exitcode=1), said(ProcessExit, 1, 41.0, exitcode=-6)))
    aligned = facts(logs=[Log("1.log", (gave_up(1, 668, None, WORLD),), rank=1), exits])
    picture = timeline(aligned, diagnose(aligned).findings)

    assert picture is not None
    assert START - 60 <= picture.start <= picture.end <= START + 60
    assert [m.text for m in of(picture, 1).marks] == ["exited with code -6"]


def test_it_does_not_begin_before_the_first_line_of_the_job() -> None:
    steps = [Log(f"{r}.log", (said(Heartbeat, r, 5.0 + r, step=4),), rank=r) for r in range(3)]
    exits = Log("launcher.log", tuple(said(ProcessExit, r, 12.0 + r, exitcode=1) for r in range(3)))
    aligned = facts(logs=[*steps, exits])
    picture = timeline(aligned, diagnose(aligned).findings)

    assert picture is not None
    assert picture.start == START + 5.0
