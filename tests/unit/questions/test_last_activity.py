"""The last activity before a wait: by time, from any rank, a step less than other work of the same second."""

from __future__ import annotations

from pathlib import Path

import nccldoctor as nd

ALARM = (
    "[rank{rank}]:[E612 11:20:05.000000 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=9, OpType=ALLREDUCE, NumelIn=12, NumelOut=12, Timeout(ms)=600000) ran for 600000 milliseconds before timing out."
)


def written(folder: Path, *lines: str) -> nd.Incident:
    (folder / "job.log").write_text("\n".join([*lines, ALARM.format(rank=3)]) + "\n")
    return nd.analyze(folder)


def line(rank: int, clock: str, text: str) -> str:
    return f"[rank{rank}]: 2026-06-12 {clock},400 - app - INFO - {text}"


def test_an_open_verdict_tells_work_of_the_second_in_which_the_call_began(tmp_path: Path) -> None:
    verdict = written(
        tmp_path,
        line(3, "11:10:02", "step 40 loss 0.8"),
        line(0, "11:10:05", "Saving the latest checkpoint"),
        line(3, "11:10:05", "step 41 loss 0.7"),
        line(0, "11:12:30", "Running evaluation"),
    ).verdict
    last = verdict.last_activity
    assert last is not None
    assert (last.rank, last.text, last.where.line) == (0, "Saving the latest checkpoint", 2)
    assert "Saving the latest checkpoint" not in verdict.headline, "it is in the line below"


def test_a_full_bar_is_work_and_drawn_short(tmp_path: Path) -> None:
    bar = "100%|████████████████| 60/60 [01:10<00:00,  1.2s/it]"
    told = written(tmp_path, line(3, "11:09:01", "step 59 loss 0.8"), bar).to_text()
    assert 'last activity in the log: "100%|███| 60/60 [01:10<00:00, 1.2s/it]"' in " ".join(told.split())


def test_a_step_is_in_the_document_and_not_in_the_headline(tmp_path: Path) -> None:
    incident = written(tmp_path, line(3, "11:09:01", "step 39 loss 0.8"))
    assert '"text": "step 39 loss 0.8"' in incident.to_json()
    assert "step 39" not in incident.verdict.headline
