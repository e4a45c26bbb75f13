"""Columns of pandas frames with real dtypes: what is missing is ``<NA>`` or NaT, never a stand-in number."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
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
