"""Lines of libraries that come before a hang without being an error of their own.

Sources: ``huggingface/tokenizers`` (``bindings/python/src/lib.rs``), PyTorch's ``distributed_c10d.py``
(2.0 to 2.13), Linux ``drivers/iommu``, nvidia-smi.
"""

from __future__ import annotations

import re
from typing import Any

from nccldoctor.parsers.base import Line, common, line_parser
from nccldoctor.parsers.rows import RowParser, Table


@line_parser
class LibraryWarnings(RowParser):
    """One *note* for each such line; ``what`` is ``forked``, ``not-a-member``, ``clocks-held``, ``power-capped`` (usual
    under full load), ``arm-host`` or ``iommu-fault``.
    """

    sampled = True
    longest = 4_000
    rows = Table(__file__).rows

    def row_fields(self, line: Line, hit: re.Match[str]) -> dict[str, Any]:
        return common(line, detail=self.searched_text(line).strip()[:300])
