"""Reads ports and cables at fault in the reports of ``mlxlink``, ``ibdiagnet``, ``ibv_devinfo`` and ``ibdev2netdev``.

Sources: Mellanox/mstflint ``mlxlink``; ibutils2 ``ibdiagnet`` 2.x; rdma-core ``libibverbs/examples/devinfo.c``. Such a report has no
time, and a port without a cable is down in a healthy node, too: leads to compare with other nodes.
"""

from __future__ import annotations

import re
from typing import Any

from nccldoctor.parsers.base import Line, common, line_parser
from nccldoctor.parsers.rows import RowParser, Table
from nccldoctor.patterns import lazy

_ADAPTER = lazy(r"\bhca_id:\s{1,8}(?P<hca>[\w.-]{1,40})")
_ABOVE = 24
"""Lines of an adapter's block above the state of its port."""


@line_parser
class LinkReport(RowParser):
    """*note* ``port-down`` with what the tool says of the port."""

    rows = Table(__file__).rows
    longest = 2_000

    def row_fields(self, line: Line, hit: re.Match[str]) -> dict[str, Any]:
        """``ibv_devinfo`` names the adapter above its ports."""
        if hit.re.groupindex.get("state") is None:
            return common(line, rank=None)
        above = (found["hca"] for other in line.preceding(_ABOVE) if (found := _ADAPTER.search(other.body)))
        return common(line, rank=None, detail=f"{next(above, 'an adapter')} is {hit['state']}")
