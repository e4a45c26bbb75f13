"""Heartbeats: lines in which a rank says that it is alive, and at which step. Users write them by hand:
``[rank 3] Heartbeat: epoch=0 iter=50 global_step=50``, ``heartbeat rank=3 step: 50/200``, ``Rank 3 alive at step 50``.
``nccldoctor.capture`` adds what the rank does outside the step: ``[rank 3] heartbeat: step=50 phase=checkpoint``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from nccldoctor.events import Event, Heartbeat, Phase
from nccldoctor.parsers.base import Line, common, reads
from nccldoctor.parsers.event_details import number_in
from nccldoctor.patterns import lazy

_SAYS = lazy(r"\b(?:[Hh]eart[ _-]?beat|HEARTBEAT)\b|\b(?:still )?alive\b")
_NOT = lazy(
    r"[Hh]eart[ _-]?beat[ _]?(?:monitor|timeout|interval|thread|fail|TIMEOUT|MONITOR)|HeartbeatMonitor|no heartbeat"
    r"|keep-alive|missed heart"
)
_COUNT = r"\s{0,2}[=:#]?\s{0,2}(\d{1,15})(?!\.?\d)"
_STEPS = tuple(
    lazy(rf"\b{name}{_COUNT}", re.IGNORECASE)
    for name in ("global[_ ]step", "(?:train[_ ])?step", "iteration", "iter", "batch(?:_idx)?", "it")
)
_PHASE = lazy(r"\bphase=(?P<what>checkpoint|evaluation|sampling|data|compile)\b")


epoch_of = number_in(r"(?i)\bepoch\s{0,2}[=:#]?\s{0,2}\[?(\d{1,15})(?!\.?\d)")
"""The epoch a line speaks of."""

rank_in = number_in(r"(?i)(?<!local )(?<!group )(?<!node )\b(?:global[_ ])?rank\s{0,2}[=:#]?\s{0,2}(\d{1,7})\b")
"""A global rank that user code prints in its own words."""


@reads("eartbeat", "eart_beat", "eart beat", "EARTBEAT", "alive", sampled=True)
def alive(line: Line) -> Iterable[Event]:
    """A heartbeat with a step or an epoch, and the phase that it names. Other sentences speak of settings and monitors."""
    if line.mark.is_native or not _SAYS.search(line.body) or _NOT.search(line.body):
        return
    # the global step before that of the epoch
    step, epoch = next((int(m[1]) for m in (p.search(line.body) for p in _STEPS) if m), None), epoch_of(line.body)
    rank = line.mark.rank if line.mark.rank is not None else rank_in(line.raw)
    if step is not None or epoch is not None:
        yield Heartbeat(**common(line, rank=rank), step=step, epoch=epoch)
    if (phase := _PHASE.search(line.body)) is not None:
        yield Phase(**common(line, rank=rank), what=phase["what"], detail=phase[0])
