"""Compares how far ranks are by the steps that they report, each at its own interval."""

from __future__ import annotations

from nccldoctor.align.liveness import RankActivity
from nccldoctor.events import Heartbeat, Progress


def reported_steps(own: RankActivity) -> list[int]:
    """The steps that a rank reports, in order, each once."""
    return sorted({e.step for e in own.steps if isinstance(e, Heartbeat | Progress) and e.step is not None})


def has_reached(own: RankActivity, step: int | None) -> bool:
    """True when a rank may have done a step that another one reported, by its own reports.

    Example: rank 0 ended at step 13; rank 1, which reports every tenth step, reported step 10.
    """
    steps = reported_steps(own)
    if step is None or not steps:
        return False
    interval = steps[-1] - steps[-2] if len(steps) > 1 else 1
    return 0 <= step - steps[-1] < interval
