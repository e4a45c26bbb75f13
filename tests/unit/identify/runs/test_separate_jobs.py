"""Files of several jobs in one place are kept apart, and the newest or fullest run alone is diagnosed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from builders.files.dumps import dump, entry
from builders.jobs.cases import RecordedRank, ingested, wall, world
from builders.logs.lines import watchdog

import nccldoctor
from nccldoctor.discover.filename_hints import run_id
from nccldoctor.events import CollectiveTimeout
from nccldoctor.identify.runs import separate_jobs
from nccldoctor.identify.runs.stale_dumps import stale_dumps
from nccldoctor.ingest.ingest import Ingested
from nccldoctor.model import CauseClass, Confidence
from nccldoctor.model.recorded_calls import Batch

HOUR = 3600.0

STEP = "[rank{r}]: 2026-02-02 {at},600 | INFO | trainer | step {step}/50000 | loss 3.0006\n"


def caught(rank: int, at: str, seq: int) -> str:
    """The line of a watchdog at this time of the day."""
    return watchdog(rank, seq, at=f"E202 {at}.050510987")


def hang(late: int, size: int = 4, at: float = 0.0, calls: int = 8, n: int = 8) -> list[RecordedRank]:
    """A job whose rank ``late`` does not come to the last call."""
    out = []
    for rank in range(size):
        recorded = RecordedRank(rank, world(size)).pause(at).calls(calls, n=n)
        out.append(recorded if rank == late else recorded.call(done=False, n=n))
    return out


def write(folder: Path, recorded_ranks: list[RecordedRank]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for recorded in recorded_ranks:
        (folder / f"nccl_trace_rank_{recorded.rank}").write_bytes(recorded.data())


def kept(read: Ingested) -> list[str]:
    return [dump.path for dump in read.batch.dumps]


def left_out(read: Ingested) -> list[str]:
    return [f"{gap.what}: {gap.why}" for gap in read.gaps if gap.apart]


def test_one_run_stays_as_it_is() -> None:
    read = ingested(*hang(2))
    assert separate_jobs.one_job(read) is read


def test_dumps_of_the_attempt_before_are_left_out() -> None:
    """Rank 3 left none this time: its old one lies there still."""
    old, new = hang(1, at=-2 * HOUR, n=6), hang(2, calls=9)
    read = separate_jobs.one_job(ingested(*new[:3], old[3]))
    assert kept(read) == [f"dumps/nccl_trace_rank_{r}" for r in range(3)]
    assert left_out(read) == [
        "dumps/nccl_trace_rank_3: a different run: its calls are 2.0 h older than those of the diagnosed run; left out, because one "
        "run is diagnosed at a time"
    ]


def test_what_lies_beside_dumps_of_another_run_is_named_too(tmp_path: Path) -> None:
    """A damaged dump of the old attempt has no time of its own."""
    write(tmp_path / "old", hang(1, at=-2 * HOUR, n=6)[:3])
    (tmp_path / "old" / "nccl_trace_rank_3").write_bytes(b"\x80\x02}q\x00" + bytes(64))
    write(tmp_path / "new", hang(2, calls=9))
    named = {gap.what: gap.why for gap in nccldoctor.analyze(tmp_path).case.gaps}
    assert "its calls are 2.0 h older" in named["old/nccl_trace_rank_0 and 2 more: a different run"]
    assert named["old/nccl_trace_rank_3: a different run"] == (
        "it lies in the folder of the dumps of a different run; left out, because one run is diagnosed at a time"
    )


@pytest.mark.parametrize(("hours", "words"), [(47, "47.0 h"), (240, "10 days")])
def test_what_is_older_by_days_is_told_in_days(hours: int, words: str) -> None:
    old, new = hang(1, at=-hours * HOUR, n=6), hang(2, calls=9)
    (gap,) = left_out(separate_jobs.one_job(ingested(*new[:3], old[3])))
    assert f"its calls are {words} older" in gap


def test_a_late_rank_is_no_other_run() -> None:
    """It made one call an hour after the others; the calls before agree."""
    late = RecordedRank(3, world(4)).calls(8).pause(HOUR).call(done=False)
    read = ingested(*hang(-1)[:3], late)
    assert separate_jobs.one_job(read) is read


def test_a_clock_that_is_wrong_by_minutes_is_no_other_run() -> None:
    read = ingested(*hang(-1)[:3], hang(-1, at=200.0)[3])
    assert separate_jobs.one_job(read) is read


def test_a_job_of_another_size_is_another_job() -> None:
    read = separate_jobs.one_job(ingested(*hang(2, size=4), *(t for t in hang(7, size=8) if t.rank > 3)))
    assert len(kept(read)) == 4
    assert ["its job has" in text for text in left_out(read)] == [True]


def test_of_two_runs_at_one_time_the_one_with_more_dumps_is_taken() -> None:
    few, many = hang(0, size=2, calls=900), hang(1, size=8)
    assert len(kept(separate_jobs.one_job(ingested(*few, *many)))) == 8


def test_local_ranks_of_two_hosts_are_one_run(tmp_path: Path) -> None:
    recorded_ranks = hang(2)
    for host, part in (("node0", recorded_ranks[:2]), ("node1", recorded_ranks[2:])):
        (tmp_path / host).mkdir()
        for local, recorded in enumerate(part):
            (tmp_path / host / f"nccl_trace_rank_{local}").write_bytes(recorded.data())
    found = nccldoctor.analyze(tmp_path)
    assert not [gap for gap in found.case.gaps if gap.apart]


@pytest.mark.parametrize("names", [("monday", "wednesday"), ("b", "a")])
def test_folders_of_two_runs_give_the_verdict_of_the_newer(tmp_path: Path, names: tuple[str, str]) -> None:
    """Their logs go with the dumps of their folder."""
    for name, late, at, clock in ((names[0], 1, -2 * HOUR, "01"), (names[1], 2, 0.0, "03")):
        write(tmp_path / name / "dumps", hang(late, at=at))
        for rank in range(4):
            line = caught(rank, f"{clock}:20:00", 9)
            (tmp_path / name / f"rank_{rank}.log").write_text("" if rank == late else line)
    found = nccldoctor.analyze(tmp_path)
    assert str(found.verdict.ranks) == "2"
    assert {source.path.split("/")[0] for source in found.case.sources} == {names[1]}
    assert names[0] in found.to_text() or names[0] in found.to_json()


def test_logs_of_two_sizes_are_two_jobs(tmp_path: Path) -> None:
    for name, size in (("a", 8), ("b", 4)):
        lines = "".join(caught(r, "03:20:00", 7) for r in range(size - 1))
        (tmp_path / f"{name}.log").write_text(f"export WORLD_SIZE={size}\n{lines}")
    found = nccldoctor.analyze(tmp_path)
    assert [source.path for source in found.case.sources] == ["a.log"]
    assert [gap.what for gap in found.case.gaps if gap.apart] == ["b.log: a different run"]


def test_one_rank_cannot_be_at_two_steps_at_once(tmp_path: Path) -> None:
    for name, step in (("a", 40), ("b", 9000)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "out.log").write_text(
            "".join(STEP.format(r=r, at=f"03:{m:02d}:00", step=step + m) for m in (1, 9) for r in range(4))
        )
    found = nccldoctor.analyze(tmp_path)
    assert len([gap for gap in found.case.gaps if gap.apart]) == 1


def test_one_rank_is_not_on_two_hosts(tmp_path: Path) -> None:
    """Two jobs of one size at one time, each torn down by its launcher."""
    item = (
        "[{r}]:\n  time      : 2026-02-02_03:21:00\n  host      : {h}\n  rank      : {r} (local_rank: {r})\n"
        "  exitcode  : -6 (pid: 7{r})\n"
    )
    for name, host, seq, size in (("a", "node1", 7, 4), ("b", "node2", 9, 2)):
        lines = "".join(caught(r, f"03:20:0{r}", seq) for r in range(size))
        table = "Failures:\n" + "".join(item.format(r=r, h=host) for r in range(1, size))
        (tmp_path / f"{name}.log").write_text(
            lines + table + "Root Cause (first observed failure):\n" + item.format(r=0, h=host)
        )
    found = nccldoctor.analyze(tmp_path)
    assert [(gap.what, gap.why.split(";")[0]) for gap in found.case.gaps if gap.apart] == [
        ("b.log: a different run", "its ranks are on other hosts")
    ]


def steps(rank: int, first: int, minutes: range) -> str:
    return "".join(STEP.format(r=rank, at=f"03:{m:02d}:00", step=first + m) for m in minutes)


def parted(folder: Path) -> list[tuple[list[str], str]]:
    """The paths that were kept, and why the others were left out."""
    case = nccldoctor.analyze(folder).case
    kept_paths = [source.path for source in case.sources]
    return [(kept_paths, gap.why.split(";")[0]) for gap in case.gaps if gap.apart]


@pytest.mark.parametrize("first", [37, 9000])
def test_files_named_alike_are_of_one_job(tmp_path: Path, first: int) -> None:
    """Job B has ranks that job A lacks: they go with the files of their job. Once it does the steps of job A three minutes later."""
    for rank in range(4):
        (tmp_path / f"a_rank{rank}.log").write_text(steps(rank, 40, range(10)))
    for rank in range(6):
        (tmp_path / f"b_rank{rank}.log").write_text(steps(rank, first, range(3, 14)))
    ((kept_paths, _),) = parted(tmp_path)
    assert kept_paths == [f"b_rank{rank}.log" for rank in range(6)]


def test_a_rank_does_a_step_once(tmp_path: Path) -> None:
    for name, late in (("a", 0), ("b", 3)):
        text = "".join(steps(r, 40, range(10)) for r in range(2))
        (tmp_path / f"{name}.log").write_text(text.replace(":00,600", f":{late * 10:02d},600"))
    ((_, why),) = parted(tmp_path)
    assert why == "its ranks do the same steps at a different time"


def test_a_copy_with_the_times_of_another_zone_is_no_other_job(tmp_path: Path) -> None:
    text = "".join(steps(r, 40, range(10)) for r in range(2))
    (tmp_path / "a.log").write_text(text + steps(0, 40, range(50, 59)))
    (tmp_path / "b.log").write_text(text.replace(" 03:0", " 03:3") + steps(0, 40, range(50, 59)))
    assert not parted(tmp_path)


def test_ranks_that_gave_up_on_other_calls_are_of_another_job(tmp_path: Path) -> None:
    for name, seq in (("a", 7), ("b", 9)):
        lines = "".join(caught(r, f"03:20:0{r}", seq) for r in range(3))
        (tmp_path / f"{name}.log").write_text(lines)
    ((_, why),) = parted(tmp_path)
    assert why == "its ranks timed out in other calls"


def test_ranks_in_other_processes_are_of_another_job(tmp_path: Path) -> None:
    for name, pid in (("a", 71), ("b", 93)):
        failed = f"  rank      : 1 (local_rank: 1)\n  exitcode  : -6 (pid: {pid})\n"
        table = f"Failures:\n  <NO_OTHER_FAILURES>\nRoot Cause (first observed failure):\n[0]:\n  time      : 2026-02-02_03:21:00\n{failed}"
        (tmp_path / f"{name}.log").write_text(caught(0, "03:20:00", 7) + table)
    ((_, why),) = parted(tmp_path)
    assert why == "its ranks are other processes"


def test_steps_that_are_done_again_after_trouble_are_of_a_later_run(tmp_path: Path) -> None:
    error = "[rank1]: 2026-02-02 03:10:00,600 | ERROR | trainer | RuntimeError: shard 7 is missing\n"
    (tmp_path / "a.log").write_text("".join(steps(r, 40, range(5)) for r in range(2)) + error)
    later = "".join(steps(r, 40, range(5)) for r in range(2)).replace(" 03:", " 04:")
    (tmp_path / "b.log").write_text(later)
    ((kept_paths, why),) = parted(tmp_path)
    assert (kept_paths, why) == (["b.log"], "its lines end before the diagnosed run begins")


def test_an_attempt_without_a_time_is_no_other_job(tmp_path: Path) -> None:
    """The second attempt runs with fewer ranks on other hosts; its folder says that it is the newer one."""
    for attempt, size, at in ((0, 4, "E202 03:20:00.050510987"), (1, 2, "E")):
        for rank in range(size):
            folder = tmp_path / f"attempt_{attempt}" / str(rank)
            folder.mkdir(parents=True)
            (folder / "stderr.log").write_text(f"export WORLD_SIZE={size}\n" + watchdog(rank, 7 + attempt, at=at))
    found = nccldoctor.analyze(tmp_path)
    assert {e.seq for e in found.case.of(CollectiveTimeout)} == {8}
    assert [gap.what for gap in found.case.gaps if gap.apart] == [
        "attempt_0/0/stderr.log and 3 more: earlier attempts of the job"
    ]


def test_ranks_and_clocks_of_an_attempt_that_is_left_out_are_not_of_the_job(tmp_path: Path) -> None:
    for attempt, ranks, at in ((0, (15,), "02:20:00"), (1, (0, 1, 2), "03:20:00")):
        (tmp_path / f"attempt_{attempt}").mkdir()
        for rank in ranks:
            (tmp_path / f"attempt_{attempt}" / f"rank_{rank}.log").write_text(caught(rank, at, 7))
    found = nccldoctor.analyze(tmp_path)
    assert [*found.case.world] == [0, 1, 2]
    assert {source.path.partition("/")[0] for source in found.case.sources} == {"attempt_1"}


NRANKS = "node1:71:72 [0] NCCL INFO ncclCommInitRank comm 0x5d0 rank 0 nranks {n} cudaDev 0 nvmlDev 0 busId 1 commId 0x1 - Init START\n"


@pytest.mark.parametrize(
    ("rank", "before", "at", "is_left_out"),
    [
        (1, "", "2026-02-02 00:20:00", True),  # rank 1 waits again, three hours later
        (9, "", "2026-02-02 00:07:00", True),  # no zone makes of 00:07 the end of this job
        (9, "", "2026-02-02 00:20:00", False),  # the clock of a host three hours behind
        (9, "", "2026-02-01 00:20:00", True),  # no zone is a day behind
        (9, NRANKS.format(n=64), "2026-02-02 00:20:00", True),  # another size
    ],
)
def test_a_log_that_failed_long_before_all_others_is_of_another_run(
    tmp_path: Path, rank: int, before: str, at: str, is_left_out: bool
) -> None:
    (tmp_path / "old").mkdir()
    error = f"[rank{rank}]: {at},600 | ERROR | trainer | RuntimeError: shard 7 is missing\n"
    (tmp_path / "old" / "job.log").write_text(before + error)
    text = NRANKS.format(n=2) + "".join(caught(r, "03:20:00", 7) for r in range(2))
    (tmp_path / "job.log").write_text(text + "2026-02-02 03:20:00,000 | INFO | trainer | over\n")
    (tmp_path / "rank_0.log").write_text("RuntimeError: nobody knows when\n")
    gaps = nccldoctor.analyze(tmp_path).case.gaps
    assert [gap.what for gap in gaps if gap.apart] == ["old/job.log: a different run"] * is_left_out
    assert not any("none of its lines has a time" in gap.why for gap in gaps)


def test_a_cancellation_hours_after_the_hang_is_of_the_same_job(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "job.log").write_text("".join(caught(r, "03:20:00", 7) for r in range(2)))
    end = "slurmstepd: error: *** JOB 4711 ON node0 CANCELLED AT 2026-02-03T21:30:00 ***\n"
    (tmp_path / "slurm-4711.out").write_text(end)
    assert not [gap for gap in nccldoctor.analyze(tmp_path).case.gaps if gap.apart]


def test_a_dump_goes_to_the_run_with_the_nearest_times() -> None:
    """Two runs of one size, a minute apart: rank 3 of the older one, and rank 2 of the newer, left no dump."""
    old, new = hang(1, at=-60.0), hang(2)
    read = ingested(*old[:3], *new[:2], new[3])
    assert kept(separate_jobs.one_job(read)) == [read.batch.dumps[i].path for i in (3, 4, 5)]


def test_a_dump_that_ends_before_the_steps_of_its_rank_is_left_out(tmp_path: Path) -> None:
    """The job of a minute before left the dump of rank 1 in the same folder."""
    recorded_ranks = hang(2)
    write(tmp_path, [recorded_ranks[0], hang(2, at=-60.0)[1], *recorded_ranks[2:]])
    for rank in range(4):
        printed = (
            f"[rank{rank}]: {wall(s):%Y-%m-%d %H:%M:%S},000 | INFO | trainer | step {s}/500\n" for s in range(1, 6)
        )
        (tmp_path / f"rank_{rank}.log").write_text("".join(printed))
    found = nccldoctor.analyze(tmp_path)
    assert [gap.what for gap in found.case.gaps if gap.lost] == ["nccl_trace_rank_1"]


def test_a_rotated_log_is_one_run(tmp_path: Path) -> None:
    for name, minutes in (("job.log.1", range(20)), ("job.log", range(30, 50))):
        (tmp_path / name).write_text("".join(STEP.format(r=0, at=f"03:{m:02d}:00", step=m) for m in minutes))
    assert not [gap for gap in nccldoctor.analyze(tmp_path).case.gaps if gap.apart]


def test_two_runs_of_a_launcher_are_told_by_their_ids(tmp_path: Path) -> None:
    """The older one had been restarted once: its attempt counts higher."""
    for run, attempt, hour, seq in (("run7_abcd0123", 1, "01", 5), ("run9_wxyz4567", 0, "03", 7)):
        for rank in range(2):
            folder = tmp_path / "node0" / run / f"attempt_{attempt}" / str(rank)
            folder.mkdir(parents=True)
            (folder / "stderr.log").write_text(caught(rank, f"{hour}:20:0{rank}", seq))
    found = nccldoctor.analyze(tmp_path)
    assert {e.seq for e in found.case.of(CollectiveTimeout)} == {7}


def test_of_runs_without_a_time_nobody_knows_the_newest(tmp_path: Path) -> None:
    """PyTorch 2.2 prints no times: one of them is diagnosed, and never with high confidence."""
    for run, late, seq in (("run7", 1, 5), ("run9", 2, 7)):
        for rank in range(4):
            folder = tmp_path / "node0" / run / "attempt_0" / str(rank)
            folder.mkdir(parents=True)
            (folder / "stderr.log").write_text("" if rank == late else watchdog(rank, seq, at="E"))
    found = nccldoctor.analyze(tmp_path)
    assert len({e.seq for e in found.case.of(CollectiveTimeout)}) == 1
    assert [gap.apart for gap in found.case.gaps if gap.lost] == [True]
    assert found.verdict.confidence is not Confidence.HIGH


def test_agents_of_one_run_have_names_of_their_own() -> None:
    assert run_id("node0/none_ab12cd34/attempt_0/3/stderr.log") == "none"
    assert run_id("node1/none_zz99_x12/attempt_0/3/stderr.log") == "none"
    assert run_id("logs/attempt_0/rank_3.log") == "logs"
    assert run_id("logs/rank_3.log") is None


def test_a_dump_that_its_own_log_contradicts_is_left_out(tmp_path: Path) -> None:
    """The dumps of ranks 0 and 1 have each other's names; rank 1 never came."""
    recorded_ranks = hang(1)
    write(tmp_path, recorded_ranks)
    (tmp_path / "nccl_trace_rank_0").write_bytes(RecordedRank(0, world(4)).calls(9, n=99).data())
    lines = "".join(caught(r, "03:20:00", 9) for r in (0, 2, 3))
    (tmp_path / "job.log").write_text(lines.replace("] [Rank", "] [PG ID 0 PG GUID 0(default_pg) Rank"))
    found = nccldoctor.analyze(tmp_path)
    assert "nccl_trace_rank_0" in [gap.what for gap in found.case.gaps if gap.lost]
    assert found.verdict.confidence is not Confidence.HIGH


