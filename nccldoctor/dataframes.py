"""Tidy pandas frames of a case and its diagnosis: one row per thing, real dtypes, ``<NA>`` for what is not known.

Rank sets are text (``0-3,7``); times are UTC; durations and limits end in ``_ms``.
Pandas is imported here and in the columns' module alone, when a frame is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nccldoctor import dataframes as col
from nccldoctor.identify.case import Case
from nccldoctor.model import Diagnosis
from nccldoctor.model.recorded_calls import Frame, Shape

if TYPE_CHECKING:
    import pandas as pd
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy.typing as npt

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def integers(column: npt.NDArray[Any]) -> Any:
    """Nullable integers; -1 stands for missing in our tables."""
    import pandas as pd

    values = np.asarray(column, dtype=np.int64)
    return pd.arrays.IntegerArray(values, values < 0)


def optional(values: Sequence[int | None]) -> Any:
    """Nullable integers."""
    import pandas as pd

    return pd.Series(list(values), dtype="Int64")


def text(values: Sequence[str | None]) -> Any:
    """Nullable texts."""
    import pandas as pd

    return pd.Series(list(values), dtype="string")


def times(column: npt.NDArray[np.int64]) -> Any:
    """UTC times of nanoseconds since the epoch; 0 is no time."""
    import pandas as pd

    values = column.astype("datetime64[ns]")
    values[column == 0] = np.datetime64("NaT")
    return pd.Series(values).dt.tz_localize("UTC")


def nanoseconds(time: datetime | None) -> int:
    """Since the epoch; 0 where there is no time, no zone, or a year that nanoseconds do not reach."""
    if time is None or time.tzinfo is None or not 1970 < time.year < 2262:
        return 0
    return (time - _EPOCH) // timedelta(microseconds=1) * 1000


def category(codes: npt.NDArray[Any], names: Sequence[str]) -> Any:
    """A categorical of our codes; different codes may read alike, so categories are joined by name."""
    import pandas as pd

    unique = {name: number for number, name in enumerate(dict.fromkeys(name for name in names if name))}
    joined = np.array([unique.get(name, -1) for name in names] + [-1], dtype=np.int64)
    known = np.where((codes >= 0) & (codes < len(names)), codes, len(names))
    return pd.Categorical.from_codes(joined[known], categories=pd.Index(list(unique), dtype=object))


STATES = ("scheduled", "started", "completed")
"""Names of ``Calls.state``, by code."""

_LIBRARY = ("/torch/", "site-packages/", "dist-packages/", "/lib/python", "<frozen", "<string>")


def calls(case: Case) -> pd.DataFrame:
    """One row per recorded call.

    ``rank`` Int64 · ``group`` category, as people call it · ``seq``, ``p2p_seq`` Int64 · ``op`` category · ``sizes``,
    ``dtypes`` category, inputs -> outputs · ``numel_in``, ``numel_out`` Int64 · ``state`` category · ``retired`` bool ·
    ``created``, ``started``, ``completed`` UTC · ``duration_ms`` float · ``timeout_ms`` Int64 · ``frame`` category, the
    innermost frame of the user's own code · ``place`` where it stands in the input.
    """
    import pandas as pd

    table, words = case.calls, case.vocabulary
    paths = [dump.path for dump in case.dumps]
    return pd.DataFrame(
        {
            "rank": col.integers(case.call_rank),
            "group": col.category(case.call_group, [group.label for group in case.groups]),
            "seq": col.integers(table.seq),
            "p2p_seq": col.integers(table.p2p_seq),
            "op": col.category(table.op, words.ops),
            "sizes": col.category(table.sizes, [_pair(_shape(a), _shape(b)) for a, b in words.sizes]),
            "dtypes": col.category(table.dtypes, [_pair(", ".join(a), ", ".join(b)) for a, b in words.dtypes]),
            "numel_in": col.integers(table.numel_in),
            "numel_out": col.integers(table.numel_out),
            "state": col.category(table.state, STATES),
            "retired": pd.Series(table.retired),
            "created": col.times(table.created_ns),
            "started": col.times(table.started_ns),
            "completed": col.times(table.completed_ns),
            "duration_ms": pd.Series(table.duration_ms),
            "timeout_ms": col.integers(table.timeout_ms),
            "frame": col.category(table.stack, [_own(stack) for stack in words.stacks]),
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
            "rank": col.optional([e.rank for e in items]),
            "group_rank": col.optional([e.group_rank for e in items]),
            "group": col.text([None if e.group is None else str(e.group) for e in items]),
            "time": col.times(np.array([col.nanoseconds(e.time) for e in items], dtype=np.int64)),
            "clock": col.text([None if e.time is None else e.time.isoformat() for e in items]),
            "seconds": pd.Series(np.asarray(case.seconds, dtype=np.float64)),
            "host": col.text([e.host for e in items]),
            "pid": col.optional([e.pid for e in items]),
            "where": col.text([str(e.place) for e in items]),
            "text": col.text([e.text for e in items]),
            "fields": pd.Series([e.details() for e in items], dtype=object),
        }
    )


def ranks(diagnosis: Diagnosis) -> pd.DataFrame:
    """One row per rank: ``rank``, ``role``, ``host``, ``device``, ``pid``, ``group``, the fronts, last sign of life."""
    import pandas as pd

    states = diagnosis.ranks
    return pd.DataFrame(
        {
            "rank": col.optional([s.rank for s in states]),
            "role": pd.Categorical([s.role.value for s in states]),
            "host": col.text([s.host for s in states]),
            "device": col.text([s.device for s in states]),
            "pid": col.optional([s.pid for s in states]),
            "group": col.text([s.group for s in states]),
            "completed": col.optional([s.completed for s in states]),
            "enqueued": col.optional([s.enqueued for s in states]),
            "waits_in": col.text([s.waits_in for s in states]),
            "last_sign": col.text([s.last_sign for s in states]),
            "where": col.text([str(s.where) if s.where else None for s in states]),
        }
    )


def findings(diagnosis: Diagnosis) -> pd.DataFrame:
    """One row per finding; ``agree`` and ``contradict`` count its evidence."""
    import pandas as pd

    items = diagnosis.findings
    return pd.DataFrame(
        {
            "id": col.text([f.id for f in items]),
            "family": pd.Categorical([f.family.value for f in items]),
            "class": pd.Categorical([f.cause.value for f in items]),
            "confidence": pd.Categorical([f.confidence.value for f in items]),
            "headline": col.text([f.headline for f in items]),
            "ranks": col.text([str(f.ranks) for f in items]),
            "suspects": col.text([str(f.suspects) for f in items]),
            "victims": col.text([str(f.victims) for f in items]),
            "op": col.text([f.stalled.op if f.stalled else None for f in items]),
            "seq": col.optional([f.stalled.seq if f.stalled else None for f in items]),
            "group": col.text([f.stalled.group if f.stalled else None for f in items]),
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
            "finding": col.text([name for name, _ in items]),
            "says": col.text([e.says for _, e in items]),
            "supports": pd.Series([e.supports for _, e in items], dtype=bool),
            "quote": col.text([e.quote for _, e in items]),
            "observer": col.text([e.observer for _, e in items]),
            "where": col.text([str(p) if p else None for p in places]),
            "path": col.text([p.path if p else None for p in places]),
            "line": col.optional([p.line if p else None for p in places]),
            "entry": col.optional([p.entry if p else None for p in places]),
        }
    )


def groups(diagnosis: Diagnosis) -> pd.DataFrame:
    """One row per process group: ``id``, ``description``, ``label``, ``members``, ``size``, ``learned``."""
    import pandas as pd

    items = diagnosis.job.groups
    return pd.DataFrame(
        {
            "id": col.text([g.uid for g in items]),
            "description": col.text([g.desc for g in items]),
            "label": col.text([g.label for g in items]),
            "members": col.text([str(g.members) for g in items]),
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
            "input": col.text([c.input for c in items]),
            "expected": col.text([str(c.expected) for c in items]),
            "found": col.text([str(c.found) for c in items]),
            "problems": col.text(["; ".join(c.problems) for c in items]),
        }
    )


def remedies(diagnosis: Diagnosis) -> pd.DataFrame:
    """One row per remedy: ``id``, ``title``, ``finding``, ``fit``, ``conditions_met``, ``conditions``, the texts."""
    import pandas as pd

    items = diagnosis.remedies
    return pd.DataFrame(
        {
            "id": col.text([r.id for r in items]),
            "title": col.text([r.title for r in items]),
            "finding": col.text([r.finding for r in items]),
            "fit": pd.Categorical([r.fit for r in items]),
            "conditions_met": pd.Series([r.conditions_met for r in items], dtype="Int64"),
            "conditions": pd.Series([r.conditions for r in items], dtype="Int64"),
            "confirm": col.text(["\n".join(r.confirm) for r in items]),
            "fix": col.text(["\n".join(r.fix) for r in items]),
            "prevent": col.text(["\n".join(r.prevent) for r in items]),
        }
    )


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
