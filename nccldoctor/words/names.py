"""Names as an engineer says them: ``ranks 0-3, 7``, ``ALLGATHER #128``, ``TP 1``."""

from __future__ import annotations

import re
from collections.abc import Iterable

from nccldoctor.model.ranks import Ranks
from nccldoctor.words.sanitize import line

KINDS = (
    ("TENSOR", "TP"),
    ("PIPELINE", "PP"),
    ("DATA_PARALLEL", "DP"),
    ("EXPERT", "EP"),
    ("CONTEXT", "CP"),
    ("MODEL_PARALLEL", "MP"),
)
"""What the description of a process group holds, and the letters that engineers use for it."""


def few(ranks: Ranks, spans: int = 8) -> str:
    """At most ``spans`` runs of a rank set: ``0-3, 8-11 and 41 more``."""
    runs = ranks.spans()
    shown = ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs[:spans])
    more = sum(b - a + 1 for a, b in runs[spans:])
    return f"{shown} and {more:,} more" if more else shown


def ranks_phrase(of: Iterable[int], spans: int = 8) -> str:
    """``rank 5``, ``ranks 0-3, 7``, ``no rank``; a long set is cut after ``spans`` runs."""
    ranks = Ranks(of)
    return f"rank{'s' if len(ranks) > 1 else ''} {few(ranks, spans)}" if ranks else "no rank"


def verb(ranks: Ranks, one: str, many: str) -> str:
    """The form of a verb that fits the number of ranks."""
    return one if len(ranks) == 1 else many


def op_name(op: str | None) -> str:
    """``ALLGATHER`` of ``_ALLGATHER_BASE``: the internal underscore and suffix say nothing to a reader."""
    return line(re.sub(r"^_|_BASE$", "", op), 60) if op else "call"


DTYPES = {
    "Half": "float16",
    "Float": "float32",
    "Double": "float64",
    "BFloat16": "bfloat16",
    "Char": "int8",
    "Byte": "uint8",
    "Short": "int16",
    "Int": "int32",
    "Long": "int64",
    "Bool": "bool",
    "Float8_e4m3fn": "float8_e4m3fn",
    "Float8_e5m2": "float8_e5m2",
}
"""Types as flight recorders print them (c10/core/ScalarType.h), and as an engineer writes them."""


def dtype_name(dtype: str) -> str:
    """``float32`` of ``Float``; other names stay."""
    return DTYPES.get(dtype, line(dtype, 30))


def call_title(op: str | None, seq: int | None) -> str:
    """``ALLREDUCE #9``, ``ALLREDUCE``, ``call #9``."""
    return op_name(op) if seq is None else f"{op_name(op)} #{seq}"


def kind_name(desc: str) -> str:
    """``TP`` of ``TENSOR_MODEL_PARALLEL_GROUP``, ``default group`` of ``default_pg``; other names stay."""
    upper = desc.upper()
    if upper in ("DEFAULT_PG", "DEFAULT"):
        return "default group"
    return next((short for word, short in KINDS if word in upper), line(desc, 40))


def group_title(label: str) -> str:
    """``TP 1`` of ``TENSOR_MODEL_PARALLEL_GROUP (1)``; the number tells groups of one kind apart."""
    match = re.fullmatch(r"(.{1,400}?) \((.{1,200})\)", label)
    if not match:
        name = line(label, 60)
        return f"group {name}" if name.removeprefix("#").isdigit() else name
    name = kind_name(match[1])
    return name if name == "default group" else f"{name} {line(match[2], 40)}"
