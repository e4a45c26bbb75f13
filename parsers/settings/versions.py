"""Version banners of PyTorch, NCCL, CUDA, the driver and Python, wherever they are printed.

Sources: NVIDIA/nccl ``src/init.cc`` (banner) and ``src/ras`` (report), pytorch ``torch/utils/collect_env.py`` and
``ProcessGroupNCCL.cpp``, ``pip freeze``, nvidia-smi, py-spy 0.4.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccldoctor.events import Event, Version
from nccldoctor.parsers.base import Line, common, reads
from nccldoctor.parsers.rows import Table, needs_of

_TABLE = Table(__file__)


@reads(*_TABLE.literals, needs=needs_of(_TABLE.rows))
def version(line: Line) -> Iterator[Event]:
    """At most one event of each program for a line. The first version of each program that the line names."""
    seen: set[str] = set()
    for row in _TABLE.rows:
        program = row.values["of"]
        if program not in seen and (hit := row.first_match(line.body)):
            seen.add(program)
            groups = hit.groupdict()
            version = groups.get("version") or groups["tuple"].replace(" ", "").replace(",", ".")
            yield Version(**common(line), of=program, version=version)
