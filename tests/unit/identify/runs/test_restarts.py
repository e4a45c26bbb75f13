"""Attempts of one job are told apart by what their lines say, and only the newest is diagnosed."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders.logs.lines import watchdog

from nccldoctor import pipeline
from nccldoctor.events import Heartbeat, Progress
from nccldoctor.identify.runs import restarts

START = "W0202 {at} 100 torch/distributed/run.py:793] Setting OMP_NUM_THREADS environment variable for each process to be 1 in default\n"
TABLE = (
    "Failures:\n  <NO_OTHER_FAILURES>\nRoot Cause (first observed failure):\n[0]:\n  time      : 2026-02-02_{at}\n"
    "  host      : node0\n  rank      : {r} (local_rank: {r})\n  exitcode  : -6 (pid: 7{r})\n  error_file: <N/A>\n"
)


def caught(rank: int, at: str, seq: int) -> str:
    """The line of a watchdog at this time of the day."""
    return watchdog(rank, seq, at=f"E202 {at}.050510987", numel=1)


FAILED = (
    "E0202 03:05:00.000000 100 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: 1) local_rank: 1 "
    "(pid: 71) of binary: /usr/bin/python\n"
)


def attempt(hour: int, seq: int, ranks: int = 2) -> dict[str, str]:
    """The lines of one attempt: rank to text; ``launcher`` for the launcher's."""
    out = {f"rank_{r}": caught(r, f"{hour:02d}:20:0{r}", seq) for r in range(ranks)}
    return {**out, "launcher": START.format(at=f"{hour:02d}:00:00.000000") + TABLE.format(at=f"{hour:02d}:21:00", r=0)}


def seqs(folder: Path) -> list[int]:
    """The calls that the newest attempt gave up on."""
    case = restarts.newest_attempt(pipeline.read([folder]))
    return sorted({e.seq for e in case.events if e.kind == "collective-timeout"})  # type: ignore[attr-defined]


def one(parts: dict[str, str]) -> str:
    start, _, table = parts["launcher"].partition("\n")
    return start + "\n" + parts["rank_0"] + parts["rank_1"] + table


def test_a_requeue_goes_on_in_the_same_file(tmp_path: Path) -> None:
    note = "slurmstepd: error: *** JOB 4711 ON node0 CANCELLED AT 2026-02-02T03:30:00 DUE TO JOB REQUEUE ***\n"
    (tmp_path / "slurm-4711.out").write_text(one(attempt(3, 7)) + note + one(attempt(4, 9)))
    assert seqs(tmp_path) == [9]


def test_the_note_of_a_requeue_at_the_very_end_leaves_the_attempt(tmp_path: Path) -> None:
    note = "slurmstepd: error: *** JOB 4711 ON node0 CANCELLED AT 2026-02-02T03:30:00 DUE TO JOB REQUEUE ***\n"
    (tmp_path / "slurm-4711.out").write_text(one(attempt(3, 7)) + note)
    assert seqs(tmp_path) == [7]


RESTARTED = (
    "INFO:torch.distributed.elastic.agent.server.api:[default] Worker group FAILED. 2/3 attempts left; will restart worker group\n"
    "INFO:torch.distributed.elastic.agent.server.api:[default] Stopping worker group\n"
    "INFO:torch.distributed.elastic.agent.server.api:[default] Rendezvous'ing worker group\n"
)


@pytest.mark.parametrize("before", ["", one(attempt(3, 7)) + RESTARTED])
def test_a_log_that_ends_at_a_restart_shows_the_attempt_before_it(tmp_path: Path, before: str) -> None:
    (tmp_path / "train.log").write_text(before + one(attempt(4, 9)) + RESTARTED)
    assert seqs(tmp_path) == [9]
    gaps = [g.what for g in restarts.newest_attempt(pipeline.read([tmp_path])).gaps]
    assert gaps == [*(["earlier attempts of the job"] if before else []), "newest attempt of the job"]


