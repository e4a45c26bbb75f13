"""The number of ranks of the job, where a program or a launcher prints it: 8 in ``world_size=8``.

Sources: torch ``elastic/agent/server/api.py`` (``global_world_sizes``), Lightning ``fabric/utilities/distributed.py`` (processes
registered), Megatron-LM ``training/arguments.py``, and the usual words of training scripts.
"""

from __future__ import annotations

from nccldoctor.parsers.base import line_parser
from nccldoctor.parsers.rows import RowParser, Table


@line_parser
class WorldSizeParser(RowParser):
    """*note* ``world-size``; its detail is the number."""

    longest = 4_000
    rows = Table(__file__).rows
