"""A callback for the ``Trainer`` of Lightning. Importing this module needs ``lightning`` or ``pytorch_lightning``.

Protocol: ``lightning.pytorch.callbacks.Callback`` (``callback.py``, 2.x): ``trainer.global_step`` counts optimizer steps.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import Any

from nccldoctor.capture import control

try:
    from lightning.pytorch.callbacks import Callback
except ImportError:
    from pytorch_lightning.callbacks import Callback


class LightningCapture(Callback):  # type: ignore[misc]
    """Captures a run of ``Trainer`` into ``folder``: ``Trainer(callbacks=[LightningCapture("/shared/run")])``."""

    def __init__(self, folder: str | os.PathLike[str], *, stall_after: float | None = None) -> None:
        super().__init__()
        control.start(folder, stall_after=stall_after)
        self._outside = ExitStack()

    def on_train_batch_end(self, trainer: Any, *args: Any, **kwargs: Any) -> None:
        """Tell the step."""
        self._outside.close()
        control.step(trainer.global_step)

    def on_validation_start(self, trainer: Any, *args: Any, **kwargs: Any) -> None:
        """An evaluation begins."""
        self._outside.enter_context(control.phase("evaluation"))

    def on_validation_end(self, trainer: Any, *args: Any, **kwargs: Any) -> None:
        """The evaluation is over."""
        self._outside.close()

    def on_save_checkpoint(self, trainer: Any, *args: Any, **kwargs: Any) -> None:
        """A checkpoint is being written; the next batch ends it."""
        self._outside.close()
        self._outside.enter_context(control.phase("checkpoint"))

    def on_train_end(self, trainer: Any, *args: Any, **kwargs: Any) -> None:
        """Say that the training came to its end. What follows, such as a last gather, is a phase of its own."""
        self._outside.close()
        self._outside.enter_context(control.phase("train-end"))
        control.remark("training finished")
