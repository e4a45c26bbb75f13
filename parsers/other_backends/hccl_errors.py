"""Errors of HCCL and of the runtime of Ascend's NPUs: connections, ports, memory, links, and devices that did not finish.

Sources: hcomm ``base/err_msg.cc`` (EI0006 to EI0020), ``hccl_socket_manager.cc``, ``hccl_socket.cc``, ``transport_manager.cc`` and
``detect_connect_anomalies.cc``, the runtime's ``rt_error_codes.h`` (507046 is a stream that was not done in time) and its EE1002,
CANN 7 to 9. *user_rank*, *localUserrank* and *rank* of a socket count inside the group.
"""

from __future__ import annotations

import re
from typing import Any

from nccldoctor.parsers.base import Line, line_parser
from nccldoctor.parsers.other_backends.hccl import own_fields
from nccldoctor.parsers.rows import RowParser, Table


@line_parser
class HcclErrors(RowParser):
    """Events of the table, with the clock and the process that HCCL prints."""

    rows = Table(__file__).rows

    def row_fields(self, line: Line, hit: re.Match[str]) -> dict[str, Any]:
        """With the clock and the process that HCCL prints."""
        return own_fields(line)
