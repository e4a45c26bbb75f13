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

DTYPES = {
    "float": "float32",
    "half": "float16",
    "double": "float64",
    "long": "int64",
    "int": "int32",
    "short": "int16",
    "char": "int8",
    "byte": "uint8",
    "complexfloat": "complex64",
    "complexdouble": "complex128",
    "fp16": "float16",
    "fp32": "float32",
    "fp64": "float64",
    "bf16": "bfloat16",
}
"""Types as the flight recorder, NCCL and PyTorch spell them, and as engineers write them; others are written in small letters."""


_HASH = re.compile(r"\b([0-9a-f]{8})[0-9a-f]{24,56}\b")


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


def call_title(op: str | None, seq: int | None) -> str:
    """``ALLREDUCE #9``, ``ALLREDUCE``, ``call #9``."""
    return op_name(op) if seq is None else f"{op_name(op)} #{seq}"


def dtype_name(dtype: str) -> str:
    """``float16`` of ``Half`` and of ``torch.float16``, ``bfloat16`` of ``BFloat16``."""
    word = line(dtype.rpartition(".")[2].lower(), 40)
    return DTYPES.get(word, word)


def kind_name(desc: str) -> str:
    """``TP`` of ``TENSOR_MODEL_PARALLEL_GROUP``, ``default group`` of ``default_pg``; other names stay."""
    upper = desc.upper()
    if upper in ("DEFAULT_PG", "DEFAULT"):
        return "default group"
    return next((short for word, short in KINDS if word in upper), line(desc, 40))


def group_phrase(label: str) -> str:
    """A group inside a sentence: ``TP 1``, ``group 5``, ``the default group``."""
    name = group_title(label)
    return "the default group" if name == "default group" else name


def group_title(label: str) -> str:
    """``TP 1`` of ``TENSOR_MODEL_PARALLEL_GROUP (1)``; the number tells groups of one kind apart.

    Of a name that PyTorch makes of the members of a group (``_hash_ranks_to_str``) the first eight digits are shown, as of a commit.
    """
    label = _HASH.sub(r"\1", label)
    match = re.fullmatch(r"(.{1,400}?) \((.{1,200})\)", label)
    if not match:
        name = line(label, 60)
        return f"group {name}" if name.removeprefix("#").isdigit() else name
    name = kind_name(match[1])
    return name if name == "default group" else f"{name} {line(match[2], 40)}"