def test_no_dump_contradicts_nothing() -> None:
    from nccldoctor.identify.identify import identify

    assert not stale_dumps(identify(Ingested((), Batch.empty(), ())))


@pytest.mark.parametrize(("old", "hosts"), [("yesterday", ("node1", "node2")), ("attempt_0", ("gpu7", "gpu7"))])
def test_lines_without_a_year_are_of_the_year_that_other_files_name(
    tmp_path: Path, old: str, hosts: tuple[str, str]
) -> None:
    """The ranks' own logs print none, their launcher does: they are of that year, not of one before the older job."""
    item = (
        "[{r}]:\n  time      : 2026-02-0{day}_03:21:00\n  host      : {h}\n  rank      : {r} (local_rank: {r})\n"
        "  exitcode  : -6 (pid: 7{r})\n"
    )
    for name, day, late, seq, host in ((old, 1, 1, 9, hosts[0]), ("logs", 2, 2, 40, hosts[1])):
        folder = tmp_path / name
        folder.mkdir()
        lines = {r: watchdog(r, seq, at=f"E20{day} 03:20:0{r}.050510987") for r in range(4) if r != late}
        table = "Failures:\n" + "".join(item.format(r=r, h=host, day=day) for r in lines)
        if name == old:
            (folder / "job.log").write_text("".join(lines.values()) + table)
            continue
        (folder / "launcher.log").write_text(table)
        for rank, line in lines.items():
            (folder / f"rank_{rank}.log").write_text(line)
    found = nccldoctor.analyze(tmp_path)
    assert {event.seq for event in found.case.of(CollectiveTimeout)} == {40}
    assert [gap.what.split("/")[0] for gap in found.case.gaps if gap.apart] == [old]