def test_a_loop_around_the_launcher_says_nothing_and_is_seen(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text(one(attempt(3, 7)) + one(attempt(4, 9)))
    assert seqs(tmp_path) == [9]


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_folders_of_several_runs_are_told_apart_by_their_times(tmp_path: Path, names: tuple[str, str]) -> None:
    for name, parts in zip(names, (attempt(3, 7), attempt(4, 9)), strict=True):
        (tmp_path / name).mkdir()
        for who, text in parts.items():
            (tmp_path / name / f"{who}.log").write_text(text)
    (tmp_path / names[0] / "rank_1.log").write_text("[rank1]: ValueError: no time stands here\n")
    case = restarts.newest_attempt(pipeline.read([tmp_path]))
    assert seqs(tmp_path) == [9]
    assert not [e for e in case.events if e.kind == "exception"], "it goes with its folder"
    assert [g for g in case.gaps if g.what == "earlier attempts of the job"]


def test_files_that_every_attempt_appends_to(tmp_path: Path) -> None:
    first, second = attempt(3, 7), attempt(4, 9)
    for who in first:
        (tmp_path / f"{who}.log").write_text(first[who] + second[who])
    assert seqs(tmp_path) == [9]


def test_a_rank_that_starts_late_is_no_new_attempt(tmp_path: Path) -> None:
    """The launcher of the other node begins when the first has given up: nobody who ended comes back."""
    parts = attempt(3, 7)
    (tmp_path / "node0.log").write_text(one(parts))
    (tmp_path / "node1.log").write_text(START.format(at="03:00:04.000000") + caught(2, "03:20:03", 8))
    assert seqs(tmp_path) == [7, 8]


def test_an_evaluation_bar_that_begins_again_is_no_new_attempt(tmp_path: Path) -> None:
    bars = "".join(
        f"[rank1]: Epoch {e}: {100 * s // 80}%|███ | {s}/80 [00:10<00:10, 5.00it/s]\n" for e in (0, 1) for s in (10, 80)
    )
    (tmp_path / "job.log").write_text(bars + caught(0, "03:20:00", 7) + caught(1, "03:20:01", 8))
    assert seqs(tmp_path) == [7, 8]


def test_the_files_of_two_nodes_one_behind_the_other_are_one_attempt(tmp_path: Path) -> None:
    """The launcher of the second node starts in the file when that of the first has ended, but not on the clock."""
    one_node = START.format(at="03:00:00.000000") + caught(0, "03:20:00", 7) + TABLE.format(at="03:21:00", r=0)
    other = START.format(at="03:00:01.000000") + caught(1, "03:20:01", 8) + TABLE.format(at="03:21:01", r=1)
    (tmp_path / "all.log").write_text(one_node + other)
    assert seqs(tmp_path) == [7, 8]


AGAIN = (
    "I0202 {at} 100 torch/distributed/elastic/agent/server/api.py:879] [default] Worker group FAILED. 3/3 attempts left; "
    "will restart worker group\n"
)
OOM = "[Mon Feb  2 {at} 2026] Out of memory: Killed process 70 (python) total-vm:99kB, anon-rss:61kB, file-rss:0kB\n"


def test_the_launchers_restart_dates_the_files_that_hold_no_such_line(tmp_path: Path) -> None:
    """The kernel killed a process of the attempt before; the newest one hung."""
    (tmp_path / "agent.log").write_text(
        START.format(at="03:00:00.000000") + AGAIN.format(at="03:10:00.000000") + START.format(at="03:10:10.000000")
    )
    (tmp_path / "dmesg-node0.txt").write_text(OOM.format(at="03:09:50"))
    for r in range(2):
        (tmp_path / f"rank_{r}.log").write_text(caught(r, f"04:20:0{r}", 9))
    case = restarts.newest_attempt(pipeline.read([tmp_path]))
    assert seqs(tmp_path) == [9]
    assert not [e for e in case.events if e.kind == "out-of-memory"]


def test_a_line_without_a_time_goes_with_the_one_before_it(tmp_path: Path) -> None:
    old = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    main()\nValueError: of the attempt before\n'
    first, second = attempt(3, 7), attempt(4, 9)
    for who in first:
        (tmp_path / f"{who}.log").write_text(first[who] + (old if who == "rank_1" else "") + second[who])
    case = restarts.newest_attempt(pipeline.read([tmp_path]))
    assert seqs(tmp_path) == [9]
    assert not [e for e in case.events if e.kind == "exception"]


def test_a_file_without_any_time_in_a_place_of_several_attempts_is_doubted(tmp_path: Path) -> None:
    first, second = attempt(3, 7), attempt(4, 9)
    for who in first:
        (tmp_path / f"{who}.log").write_text(first[who] + second[who])
    (tmp_path / "rank_2.log").write_text(
        "[rank2]: Traceback (most recent call last):\n[rank2]: ValueError: of which attempt?\n"
    )
    case = restarts.newest_attempt(pipeline.read([tmp_path]))
    assert [(g.what, str(g.ranks)) for g in case.gaps if g.lost] == [("rank_2.log", "2")]


def test_settings_and_versions_are_alike_in_all_attempts(tmp_path: Path) -> None:
    first, second = attempt(3, 7), attempt(4, 9)
    for who in first:
        (tmp_path / f"{who}.log").write_text(first[who] + second[who])
    (tmp_path / "environment.txt").write_text("RANK=0\nWORLD_SIZE=2\nNCCL_DEBUG=INFO\nPyTorch version: 2.9.1\n")
    case = restarts.newest_attempt(pipeline.read([tmp_path]))
    assert any(e.kind == "setting" for e in case.events)
    assert not [g for g in case.gaps if g.lost]


def test_torchrun_closes_all_workers_before_it_names_the_first_failed_one(tmp_path: Path) -> None:
    """Ranks 0 and 1 step again from 0 behind that line, and no other line tells of the restart."""
    steps = [
        f"[rank{r}]: 2026-02-02 03:0{m}:00,000 INFO train: step {m % 5 * 10} loss 0.5\n"
        for m in range(10)
        for r in (0, 1)
    ]
    (tmp_path / "job.log").write_text("".join([*steps[:10], FAILED, *steps[10:]]))
    case = restarts.newest_attempt(pipeline.read([tmp_path]))
    assert [gap.what for gap in case.gaps] == ["earlier attempts of the job"]
    assert {e.place.line for e in case.events if isinstance(e, Heartbeat | Progress)} == set(range(12, 22))


def test_steps_that_go_on_behind_that_line_are_no_new_attempt(tmp_path: Path) -> None:
    """The agent of another node writes into the same file: its ranks go on."""
    steps = [
        f"[rank{r}]: 2026-02-02 03:0{m}:00,000 INFO train: step {m * 10} loss 0.5\n" for m in range(10) for r in (0, 1)
    ]
    (tmp_path / "job.log").write_text("".join([*steps[:10], FAILED, *steps[10:]]))
    assert not restarts.newest_attempt(pipeline.read([tmp_path])).gaps


def test_a_rank_whose_own_file_seems_older_than_the_newest_attempt_is_named_as_lost(tmp_path: Path) -> None:
    """The clock of rank 1 may be an hour behind: its silence in the newest attempt proves nothing."""
    parts = attempt(4, 9)
    (tmp_path / "launcher.log").write_text(attempt(3, 7)["launcher"] + parts["launcher"])
    (tmp_path / "rank_0.log").write_text(parts["rank_0"])
    (tmp_path / "rank_1.log").write_text(caught(1, "03:20:01", 9))
    case = restarts.newest_attempt(pipeline.read([tmp_path]))
    gone = [(gap.what, str(gap.ranks)) for gap in case.gaps if gap.lost and "older than the newest attempt" in gap.why]
    assert gone == [("rank_1.log", "1")]


def test_older_files_of_a_rank_that_was_heard_again_are_not_lost(tmp_path: Path) -> None:
    for name, parts in (("first", attempt(3, 7)), ("second", attempt(4, 9))):
        (tmp_path / name).mkdir()
        for file, text in parts.items():
            (tmp_path / name / f"{file}.log").write_text(text)
    case = restarts.newest_attempt(pipeline.read([tmp_path]))
    assert not [gap for gap in case.gaps if "older than the newest attempt" in gap.why]


def closes(at: str, *pids: int, agent: int = 100) -> str:
    """The lines in which an agent of torchrun closes workers."""
    api = "torch/distributed/elastic/multiprocessing/api.py:1028]"
    return "".join(f"W0202 {at}.000000 {agent} {api} Sending process {pid} closing signal SIGTERM\n" for pid in pids)


def error(rank: int, says: str) -> str:
    return f'[rank{rank}]: Traceback (most recent call last):\n[rank{rank}]:   File "job.py", line 7, in main\n[rank{rank}]: {says}\n'


def test_an_agent_that_closes_other_workers_had_started_the_job_again(tmp_path: Path) -> None:
    """Only the second tear-down shows it: no rank of the new attempt printed a step."""
    first = error(1, "KeyError: 'bucket-7'") + closes("03:04:59", 70, 72) + FAILED
    second = error(0, "ValueError: no bucket") + closes("03:09:59", 80, 81)
    (tmp_path / "job.log").write_text(first + second)
    case = restarts.newest_attempt(pipeline.read([tmp_path]))
    assert [e.rank for e in case.events if e.kind == "exception"] == [0]
    assert [gap.what for gap in case.gaps] == ["earlier attempts of the job"]


def test_the_agent_of_another_node_closes_its_own_workers(tmp_path: Path) -> None:
    """Files of two agents one behind the other are one attempt."""
    first = error(1, "KeyError: 'bucket-7'") + closes("03:04:59", 70, 72) + FAILED
    (tmp_path / "job.log").write_text(first + closes("03:05:03", 70, 71, agent=200))
    case = restarts.newest_attempt(pipeline.read([tmp_path]))
    assert [e.rank for e in case.events if e.kind == "exception"] == [1]
    assert not case.gaps


STEP = "[rank{r}]: 2026-02-02 {at},600 | INFO | trainer | step {step}/50000 | loss 3.0006\n"
RAISED = (
    '[rank1]: Traceback (most recent call last):\n[rank1]:   File "/opt/train/train.py", line 88, in main\n'
    "[rank1]: KeyError: 'input_ids'\n"
)


def run_of_steps(hour: int, first: int) -> str:
    return "".join(STEP.format(r=r, at=f"{hour:02d}:0{m}:00", step=first + m) for m in range(4) for r in range(2))


def newest_steps(folder: Path) -> list[int]:
    case = restarts.newest_attempt(pipeline.read([folder]))
    return sorted({e.step for e in case.events.of_kind(Progress) if e.step is not None})


@pytest.mark.parametrize("end", [caught(1, "01:20:00", 7), RAISED])
@pytest.mark.parametrize("first", [10, 104])
def test_steps_behind_an_end_and_a_long_silence_are_of_a_new_run(tmp_path: Path, end: str, first: int) -> None:
    """The newer run resumed from an older or from the newest checkpoint, and nothing says that it was started."""
    (tmp_path / "train.log").write_text(run_of_steps(1, 100) + end + run_of_steps(3, first))
    assert newest_steps(tmp_path) == [first + m for m in range(4)]
    case = restarts.newest_attempt(pipeline.read([tmp_path]))
    assert [gap.what for gap in case.gaps if gap.apart] == ["earlier attempts of the job"]


def test_ranks_appended_one_behind_the_other_are_cut_at_the_silence(tmp_path: Path) -> None:
    new = sorted(run_of_steps(3, 10).splitlines(keepends=True))
    (tmp_path / "train.log").write_text(
        run_of_steps(1, 100) + RAISED + new[0] + caught(0, "03:20:00", 9) + "".join(new[1:])
    )
    assert newest_steps(tmp_path) == [10, 11, 12, 13]


def test_an_exception_that_was_caught_begins_no_run(tmp_path: Path) -> None:
    """The steps of the next epoch begin again at once; the job went on."""
    again = (STEP.format(r=r, at=f"01:0{m}:00", step=96 + m) for m in range(4, 8) for r in range(2))
    (tmp_path / "train.log").write_text(run_of_steps(1, 100) + RAISED + "".join(again))
    assert newest_steps(tmp_path) == [100, 101, 102, 103]
    assert not restarts.newest_attempt(pipeline.read([tmp_path])).gaps


LEFT = (
    "W0601 10:20:00.221000 3301 torch/distributed/elastic/agent/server/api.py:704] Received Signals.SIGTERM death signal, shutting down "
    "workers\nTraceback (most recent call last):\n"
    '  File "/opt/venv/bin/torchrun", line 8, in <module>\n    sys.exit(main())\n'
    "torch.distributed.elastic.multiprocessing.api.SignalException: Process 3301 got signal: 15\n"
)


@pytest.mark.parametrize(("between", "kept"), [(LEFT, [310, 320]), ("", [300, 310, 320])])
def test_steps_behind_the_end_of_the_launcher_itself_are_of_a_new_run(
    tmp_path: Path, between: str, kept: list[int]
) -> None:
    steps = "".join(f"[rank0] step {number} loss 3.2 1.90 s/it\n" for number in (300, 310))
    (tmp_path / "slurm.out").write_text(steps + between + steps.replace("310", "320").replace("300", "310"))
    assert newest_steps(tmp_path) == kept


def test_a_launcher_that_could_not_start_the_job_again_leaves_the_attempt_before_it(tmp_path: Path) -> None:
    again = (
        "I0409 07:28:52.101000 1421 torch/distributed/elastic/agent/server/api.py:889] [default] Worker group FAILED. 3/3 attempts left; "
        "will restart worker group\nI0409 07:28:52.102000 1421 torch/distributed/elastic/agent/server/api.py:677] [default] Rendezvous'ing "
        "worker group\nTraceback (most recent call last):\n"
        '  File "/opt/torch/distributed/elastic/rendezvous/dynamic_rendezvous.py", line 676, in run\n    raise RendezvousClosedError\n'
        "torch.distributed.elastic.rendezvous.api.RendezvousClosedError\n"
    )
    (tmp_path / "node-a.log").write_text("[rank0] step 312 loss 3.2 1.90 s/it\n" + again)
    (tmp_path / "node-b.log").write_text("[rank1] step 312 loss 3.2 1.90 s/it\n")
    assert newest_steps(tmp_path) == [312]
