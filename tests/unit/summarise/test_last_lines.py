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


SAMPLES = Path(__file__).parents[3] / "sample_logs"


def texts(side: LastLines) -> list[str]:
    return [line.text for line in (*side.before, *side.within, *side.after)]


def test_lines_that_no_parser_reads_are_the_last_ones_too() -> None:
    """Rank 4's parsed lines end with the init of NCCL; what its loader wrote until the GPU failed is no event."""
    failed = last_lines(SAMPLES / "hardware")[4]

    assert "queue depth 870 below 16" in failed.before[0].text
    assert (failed.within, failed.after) == ((), ())


def test_the_frames_of_an_exception_do_not_push_out_what_came_before_it() -> None:
    late = last_lines(SAMPLES / "jax-barrier")[1]

    assert late.before[-1].text.endswith("process 1 evaluates")
    assert late.after[0].text.startswith("jax.errors.JaxRuntimeError: DEADLINE_EXCEEDED")


def test_a_task_of_srun_owns_all_lines_behind_its_label() -> None:
    """Only some of the lines behind ``2:`` carry ``[rank2]`` as well."""
    stopped = last_lines(SAMPLES / "device-stalled")[2]

    assert "queue depth 835 below 16" in stopped.before[-1].text
    assert "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=6" in stopped.after[0].text
    assert all(text.startswith("2: ") for text in texts(stopped))


def test_a_line_that_torchrun_tags_with_another_rank_is_not_this_ranks(tmp_path: Path) -> None:
    """No parser knows the lines of rank 1, so that rank 0 seems to write alone."""
    write_job(tmp_path, "checkpoint of step 1551 written in 639.2 s")
    log = tmp_path / "rank_0.log"
    tagged = [f"[default0]:{text}" for text in log.read_text().splitlines()]
    log.write_text(
        "\n".join([tagged[0], "[default1]:x.py:1: UserWarning: slow", *tagged[1:], "[default1]:  return y", ""])
    )

    assert all(text.startswith("[default0]:") for text in texts(last_lines(tmp_path)[0]))


def test_a_gap_that_an_unparsed_line_divides_is_not_told_as_one(tmp_path: Path) -> None:
    """Between 09:02:03 and 09:12:43 the loader wrote at 09:04:03."""
    write_job(tmp_path, "2025-11-17 09:04:03,000 - loader - WARNING - queue depth 7")

    late = last_lines(tmp_path)[0]

    assert late.gap_ms == 520_000
    assert "queue depth 7" in late.before[-1].text
