"""Says what NCCL could not set up, by the words of a message and the source file that printed it.

Sources: every ``WARN`` of NVIDIA/nccl ``src/`` at the tags v2.4.8 to v2.30.7, ROCm/rccl ``src/`` of October 2024,
aws/aws-ofi-nccl ``src/``. The broken connections and transfers of a running job are read by ``network.py`` and
``sockets.py``.
"""

from __future__ import annotations

from nccldoctor.parsers.rows import Table, first_fit, for_rows

_TABLE = Table(__file__)
_FILES: dict[str, str] = _TABLE.data["files"]


@for_rows
def topic_of(text: str) -> str:
    """What could not be set up, as ``shared-memory``; empty where a message says no such thing."""
    fit = first_fit(_TABLE.rows, text[:2_000])
    return str(fit[0].values["what"]) if fit else ""


def topic_of_cuda_error(error: str, file: str | None) -> str:
    """What CUDA refused to set up, by NCCL's source file, else by the error; empty for older errors."""
    low = error.lower()
    if any(words in low for words in _TABLE.data["sticky"]):
        return ""
    return _FILES.get((file or "").rpartition("/")[2], "") or topic_of(error)
