"""Tidy pandas frames of a case and its diagnosis: one row per thing, real dtypes, ``<NA>`` for what is not known.

Rank sets are text (``0-3,7``); times are UTC; durations and limits end in ``_ms``.
Pandas is imported here alone, when a frame is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from nccldoctor.case import Case
from nccldoctor.columns import Frame, Shape
from nccldoctor.model import Diagnosis

if TYPE_CHECKING:
    import pandas as pd

STATES = ("scheduled", "started", "completed")
"""Names of ``Calls.state``, by code."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LIBRARY = ("/torch/", "site-packages/", "dist-packages/", "/lib/python", "<frozen", "<string>")


def calls(case: Case) -> pd.DataFrame:
    """One row per recorded call.

    ``rank`` Int64 · ``group`` category, as people call it · ``seq``, ``p2p_seq`` Int64 · ``op`` category · ``sizes``,
    ``dtypes`` category, inputs -> outputs · ``numel_in``, ``numel_out`` Int64 · ``state`` category · ``retired`` bool ·
    ``created``, ``started``, ``completed`` UTC · ``duration_ms`` float · ``timeout_ms`` Int64 · ``frame`` category, the
    innermost frame of the user's own code · ``place`` where it stands in the input.
    """
    import pandas as pd

    table, words = case.calls, case.words
    paths = [dump.path for dump in case.dumps]
    return pd.DataFrame(
        {
            "rank": _integers(case.call_rank),
            "group": _category(case.call_group, [group.label for group in case.groups]),
            "seq": _integers(table.seq),
            "p2p_seq": _integers(table.p2p_seq),
            "op": _category(table.op, words.ops),
            "sizes": _category(table.sizes, [_pair(_shape(a), _shape(b)) for a, b in words.sizes]),
            "dtypes": _category(table.dtypes, [_pair(", ".join(a), ", ".join(b)) for a, b in words.dtypes]),
            "numel_in": _integers(table.numel_in),
            "numel_out": _integers(table.numel_out),
            "state": _category(table.state, STATES),
            "retired": pd.Series(table.retired),
            "created": _times(table.created_ns),
            "started": _times(table.started_ns),
            "completed": _times(table.completed_ns),
            "duration_ms": pd.Series(table.duration_ms),
            "timeout_ms": _integers(table.timeout_ms),
            "frame": _category(table.stack, [_own(stack) for stack in words.stacks]),
            "place": pd.Series(
                [f"{paths[d]}#entries[{e}]" for d, e in zip(table.dump.tolist(), table.entry.tolist(), strict=True)],
                dtype="string",
            ),
        }
    )


def events(case: Case) -> pd.DataFrame:
    """One row per event.

    ``kind`` category · ``rank``, ``group_rank`` Int64 · ``group`` text · ``time`` UTC, missing where the line names no
    zone or year · ``clock`` as printed · ``seconds`` float, its place on the one clock of the case · ``host`` text ·
    ``pid`` Int64 · ``where``, ``text`` text · ``fields`` object, a dictionary of the fields of that kind.
    """
    import pandas as pd

    items = case.events
    return pd.DataFrame(
        {
            "kind": pd.Categorical([e.kind for e in items]),
            "rank": _optional([e.rank for e in items]),
            "group_rank": _optional([e.group_rank for e in items]),
            "group": _text([None if e.group is None else str(e.group) for e in items]),
            "time": _times(np.array([_nanoseconds(e.time) for e in items], dtype=np.int64)),
            "clock": _text([None if e.time is None else e.time.isoformat() for e in items]),
            "seconds": pd.Series(np.asarray(case.seconds, dtype=np.float64)),
            "host": _text([e.host for e in items]),
            "pid": _optional([e.pid for e in items]),
            "where": _text([str(e.place) for e in items]),
            "text": _text([e.text for e in items]),
            "fields": pd.Series([e.details() for e in items], dtype=object),
        }
    )


def ranks(diagnosis: Diagnosis) -> pd.DataFrame:
    """One row per rank: ``rank``, ``role``, ``host``, ``device``, ``pid``, ``group``, the fronts, last sign of life."""
    import pandas as pd

    states = diagnosis.ranks
    return pd.DataFrame(
        {
            "rank": _optional([s.rank for s in states]),
            "role": pd.Categorical([s.role.value for s in states]),
            "host": _text([s.host for s in states]),
            "device": _text([s.device for s in states]),
            "pid": _optional([s.pid for s in states]),
            "group": _text([s.group for s in states]),
            "completed": _optional([s.completed for s in states]),
            "enqueued": _optional([s.enqueued for s in states]),
            "waits_in": _text([s.waits_in for s in states]),
            "last_sign": _text([s.last_sign for s in states]),
            "where": _text([str(s.where) if s.where else None for s in states]),
        }
    )


def findings(diagnosis: Diagnosis) -> pd.DataFrame:
    """One row per finding; ``agree`` and ``contradict`` count its evidence."""
    import pandas as pd

    items = diagnosis.findings
    return pd.DataFrame(
        {
            "id": _text([f.id for f in items]),
            "family": pd.Categorical([f.family.value for f in items]),
            "class": pd.Categorical([f.cause.value for f in items]),
            "confidence": pd.Categorical([f.confidence.value for f in items]),
            "headline": _text([f.headline for f in items]),
            "ranks": _text([str(f.ranks) for f in items]),
            "suspects": _text([str(f.suspects) for f in items]),
            "victims": _text([str(f.victims) for f in items]),
            "op": _text([f.stalled.op if f.stalled else None for f in items]),
            "seq": _optional([f.stalled.seq if f.stalled else None for f in items]),
            "group": _text([f.stalled.group if f.stalled else None for f in items]),
            "agree": pd.Series([sum(e.supports for e in f.evidence) for f in items], dtype="Int64"),
            "contradict": pd.Series([sum(not e.supports for e in f.evidence) for f in items], dtype="Int64"),
        }
    )


