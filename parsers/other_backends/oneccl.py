"""oneCCL's errors.

Source: oneCCL ``src/common/log/log.hpp`` (2021.5 to 2021.17): ``time:(thread) |CCL_ERROR| file:line function: message``.
"""

from __future__ import annotations

from nccldoctor.events import NcclError, Note, StoreError
from nccldoctor.parsers.base import line_parser
from nccldoctor.parsers.rows import Row, RowParser

_HEAD = r"(?:\( {0,9}(?P<pid>\d{1,10})\) \|)?CCL_ERROR\| "


@line_parser
class OneCcl(RowParser):
    """*store-error* where its key-value store gave up, *nccl-error* where its set-up failed, else *note*."""

    longest = 4_000
    rows = (
        Row("CCL_ERROR|", _HEAD + r".{0,300}?[Kk][Vv][Ss] get error: timeout", StoreError, operation="set-up"),
        Row(
            "CCL_ERROR|",
            _HEAD
            + r"(?P<message>(?:global|env|atl_\w{1,40}|comm\w{0,30}|pmi\w{0,60}|\w{0,20}kvs\w{0,20}|base_thread)\.[ch]pp:\d{1,6} .{1,300}"
            + r"|exec\.cpp:\d{1,6} start_workers.{1,300})",
            NcclError,
            topic="oneccl",
        ),
        Row("CCL_ERROR|", _HEAD + r"(?P<detail>.{1,300})", Note, what="ccl-error"),
    )
