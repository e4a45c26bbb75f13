"""Ranks of workers that serve a model, by their place in the engine.

Sources: vllm ``v1/executor/multiproc_executor.py`` (``setup_proc_title_and_log_prefix``), sglang ``srt/managers/scheduler.py``
(``configure_scheduler``).
"""

from __future__ import annotations

from nccldoctor.patterns import lazy

_COORDINATE = lazy(r"(?<![A-Z])(DP|PP|TP|EP)(\d{1,5})(?!\d)")


def rank_in_engine(name: str) -> int | None:
    """The rank of a worker of vLLM or SGLang by its place: 3 for ``TP3``, 6 for ``DP1_TP2_EP6``.

    ``TP3`` of one of several stages or engines may be any rank, unless its place among the experts, which spans them, is told.
    """
    place = {axis: int(number) for axis, number in _COORDINATE.findall(name)}
    if "PP" in place:
        return None
    return place.get("EP", place.get("TP") if "DP" not in place else None)
