"""Set-up failures of NVSHMEM, which DeepEP and other expert-parallel kernels send through.

Source: NVSHMEM 2.8 to 3.5 ``src/host/init/init.cu`` and ``src/device/init/``: ``file.cu:line: non-zero status: 7 nvshmem … failed``.
"""

from __future__ import annotations

from nccldoctor.events import NcclError
from nccldoctor.parsers.base import line_parser
from nccldoctor.parsers.rows import Row, RowParser


@line_parser
class NvshmemErrors(RowParser):
    """*nccl-error*: NVSHMEM gave up its set-up. A single transport that failed is none: it may do without."""

    event = NcclError
    rows = (
        Row(
            "nvshmem ",
            r"(?P<message>\bnvshmem (?:(?:device )?initialization|setup connections|detect topo|setup local heap) failed)\b",
            topic="nvshmem",
        ),
    )
