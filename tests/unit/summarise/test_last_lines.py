"""The last lines before the silence, and the line that explains it."""

from __future__ import annotations

from pathlib import Path

import nccldoctor
from nccldoctor.cli import demo
from nccldoctor.model.exhibits import LastLines


def last_lines(folder: Path) -> dict[int, LastLines]:
    return {side.rank: side for side in nccldoctor.analyze(folder).diagnosis.last_lines}


def write_job(folder: Path, explained: str) -> None:
    """Rank 0 is silent from 09:02:03 to 09:12:43; ranks 1 to 3 give up at 09:12:03."""
    steps = [f"2025-11-17 09:02:0{n},000 INFO [rank 0] train: step={1548 + n} loss=3.1" for n in range(4)]
    later = "2025-11-17 09:12:43,000 INFO [rank 0] train: step=1552 loss=3.1"
    (folder / "rank_0.log").write_text("\n".join([*steps, "reading the shards", explained, later, ""]))
    for rank in (1, 2, 3):
        own = [step.replace("[rank 0]", f"[rank {rank}]") for step in steps[:3]]
        timeout = (
            f"[rank{rank}]:[E1117 09:12:03.904775194 ProcessGroupNCCL.cpp:686] [Rank {rank}] Watchdog caught collective "
            "operation timeout: WorkNCCL(SeqNum=17084, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for "
            "600073 milliseconds before timing out."
        )
        (folder / f"rank_{rank}.log").write_text("\n".join([*own, timeout, ""]))


def test_the_line_that_tells_a_duration_like_the_gap_explains_it(tmp_path: Path) -> None:
    write_job(tmp_path, "checkpoint of step 1551 written in 639.2 s")
    late = last_lines(tmp_path)[0]

    assert late.gap_ms == 640_000
    assert [line.text for line in late.within] == ["checkpoint of step 1551 written in 639.2 s"]
    assert late.before[-1].text.endswith("step=1551 loss=3.1")
    assert late.after[0].text.endswith("step=1552 loss=3.1")


def test_without_such_a_line_the_first_one_of_the_gap_is_shown(tmp_path: Path) -> None:
    write_job(tmp_path, "cache cleared in 0.2 s")
    late = last_lines(tmp_path)[0]

    assert [line.text for line in late.within] == ["reading the shards"]


def test_a_log_that_just_ends_has_no_gap(tmp_path: Path) -> None:
    demo.write("died", tmp_path / "logs")
    killed = last_lines(tmp_path / "logs")[3]

    assert (killed.gap_ms, killed.within, killed.after) == (None, (), ())
    assert "step=3" in killed.before[-1].text


def test_a_waiting_peer_stands_beside_it(tmp_path: Path) -> None:
    write_job(tmp_path, "checkpoint of step 1551 written in 639.2 s")
    sides = last_lines(tmp_path)

    assert sorted(sides) == [0, 1]
    assert "Watchdog caught collective operation timeout" in sides[1].after[0].text


def test_lines_of_other_writers_and_empty_ones_are_left_out(tmp_path: Path) -> None:
    write_job(tmp_path, "checkpoint of step 1551 written in 639.2 s")
    merged = []
    for rank in range(4):
        for text in (tmp_path / f"rank_{rank}.log").read_text().splitlines():
            merged += [f"{rank}: {text}", f"{rank}: "]
        (tmp_path / f"rank_{rank}.log").unlink()
    (tmp_path / "srun.out").write_text("\n".join([*merged, ""]))
    sides = last_lines(tmp_path)

    assert sorted(sides) == [0, 1]
    for rank, side in sides.items():
        texts = [line.text for line in (*side.before, *side.within, *side.after)]
        assert all(text.startswith(f"{rank}: ") and text[3:].strip() for text in texts), texts
    assert [line.text for line in sides[0].within] == ["0: checkpoint of step 1551 written in 639.2 s"]