def failed(*ranks: int, hour: str, seq: int, text: str = "") -> str:
    """The log of ranks that give up at this hour, after ``text``."""
    return text + "".join(caught(r, f"{hour}:20:0{r}", seq) for r in ranks)


def paths(folder: Path) -> set[str]:
    return {source.path for source in nccldoctor.analyze(folder).case.sources}


@pytest.mark.parametrize(("old", "world"), [((0, 1, 2), 4), ((2,), 8), ((0, 5, 6, 7), 8)])
def test_a_log_that_failed_hours_before_is_left_out(tmp_path: Path, old: tuple[int, ...], world: int) -> None:
    """Whichever ranks it tells of, and though nothing but the hours parts it from the logs of the job."""
    (tmp_path / "last.log").write_text(failed(*old, hour="01", seq=500))
    for rank in range(1, world):
        (tmp_path / f"rank_{rank}.log").write_text(failed(rank, hour="09", seq=7))
    assert paths(tmp_path) == {f"rank_{rank}.log" for rank in range(1, world)}


def test_ranks_on_a_host_whose_clock_is_hours_ahead_are_of_the_job(tmp_path: Path) -> None:
    for host, ranks, hour in (("a", (0, 1), "01"), ("b", (2,), "09")):
        (tmp_path / f"{host}.log").write_text(failed(*ranks, hour=hour, seq=7))
    assert paths(tmp_path) == {"a.log", "b.log"}


