"""The folder of capture, and the log in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from nccldoctor.capture.evidence import RankLog, look_name, prepare
from nccldoctor.capture.identity import Identity, identity_of

ME = Identity(rank=3, world=8, host="node0", pid=4711)


def test_the_rank_comes_from_the_launcher_unless_it_is_given() -> None:
    assert identity_of({"RANK": "3", "WORLD_SIZE": "8", "SLURM_PROCID": "5"}).rank == 3
    slurm = identity_of({"SLURM_PROCID": "5", "SLURM_NTASKS": "16"})
    assert (slurm.rank, slurm.world, slurm.stem) == (5, 16, "rank_5")
    assert identity_of({"RANK": "x"}, rank=2).rank == 2
    assert identity_of({}).stem.startswith("pid_")


def test_each_restart_has_a_folder(tmp_path: Path) -> None:
    evidence = prepare(tmp_path, identity_of({"RANK": "0", "TORCHELASTIC_RESTART_COUNT": "2"}))
    assert evidence.log == tmp_path / "attempt-2" / "rank_0.log"


def test_what_an_earlier_run_left_is_put_aside_once(tmp_path: Path) -> None:
    for run in ("first", "second", "third"):
        evidence = prepare(tmp_path, ME)
        look = evidence.looks / look_name(len(run) * 1000.0)
        look.mkdir()
        for path in (evidence.log, evidence.stack(look.name), evidence.recorder / "fr_trace_3", evidence.state):
            path.write_text(f"2026-11-23T04:44:54.100+00:00 INFO [rank 3] {run}")
        (evidence.recorder / "fr_trace_13").write_text("of another rank")
    prepare(tmp_path, ME)
    shown = [p for p in tmp_path.rglob("*") if p.is_file() and ".earlier" not in p.parts]
    assert [path.name for path in shown] == ["fr_trace_13"]
    kept = {p.read_text() for p in (tmp_path / ".earlier").rglob("*") if p.is_file()}
    assert {text.rpartition(" ")[2] for text in kept} == {"third"}


def test_files_of_the_user_stay_where_they_are(tmp_path: Path) -> None:
    evidence = prepare(tmp_path, ME)
    own = [evidence.recorder / "tensors_3", evidence.top / "rank_3.txt", evidence.looks / "notes.txt"]
    for path in own:
        path.write_text("mine")
    evidence.log.write_text("2026-11-23T04:44:54.100+00:00 INFO [rank 3] heartbeat: step=1\n")
    prepare(tmp_path, ME)
    assert {path.read_text() for path in own} == {"mine"}
    assert not evidence.log.exists()
    evidence.log.write_text("step 1\n")
    with pytest.raises(FileExistsError, match=r"rank_3\.log is no log of a capture"):
        prepare(tmp_path, ME)
    assert evidence.log.read_text() == "step 1\n"


def test_a_new_stall_replaces_this_ranks_part_of_older_looks(tmp_path: Path) -> None:
    evidence = prepare(tmp_path, ME)
    for at in (100.0, 200.0, 300.0):
        evidence.open_look(at)
        evidence.stack(look_name(at)).write_text("x")
    (evidence.looks / look_name(100.0) / "rank_4.txt").write_text("of another rank")
    evidence.forget_looks(before=250.0, but=look_name(200.0))
    assert evidence.known_looks() == [look_name(at) for at in (100.0, 200.0, 300.0)]
    assert not evidence.stack(look_name(100.0)).exists()
    assert evidence.stack(look_name(200.0)).exists()


def test_a_log_is_put_aside_at_its_ceiling(tmp_path: Path) -> None:
    log = RankLog(tmp_path / "rank_3.log", "[rank 3]", most=400)
    for number in range(50):
        log.say(f"heartbeat: step={number}")
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert sizes.keys() == {"rank_3.log", "rank_3.1.log"}
    assert max(sizes.values()) <= 400
    assert "step=49\n" in (tmp_path / "rank_3.log").read_text()


def test_every_line_of_a_log_carries_time_and_rank(tmp_path: Path) -> None:
    RankLog(tmp_path / "rank_3.log", "[rank 3]", most=4000).say("one", "two\nthree")
    lines = (tmp_path / "rank_3.log").read_text().splitlines()
    assert [line.partition("+00:00 INFO [rank 3] ")[2] for line in lines] == ["one", "two", "three"]