def evidence(diagnosis: Diagnosis) -> pd.DataFrame:
    """One row per piece: ``finding``, ``says``, ``supports``, ``quote``, ``observer``, its place, also in parts."""
    import pandas as pd

    items = [(f.id, e) for f in diagnosis.findings for e in f.evidence]
    places = [e.where for _, e in items]
    return pd.DataFrame(
        {
            "finding": _text([name for name, _ in items]),
            "says": _text([e.says for _, e in items]),
            "supports": pd.Series([e.supports for _, e in items], dtype=bool),
            "quote": _text([e.quote for _, e in items]),
            "observer": _text([e.observer for _, e in items]),
            "where": _text([str(p) if p else None for p in places]),
            "path": _text([p.path if p else None for p in places]),
            "line": _optional([p.line if p else None for p in places]),
            "entry": _optional([p.entry if p else None for p in places]),
        }
    )


def groups(diagnosis: Diagnosis) -> pd.DataFrame:
    """One row per process group: ``id``, ``description``, ``label``, ``members``, ``size``, ``learned``."""
    import pandas as pd

    items = diagnosis.job.groups
    return pd.DataFrame(
        {
            "id": _text([g.uid for g in items]),
            "description": _text([g.desc for g in items]),
            "label": _text([g.label for g in items]),
            "members": _text([str(g.members) for g in items]),
            "size": pd.Series([len(g.members) for g in items], dtype="Int64"),
            "learned": pd.Categorical([g.learned for g in items]),
        }
    )


def coverage(diagnosis: Diagnosis) -> pd.DataFrame:
    """One row per kind of input: ``input``, ``expected``, ``found``, ``problems``."""
    import pandas as pd

    items = diagnosis.coverage
    return pd.DataFrame(
        {
            "input": _text([c.input for c in items]),
            "expected": _text([str(c.expected) for c in items]),
            "found": _text([str(c.found) for c in items]),
            "problems": _text(["; ".join(c.problems) for c in items]),
        }
    )


def remedies(diagnosis: Diagnosis) -> pd.DataFrame:
    """One row per remedy: ``id``, ``title``, ``finding``, ``fit``, ``conditions_met``, ``conditions``, the texts."""
    import pandas as pd

    items = diagnosis.remedies
    return pd.DataFrame(
        {
            "id": _text([r.id for r in items]),
            "title": _text([r.title for r in items]),
            "finding": _text([r.finding for r in items]),
            "fit": pd.Categorical([r.fit for r in items]),
            "conditions_met": pd.Series([r.conditions_met for r in items], dtype="Int64"),
            "conditions": pd.Series([r.conditions for r in items], dtype="Int64"),
            "confirm": _text(["\n".join(r.confirm) for r in items]),
            "fix": _text(["\n".join(r.fix) for r in items]),
            "prevent": _text(["\n".join(r.prevent) for r in items]),
        }
    )


def _integers(column: npt.NDArray[Any]) -> Any:
    """Nullable integers; -1 stands for missing in our tables."""
    import pandas as pd

    values = np.asarray(column, dtype=np.int64)
    return pd.arrays.IntegerArray(values, values < 0)


def _optional(values: Sequence[int | None]) -> Any:
    import pandas as pd

    return pd.Series(list(values), dtype="Int64")


def _text(values: Sequence[str | None]) -> Any:
    import pandas as pd

    return pd.Series(list(values), dtype="string")


def _times(column: npt.NDArray[np.int64]) -> Any:
    """UTC times of nanoseconds since the epoch; 0 is no time."""
    import pandas as pd

    values = column.astype("datetime64[ns]")
    values[column == 0] = np.datetime64("NaT")
    return pd.Series(values).dt.tz_localize("UTC")


def _nanoseconds(time: datetime | None) -> int:
    """Since the epoch; 0 where there is no time, no zone, or a year that nanoseconds do not reach."""
    if time is None or time.tzinfo is None or not 1970 < time.year < 2262:
        return 0
    return (time - _EPOCH) // timedelta(microseconds=1) * 1000


def _category(codes: npt.NDArray[Any], names: Sequence[str]) -> Any:
    """A categorical of our codes; different codes may read alike, so categories are joined by name."""
    import pandas as pd

    unique = {name: number for number, name in enumerate(dict.fromkeys(name for name in names if name))}
    joined = np.array([unique.get(name, -1) for name in names] + [-1], dtype=np.int64)
    known = np.where((codes >= 0) & (codes < len(names)), codes, len(names))
    return pd.Categorical.from_codes(joined[known], categories=pd.Index(list(unique), dtype=object))


def _pair(left: str, right: str) -> str:
    return f"{left} -> {right}" if left or right else ""


def _shape(shape: Shape) -> str:
    return " ".join("x".join(str(n) for n in sizes) or "scalar" for sizes in shape)


def _own(stack: tuple[Frame, ...]) -> str:
    """The innermost frame that is no library's, else the innermost one."""
    for function, file, line in stack:
        if not any(part in file for part in _LIBRARY):
            return f"{function} ({file}:{line})"
    return "{} ({}:{})".format(*stack[0]) if stack else ""
