"""One entry of a flight-recorder dump, so that a reader can check what an exhibit formatted from it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np
from msgspec import Struct

from nccldoctor.identify.case import Case
from nccldoctor.model import SourceKind
from nccldoctor.model.errors import InputError
from nccldoctor.model.recorded_calls import STATES, UNSET
from nccldoctor.reports import json_document, json_names
from nccldoctor.words import numbers
from nccldoctor.words.sanitize import line
from nccldoctor.words.sanitize import text as clean


class RecordedEntry(Struct, frozen=True):
    """An entry of a dump.

    ``fields`` have the recorder's own names, None where the entry has no such field; frames stand innermost first.
    """

    path: str
    entry: int
    fields: Mapping[str, object]
    frames: tuple[tuple[str, str, int], ...]


def recorded_entry(case: Case, entry: int) -> RecordedEntry:
    """The entry of the only dump of a case, counted from 0.

    Raises :class:`~nccldoctor.model.errors.InputError` where the input is no dump, holds several, or has no such entry.
    """
    if not case.dumps:
        found = case.sources[0].kind if case.sources else SourceKind.EMPTY
        raise InputError(f"no flight-recorder dump ({found.value})", hint="name one dump file with --entry")
    if len(case.dumps) > 1:
        paths = ", ".join(line(dump.path, 80) for dump in case.dumps[:3])
        raise InputError(f"--entry takes one dump, {len(case.dumps)} were found", hint=f"name one of them: {paths}, …")
    dump, calls = case.dumps[0], case.calls
    rows = np.flatnonzero(calls.entry == entry)
    if not len(rows):
        held = f"it holds entries 0..{dump.entries - 1}" if dump.entries else "it holds no entries"
        raise InputError(f"no entry {entry} in {line(dump.path, 120)}", hint=dump.problem or held)
    row = int(rows[0])
    return RecordedEntry(dump.path, entry, _recorded_fields(case, row), case.vocabulary.stacks[calls.stack[row]])


def _recorded_fields(case: Case, row: int) -> dict[str, object]:
    """The fields of a row by the names that the recorder gives them."""
    calls, words, dump = case.calls, case.vocabulary, case.dumps[0]
    sizes = words.sizes[calls.sizes[row]] if calls.sizes[row] >= 0 else (None, None)
    dtypes = words.dtypes[calls.dtypes[row]] if calls.dtypes[row] >= 0 else (None, None)
    name = words.ops[calls.op[row]]
    group = words.groups[calls.group[row]] if calls.group[row] >= 0 else None
    duration = float(calls.duration_ms[row])
    fields = {
        "record_id": _value_or_none(calls.record_id[row]),
        "process_group": group,
        "pg_id": _value_or_none(calls.pg_id[row]),
        "profiling_name": f"{dump.backend}:{name}" if dump.backend else name,
        "collective_seq_id": _value_or_none(calls.seq[row]),
        "p2p_seq_id": _value_or_none(calls.p2p_seq[row]),
        "op_id": _value_or_none(calls.op_id[row]),
        "is_p2p": bool(calls.is_p2p[row]),
        "input_sizes": sizes[0],
        "output_sizes": sizes[1],
        "input_dtypes": dtypes[0],
        "output_dtypes": dtypes[1],
        "state": STATES[int(calls.state[row])],
        "retired": bool(calls.retired[row]),
        "time_created": _instant(int(calls.created_ns[row])),
        "time_discovered_started": _instant(int(calls.started_ns[row])),
        "time_discovered_completed": _instant(int(calls.completed_ns[row])),
        "duration_ms": None if np.isnan(duration) or duration < 0 else round(duration, 3),
        "timeout_ms": _value_or_none(calls.timeout_ms[row]),
    }
    return {name: json_names.json_value(value) for name, value in fields.items()}


def _value_or_none(value: Any) -> int | None:
    return None if int(value) == UNSET else int(value)


def _instant(nanoseconds: int) -> str | None:
    if nanoseconds <= 0:
        return None
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"


def to_json(found: RecordedEntry) -> str:
    """The document of ``inspect FILE --entry N --format json``."""
    frames = [{"name": clean(name), "filename": clean(file), "line": number} for name, file, number in found.frames]
    document = {"schema_version": json_document.SCHEMA_VERSION, "path": clean(found.path), "entry": found.entry}
    return json_document.written({**document, **found.fields, "frames": frames})


def to_text(found: RecordedEntry) -> str:
    """The entry as a block to read: the fields that it has, then its frames, innermost first."""
    width = max(len(name) for name in found.fields) + 2
    rows = [f"{line(found.path, 400)}, entry {found.entry}"]
    rows += [
        f"  {name:<{width}}{line(_shown(value), 400)}" for name, value in found.fields.items() if value is not None
    ]
    if found.frames:
        rows.append(f"  {'frames':<{width}}{numbers.plural(len(found.frames), 'frame')}, innermost first")
        rows += [f"    {line(f'{name} ({file}:{number})', 400)}" for name, file, number in found.frames]
    return "\n".join(rows) + "\n"


def _shown(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
