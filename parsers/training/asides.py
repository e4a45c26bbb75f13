"""Lines of a script that waits for somebody to type.

Sources: prompts of CPython ``pdb``, ``ipdb`` and ``pdb++``; the rest are words of many scripts.
"""

from __future__ import annotations

import re
from typing import Any

from nccldoctor.parsers.base import Line, common, line_parser
from nccldoctor.parsers.rows import RowParser, Table


@line_parser
class Asides(RowParser):
    """*note*: ``debugger`` or ``question`` where a script waits for input."""

    longest = 4_000
    rows = Table(__file__).rows

    def row_fields(self, line: Line, hit: re.Match[str]) -> dict[str, Any]:
        return common(line, detail=hit.group().strip()[:300])