def test_where_a_log_goes_on_all_night_an_early_failure_is_of_the_job(tmp_path: Path) -> None:
    """A reader of rank 1 failed at 1:00; rank 0 made steps until 9:00, when rank 1 gave up."""
    trace = (
        'Traceback (most recent call last):\n  File "/srv/read.py", line 7, in <module>\n    read()\nOSError: gone\n'
    )
    (tmp_path / "rank_1.err").write_text(STEP.format(r=1, at="01:00:00", step=4) + trace)
    (tmp_path / "rank_0.log").write_text("".join(STEP.format(r=0, at=f"0{h}:10:00", step=h) for h in range(10)))
    (tmp_path / "rank_1.log").write_text(failed(1, hour="09", seq=7))
    assert "rank_1.err" in paths(tmp_path)


def test_a_wait_of_hours_is_no_pause(tmp_path: Path) -> None:
    """Rank 2 raised at 1:00, and the others waited for two hours until their timers ended."""
    (tmp_path / "rank_2.log").write_text(
        STEP.format(r=2, at="01:20:00", step=4) + "[rank2]: Traceback (most recent call last):\n"
        '[rank2]:   File "/srv/train.py", line 8, in <module>\n[rank2]:     step()\n[rank2]: ValueError: bad batch\n'
        + caught(2, "03:20:00", 7).replace("600000) ran for 6000", "7200000) ran for 72000")
    )
    late = caught(0, "03:20:00", 7)
    assert "ran for 600" in late
    for rank in (0, 1, 3):
        text = caught(rank, f"03:20:0{rank}", 7).replace("=600000", "=7200000").replace("ran for 600", "ran for 7200")
        (tmp_path / f"rank_{rank}.log").write_text(text)
    assert "rank_2.log" in paths(tmp_path)


