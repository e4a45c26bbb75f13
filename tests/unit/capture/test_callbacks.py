"""The callbacks of frameworks, against stand-ins of their protocols."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from nccldoctor.capture import control


class Stub:
    """A base class as the frameworks have one: hooks that do nothing."""


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """A session that remembers what it is told, in place of one with threads."""
    lines: list[str] = []
    session = SimpleNamespace(step=None, phase="", lines=lines, log=SimpleNamespace(say=lines.append))
    session.beat = lambda: lines.append(f"step={session.step} phase={session.phase}")
    monkeypatch.setattr(control, "_RUNNING", [session])
    monkeypatch.setattr(control, "start", lambda folder, stall_after=None: lines.append(f"start {folder}"))
    yield session


def callback(monkeypatch: pytest.MonkeyPatch, framework: str, base: str, module: str, name: str) -> Any:
    stand_in = ModuleType(framework)
    setattr(stand_in, base, Stub)
    for part in ("lightning", "lightning.pytorch") if framework.startswith("lightning.") else ():
        monkeypatch.setitem(sys.modules, part, ModuleType(part))
    monkeypatch.setitem(sys.modules, framework, stand_in)
    monkeypatch.delitem(sys.modules, f"nccldoctor.capture.{module}", raising=False)
    made = getattr(importlib.import_module(f"nccldoctor.capture.{module}"), name)(Path("run"))
    monkeypatch.delitem(sys.modules, f"nccldoctor.capture.{module}")
    return made


def test_hugging_face_tells_steps_and_evaluations(monkeypatch: pytest.MonkeyPatch, told: SimpleNamespace) -> None:
    made = callback(monkeypatch, "transformers", "TrainerCallback", "hugging_face", "HuggingFaceCapture")
    state = SimpleNamespace(global_step=7)
    made.on_step_end(None, state, None)
    assert told.step == 7
    made.on_prediction_step(None, state, None)
    made.on_prediction_step(None, state, None)
    assert told.phase == "evaluation"
    made.on_evaluate(None, state, None)
    assert told.phase == ""
    made.on_train_end(None, state, None)
    assert told.lines == ["start run", "step=7 phase=train-end", "training finished"], "at once: the next call may hang"
    assert told.phase == "train-end"


@pytest.mark.parametrize("framework", ["lightning.pytorch.callbacks", "pytorch_lightning.callbacks"])
def test_lightning_tells_steps_validations_and_checkpoints(
    monkeypatch: pytest.MonkeyPatch, told: SimpleNamespace, framework: str
) -> None:
    monkeypatch.setitem(sys.modules, "pytorch_lightning", ModuleType("pytorch_lightning"))
    if framework.startswith("pytorch"):
        monkeypatch.setitem(sys.modules, "lightning", None)  # type: ignore[arg-type]
    made = callback(monkeypatch, framework, "Callback", "lightning", "LightningCapture")
    trainer = SimpleNamespace(global_step=7)
    made.on_train_batch_end(trainer, None)
    assert told.step == 7
    made.on_validation_start(trainer, None)
    assert told.phase == "evaluation"
    made.on_validation_end(trainer, None)
    made.on_save_checkpoint(trainer, None)
    assert told.phase == "checkpoint"
    made.on_train_batch_end(trainer, None)
    assert told.phase == ""
    made.on_train_end(trainer)
    assert told.lines == ["start run", "step=7 phase=train-end", "training finished"], "at once: the next call may hang"
    assert told.phase == "train-end"
