"""Reads what is left of a recorder dump that was cut off while it was written.

torch writes version, configuration and counters before the entries, so they survive. The entries are left out: the
newest are the ones that were lost, and a rank whose last calls are missing looks like one that never made them.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

from nccldoctor.parsers.flight_recorder.dump import Dump, read_dump


class _Stacked(pickle._Unpickler):
    """The pure Python unpickler, whose stack can be looked at after it failed; what could run code is refused."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError("refused")

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("refused")


def salvage(data: bytes) -> Dump:
    """The dump without entries, and how many of them were readable. Raises nothing but MemoryError."""
    reader = _Stacked(io.BytesIO(data))
    try:
        reader.load()
    except MemoryError:
        raise
    except Exception:  # the cut shows in many ways, depending on the opcode it hit
        levels = [*getattr(reader, "metastack", []), getattr(reader, "stack", [])]
    else:
        levels = []
    dump = Dump("dict")
    readable = 0
    if levels and levels[0] and type(levels[0][0]) is dict:
        top, pending = levels[0][0], levels[1] if len(levels) > 1 else []
        complete = zip(pending[:-2:2], pending[1:-2:2], strict=False)
        known = {**top, **{key: value for key, value in complete if type(key) is str}}
        in_entries = len(levels) > 2 and type(pending[-2]) is str and pending[-2] == "entries"
        readable = len(levels[2]) if in_entries else 0
        dump = read_dump({**known, "entries": []}, "pickle", len(data))
    elif levels and levels[0] and type(levels[0][0]) is list:
        dump = Dump("list")
        readable = len(levels[1]) if len(levels) > 1 else 0
    dump.problem = (
        f"truncated: the file ends early, {max(readable - 1, 0)} entries readable and left out, the newest lost"
    )
    return dump