def test_of_two_jobs_on_other_hosts_the_later_failure_is_diagnosed_however_few_lines_tell_of_it(tmp_path: Path) -> None:
    row = "srun: error: {h}: task {r}: Exited with exit code 1\n"
    for name, host, hour, ranks in (("monday", "n1", "03", range(4)), ("tuesday", "n2", "04", range(2))):
        (tmp_path / name).mkdir()
        rows = "".join(row.format(h=host, r=r) for r in range(4))
        text = failed(
            *ranks, hour=hour, seq=7 if name == "monday" else 9, text=STEP.format(r=0, at=f"{hour}:00:00", step=1)
        )
        (tmp_path / name / "slurm.out").write_text(text + rows)
    assert paths(tmp_path) == {"tuesday/slurm.out"}


def _waiting(ranks: Iterable[int], hour: int) -> str:
    lines = (
        f"[rank{r}]:[E202 {hour:02d}:30:00.5{r}0510987 ProcessGroupNCCL.cpp:629] [Rank {r}] Watchdog caught collective operation"
        " timeout: WorkNCCL(SeqNum=211, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=1200000) ran for 1200041"
        " milliseconds before timing out.\n"
        for r in ranks
    )
    return "".join(lines)


def _working(rank: int, hour: int) -> str:
    return "".join(
        f"2026-02-02 {hour:02d}:{n:02d}:11,000 | INFO | [rank{rank}] step {n} loss 2.1\n" for n in range(5, 37)
    )


