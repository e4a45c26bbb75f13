"""A callback for the ``Trainer`` of Hugging Face. Importing this module needs ``transformers``.

Protocol: ``transformers.TrainerCallback`` (``trainer_callback.py``, 4.x): ``state.global_step`` is the number of finished steps.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import Any

from transformers import TrainerCallback

from nccldoctor.capture import control


class HuggingFaceCapture(TrainerCallback):  # type: ignore[misc]
    """Captures a run of ``Trainer`` into ``folder``: ``Trainer(..., callbacks=[HuggingFaceCapture("/shared/run")])``."""

    def __init__(self, folder: str | os.PathLike[str], *, stall_after: float | None = None) -> None:
        control.start(folder, stall_after=stall_after)
        self._evaluation = ExitStack()

    def on_step_end(self, args: Any, state: Any, ctrl: Any, **kwargs: Any) -> None:
        """Tell the step."""
        self._evaluation.close()
        control.step(state.global_step)

    def on_prediction_step(self, args: Any, state: Any, ctrl: Any, **kwargs: Any) -> None:
        """An evaluation goes on until ``on_evaluate``, or the next step."""
        self._evaluation.close()
        self._evaluation.enter_context(control.phase("evaluation"))

    def on_evaluate(self, args: Any, state: Any, ctrl: Any, **kwargs: Any) -> None:
        """The evaluation is over."""
        self._evaluation.close()

    def on_train_end(self, args: Any, state: Any, ctrl: Any, **kwargs: Any) -> None:
        """Say that the training came to its end. What follows, such as a last gather, is a phase of its own."""
        self._evaluation.close()
        self._evaluation.enter_context(control.phase("train-end"))
        control.remark("training finished")
