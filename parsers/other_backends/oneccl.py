"""oneCCL's errors.

Source: oneCCL ``src/common/log/log.hpp`` (2021.5 to 2021.17): ``time:(thread) |CCL_ERROR| file:line function: message``.
"""

from __future__ import annotations

from nccldoctor.events import Note, StoreError
from nccldoctor.parsers.base import line_parser
from nccldoctor.parsers.rows import Row, RowParser

_HEAD = r"(?:\((?P<pid>\d{1,10})\) \|)?CCL_ERROR\| "


@line_parser
class OneCcl(RowParser):
    """*store-error* where its key-value store gave up while a communicator was made, else *note*."""

    longest = 4_000
    rows = (
        Row("CCL_ERROR|", _HEAD + r".{0,300}?[Kk][Vv][Ss] get error: timeout", StoreError, operation="set-up"),
        Row("CCL_ERROR|", _HEAD + r"(?P<detail>.{1,300})", Note, what="ccl-error"),
    )
