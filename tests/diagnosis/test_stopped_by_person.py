"""A job that a person stopped has neither finished nor failed, and the report says so."""

from __future__ import annotations

from pathlib import Path

import nccldoctor
from nccldoctor.model import Diagnosis
from nccldoctor.reports.page import view

TRACEBACK = (
    "[rank{rank}]: Traceback (most recent call last):\n"
    '[rank{rank}]:   File "/opt/train/train.py", line 70, in <module>\n'
    "[rank{rank}]:     main()\n"
    '[rank{rank}]:   File "/opt/train/train.py", line 44, in main\n'
    "[rank{rank}]:     prepare()\n"
    "[rank{rank}]: KeyboardInterrupt\n"
)


def stopped(folder: Path) -> Diagnosis:
    """Four ranks at step 13 of 400, and SIGINT at the launcher."""
    agent = "W1122 07:43:46.996000 4723 torch/distributed/elastic/agent/server/api.py:753]"
    text = "".join(
        [
            *(f"  1%|          | {step}/400 [00:0{step // 2}<03:00,  2.20it/s]\n" for step in (4, 8, 12, 13)),
            "{'loss': '6.21', 'grad_norm': '1.04', 'learning_rate': '4.8e-05', 'epoch': '0.03'}\n",
            f"{agent} Received 2 death signal, shutting down workers\n",
            *(TRACEBACK.format(rank=rank) for rank in range(4)),
            'Traceback (most recent call last):\n  File "/opt/py/bin/torchrun", line 8, in <module>\n',
            "torch.distributed.elastic.multiprocessing.api.SignalException: Process 4723 got signal: 2\n",
        ]
    )
    (folder / "train.log").write_text(text)
    return nccldoctor.analyze(folder).diagnosis


def test_the_headline_names_the_stop_and_the_step(tmp_path: Path) -> None:
    verdict = stopped(tmp_path).verdict
    assert verdict.cause.value == "none"
    assert verdict.headline == "Stopped by Ctrl-C (SIGINT) at step 13 of 400. No hang or failure found before that."


def test_a_stopped_job_is_shown_neither_as_healthy_nor_as_finished(tmp_path: Path) -> None:
    page = view.build(stopped(tmp_path))
    assert (page.status.kind, page.status.tone) == ("Stopped by a person", "open")
    assert page.checks[0].result == "stopped by a person"
    assert page.checks[0].proof.startswith("A person stopped the job here.")


def test_a_line_about_an_error_is_not_cited_as_a_line_without_one(tmp_path: Path) -> None:
    cited = {evidence.says: evidence.quote for evidence in stopped(tmp_path).verdict.evidence}
    assert not any("reports no error" in says and "KeyboardInterrupt" in quote for says, quote in cited.items())


def test_thirteen_steps_are_not_fewer_than_four(tmp_path: Path) -> None:
    doubts = [doubt.says for doubt in stopped(tmp_path).verdict.doubts]
    assert "No rank reports its own steps, so a straggler wouldn't show." in doubts
    assert not any(says.startswith("No rank has 4") for says in doubts)
