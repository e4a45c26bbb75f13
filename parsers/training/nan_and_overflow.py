"""Signs that one rank's numbers or modules take another course than its peers': NaN, overflow, another module order.

A loop that skips a batch where the loss is NaN skips its collectives too; ZeRO-3 gathers parameters in the order in
which modules run, so another order means other collectives. Alone they prove nothing.
Wordings: apex and DeepSpeed loss scalers, DeepSpeed ``runtime/zero/partitioned_param_coordinator.py``, common
training loops.
"""

from __future__ import annotations

import re
from typing import Any

from nccldoctor.parsers.base import Line, common, line_parser
from nccldoctor.parsers.rows import RowParser, Table


@line_parser
class NanAndOverflow(RowParser):
    """*note* for each of these lines, with the rank that it names where nothing in front of it does."""

    longest = 8_000
    rows = Table(__file__).rows

    def row_fields(self, line: Line, hit: re.Match[str]) -> dict[str, Any]:
        printed = hit.groupdict().get("printed_rank")
        return common(line) if line.mark.rank is not None or printed is None else common(line, rank=int(printed))
