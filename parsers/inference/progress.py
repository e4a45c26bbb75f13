"""What engines print of their work: tokens and requests of the last seconds, and which rank a worker is.

Sources: vllm ``v1/metrics/loggers.py`` and ``distributed/parallel_state.py`` 0.6 to 0.20; sglang
``srt/managers/scheduler_metrics_mixin.py`` 0.4 to 0.5.
"""

from __future__ import annotations

from nccldoctor.events import AbsenceWarning, Phase, ProcessId, Progress
from nccldoctor.parsers.base import line_parser
from nccldoctor.parsers.rows import Row, RowParser

_TOKENS = ("Avg prompt throughput: ",)
_NONE = r"Avg prompt throughput: 0\.0 tokens/s, Avg generation throughput: 0\.0 tokens/s, "


@line_parser
class EngineProgress(RowParser):
    """*progress* of an engine that makes tokens; *absence-warning* of one that has requests and makes none."""

    event = Progress
    longest = 2_000
    rows = (
        Row(
            _TOKENS,
            _NONE + r"Running: (?:[1-9]\d{0,7} reqs|0 reqs, (?:Swapped: \d{1,8} reqs, )?(?:Waiting|Pending): [1-9])",
            AbsenceWarning,
            by="vLLM",
            what="tokens",
        ),
        Row(_TOKENS, _NONE, Phase, what="ready", detail="no request runs"),
        Row(_TOKENS, r"Avg prompt throughput: \d", counts="work", label="vLLM"),
        Row(
            ("Decode batch", "Prefill batch"),
            r"\b(?:Decode|Prefill) batch[.,] #(?:running-req|new-seq): ",
            counts="work",
            label="SGLang",
        ),
    )


@line_parser
class EngineWorkers(RowParser):
    """*process-id* of a worker of vLLM, which says its rank when it begins to set its groups up."""

    event = ProcessId
    rows = (
        Row(
            " distributed_init_method=",
            r"\bworld_size=\d{1,7} rank=(?P<rank>\d{1,7}) local_rank=(?P<local_rank>\d{1,5}) distributed_init_method=",
        ),
    )