def test_ranks_that_step_while_they_wait_are_of_two_jobs(tmp_path: Path) -> None:
    (tmp_path / "eval").mkdir()
    (tmp_path / "job.log").write_text(_waiting(range(1, 4), 3))
    for rank in range(4):
        (tmp_path / "eval" / f"rank_{rank}.log").write_text(_working(rank, 3))
    ((kept_paths, why),) = parted(tmp_path)
    assert (kept_paths, why) == (
        ["job.log"],
        "its ranks were at work while those of the diagnosed run waited in a call",
    )


def test_one_rank_that_steps_while_the_others_wait_is_of_their_job(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text(_waiting(range(1, 4), 3))
    (tmp_path / "rank_0.log").write_text(_working(0, 3))
    assert parted(tmp_path) == []


def _of_nobody(hour: int, first: int, last: int) -> str:
    """A log whose lines name no rank, from step 2,500 on; its program says in the end that it finished."""
    steps = "".join(
        f"2026-02-02 {hour:02d}:{n:02d}:20,000 | INFO | trainer | step {2500 + n}/50000 | loss 2.1\n"
        for n in range(first, last)
    )
    return f"{steps}training finished, all steps done\n"


def test_a_program_that_finished_amid_far_steps_of_ranks_is_of_another_job(tmp_path: Path) -> None:
    (tmp_path / "eval").mkdir()
    (tmp_path / "job.log").write_text(_of_nobody(3, 6, 20))
    for rank in range(4):
        (tmp_path / "eval" / f"rank_{rank}.log").write_text(_working(rank, 3))
    ((_, why),) = parted(tmp_path)
    assert why.startswith("it or the diagnosed run finished amid steps of the other")
    assert nccldoctor.analyze(tmp_path).verdict.confidence is not Confidence.HIGH


@pytest.mark.parametrize(("hour", "first", "last"), [(3, 6, 37), (2, 6, 50)])
def test_ranks_that_end_with_the_program_or_begin_when_it_finished_are_of_its_job(
    tmp_path: Path, hour: int, first: int, last: int
) -> None:
    """The main log counts steps in all and the ranks those of an epoch, or the ranks evaluate what was trained."""
    (tmp_path / "job.log").write_text(_of_nobody(hour, first, last))
    for rank in range(4):
        (tmp_path / f"rank_{rank}.log").write_text(_working(rank, 3))
    assert parted(tmp_path) == []


def test_a_job_that_ran_well_hours_after_a_failed_one_is_no_all_clear(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("".join(_working(r, 3) for r in range(4)) + _waiting(range(1, 4), 3))
    (tmp_path / "b.log").write_text("".join(_working(r, 9) for r in range(4)))
    assert nccldoctor.analyze(tmp_path).verdict.cause is not CauseClass.NONE


def test_dumps_that_nothing_ties_to_a_run_go_with_the_one_in_trouble(tmp_path: Path) -> None:
    """An evaluation that went well left its logs in the folder of the dumps: they are no logs of these dumps."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "flight").mkdir()
    (tmp_path / "logs" / "job.log").write_text(_waiting(range(1, 4), 3))
    for rank in range(4):
        (tmp_path / f"eval_rank{rank}.log").write_text(_working(rank, 3))
        (tmp_path / "flight" / f"fr_trace_{rank}").write_bytes(dump(entry(210), entry(211, state="scheduled")))
    ((kept_paths, _),) = parted(tmp_path)
    assert kept_paths == [*(f"flight/fr_trace_{rank}" for rank in range(4)), "logs/job.log"]
