"""What people wrote and left beside a job never testifies: not even where it quotes failures of its ranks."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from builders.logs.lines import watchdog

from nccldoctor import analyze
from nccldoctor.model import CauseClass, SourceKind

SAMPLES = Path(__file__).resolve().parents[3] / "sample_logs"
XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=81, GPU has fallen off the bus."
RULES = (
    "groups:\n- name: gpus\n  rules:\n  - alert: FellOffBus\n    expr: xid == 79\n    labels:\n      rank: 3\n"
    f"    annotations:\n      example: |\n        [Fri Apr 17 03:20:01 2026] {XID}\n        [rank3]: CUDA out of memory\n"
)
CODE = (
    "import os\nimport torch\n\nos.environ['NCCL_DEBUG'] = 'INFO'\n\ndef main():\n    for step in range(9):\n        train(step)\n"
    '    raise RuntimeError("""\n[rank3]: Traceback (most recent call last):\n[rank3]: torch.OutOfMemoryError: CUDA out of memory\n""")\n'
)
NOTES = (
    f"# On call\n\nRank 3 was killed by the kernel, I think.\n\n```\n{watchdog(3)}[rank3]: ValueError: bad batch\n```\n"
)
CHAT = "[10:32] priya: is rank 3 still on the bus?\n[10:33] tom: no, process 81 exited with -9\n[10:33] priya: ok, thanks\n"
BESIDE = {"alerts.yaml": RULES, "train.py": CODE, "notes.md": NOTES, "chat.txt": CHAT}


@pytest.mark.parametrize("sample", ["not-arrived", "straggler", "healthy"])
def test_what_lies_beside_a_job_changes_nothing(sample: str, tmp_path: Path) -> None:
    alone = shutil.copytree(SAMPLES / sample, tmp_path / "alone", ignore=shutil.ignore_patterns("expected.toml"))
    mixed = shutil.copytree(alone, tmp_path / "mixed")
    for name, text in BESIDE.items():
        (mixed / name).write_text(text)
    one, two = analyze([alone]).verdict, analyze([mixed]).verdict
    assert (one.cause, one.ranks, one.confidence, one.headline) == (two.cause, two.ranks, two.confidence, two.headline)


def test_each_is_listed_with_what_it_was_read_for(tmp_path: Path) -> None:
    for name, text in BESIDE.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "rank_0.log").write_text(watchdog(0))
    diagnosis = analyze([tmp_path]).diagnosis
    kinds = {source.path: source.kind for source in diagnosis.sources}
    assert kinds["rank_0.log"] is SourceKind.LOG
    assert (kinds["alerts.yaml"], kinds["train.py"]) == (SourceKind.CONFIG, SourceKind.CODE)
    listed = [problem for row in diagnosis.coverage for problem in row.problems]
    assert "alerts.yaml: looks like a configuration: only its settings were used" in listed
    assert "notes.md: looks like notes of a person: only its settings were used" in listed


def test_settings_in_them_are_read(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(CODE)
    (tmp_path / "rank_0.log").write_text(watchdog(0))
    events = [event for event in analyze([tmp_path]).case.events if event.place.path == "train.py"]
    assert [(event.kind, event.rank) for event in events] == [("setting", None)]


@pytest.mark.parametrize("name", ["alerts.yaml", "train.py"])
def test_alone_they_are_nothing_to_judge(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(BESIDE[name])
    verdict = analyze([tmp_path]).verdict
    assert not verdict.ranks and verdict.cause in (CauseClass.UNDETERMINED, CauseClass.NONE)


def test_a_write_up_is_heard_where_the_job_left_nothing(tmp_path: Path) -> None:
    (tmp_path / "issue.md").write_text(f"# Hang\n\nWe saw this at night.\n\n```\n{watchdog(3)}```\n")
    assert analyze([tmp_path]).verdict.stalled is not None
    (tmp_path / "rank_0.log").write_text("[rank0]: step 5/90 loss 2.0\n" * 9)
    assert analyze([tmp_path]).verdict.stalled is None
